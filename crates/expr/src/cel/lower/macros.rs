//! Macros: the shapes the parser expands them to, and those it leaves as calls.

use ::cel::common::ast::{ComprehensionExpr, Expr, IdedExpr, LiteralValue, operators};

use super::super::error::CompileError;
use super::super::kind::{Kind, Kinds, Type};
use super::super::library::params;
use super::super::node::{Bind, Loop, Node, OptMap, Vars, Yield};
use super::{Lowering, Typed, no_overload, unsupported};

impl<'e> Lowering<'e, '_> {
    /// The macros of the language arrive expanded to a fold over an accumulator. Its first value
    /// and its step tell which macro it was.
    pub(super) fn comprehension(
        &mut self,
        fold: &'e ComprehensionExpr,
    ) -> Result<Typed, CompileError> {
        match shape(fold) {
            Some(shape) => self.looped(&fold.iter_range, &[&fold.iter_var], &shape),
            None => Err(unsupported("this comprehension")),
        }
    }

    /// The macros that the parser leaves as method calls.
    pub(super) fn receiver_macro(
        &mut self,
        target: &'e IdedExpr,
        name: &str,
        args: &'e [IdedExpr],
    ) -> Option<Result<Typed, CompileError>> {
        let shape = match (name, args) {
            ("bind", [variable, value, body]) if is_namespace(self, target, "cel") => {
                return Some(self.bind(variable, value, body));
            }
            ("optMap", [variable, body]) => {
                return Some(self.opt_map(target, variable, body, false));
            }
            ("optFlatMap", [variable, body]) => {
                return Some(self.opt_map(target, variable, body, true));
            }
            ("sortBy", [_, key]) => Shape::SortedBy(key),
            ("all", [_, _, predicate]) => Shape::All(predicate),
            ("exists", [_, _, predicate]) => Shape::Exists(predicate),
            ("existsOne" | "exists_one", [_, _, predicate]) => Shape::ExistsOne(predicate),
            ("transformList", [_, _, item]) => Shape::List(None, item),
            ("transformList", [_, _, filter, item]) => Shape::List(Some(filter), item),
            ("transformMap", [_, _, value]) => Shape::Map(None, value),
            ("transformMap", [_, _, filter, value]) => Shape::Map(Some(filter), value),
            ("transformMapEntry", [_, _, entry]) => Shape::MapEntries(None, entry),
            ("transformMapEntry", [_, _, filter, entry]) => Shape::MapEntries(Some(filter), entry),
            _ => return None,
        };
        Some(self.with_variables(target, args, &shape))
    }

    /// A loop whose variables are the first arguments of the macro.
    fn with_variables(
        &mut self,
        target: &'e IdedExpr,
        args: &'e [IdedExpr],
        shape: &Shape<'e>,
    ) -> Result<Typed, CompileError> {
        let macro_name = shape.name();
        let first = variable_name(macro_name, &args[0])?;
        if matches!(shape, Shape::SortedBy(_)) {
            return self.looped(target, &[first], shape);
        }
        let second = variable_name(macro_name, &args[1])?;
        if first == second {
            return Err(CompileError::Macro {
                macro_name,
                problem: "the two variables need different names",
            });
        }
        self.looped(target, &[first, second], shape)
    }

    /// A loop over `range` with its variables in scope while the parts of the macro are lowered.
    fn looped(
        &mut self,
        range: &'e IdedExpr,
        names: &[&'e str],
        shape: &Shape<'e>,
    ) -> Result<Typed, CompileError> {
        let (range, range_type) = self.lower(range)?;
        let types = match (&range_type, names.len()) {
            (Type::Dyn, _) => [Type::Dyn, Type::Dyn],
            (Type::List(element), 1) => [(**element).clone(), Type::Dyn],
            (Type::List(element), _) => [Type::INT, (**element).clone()],
            (Type::Map(key, value), _) => [(**key).clone(), (**value).clone()],
            _ => return Err(no_overload("the range of a macro", &[range_type])),
        };
        let key = types[0].clone();
        let before = self.scope.len();
        let slots: Vec<usize> = names
            .iter()
            .zip(types)
            .map(|(name, known)| self.declare(name, known))
            .collect();
        let vars = match slots[..] {
            [first, second] => Vars::Two(first, second),
            _ => Vars::One(slots[0]),
        };
        let lowered = self.yields(shape, key);
        self.scope.truncate(before);
        let (yields, result) = lowered?;
        // Sorting keeps the elements of the range, and with them their type.
        let result = match (&yields, range_type) {
            (Yield::SortedBy(_), Type::List(element)) => Type::List(element),
            _ => result,
        };
        Ok((
            Node::Loop(Box::new(Loop {
                range,
                vars,
                yields,
            })),
            result,
        ))
    }

    /// What the macro makes of the elements. `key` is the type of the first variable.
    fn yields(&mut self, shape: &Shape<'e>, key: Type) -> Result<(Yield, Type), CompileError> {
        Ok(match shape {
            Shape::All(predicate) => (Yield::All(self.predicate("all", predicate)?), Type::BOOL),
            Shape::Exists(predicate) => (
                Yield::Exists(self.predicate("exists", predicate)?),
                Type::BOOL,
            ),
            Shape::ExistsOne(predicate) => (
                Yield::ExistsOne(self.predicate("exists_one", predicate)?),
                Type::BOOL,
            ),
            Shape::List(filter, item) => {
                let filter = self.filter(*filter)?;
                let (item, known) = self.lower(item)?;
                (Yield::List { filter, item }, Type::list(known))
            }
            Shape::Map(filter, value) => {
                let filter = self.filter(*filter)?;
                let (value, known) = self.lower(value)?;
                (Yield::Map { filter, value }, Type::map(key, known))
            }
            Shape::MapEntries(filter, entry) => {
                let filter = self.filter(*filter)?;
                let (entry, known) = self.lower(entry)?;
                if !known.may_be(params::MAP) {
                    return Err(no_overload("transformMapEntry", &[known]));
                }
                let result = match known {
                    Type::Dyn => Type::map(Type::Dyn, Type::Dyn),
                    known => known,
                };
                (Yield::MapEntries { filter, entry }, result)
            }
            Shape::SortedBy(key) => {
                let (key, known) = self.lower(key)?;
                if matches!(known.kind(), Some(Kind::List | Kind::Map | Kind::Null)) {
                    return Err(no_overload("sortBy", &[known]));
                }
                (Yield::SortedBy(key), Type::list(Type::Dyn))
            }
        })
    }

    fn filter(&mut self, filter: Option<&'e IdedExpr>) -> Result<Option<Node>, CompileError> {
        filter
            .map(|filter| self.predicate("filter", filter))
            .transpose()
    }

    fn predicate(&mut self, name: &str, predicate: &'e IdedExpr) -> Result<Node, CompileError> {
        let (node, known) = self.lower(predicate)?;
        if known.may_be(params::BOOL) {
            Ok(node)
        } else {
            Err(no_overload(name, &[known]))
        }
    }

    /// A new variable in the next free slot.
    fn declare(&mut self, name: &'e str, known: Type) -> usize {
        let slot = self.first_slot + self.scope.len();
        self.scope.push((name, slot, known));
        self.slots = self.slots.max(slot + 1);
        slot
    }

    fn bind(
        &mut self,
        variable: &'e IdedExpr,
        value: &'e IdedExpr,
        body: &'e IdedExpr,
    ) -> Result<Typed, CompileError> {
        let name = variable_name("cel.bind", variable)?;
        let (value, known) = self.lower(value)?;
        let slot = self.declare(name, known);
        let body = self.lower(body);
        self.scope.pop();
        let (body, result) = body?;
        Ok((Node::Bind(Box::new(Bind { slot, value, body })), result))
    }

    fn opt_map(
        &mut self,
        operand: &'e IdedExpr,
        variable: &'e IdedExpr,
        body: &'e IdedExpr,
        flat: bool,
    ) -> Result<Typed, CompileError> {
        let macro_name = if flat { "optFlatMap" } else { "optMap" };
        let name = variable_name(macro_name, variable)?;
        let (operand, known) = self.lower(operand)?;
        let held = match known {
            Type::Dyn => Type::Dyn,
            Type::Optional(held) => *held,
            other => return Err(no_overload(macro_name, &[other])),
        };
        let slot = self.declare(name, held);
        let body = self.lower(body);
        self.scope.pop();
        let (body, result) = body?;
        let result = match (flat, result) {
            (false, result) => Type::optional(result),
            (true, Type::Dyn) => Type::optional(Type::Dyn),
            (true, result) if result.may_be(Kinds::of(&[Kind::Optional])) => result,
            (true, result) => return Err(no_overload(macro_name, &[result])),
        };
        Ok((
            Node::OptMap(Box::new(OptMap {
                operand,
                slot,
                body,
                flat,
            })),
            result,
        ))
    }
}

