//! The path of an attribute: one text, three languages.
//!
//! The prefix decides: `cel:` is CEL, `helm:release.` a field of a Helm release, and what starts
//! with `$`, `.` or `{` is JSONPath. Nothing else is accepted, because every guess would be wrong
//! for somebody.
//!
//! This is also the one place that says in which language a message speaks. The errors of the
//! languages themselves carry no prefix; [`PathError`] and [`EvalError`] put it in front and keep
//! the whole to [`MAX_MESSAGE_BYTES`] on one line.

use std::fmt::{self, Display};

use thiserror::Error;

use crate::budget::{CompileBudget, Exhausted};
use crate::excerpt;
use crate::reads::{Extent, ReadSet, Step};
use crate::{cel, helm, jsonpath};

/// The longest message of this module.
pub const MAX_MESSAGE_BYTES: usize = 256;

const CEL: &str = "cel:";
const HELM: &str = "helm:release.";

/// A compiled attribute path.
#[derive(Debug)]
pub enum AttributePath {
    /// A CEL expression over `object`.
    Cel(cel::Program),
    /// A JSONPath.
    JsonPath(jsonpath::Path),
    /// A field of the Helm release stored in a Secret.
    Helm(helm::Field),
}

/// A text that is not an attribute path.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// Nothing but blanks.
    #[error("empty path: write one like $.metadata.name or cel:object.metadata.name")]
    Blank,
    /// An expression that looks like CEL but does not say so.
    #[error("CEL needs the prefix cel: (write cel:object…, or $… for a JSONPath)")]
    CelPrefixMissing,
    /// A word and a colon that name no language.
    #[error("unknown prefix \"{0}:\": use cel:, helm:release. or a JSONPath like $.metadata.name")]
    UnknownPrefix(String),
    /// `cel:` and nothing else.
    #[error("empty CEL expression: write one like cel:object.metadata.name")]
    CelEmpty,
    /// The expression behind `cel:` does not compile.
    #[error("{}", Prefixed("compile CEL: ", .0))]
    Cel(#[source] cel::CompileError),
    /// The JSONPath does not parse.
    #[error("{}", Prefixed("parse JSONPath: ", .0))]
    JsonPath(#[source] jsonpath::ParseError),
    /// What belongs together costs too much to compile.
    #[error("{}", cel::CompileError::TooExpensive)]
    TooExpensive,
    /// The Helm field does not exist or may not be exported.
    #[error(transparent)]
    Helm(#[from] helm::ParseError),
}

/// An evaluation that failed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// The CEL expression failed.
    #[error("{}", Prefixed("eval CEL: ", .0))]
    Cel(#[from] cel::EvalError),
    /// The JSONPath does not fit the object.
    #[error("{}", Prefixed("eval JSONPath: ", .0))]
    JsonPath(#[from] jsonpath::EvalError),
    /// The Helm field does not fit the release.
    #[error(transparent)]
    Helm(#[from] helm::EvalError),
}

impl AttributePath {
    /// Compiles a path; blanks around it are ignored.
    pub fn parse(text: &str) -> Result<AttributePath, PathError> {
        Self::parse_within(text, &mut CompileBudget::new())
    }

    /// Compiles a path on a budget that others share.
    pub fn parse_within(
        text: &str,
        budget: &mut CompileBudget,
    ) -> Result<AttributePath, PathError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(PathError::Blank);
        }
        if let Some(expression) = text.strip_prefix(CEL) {
            let expression = expression.trim();
            if expression.is_empty() {
                return Err(PathError::CelEmpty);
            }
            let program =
                cel::Program::compile_within(expression, budget).map_err(PathError::Cel)?;
            return Ok(AttributePath::Cel(program));
        }
        if text == "object" || text.starts_with("object.") || text.starts_with("object[") {
            return Err(PathError::CelPrefixMissing);
        }
        if let Some(field) = text.strip_prefix(HELM) {
            return Ok(AttributePath::Helm(helm::Field::parse(field)?));
        }
        if let Some(word) = leading_word(text) {
            return Err(PathError::UnknownPrefix(excerpt::head(word, 64)));
        }
        budget
            .charge_text(text)
            .map_err(|Exhausted| PathError::TooExpensive)?;
        let path = jsonpath::Path::parse(text).map_err(PathError::JsonPath)?;
        Ok(AttributePath::JsonPath(path))
    }

    /// The parts of the object this path looks at.
    pub fn reads(&self) -> ReadSet {
        match self {
            AttributePath::Cel(program) => program.reads().clone(),
            AttributePath::JsonPath(path) => path.reads().clone(),
            AttributePath::Helm(_) => {
                let mut release = ReadSet::nothing();
                release.insert(
                    [Step::Member("data"), Step::Member("release")],
                    Extent::Whole,
                );
                release
            }
        }
    }

    /// Whether the path may yield what a Secret holds.
    ///
    /// This is decided on what the compiled path reads, not on its text. Of a Helm release, which
    /// lies in the data of its Secret, only the values given at installation count.
    pub fn reads_secret_data(&self) -> bool {
        let reaches_data = |reads: &ReadSet| {
            reads.may_read_root_member("data") || reads.may_read_root_member("stringData")
        };
        match self {
            AttributePath::Cel(program) => reaches_data(program.reads()),
            AttributePath::JsonPath(path) => reaches_data(path.reads()),
            AttributePath::Helm(field) => field.needs_secret_permission(),
        }
    }

    /// The key under which the value lies in the object, if the path says so. Redaction treats it
    /// like the key of a map: `$.spec.password` must not show what `$.spec` would hide.
    pub fn sensitive_name(&self) -> Option<&str> {
        match self {
            AttributePath::Cel(_) => None,
            AttributePath::JsonPath(path) => path.last_member(),
            AttributePath::Helm(field) => Some(field.last_name()),
        }
    }
}

impl PathError {
    /// Whether compiling was given up because all that belongs together costs too much.
    pub fn is_too_expensive(&self) -> bool {
        matches!(
            self,
            PathError::TooExpensive | PathError::Cel(cel::CompileError::TooExpensive)
        )
    }
}

impl EvalError {
    /// Whether all expressions on the object together cost too much.
    pub fn is_shared_limit(&self) -> bool {
        match self {
            EvalError::Cel(error) => error.is_shared_limit(),
            EvalError::JsonPath(error) => error.is_shared_limit(),
            EvalError::Helm(_) => false,
        }
    }
}

/// The word of a text that begins like `word:`.
fn leading_word(text: &str) -> Option<&str> {
    let (word, _) = text.split_once(':')?;
    let is_word = word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_word.then_some(word)
}

/// A message with its prefix, cut to the limit.
struct Prefixed<'m, M>(&'static str, &'m M);

impl<M: Display> Display for Prefixed<'_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Prefixed(prefix, message) = self;
        let room = MAX_MESSAGE_BYTES - prefix.len() - '…'.len_utf8();
        let message = excerpt::head(&message.to_string(), room);
        write!(f, "{prefix}{message}")
    }
}
