//! Why an object gives no row.
//!
//! These texts end up in status, events, logs and the report of a pipeline run, where more people
//! can read them than the object. They name attributes, paths and JSON types, never values, and
//! print as one line of at most [`MAX_MESSAGE_BYTES`].

use std::fmt;

use kollect_api::meta;
use kollect_expr::attribute::{EvalError, PathError};
use kollect_expr::{cel, jsonpath, pointer};
use thiserror::Error;

use crate::helm_release::ReleaseError;

/// The longest message of an extraction.
pub const MAX_MESSAGE_BYTES: usize = 256;

/// How much of an attribute's name a message repeats.
const MAX_NAME_BYTES: usize = 64;

/// Why an object gives no row.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum ExtractError {
    /// A required attribute has no value.
    Attribute {
        /// The name of the attribute.
        name: Box<str>,
        /// What stands against it.
        problem: AttributeError,
    },
    /// A rule that removes parts of the exported object cannot be followed. The object is not
    /// exported with the part that should have gone.
    Prune {
        /// The list in `spec.export.prune` that holds the rule.
        list: &'static str,
        /// The position of the rule in it.
        index: usize,
        /// What stands against it.
        problem: PruneError,
    },
    /// The whole object must not be exported.
    ExportForbidden,
    /// The profile is more than is compiled.
    Profile(ProfileError),
    /// The attributes are larger than a row may be.
    TooLarge {
        /// The most bytes the attributes of a row may have as JSON.
        limit: usize,
    },
}

/// Why a required attribute has no value.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum AttributeError {
    /// The path cannot be compiled.
    #[error(transparent)]
    Path(#[from] PathError),
    /// The path does not fit the object.
    #[error(transparent)]
    Evaluation(#[from] EvalError),
    /// The object holds no readable Helm release.
    #[error(transparent)]
    Release(#[from] ReleaseError),
    /// The values and notes of a Helm release may be read with permission only.
    #[error(
        "Helm fields config and info.notes may hold secrets; annotate the profile with {}: \"true\" to read them",
        meta::ALLOW_SECRET_EXTRACTION_ANNOTATION
    )]
    ReleaseForbidden,
}

impl AttributeError {
    /// Whether all expressions on the object together cost too much.
    pub fn is_shared_limit(&self) -> bool {
        matches!(self, AttributeError::Evaluation(error) if error.is_shared_limit())
    }
}

/// Why a profile is not used at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// It has too many attributes, or too many rules in a list of `spec.export.prune`.
    #[error("{list} has {count} entries, at most {limit} are allowed; split the profile")]
    TooMany {
        /// The list.
        list: &'static str,
        /// How many there are.
        count: usize,
        /// How many there may be.
        limit: usize,
    },
    /// Its expressions take too long to compile.
    #[error(
        "the expressions of the profile are too expensive to compile together; use fewer or simpler regular expressions, or split the profile"
    )]
    TooExpensive,
}

/// Why a rule of `spec.export.prune` cannot be followed.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PruneError {
    /// Not a JSON Pointer.
    #[error("parse JSON Pointer: {0}")]
    Pointer(#[from] pointer::ParseError),
    /// Not a JSONPath.
    #[error("parse JSONPath: {0}")]
    Path(#[from] jsonpath::ParseError),
    /// Not a path of jq.
    #[error("parse jq: {0}")]
    Jq(#[from] jsonpath::JqError),
    /// The path costs too much on this object.
    #[error("eval JSONPath: {0}")]
    PathEvaluation(#[from] jsonpath::EvalError),
    /// Not a CEL expression.
    #[error("compile CEL: {0}")]
    Cel(#[from] cel::CompileError),
    /// The expression fails on this object.
    #[error("eval CEL: {0}")]
    CelEvaluation(#[from] cel::EvalError),
    /// The expression yields something else than pointers.
    #[error("eval CEL: the result is neither a JSON Pointer like /status nor a list of them")]
    NotPointers,
}

/// Whose hands can end the failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// The profile is wrong for every object; edit it.
    Profile,
    /// The profile asks for what it has no permission for.
    Forbidden,
    /// The profile does not fit this object.
    Object,
    /// The object yields more than a row may hold.
    Size,
}

impl ExtractError {
    /// Whether all expressions of the profile together cost too much on the object.
    pub fn is_over_budget(&self) -> bool {
        match self {
            ExtractError::Attribute { problem, .. } => problem.is_shared_limit(),
            ExtractError::Prune { problem, .. } => match problem {
                PruneError::PathEvaluation(error) => error.is_shared_limit(),
                PruneError::CelEvaluation(error) => error.is_shared_limit(),
                _ => false,
            },
            _ => false,
        }
    }

    /// Whose hands can end the failure. Trying again without a change never does.
    pub fn class(&self) -> Class {
        match self {
            ExtractError::Attribute { problem, .. } => match problem {
                AttributeError::Path(_) => Class::Profile,
                AttributeError::ReleaseForbidden => Class::Forbidden,
                AttributeError::Evaluation(_) | AttributeError::Release(_) => Class::Object,
            },
            ExtractError::Prune { problem, .. } => match problem {
                PruneError::Pointer(_)
                | PruneError::Path(_)
                | PruneError::Jq(_)
                | PruneError::Cel(_) => Class::Profile,
                PruneError::PathEvaluation(_)
                | PruneError::CelEvaluation(_)
                | PruneError::NotPointers => Class::Object,
            },
            ExtractError::ExportForbidden => Class::Forbidden,
            ExtractError::Profile(_) => Class::Profile,
            ExtractError::TooLarge { .. } => Class::Size,
        }
    }
}

impl std::error::Error for ExtractError {}

impl fmt::Display for ExtractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = match self {
            ExtractError::Attribute { name, problem } => {
                let name = shortened(name, MAX_NAME_BYTES);
                format!("attribute \"{name}\": {problem}")
            }
            ExtractError::Prune {
                list,
                index,
                problem,
            } => format!("export.prune.{list}[{index}]: {problem}"),
            ExtractError::ExportForbidden => format!(
                "whole Secrets are exported only with the annotation {}: \"true\" on the profile",
                meta::ALLOW_FULL_RESOURCE_EXPORT_ANNOTATION
            ),
            ExtractError::Profile(problem) => problem.to_string(),
            ExtractError::TooLarge { limit } => format!(
                "the attributes are larger than the {limit} bytes a row may have; select less, \
                 prune the exported object, or raise --max-row-bytes of the operator"
            ),
        };
        f.write_str(&shortened(&message, MAX_MESSAGE_BYTES))
    }
}

/// A text on one line, in at most `limit` bytes.
fn shortened(text: &str, limit: usize) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let line = text.replace(breaks, " ");
    if line.len() <= limit {
        return line;
    }
    let end = line.floor_char_boundary(limit - '…'.len_utf8());
    format!("{}…", &line[..end])
}