/// A macro with the parts that matter.
enum Shape<'e> {
    All(&'e IdedExpr),
    Exists(&'e IdedExpr),
    ExistsOne(&'e IdedExpr),
    /// Filter and item.
    List(Option<&'e IdedExpr>, &'e IdedExpr),
    Map(Option<&'e IdedExpr>, &'e IdedExpr),
    MapEntries(Option<&'e IdedExpr>, &'e IdedExpr),
    SortedBy(&'e IdedExpr),
}

impl Shape<'_> {
    fn name(&self) -> &'static str {
        match self {
            Shape::All(_) => "all",
            Shape::Exists(_) => "exists",
            Shape::ExistsOne(_) => "existsOne",
            Shape::List(..) => "transformList",
            Shape::Map(..) => "transformMap",
            Shape::MapEntries(..) => "transformMapEntry",
            Shape::SortedBy(_) => "sortBy",
        }
    }
}

fn shape(fold: &ComprehensionExpr) -> Option<Shape<'_>> {
    let Expr::Call(step) = &fold.loop_step.expr else {
        return None;
    };
    match (&fold.accu_init.expr, step.func_name.as_str()) {
        (Expr::Literal(LiteralValue::Boolean(_)), operators::LOGICAL_AND) => {
            Some(Shape::All(step.args.get(1)?))
        }
        (Expr::Literal(LiteralValue::Boolean(_)), operators::LOGICAL_OR) => {
            Some(Shape::Exists(step.args.get(1)?))
        }
        (Expr::Literal(LiteralValue::Int(_)), operators::CONDITIONAL) => {
            Some(Shape::ExistsOne(step.args.first()?))
        }
        (Expr::List(_), operators::ADD) => Some(Shape::List(None, appended(&step.args)?)),
        (Expr::List(_), operators::CONDITIONAL) => {
            let Expr::Call(add) = &step.args.get(1)?.expr else {
                return None;
            };
            Some(Shape::List(step.args.first(), appended(&add.args)?))
        }
        _ => None,
    }
}

/// The item of `accumulator + [item]`.
fn appended(args: &[IdedExpr]) -> Option<&IdedExpr> {
    match &args.get(1)?.expr {
        Expr::List(list) => list.elements.first(),
        _ => None,
    }
}

fn variable_name<'e>(
    macro_name: &'static str,
    expr: &'e IdedExpr,
) -> Result<&'e str, CompileError> {
    match &expr.expr {
        Expr::Ident(name) if !name.starts_with('.') => Ok(name),
        _ => Err(CompileError::Macro {
            macro_name,
            problem: "expects a simple name for its variable",
        }),
    }
}

fn is_namespace(lowering: &Lowering<'_, '_>, target: &IdedExpr, name: &str) -> bool {
    matches!(&target.expr, Expr::Ident(found) if found == name) && lowering.variable(name).is_none()
}
