//! Why an expression was refused or failed.
//!
//! Both enums print as one line of at most 256 bytes. They name places, functions and types, and
//! literals of the expression itself, but never a value of the object: these texts end up in
//! status, events and logs that more people can read than the object. The caller puts the stage in
//! front (`compile CEL: `, `eval CEL: `).

use std::borrow::Cow;
use std::fmt::Write as _;

/// The longest text of an error, in bytes.
const LONGEST: usize = 256;

/// Why a text is not an expression that can be evaluated.
///
/// Prints as one line of at most 256 bytes; the caller puts `compile CEL: ` in front.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// Nothing but blanks.
    #[error("the expression is empty")]
    Blank,
    /// The text is longer than the cap.
    #[error("the expression has {length} bytes, at most {limit} are allowed")]
    TooLong {
        /// Length of the text in bytes.
        length: usize,
        /// The cap.
        limit: usize,
    },
    /// Brackets, operators or calls are nested or chained too deeply.
    #[error(
        "the expression is nested too deeply (more than {limit} levels of brackets, operators and calls)"
    )]
    TooDeep {
        /// The cap.
        limit: usize,
    },
    /// The text does not follow the grammar.
    #[error("{line}:{column}: {problem}")]
    Syntax {
        /// Line, counted from 1.
        line: usize,
        /// Column in bytes, counted from 1.
        column: usize,
        /// What the parser found.
        problem: Box<str>,
    },
    /// A name that is neither `object` nor a variable of a macro around it.
    #[error("undeclared name '{name}': only 'object' and the variables of macros are known")]
    UnknownName {
        /// The name as written.
        name: Box<str>,
    },
    /// A function that no library has.
    #[error("unknown function '{name}'")]
    UnknownFunction {
        /// The name as written.
        name: Box<str>,
    },
    /// The function exists, but not with this number of arguments or not in this call style.
    #[error("'{name}' cannot be called with {found} argument(s) this way")]
    Arity {
        /// The name as written.
        name: Box<str>,
        /// Number of arguments, without the receiver.
        found: usize,
    },
    /// No overload can ever accept the types that are known before evaluation.
    #[error("no overload of {call}")]
    Overload {
        /// The function or operator with the types of its arguments.
        call: Box<str>,
    },
    /// A macro got something it cannot work with.
    #[error("{macro_name}: {problem}")]
    Macro {
        /// The macro.
        macro_name: &'static str,
        /// What is wrong with its arguments.
        problem: &'static str,
    },
    /// A literal regular expression does not compile.
    #[error("invalid regular expression: {problem}")]
    Pattern {
        /// What is wrong with it.
        problem: Box<str>,
    },
    /// What belongs together costs too much to compile.
    #[error(
        "compiling this and what stands before it takes too long; write fewer or simpler regular expressions, or shorter texts"
    )]
    TooExpensive,
    /// Something the language has but this environment does not.
    #[error("{what} is not supported")]
    Unsupported {
        /// The construct.
        what: Box<str>,
    },
}

/// Why an evaluation has no result.
///
/// Prints as one line of at most 256 bytes that names places and types, never values of the
/// object; the caller puts `eval CEL: ` in front.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// A member that the map does not have.
    #[error("no such key: {place}")]
    NoSuchKey {
        /// The path as far as it could be followed, with the missing key.
        place: Box<str>,
    },
    /// An index outside of the list.
    #[error("index out of range: {place}")]
    OutOfRange {
        /// The path or the call.
        place: Box<str>,
    },
    /// The operands have types that the function or operator does not take.
    #[error("no such overload: {call}")]
    NoSuchOverload {
        /// The function or operator with the types of its arguments.
        call: Box<str>,
    },
    /// Overflow, division by zero.
    #[error("{problem}")]
    Arithmetic {
        /// What went wrong.
        problem: &'static str,
    },
    /// The types fit, the value does not.
    #[error("{function}: {problem}")]
    InvalidArgument {
        /// The function that refused it.
        function: &'static str,
        /// What is wrong with the argument.
        problem: &'static str,
    },
    /// The expression takes more steps than allowed.
    #[error("the expression is too expensive: more than {limit} steps")]
    StepLimit {
        /// The limit.
        limit: u64,
    },
    /// The expression builds more data than allowed.
    #[error("the expression builds too much data: more than {limit} bytes")]
    SizeLimit {
        /// The limit.
        limit: usize,
    },
    /// All expressions on one object together take more steps than allowed.
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
    /// The result has no form in JSON.
    #[error("the result cannot be written as JSON: {problem}")]
    NotJson {
        /// What JSON has no form for.
        problem: &'static str,
    },
}

impl EvalError {
    /// Whether a limit stopped the evaluation. Such an error is final: `||`, `all` and the like
    /// absorb other errors but never this one, or a limit could be ignored.
    pub fn is_limit(&self) -> bool {
        matches!(
            self,
            EvalError::StepLimit { .. } | EvalError::SizeLimit { .. }
        ) || self.is_shared_limit()
    }

    /// Whether it was the limit of all expressions together. This says nothing about the
    /// expression, which only came last.
    pub fn is_shared_limit(&self) -> bool {
        matches!(
            self,
            EvalError::SharedStepLimit { .. } | EvalError::SharedSizeLimit { .. }
        )
    }

    pub(super) fn overload(name: &str, kinds: impl IntoIterator<Item = &'static str>) -> Self {
        EvalError::NoSuchOverload {
            call: call_text(name, kinds),
        }
    }

    pub(super) fn argument(function: &'static str, problem: &'static str) -> Self {
        EvalError::InvalidArgument { function, problem }
    }
}

/// `name(type, type)`, cut to a length that leaves room for the text around it.
pub(super) fn call_text(name: &str, kinds: impl IntoIterator<Item = impl AsRef<str>>) -> Box<str> {
    let mut text = printable(name, 80).into_owned();
    text.push('(');
    for (at, kind) in kinds.into_iter().enumerate() {
        let separator = if at == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{}", kind.as_ref());
    }
    text.push(')');
    printable(&text, LONGEST - 40).into()
}

/// `text` on one line and at most `longest` bytes, with a mark where something was cut off.
pub(super) fn printable(text: &str, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest && !text.chars().any(char::is_control) {
        return Cow::Borrowed(text);
    }
    let mut line = String::with_capacity(longest);
    for character in text.chars() {
        let character = if character.is_control() {
            ' '
        } else {
            character
        };
        if line.len() + character.len_utf8() + '…'.len_utf8() > longest {
            line.push('…');
            break;
        }
        line.push(character);
    }
    Cow::Owned(line)
}

/// The longest place text inside an error: what remains beside the longest prefix and type.
pub(super) const LONGEST_PLACE: usize = LONGEST - 56;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_one_short_line() {
        let long = "x".repeat(5000) + "\n\t";
        let errors = [
            CompileError::UnknownName {
                name: printable(&long, 80).into(),
            }
            .to_string(),
            EvalError::overload(&long, ["string"; 40]).to_string(),
            EvalError::NoSuchKey {
                place: printable(&long, LONGEST_PLACE).into(),
            }
            .to_string(),
        ];
        for text in errors {
            assert!(text.len() <= LONGEST, "{} bytes", text.len());
            assert!(!text.contains(['\n', '\t']));
            assert!(text.contains('…'));
        }
    }
}
