//! Operators: types checked, chains of `&&` and `||` flattened, plain paths prolonged.

use ::cel::common::ast::{Expr, IdedExpr, LiteralValue};

use super::super::error::CompileError;
use super::super::kind::{Kind, Kinds, Type};
use super::super::library::params;
use super::super::node::{Binary, Index, Node, Select, To};
use super::super::ops::Op;
use super::super::value::Val;
use super::{Lowering, Typed, no_overload};

impl<'e> Lowering<'e, '_> {
    pub(super) fn not(&mut self, operand: &'e IdedExpr) -> Result<Typed, CompileError> {
        let (node, known) = self.lower(operand)?;
        if !known.may_be(params::BOOL) {
            return Err(no_overload("!", &[known]));
        }
        Ok((Node::Not(Box::new(node)), Type::BOOL))
    }

    pub(super) fn negate(&mut self, operand: &'e IdedExpr) -> Result<Typed, CompileError> {
        let (node, known) = self.lower(operand)?;
        if !known.may_be(Kinds::of(&[Kind::Int, Kind::Double, Kind::Duration])) {
            return Err(no_overload("-", &[known]));
        }
        Ok((Node::Negate(Box::new(node)), known))
    }

    pub(super) fn logic(
        &mut self,
        args: &'e [IdedExpr],
        conjunction: bool,
    ) -> Result<Typed, CompileError> {
        let mut terms = Vec::new();
        for arg in args {
            let (node, known) = self.lower(arg)?;
            if !known.may_be(params::BOOL) {
                let sign = if conjunction { "&&" } else { "||" };
                return Err(no_overload(sign, &[known]));
            }
            // The parser balances a chain into a tree; here it is one flat list again.
            match node {
                Node::And(inner) if conjunction => terms.extend(inner),
                Node::Or(inner) if !conjunction => terms.extend(inner),
                other => terms.push(other),
            }
        }
        let decided = terms
            .iter()
            .any(|term| matches!(term, Node::Const(Val::Bool(flag)) if *flag != conjunction));
        let node = if decided {
            Node::Const(Val::Bool(!conjunction))
        } else if conjunction {
            Node::And(terms.into())
        } else {
            Node::Or(terms.into())
        };
        Ok((node, Type::BOOL))
    }

    pub(super) fn conditional(
        &mut self,
        condition: &'e IdedExpr,
        then: &'e IdedExpr,
        otherwise: &'e IdedExpr,
    ) -> Result<Typed, CompileError> {
        let (condition, known) = self.lower(condition)?;
        if !known.may_be(params::BOOL) {
            return Err(no_overload("?:", &[known]));
        }
        let (then, then_type) = self.lower(then)?;
        let (otherwise, otherwise_type) = self.lower(otherwise)?;
        let known = then_type.join(otherwise_type);
        let node = match condition {
            Node::Const(Val::Bool(true)) => then,
            Node::Const(Val::Bool(false)) => otherwise,
            condition => Node::Cond(Box::new([condition, then, otherwise])),
        };
        Ok((node, known))
    }

    pub(super) fn binary(
        &mut self,
        op: Op,
        left: &'e IdedExpr,
        right: &'e IdedExpr,
    ) -> Result<Typed, CompileError> {
        let (left, left_type) = self.lower(left)?;
        let (right, right_type) = self.lower(right)?;
        let Some(result) = op.check(&left_type, &right_type) else {
            return Err(no_overload(op.sign(), &[left_type, right_type]));
        };
        let scalar = left_type.is_scalar() || (right_type.is_scalar() && op != Op::In);
        let node = Node::Binary(Box::new(Binary {
            op,
            left,
            right,
            scalar,
        }));
        Ok((node, result))
    }

    pub(super) fn index(
        &mut self,
        operand: &'e IdedExpr,
        index: &'e IdedExpr,
        optional: bool,
    ) -> Result<Typed, CompileError> {
        let (operand, operand_type) = self.lower(operand)?;
        let (index, index_type) = self.lower(index)?;
        let (container, was_optional) = match &operand_type {
            Type::Optional(value) => (&**value, true),
            other => (other, false),
        };
        let member = match container {
            Type::Dyn => Some(Type::Dyn),
            Type::List(element) if index_type.may_be(Kinds::NUMBER) => Some((**element).clone()),
            Type::Map(key, value) if key.comparable(&index_type) => Some((**value).clone()),
            _ => None,
        };
        let Some(member) = member else {
            return Err(no_overload("[]", &[operand_type, index_type]));
        };
        let known = if optional || was_optional {
            Type::optional(member)
        } else {
            member
        };
        let to = match &index {
            Node::Const(Val::Text(key)) => Some(To::Member(key.as_str().into())),
            Node::Const(Val::Int(at)) => Some(To::Element(*at)),
            _ => None,
        };
        let node = match (operand, to) {
            (Node::Path(mut path), Some(to)) if !optional => {
                path.push(to);
                Node::Path(path)
            }
            (operand, _) => Node::Index(Box::new(Index {
                operand,
                key: index,
                optional,
            })),
        };
        Ok((node, known))
    }

    pub(super) fn optional_select(
        &mut self,
        operand: &'e IdedExpr,
        field: &'e IdedExpr,
    ) -> Result<Typed, CompileError> {
        let Expr::Literal(LiteralValue::String(field)) = &field.expr else {
            return Err(CompileError::Macro {
                macro_name: ".?",
                problem: "expects a member name",
            });
        };
        let (operand, known) = self.lower(operand)?;
        let member = match &known {
            Type::Optional(value) => member_type(value),
            other => member_type(other),
        };
        let Some(member) = member else {
            return Err(no_overload(&format!(".?{}", field.inner()), &[known]));
        };
        let node = Node::Select(Box::new(Select {
            operand,
            field: field.inner().into(),
            optional: true,
        }));
        Ok((node, Type::optional(member)))
    }
}

/// The type of a member of a value of this type, or nothing if it has no members.
fn member_type(known: &Type) -> Option<Type> {
    match known {
        Type::Dyn => Some(Type::Dyn),
        Type::Map(_, value) => Some((**value).clone()),
        _ => None,
    }
}
