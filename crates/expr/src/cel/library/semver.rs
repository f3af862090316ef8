//! Semantic versions.

use std::cmp::Ordering;
use std::sync::Arc;

use super::super::error::EvalError;
use super::super::kind::{Kind, Kinds};
use super::super::value::Val;
use super::opaque::Opaque;
use super::params::{BOOL, STRING};
use super::{Function, Ret, function, method, text};

const SEMVER: Kinds = Kinds::of(&[Kind::Semver]);
const TO_BOOL: Ret = Ret::Is(Kind::Bool);
const TO_INT: Ret = Ret::Is(Kind::Int);

pub(in super::super) const FUNCTIONS: &[Function] = &[
    function("semver", &[STRING], Ret::Is(Kind::Semver), semver),
    function("semver", &[STRING, BOOL], Ret::Is(Kind::Semver), semver),
    function("isSemver", &[STRING], TO_BOOL, |_, args| {
        Ok(Val::Bool(parse(args).is_some()))
    }),
    function("isSemver", &[STRING, BOOL], TO_BOOL, |_, args| {
        Ok(Val::Bool(parse(args).is_some()))
    }),
    method("major", &[SEMVER], TO_INT, |_, args| Ok(number(args, 0))),
    method("minor", &[SEMVER], TO_INT, |_, args| Ok(number(args, 1))),
    method("patch", &[SEMVER], TO_INT, |_, args| Ok(number(args, 2))),
    method("isGreaterThan", &[SEMVER, SEMVER], TO_BOOL, |_, args| {
        Ok(Val::Bool(compare(args) == Ordering::Greater))
    }),
    method("isLessThan", &[SEMVER, SEMVER], TO_BOOL, |_, args| {
        Ok(Val::Bool(compare(args) == Ordering::Less))
    }),
    method("compareTo", &[SEMVER, SEMVER], TO_INT, |_, args| {
        Ok(Val::Int(compare(args) as i64))
    }),
];

fn parse(args: &[Val<'_>]) -> Option<Version> {
    match args.get(1) {
        Some(Val::Bool(true)) => Version::parse(&normalized(text(args, 0))?),
        _ => Version::parse(text(args, 0)),
    }
}

fn semver<'a>(_: &mut super::Budget, args: &[Val<'a>]) -> Result<Val<'a>, EvalError> {
    match parse(args) {
        Some(version) => Ok(Val::Opaque(Arc::new(Opaque::Semver(version)))),
        None => Err(EvalError::argument(
            "semver",
            "not a version such as 1.2.3-rc.1",
        )),
    }
}

fn version<'v>(value: &'v Val<'_>) -> Option<&'v Version> {
    match value {
        Val::Opaque(opaque) => match &**opaque {
            Opaque::Semver(version) => Some(version),
            _ => None,
        },
        _ => None,
    }
}

fn number<'a>(args: &[Val<'a>], at: usize) -> Val<'a> {
    let number = version(&args[0]).map_or(0, |version| version.numbers[at]);
    Val::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn compare(args: &[Val<'_>]) -> Ordering {
    match (version(&args[0]), version(&args[1])) {
        (Some(left), Some(right)) => left.compare(right),
        _ => Ordering::Equal,
    }
}

/// A version as semver.org defines it. Build metadata does not take part in comparisons.
#[derive(Debug)]
pub(in super::super) struct Version {
    text: Box<str>,
    numbers: [u64; 3],
    pre_release: Box<[Identifier]>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier {
    /// Numbers come before words.
    Number(u64),
    Word(Box<str>),
}

impl Identifier {
    fn parse(text: &str) -> Option<Identifier> {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            decimal(text).map(Identifier::Number)
        } else {
            is_word(text).then(|| Identifier::Word(text.into()))
        }
    }
}

impl Version {
    fn parse(text: &str) -> Option<Version> {
        let (core, build) = match text.split_once('+') {
            Some((core, build)) => (core, Some(build)),
            None => (text, None),
        };
        let (core, pre_release) = match core.split_once('-') {
            Some((core, pre_release)) => (core, Some(pre_release)),
            None => (core, None),
        };
        let mut parts = core.split('.');
        let numbers = [
            decimal(parts.next()?)?,
            decimal(parts.next()?)?,
            decimal(parts.next()?)?,
        ];
        if parts.next().is_some() {
            return None;
        }
        if build.is_some_and(|build| !build.split('.').all(is_word)) {
            return None;
        }
        let pre_release = match pre_release {
            Some(words) => words
                .split('.')
                .map(Identifier::parse)
                .collect::<Option<_>>()?,
            None => Box::default(),
        };
        Some(Version {
            text: text.into(),
            numbers,
            pre_release,
        })
    }

    pub(in super::super) fn compare(&self, other: &Version) -> Ordering {
        self.numbers.cmp(&other.numbers).then_with(|| {
            // A version without pre-release comes after all its pre-releases.
            match (self.pre_release.is_empty(), other.pre_release.is_empty()) {
                (true, false) => Ordering::Greater,
                (false, true) => Ordering::Less,
                _ => self.pre_release.cmp(&other.pre_release),
            }
        })
    }

    pub(in super::super) fn text(&self) -> &str {
        &self.text
    }
}

/// A number without leading zeros.
fn decimal(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let leading_zero = text.len() > 1 && text.starts_with('0');
    (digits && !leading_zero)
        .then(|| text.parse().ok())
        .flatten()
}

fn is_word(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Takes off a leading `v` and leading zeros and adds the numbers that are missing.
fn normalized(text: &str) -> Option<String> {
    let text = text.strip_prefix('v').unwrap_or(text);
    let mut parts: Vec<String> = text
        .splitn(3, '.')
        .map(|part| {
            let stripped = part.trim_start_matches('0');
            match stripped.as_bytes().first() {
                Some(first) if first.is_ascii_digit() => stripped.to_owned(),
                _ if part.starts_with('0') => format!("0{stripped}"),
                _ => part.to_owned(),
            }
        })
        .collect();
    if parts.len() < 3 && parts.last().is_some_and(|part| part.contains(['+', '-'])) {
        return None;
    }
    parts.resize(3, "0".to_owned());
    Some(parts.join("."))
}
