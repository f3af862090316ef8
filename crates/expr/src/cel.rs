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

use crate::budget::{Allowance, CompileBudget, Exhausted};
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
    looks_inside: bool,
}

impl Program {
    /// Compiles an expression over the variable `object`. Blanks around it are ignored.
    pub fn compile(text: &str) -> Result<Program, CompileError> {
        Self::compile_within(text, &mut CompileBudget::new())
    }

    /// Compiles an expression like [`Program::compile`], on a budget that others share.
    pub fn compile_within(text: &str, budget: &mut CompileBudget) -> Result<Program, CompileError> {
        let environment = Environment {
            variables: &[("object", Root::Object, Type::Dyn)],
            check: true,
        };
        Self::compile_in(text, &environment, budget)
    }

    /// Compiles a rule of a CRD schema, which is an expression over the variable `self`. To be
    /// evaluated over the value that the rule stands beside.
    pub fn compile_rule(text: &str) -> Result<Program, CompileError> {
        let environment = Environment {
            variables: &[("self", Root::Object, Type::Dyn)],
            check: true,
        };
        Self::compile_in(text, &environment, &mut CompileBudget::new())
    }

    fn compile_in(
        text: &str,
        environment: &Environment<'_>,
        budget: &mut CompileBudget,
    ) -> Result<Program, CompileError> {
        budget.charge_text(text)?;
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
        } = lower::lower(&expression, environment, budget)?;
        let reads::Reads { set, looks_inside } = reads::reads(&node, slots, budget)?;
        Ok(Program {
            reads: set,
            looks_inside,
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

    /// Evaluates the program over `object` within what is left of `allowance`, and within the
    /// default limits.
    pub fn evaluate_within<'a>(
        &'a self,
        object: &'a Value,
        allowance: &mut Allowance,
    ) -> Result<Output<'a>, EvalError> {
        let own = Limits::default();
        let limits = allowance.share(own);
        let mut machine = Machine::new(object, self.slots, &limits);
        let result = machine.output(&self.node);
        let (steps, bytes) = machine.budget.spent();
        allowance.spend(steps, bytes);
        result.map_err(|error| match error {
            EvalError::StepLimit { limit } if limit < own.steps => EvalError::SharedStepLimit {
                limit: allowance.total().steps,
            },
            EvalError::SizeLimit { limit } if limit < own.built_bytes => {
                EvalError::SharedSizeLimit {
                    limit: allowance.total().built_bytes,
                }
            }
            other => other,
        })
    }

    /// Evaluates the program as a condition on `object`. It holds if the result is `true` or a
    /// text that conventionally says so; any other result means it does not.
    pub fn test(&self, object: &Value) -> Result<bool, EvalError> {
        self.test_within(object, &mut Allowance::default())
    }

    /// Evaluates the program as a condition, within what is left of `allowance`.
    pub fn test_within(
        &self,
        object: &Value,
        allowance: &mut Allowance,
    ) -> Result<bool, EvalError> {
        Ok(match self.evaluate_within(object, allowance)? {
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

    /// Whether an evaluation may see a member of one of these names apart from the map it is in.
    /// An expression that only hands whole maps on does not.
    pub fn takes_out(&self, members: &[&str]) -> bool {
        self.looks_inside || self.reads.names_any(members)
    }

    /// The expression as written, without blanks around it.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<Exhausted> for CompileError {
    fn from(_: Exhausted) -> Self {
        CompileError::TooExpensive
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
