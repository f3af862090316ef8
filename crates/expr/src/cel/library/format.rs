//! The formats Kubernetes asks of names and values, as checks by name.

use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::super::error::EvalError;
use super::super::kind::{Kind, Kinds};
use super::super::limits::Budget;
use super::super::time::Timestamp;
use super::super::value::Val;
use super::opaque::Opaque;
use super::params::STRING;
use super::url::Url;
use super::{Function, Ret, function, method, text};

const FORMAT: Kinds = Kinds::of(&[Kind::Format]);
const TO_FORMAT: Ret = Ret::Is(Kind::Format);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function(
        "format.named",
        &[STRING],
        Ret::Is(Kind::Optional),
        |_, args| {
            let format = Format::ALL
                .iter()
                .find(|format| format.name == text(args, 0));
            Ok(format.map_or(Val::NONE, |format| Val::some(value(format))))
        },
    ),
    method(
        "validate",
        &[FORMAT, STRING],
        Ret::Is(Kind::Optional),
        validate,
    ),
    function("format.dns1123Label", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[0]))
    }),
    function("format.dns1123Subdomain", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[1]))
    }),
    function("format.dns1035Label", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[2]))
    }),
    function("format.qualifiedName", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[3]))
    }),
    function("format.dns1123LabelPrefix", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[4]))
    }),
    function("format.dns1123SubdomainPrefix", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[5]))
    }),
    function("format.dns1035LabelPrefix", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[6]))
    }),
    function("format.labelValue", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[7]))
    }),
    function("format.uri", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[8]))
    }),
    function("format.uuid", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[9]))
    }),
    function("format.byte", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[10]))
    }),
    function("format.date", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[11]))
    }),
    function("format.datetime", &[], TO_FORMAT, |_, _| {
        Ok(value(&Format::ALL[12]))
    }),
];

fn value<'a>(format: &'static Format) -> Val<'a> {
    Val::Opaque(Arc::new(Opaque::Format(format)))
}

/// Nothing if the text has the format, else what is wrong with it.
fn validate<'a>(budget: &mut Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    budget.charge_text(text(args, 1).len())?;
    let mut problems = Vec::new();
    if let Val::Opaque(opaque) = &args[0]
        && let Opaque::Format(format) = &**opaque
    {
        (format.check)(text(args, 1), &mut problems);
    }
    if problems.is_empty() {
        return Ok(Val::NONE);
    }
    let problems = problems.into_iter().map(Val::Str).collect();
    Ok(Val::some(Val::list(problems)))
}

/// A named format.
#[derive(Debug)]
pub(in super::super) struct Format {
    pub(in super::super) name: &'static str,
    check: fn(&str, &mut Vec<&'static str>),
}

impl Format {
    const ALL: &'static [Format] = &[
        Format {
            name: "dns1123Label",
            check: label,
        },
        Format {
            name: "dns1123Subdomain",
            check: subdomain,
        },
        Format {
            name: "dns1035Label",
            check: label_1035,
        },
        Format {
            name: "qualifiedName",
            check: qualified_name,
        },
        Format {
            name: "dns1123LabelPrefix",
            check: |text, problems| label(&masked(text), problems),
        },
        Format {
            name: "dns1123SubdomainPrefix",
            check: |text, problems| subdomain(&masked(text), problems),
        },
        Format {
            name: "dns1035LabelPrefix",
            check: |text, problems| label_1035(&masked(text), problems),
        },
        Format {
            name: "labelValue",
            check: label_value,
        },
        Format {
            name: "uri",
            check: |text, problems| {
                must(
                    Url::parse(text).is_some(),
                    problems,
                    "is not an absolute URI or path",
                );
            },
        },
        Format {
            name: "uuid",
            check: |text, problems| must(is_uuid(text), problems, "is not a UUID"),
        },
        Format {
            name: "byte",
            check: |text, problems| {
                let valid = !text.is_empty() && BASE64_STANDARD.decode(text).is_ok();
                must(valid, problems, "is not base64 text");
            },
        },
        Format {
            name: "date",
            check: |text, problems| {
                let valid =
                    text.len() == 10 && Timestamp::parse(&format!("{text}T00:00:00Z")).is_some();
                must(valid, problems, "is not a date such as 2026-01-31");
            },
        },
        Format {
            name: "datetime",
            check: |text, problems| {
                let valid = Timestamp::parse(text).is_some();
                must(
                    valid,
                    problems,
                    "is not a time such as 2026-01-31T12:00:00Z",
                );
            },
        },
    ];
}

fn must(valid: bool, problems: &mut Vec<&'static str>, problem: &'static str) {
    if !valid {
        problems.push(problem);
    }
}

/// A prefix may end in a dash because something follows; then the letter before it decides.
fn masked(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut characters = rest.chars();
            characters.next_back();
            format!("{}a", characters.as_str())
        }
        _ => text.to_owned(),
    }
}

/// Whether the text has allowed characters only and begins and ends with allowed ones.
fn is_framed(text: &str, inside: impl Fn(u8) -> bool, outside: impl Fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => outside(*only),
        [first, middle @ .., last] => {
            outside(*first) && outside(*last) && middle.iter().all(|byte| inside(*byte))
        }
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    is_framed(text, |byte| is_lower(byte) || byte == b'-', is_lower)
}

fn label(text: &str, problems: &mut Vec<&'static str>) {
    must(text.len() <= 63, problems, "is longer than 63 bytes");
    must(
        is_label(text),
        problems,
        "must be lower case letters, digits and dashes, with a letter or digit at both ends",
    );
}

fn label_1035(text: &str, problems: &mut Vec<&'static str>) {
    must(text.len() <= 63, problems, "is longer than 63 bytes");
    must(
        is_label(text) && text.as_bytes()[0].is_ascii_lowercase(),
        problems,
        "must be lower case letters, digits and dashes, begin with a letter and end with a letter or digit",
    );
}

fn subdomain(text: &str, problems: &mut Vec<&'static str>) {
    must(text.len() <= 253, problems, "is longer than 253 bytes");
    must(
        text.split('.').all(is_label),
        problems,
        "must be labels of lower case letters, digits and dashes, joined by dots",
    );
}

fn is_name(text: &str) -> bool {
    is_framed(
        text,
        |byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
        |byte| byte.is_ascii_alphanumeric(),
    )
}

fn qualified_name(text: &str, problems: &mut Vec<&'static str>) {
    let name = match text.split_once('/') {
        Some((prefix, name)) => {
            must(!prefix.is_empty(), problems, "has an empty prefix");
            if !prefix.is_empty() {
                subdomain(prefix, problems);
            }
            name
        }
        None => text,
    };
    must(
        name.len() <= 63,
        problems,
        "has a name longer than 63 bytes",
    );
    must(
        is_name(name),
        problems,
        "needs a name of letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    );
}

fn label_value(text: &str, problems: &mut Vec<&'static str>) {
    must(text.len() <= 63, problems, "is longer than 63 bytes");
    must(
        text.is_empty() || is_name(text),
        problems,
        "must be empty or letters, digits, '-', '_' and '.', with a letter or digit at both ends",
    );
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    let hex = text
        .bytes()
        .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let lengths: Vec<usize> = groups.iter().map(|group| group.len()).collect();
    // The dashes are optional.
    hex && (lengths == [8, 4, 4, 4, 12] || lengths == [32])
}
