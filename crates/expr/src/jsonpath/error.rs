//! What can be wrong with a path, and what can go wrong while it is evaluated.
//!
//! The texts are one short line and quote the path, never the object. Which language they come
//! from (`parse JSONPath: `, `eval JSONPath: `) is put in front by [`crate::attribute`].

use thiserror::Error;

use super::{MAX_BYTES, MAX_STEPS, MAX_WORK};
use crate::json_type::JsonType;

/// A text that is not a path of the dialect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{problem}{}", At(*position))]
pub struct ParseError {
    position: Option<usize>,
    problem: Problem,
}

impl ParseError {
    /// A problem with the text as a whole.
    pub(super) fn whole(problem: Problem) -> Self {
        Self {
            position: None,
            problem,
        }
    }

    /// A problem at byte `offset` of `text`.
    pub(super) fn at(text: &str, offset: usize, problem: Problem) -> Self {
        let characters = text.char_indices().take_while(|(at, _)| *at < offset);
        Self {
            position: Some(characters.count() + 1),
            problem,
        }
    }

    /// What is wrong.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The character the problem was found at, counted from 1 after leading blanks.
    pub fn position(&self) -> Option<usize> {
        self.position
    }
}

/// What is wrong with the text of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Problem {
    /// Nothing but blanks.
    #[error("the path is empty")]
    Blank,
    /// The text is longer than any path needs.
    #[error("the path is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// More steps than an object can be deep.
    #[error("the path has more than {MAX_STEPS} steps")]
    TooManySteps,
    /// Text that would have been a literal.
    #[error(
        "a path starts with \"$\" or \".\", or stands in one pair of braces, like $.metadata.name"
    )]
    NotAPath,
    /// `{` without its `}`.
    #[error("the closing \"}}\" is missing")]
    UnclosedBrace,
    /// `{.a}{.b}` or `{.a} text`.
    #[error("nothing may follow the closing \"}}\": templates of several parts are not supported")]
    AfterBrace,
    /// `{metadata.name}`, `{range .items[*]}`, `{"text"}`.
    #[error(
        "a path in braces starts with \".\", \"[\" or \"$\"; template words and literals are not supported"
    )]
    NoStep,
    /// `.` or `..` without what belongs there.
    #[error("a member name is missing after the dot")]
    NameMissing,
    /// `....` or `..` directly behind `..`.
    #[error("\"..\" cannot follow another \"..\"")]
    DoubleDescent,
    /// A character that does not continue the path.
    #[error("unexpected character {0:?}; write special characters as \\x or the name as ['name']")]
    Unexpected(char),
    /// `\` at the very end.
    #[error("\"\\\" must be followed by the character it escapes")]
    DanglingEscape,
    /// `['name`.
    #[error("the closing quote is missing")]
    UnclosedQuote,
    /// `[0`.
    #[error("the closing \"]\" is missing")]
    UnclosedBracket,
    /// `[]`.
    #[error("the brackets are empty; write [*] for all elements or [0] for the first")]
    EmptyBrackets,
    /// `[name]`.
    #[error("brackets hold an index, a slice, *, a filter ?(…) or quoted names like ['name']")]
    Bracket,
    /// An index that no array can have.
    #[error("the index is too large")]
    IndexTooLarge,
    /// `[::0]`, `[::-1]`.
    #[error("the step of a slice must be greater than 0")]
    SliceStep,
    /// `[?@.a]`, `[?(@.a]`.
    #[error("a filter is written [?(@.member == \"value\")] or [?(@.member)]")]
    Filter,
    /// `[?("a" == "b")]`.
    #[error("a filter must compare something of the element, like @.member")]
    FilterWithoutPath,
    /// A side that is neither path nor literal, `null` included.
    #[error("a filter compares paths starting with @, numbers, true, false or quoted text")]
    Operand,
    /// `=`, `=~`, `<>`, …
    #[error("a filter compares with ==, !=, <, <=, > or >=")]
    Operator,
    /// `&&`, `||` or a second comparison.
    #[error("a filter holds one comparison; && and || are not supported")]
    OneComparison,
    /// `[?(@.a[?(@.b)])]`.
    #[error("a filter cannot contain another filter")]
    NestedFilter,
}

/// An evaluation that could not be finished.
///
/// What is absent (members, positions, everything below `null`) is not an error.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EvalError {
    /// A step that works on arrays met something else.
    #[error("{step} needs an array, but {place} is {found}")]
    NeedsArray {
        /// The step as written, shortened.
        step: String,
        /// The path up to the step, shortened.
        place: String,
        /// What was found there.
        found: JsonType,
    },
    /// Nested descents or unions over a large object.
    #[error("the path takes more than {MAX_WORK} steps on this object; select less")]
    TooMuchWork,
    /// All expressions on one object together do more work than allowed.
    #[error("all expressions together are too expensive: more than {limit} steps on one object")]
    SharedStepLimit {
        /// The limit.
        limit: u64,
    },
    /// All expressions on one object together build more data than allowed.
    #[error("all expressions together build too much data: more than {limit} bytes on one object")]
    SharedSizeLimit {
        /// The limit.
        limit: usize,
    },
}

impl EvalError {
    /// Whether it was the limit of all expressions together. This says nothing about the path,
    /// which only came last.
    pub fn is_shared_limit(&self) -> bool {
        matches!(
            self,
            EvalError::SharedStepLimit { .. } | EvalError::SharedSizeLimit { .. }
        )
    }
}

/// Renders `at character n` when there is a position.
struct At(Option<usize>);

impl std::fmt::Display for At {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(position) => write!(f, " (at character {position})"),
            None => Ok(()),
        }
    }
}
