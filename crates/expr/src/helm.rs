//! Field names of a Helm release: `helm:release.chartVersion`.
//!
//! This module knows which fields may be asked for and where they stand in the release document.
//! Getting the document out of a Secret is not its job.

use std::borrow::Cow;

use serde_json::Value;
use thiserror::Error;

use crate::excerpt;
use crate::json_type::JsonType;
use crate::output::Output;

/// Short names for the fields people ask for most.
const ALIASES: [(&str, &str); 9] = [
    ("releaseName", "name"),
    ("chartName", "chart.metadata.name"),
    ("chartVersion", "chart.metadata.version"),
    ("appVersion", "chart.metadata.appVersion"),
    ("revision", "version"),
    ("status", "info.status"),
    ("lastDeployed", "info.last_deployed"),
    ("namespace", "namespace"),
    ("config", "config"),
];

/// Parent and member of what is never exported: rendered manifests, chart sources and defaults
/// hold whatever the chart's author and the installer put there, secrets included.
const DENIED: [(&[&str], &str); 6] = [
    (&[], "manifest"),
    (&[], "hooks"),
    (&["chart"], "templates"),
    (&["chart"], "files"),
    (&["chart"], "values"),
    (&["chart"], "raw"),
];

/// Parent and member of what may be read with the same permission as the data of a Secret: the
/// values given at installation, and the notes, in which charts like to print the first password.
const PERMITTED: [(&[&str], &str); 2] = [(&[], "config"), (&["info"], "notes")];

/// The longest field name that is read.
pub const MAX_BYTES: usize = 4096;

/// A field of a release document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    names: Box<[Box<str>]>,
}

/// A text that is not a field one may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Nothing follows `helm:release.`.
    #[error("empty Helm field: name one, like helm:release.chartVersion")]
    Empty,
    /// The text is longer than any field name.
    #[error("the Helm field is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// `a..b` or a dot at an end.
    #[error("the Helm field has an empty name between its dots")]
    EmptyName,
    /// On the deny list.
    #[error(
        "Helm field not exportable: manifest, hooks and chart templates, files, values and raw \
         may hold secrets"
    )]
    Denied,
}

/// A field that the document has no room for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The path goes on below a scalar or a list.
    #[error("read Helm field: {place} is {found}, so it has no fields")]
    NotAnObject {
        /// The field up to the obstacle, after aliases are replaced, shortened.
        place: String,
        /// What was found instead of an object.
        found: JsonType,
    },
}

impl Field {
    /// Reads the text behind `helm:release.`: an alias, or names separated by dots.
    pub fn parse(text: &str) -> Result<Field, ParseError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(ParseError::Empty);
        }
        if text.len() > MAX_BYTES {
            return Err(ParseError::TooLong);
        }
        let alias = ALIASES.iter().find(|(alias, _)| *alias == text);
        let names = alias.map_or(text, |(_, path)| path).split('.');
        let field = Field {
            names: names.map(Into::into).collect(),
        };
        if field.is_denied() {
            return Err(ParseError::Denied);
        }
        if field.names.iter().any(|name| name.is_empty()) {
            return Err(ParseError::EmptyName);
        }
        Ok(field)
    }

    fn is_denied(&self) -> bool {
        self.is_within(&DENIED)
    }

    /// Whether this is one of these members or lies in one.
    fn is_within(&self, members: &[(&[&str], &str)]) -> bool {
        members.iter().any(|(parent, member)| {
            let mut names = self.names.iter().map(|name| &**name);
            parent.iter().all(|name| names.next() == Some(name)) && names.next() == Some(member)
        })
    }

    /// The members of this field's value that are not exported: never, or not without permission.
    /// Whoever asks for the parent gets it without them.
    fn denied_members_below(&self, permitted: bool) -> impl Iterator<Item = &'static str> {
        let is_parent = |parent: &[&str]| {
            self.names
                .iter()
                .map(|name| &**name)
                .eq(parent.iter().copied())
        };
        let of_permission: &[(&[&str], &str)] = if permitted { &[] } else { &PERMITTED };
        DENIED
            .iter()
            .chain(of_permission)
            .filter(move |(parent, _)| is_parent(parent))
            .map(|(_, member)| *member)
    }

    /// The field in a decoded release document. Missing fields and fields below `null` are
    /// nothing; members that are denied or need a permission are left out of their parent.
    pub fn get<'a>(&self, document: &'a Value) -> Result<Option<Output<'a>>, EvalError> {
        self.find(document, false)
    }

    /// The same with the members that need a permission.
    pub fn get_permitted<'a>(&self, document: &'a Value) -> Result<Option<Output<'a>>, EvalError> {
        self.find(document, true)
    }

    fn find<'a>(
        &self,
        document: &'a Value,
        permitted: bool,
    ) -> Result<Option<Output<'a>>, EvalError> {
        let mut value = document;
        for (at, name) in self.names.iter().enumerate() {
            value = match value {
                Value::Null => return Ok(None),
                Value::Object(members) => match members.get(&**name) {
                    Some(member) => member,
                    None => return Ok(None),
                },
                other => {
                    return Err(EvalError::NotAnObject {
                        place: self.place(at),
                        found: JsonType::of(other),
                    });
                }
            };
        }
        Ok(Some(self.without_denied(value, permitted)))
    }

    /// The first `length` names of the field, for a message.
    fn place(&self, length: usize) -> String {
        if length == 0 {
            return "the release document".to_owned();
        }
        excerpt::tail(&self.names[..length].join("."), 128)
    }

    fn without_denied<'a>(&self, value: &'a Value, permitted: bool) -> Output<'a> {
        let Value::Object(members) = value else {
            return Output::Borrowed(value);
        };
        if !self
            .denied_members_below(permitted)
            .any(|denied| members.contains_key(denied))
        {
            return Output::Borrowed(value);
        }
        let mut kept: Vec<_> = members
            .iter()
            .filter(|(name, _)| {
                !self
                    .denied_members_below(permitted)
                    .any(|denied| denied == *name)
            })
            .map(|(name, value)| (Cow::Borrowed(name.as_str()), Output::Borrowed(value)))
            .collect();
        kept.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        Output::Map(kept)
    }

    /// Whether the field is part of the values given at installation or of the notes, which may
    /// only be read with the same permission as the data of a Secret.
    pub fn needs_secret_permission(&self) -> bool {
        self.is_within(&PERMITTED)
    }

    /// The last name of the field, after aliases are replaced.
    pub fn last_name(&self) -> &str {
        &self.names[self.names.len() - 1]
    }
}
