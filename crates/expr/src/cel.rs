//! CEL, the Common Expression Language, over one variable: `object`.
//!
//! An expression is compiled once and evaluated any number of times:
//!
//! ```
//! use kollect_expr::cel::Program;
//!
//! let program = Program::compile("object.spec.containers.map(c, c.image)")?;
//! let object = serde_json::json!({"spec": {"containers": [{"image": "app:1.0"}]}});
//! assert_eq!(program.evaluate(&object)?.to_value(), serde_json::json!(["app:1.0"]));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The text goes through these stages, each in its own module:
//!
//! | Module | Stage |
//! | --- | --- |
//! | `scan` | refuses texts that are too long or nest too deeply, before anything recursive sees them |
//! | crate `cel` | grammar, literals and standard macros |
//! | `lower` | names, types and overloads; paths become walks, macros become loops, literals constants |
//! | `reads` | which parts of the object the program may look at |
//! | `eval` | the evaluator, over borrowed JSON |
//! | `eval::convert` | the result as JSON |
//!
//! `library` holds the functions, one table per library.

#[cfg(test)]
mod conformance;
mod error;
mod eval;
mod kind;
mod library;
mod limits;
mod lower;
mod node;
mod ops;
mod reads;
mod scan;
mod time;
mod value;

use ::cel::parser::PrattParser;
use serde_json::Value;

pub use error::{CompileError, EvalError};
pub use kind::ResultType;
pub use limits::Limits;
pub use scan::{MAX_DEPTH, MAX_TEXT};

use crate::{Output, ReadSet};
use error::printable;
use eval::Machine;
use kind::Type;
use lower::{Environment, Lowered};
use node::{Node, Root};

/// A compiled expression.
#[derive(Debug)]
pub struct Program {
    text: Box<str>,
    node: Node,
    slots: usize,
    result: ResultType,
    reads: ReadSet,
}

impl Program {
    /// Compiles an expression over the variable `object`. Blanks around it are ignored.
    pub fn compile(text: &str) -> Result<Program, CompileError> {
        let environment = Environment {
            variables: &[("object", Root::Object, Type::Dyn)],
            check: true,
        };
        Self::compile_in(text, &environment)
    }

    /// Compiles a rule of a CRD schema, which is an expression over the variable `self`. To be
    /// evaluated over the value that the rule stands beside.
    pub fn compile_rule(text: &str) -> Result<Program, CompileError> {
        let environment = Environment {
            variables: &[("self", Root::Object, Type::Dyn)],
            check: true,
        };
        Self::compile_in(text, &environment)
    }

    fn compile_in(text: &str, environment: &Environment<'_>) -> Result<Program, CompileError> {
        let text = scan::admit(text)?;
        let expression = PrattParser::new()
            .max_recursion_depth(scan::PARSER_RECURSION)
            .enable_optional_syntax(true)
            .enable_ident_escape_syntax(true)
            .parse(text)
            .map_err(|errors| syntax_error(&errors))?;
        let Lowered {
            node,
            result,
            slots,
        } = lower::lower(&expression, environment)?;
        Ok(Program {
            reads: reads::reads(&node, slots),
            text: text.into(),
            result: ResultType::from(&result),
            node,
            slots,
        })
    }

    /// Evaluates the program over `object`, within the default limits.
    pub fn evaluate<'a>(&'a self, object: &'a Value) -> Result<Output<'a>, EvalError> {
        self.evaluate_with(object, &Limits::default())
    }

    /// Evaluates the program over `object`, within these limits.
    pub fn evaluate_with<'a>(
        &'a self,
        object: &'a Value,
        limits: &Limits,
    ) -> Result<Output<'a>, EvalError> {
        Machine::new(object, self.slots, limits).output(&self.node)
    }

    /// Evaluates the program as a condition on `object`. It holds if the result is `true` or a
    /// text that conventionally says so; any other result means it does not.
    pub fn test(&self, object: &Value) -> Result<bool, EvalError> {
        Ok(match self.evaluate(object)? {
            Output::Bool(flag) => flag,
            Output::String(text) => {
                matches!(&*text, "true" | "TRUE" | "True" | "t" | "T" | "1")
            }
            _ => false,
        })
    }

    /// What is known about the result before evaluation. A condition whose type is known and not
    /// [`ResultType::Bool`] can never hold.
    pub fn result_type(&self) -> ResultType {
        self.result
    }

    /// Which parts of the object an evaluation may look at.
    pub fn reads(&self) -> &ReadSet {
        &self.reads
    }

    /// The expression as written, without blanks around it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The first problem the parser found; the others mostly follow from it.
fn syntax_error(errors: &::cel::ParseErrors) -> CompileError {
    let Some(error) = errors.errors.first() else {
        return CompileError::Syntax {
            line: 1,
            column: 1,
            problem: "syntax error".into(),
        };
    };
    let (line, column) = error.pos;
    CompileError::Syntax {
        line: usize::try_from(line).unwrap_or(1).max(1),
        column: usize::try_from(column).unwrap_or(1).max(1),
        problem: printable(error.msg.trim_start_matches("Syntax error: "), 200).into(),
    }
}
