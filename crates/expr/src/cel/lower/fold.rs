//! Constants: literals, and operations on nothing but constants.

use ::cel::common::ast::LiteralValue;
use serde_json::Value as Json;

use super::super::error::{CompileError, printable};
use super::super::eval::Machine;
use super::super::kind::{Kind, Kinds, Type};
use super::super::library::{Function, pattern};
use super::super::limits::Limits;
use super::super::node::Node;
use super::super::value::Val;
use super::Typed;
use crate::budget::CompileBudget;

/// What folding one operation may cost; what costs more is left to the evaluation.
const FOLDING: Limits = Limits {
    steps: 10_000,
    built_bytes: 16 << 10,
};

/// Evaluates an operation on constants once and for all. One that fails, or that yields something
/// large, stays as it is.
pub(super) fn fold(node: Node, budget: &mut CompileBudget) -> Result<Node, CompileError> {
    let is_const = |node: &Node| matches!(node, Node::Const(_));
    let foldable = match &node {
        Node::Not(operand) | Node::Negate(operand) => is_const(operand),
        Node::Binary(binary) => is_const(&binary.left) && is_const(&binary.right),
        Node::Select(select) | Node::HasField(select) => is_const(&select.operand),
        Node::Index(index) => is_const(&index.operand) && is_const(&index.key),
        Node::Call(call) => call.args.iter().all(is_const),
        Node::List(items) => items.iter().all(|item| is_const(&item.value)),
        Node::Map(entries) => entries
            .iter()
            .all(|entry| is_const(&entry.key) && is_const(&entry.value)),
        _ => false,
    };
    if !foldable {
        return Ok(node);
    }
    let (value, steps) = {
        let mut machine = Machine::new(&Json::Null, 0, &FOLDING);
        let value = machine.eval(&node).ok().and_then(Val::into_static);
        (value, machine.budget.spent().0)
    };
    budget.charge(steps)?;
    Ok(value.map_or(node, Node::Const))
}

/// Compiles literal regular expressions once.
pub(super) fn compile_patterns(
    overloads: &[&Function],
    args: &mut [Node],
    budget: &mut CompileBudget,
) -> Result<(), CompileError> {
    for (at, arg) in args.iter_mut().enumerate() {
        let wanted = overloads
            .iter()
            .all(|function| function.param(at) == Some(Kinds::PATTERN));
        if let Node::Const(Val::Text(pattern)) = arg
            && wanted
        {
            let compiled = pattern::literal(pattern, budget)?;
            *arg = Node::Const(compiled.map_err(|_| CompileError::Pattern {
                problem: printable(pattern, 160).into(),
            })?);
        }
    }
    Ok(())
}

/// The value and type of a literal.
pub(super) fn constant(literal: &LiteralValue) -> Typed {
    let (value, kind) = match literal {
        LiteralValue::Null => (Val::Null, Kind::Null),
        LiteralValue::Boolean(flag) => (Val::Bool(*flag.inner()), Kind::Bool),
        LiteralValue::Int(number) => (Val::Int(*number.inner()), Kind::Int),
        LiteralValue::UInt(number) => (Val::Uint(*number.inner()), Kind::Uint),
        LiteralValue::Double(number) => (Val::Double(*number.inner()), Kind::Double),
        LiteralValue::String(text) => (Val::text(text.inner().to_owned()), Kind::String),
        LiteralValue::Bytes(bytes) => (Val::Bytes(bytes.inner().into()), Kind::Bytes),
    };
    (Node::Const(value), Type::Is(kind))
}
