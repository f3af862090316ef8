//! From the parser's tree to a program: names are resolved, types checked as far as they are
//! known, macros turned into loops, plain paths into walks and literals into constants.

use ::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, MapExpr};
use ::cel::common::ast::{SelectExpr, operators as names};

use super::error::{CompileError, call_text, printable};
use super::kind::{Kind, Kinds, Type};
use super::library;
use super::node::{Call, Entry, Item, Node, Path, Root, Select, To};
use super::ops::Op;
use super::scan::MAX_DEPTH;
use super::value::Val;
use crate::budget::CompileBudget;
use fold::{compile_patterns, constant, fold};

mod fold;
mod macros;
mod operators;

/// What an expression can name besides functions: the variables that are there before any macro.
pub(super) struct Environment<'e> {
    /// Name, place and type.
    pub(super) variables: &'e [(&'e str, Root, Type)],
    /// Refuse what the known types show to be wrong. Conformance tests switch this off where they
    /// test behaviour at run time.
    pub(super) check: bool,
}

/// A lowered expression.
pub(super) struct Lowered {
    pub(super) node: Node,
    pub(super) result: Type,
    /// How many slots the variables of the macros need.
    pub(super) slots: usize,
}

/// Lowers a parsed expression.
pub(super) fn lower(
    expr: &IdedExpr,
    environment: &Environment<'_>,
    budget: &mut CompileBudget,
) -> Result<Lowered, CompileError> {
    let mut lowering = Lowering {
        environment,
        budget,
        scope: Vec::new(),
        first_slot: environment
            .variables
            .iter()
            .map(|(_, root, _)| match root {
                Root::Object => 0,
                Root::Slot(slot) => slot + 1,
            })
            .max()
            .unwrap_or(0),
        slots: 0,
        depth: 0,
    };
    lowering.slots = lowering.first_slot;
    let (node, result) = lowering.lower(expr)?;
    Ok(Lowered {
        node,
        result,
        slots: lowering.slots,
    })
}

type Typed = (Node, Type);

struct Lowering<'e, 'b> {
    environment: &'e Environment<'e>,
    budget: &'b mut CompileBudget,
    /// The variables of the macros around the current place, innermost last.
    scope: Vec<(&'e str, usize, Type)>,
    first_slot: usize,
    slots: usize,
    depth: usize,
}

impl<'e> Lowering<'e, '_> {
    fn lower(&mut self, expr: &'e IdedExpr) -> Result<Typed, CompileError> {
        self.depth += 1;
        // Macros expand to a few levels more than the scan of the text can see.
        if self.depth > 2 * MAX_DEPTH {
            return Err(CompileError::TooDeep { limit: MAX_DEPTH });
        }
        let (node, known) = self.dispatch(expr)?;
        self.depth -= 1;
        let known = if self.environment.check {
            known
        } else {
            Type::Dyn
        };
        Ok((fold(node, self.budget)?, known))
    }

    /// Does nothing but branch: what recursion goes through keeps no values of its own, so that
    /// the deepest expression fits a small stack.
    fn dispatch(&mut self, expr: &'e IdedExpr) -> Result<Typed, CompileError> {
        match &expr.expr {
            Expr::Literal(literal) => Ok(constant(literal)),
            Expr::Ident(name) => self.name(name),
            Expr::Select(select) => self.select(select),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(message) => {
                let name = printable(&message.type_name, 80);
                Err(unsupported(format!("the message '{name}'")))
            }
            Expr::Unspecified => Err(unsupported("an empty expression")),
        }
    }

    /// The variable of this name. A leading dot skips the variables of macros.
    fn variable(&self, name: &str) -> Option<(Root, Type)> {
        let (name, global) = match name.strip_prefix('.') {
            Some(name) => (name, true),
            None => (name, false),
        };
        if !global && let Some((_, slot, known)) = self.scope.iter().rev().find(|v| v.0 == name) {
            return Some((Root::Slot(*slot), known.clone()));
        }
        let found = self.environment.variables.iter().find(|v| v.0 == name);
        found.map(|(_, root, known)| (*root, known.clone()))
    }

    fn name(&mut self, name: &str) -> Result<Typed, CompileError> {
        if let Some((root, known)) = self.variable(name) {
            return Ok((Node::Path(Path::new(root, name)), known));
        }
        match Kind::named(name.trim_start_matches('.')) {
            Some(kind) => Ok((Node::Const(Val::Type(kind)), Type::Is(Kind::Type))),
            None => Err(CompileError::UnknownName {
                name: printable(name, 80).into(),
            }),
        }
    }

    /// The dotted name that an expression spells, if it does not begin with a variable.
    fn qualified(&self, expr: &IdedExpr) -> Option<String> {
        match &expr.expr {
            Expr::Ident(name) if self.variable(name).is_none() => {
                Some(name.trim_start_matches('.').to_owned())
            }
            Expr::Select(select) if !select.test => {
                let mut name = self.qualified(&select.operand)?;
                name.push('.');
                name.push_str(&select.field);
                Some(name)
            }
            _ => None,
        }
    }

    fn select(&mut self, select: &'e SelectExpr) -> Result<Typed, CompileError> {
        if !select.test
            && let Some(operand) = self.qualified(&select.operand)
        {
            return self.name(&format!("{operand}.{}", select.field));
        }
        let (operand, known) = self.lower(&select.operand)?;
        let member = match &known {
            Type::Dyn => Type::Dyn,
            Type::Map(key, value) if key.may_be(Kinds::of(&[Kind::String])) => (**value).clone(),
            Type::Optional(value) if value.may_be(Kinds::of(&[Kind::Map])) => {
                Type::optional(Type::Dyn)
            }
            _ => return Err(no_overload(&format!(".{}", select.field), &[known])),
        };
        let field = select.field.as_str().into();
        Ok(match (operand, select.test) {
            (Node::Path(mut path), test) => {
                path.push(To::Member(field));
                if test {
                    (Node::Has(path), Type::BOOL)
                } else {
                    (Node::Path(path), member)
                }
            }
            (operand, test) => {
                let select = Box::new(Select {
                    operand,
                    field,
                    optional: false,
                });
                if test {
                    (Node::HasField(select), Type::BOOL)
                } else {
                    (Node::Select(select), member)
                }
            }
        })
    }

    fn call(&mut self, call: &'e CallExpr) -> Result<Typed, CompileError> {
        let args = call.args.as_slice();
        if let Some(target) = &call.target {
            return self.method(target, &call.func_name, args);
        }
        match (call.func_name.as_str(), args) {
            (names::LOGICAL_AND, args) => self.logic(args, true),
            (names::LOGICAL_OR, args) => self.logic(args, false),
            (names::LOGICAL_NOT, [operand]) => self.not(operand),
            (names::NEGATE, [operand]) => self.negate(operand),
            (names::CONDITIONAL, [condition, then, otherwise]) => {
                self.conditional(condition, then, otherwise)
            }
            (names::INDEX, [operand, index]) => self.index(operand, index, false),
            (names::OPT_INDEX, [operand, index]) => self.index(operand, index, true),
            (names::OPT_SELECT, [operand, field]) => self.optional_select(operand, field),
            (name, args) => match (Op::named(name), args) {
                (Some(op), [left, right]) => self.binary(op, left, right),
                _ => self.function(name.trim_start_matches('.'), false, args.iter()),
            },
        }
    }

    /// `target.name(…)`: a macro, a function of a namespace or a method.
    fn method(
        &mut self,
        target: &'e IdedExpr,
        name: &str,
        args: &'e [IdedExpr],
    ) -> Result<Typed, CompileError> {
        if let Some(expanded) = self.receiver_macro(target, name, args) {
            return expanded;
        }
        if let Some(namespace) = self.qualified(target) {
            let name = format!("{namespace}.{name}");
            if library::is_known(&name) {
                return self.function(&name, false, args.iter());
            }
            // A type name can be a receiver; anything else is no value at all.
            if Kind::named(&namespace).is_none() {
                return Err(unknown_member(&namespace, &name));
            }
        }
        self.function(name, true, std::iter::once(target).chain(args))
    }

    fn list(&mut self, list: &'e ListExpr) -> Result<Typed, CompileError> {
        let mut items = Vec::with_capacity(list.elements.len());
        let mut element: Option<Type> = None;
        for (at, item) in list.elements.iter().enumerate() {
            let (value, known) = self.lower(item)?;
            let optional = list.optional_indices.contains(&at);
            let known = if optional {
                optional_value("[?]", known)?
            } else {
                known
            };
            element = Some(match element {
                Some(element) => element.join(known),
                None => known,
            });
            items.push(Item { value, optional });
        }
        Ok((
            Node::List(items.into()),
            Type::list(element.unwrap_or(Type::Dyn)),
        ))
    }

    fn map(&mut self, map: &'e MapExpr) -> Result<Typed, CompileError> {
        let mut entries = Vec::with_capacity(map.entries.len());
        let mut known: Option<(Type, Type)> = None;
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else {
                return Err(unsupported("a message field in a map"));
            };
            let (key, key_type) = self.lower(&entry.key)?;
            if !key_type.may_be(Kinds::of(&[
                Kind::Bool,
                Kind::Int,
                Kind::Uint,
                Kind::String,
            ])) {
                return Err(no_overload("{}", &[key_type]));
            }
            let (value, value_type) = self.lower(&entry.value)?;
            let value_type = if entry.optional {
                optional_value("{?}", value_type)?
            } else {
                value_type
            };
            known = Some(match known {
                Some((keys, values)) => (keys.join(key_type), values.join(value_type)),
                None => (key_type, value_type),
            });
            entries.push(Entry {
                key,
                value,
                optional: entry.optional,
            });
        }
        let (keys, values) = known.unwrap_or((Type::Dyn, Type::Dyn));
        Ok((Node::Map(entries.into()), Type::map(keys, values)))
    }

    fn function(
        &mut self,
        name: &str,
        method: bool,
        args: impl Iterator<Item = &'e IdedExpr>,
    ) -> Result<Typed, CompileError> {
        let mut overloads = library::overloads(name, method);
        if overloads.is_empty() && !library::is_known(name) {
            return Err(CompileError::UnknownFunction {
                name: printable(name, 80).into(),
            });
        }
        let mut nodes = Vec::new();
        let mut types = Vec::new();
        for arg in args {
            let (node, known) = self.lower(arg)?;
            nodes.push(node);
            types.push(known);
        }
        overloads.retain(|function| function.takes(nodes.len()));
        if overloads.is_empty() {
            return Err(CompileError::Arity {
                name: printable(name, 80).into(),
                found: nodes.len() - usize::from(method),
            });
        }
        overloads.retain(|function| {
            types
                .iter()
                .enumerate()
                .all(|(at, known)| function.param(at).is_some_and(|kinds| known.may_be(kinds)))
        });
        let result = overloads
            .iter()
            .map(|function| function.result(&types))
            .reduce(Type::join);
        let Some(result) = result else {
            return Err(no_overload(name, &types));
        };
        compile_patterns(&overloads, &mut nodes, self.budget)?;
        let node = Node::Call(Box::new(Call {
            overloads: overloads.into(),
            args: nodes.into(),
        }));
        Ok((node, result))
    }
}

/// What an optional item or entry holds.
fn optional_value(place: &str, known: Type) -> Result<Type, CompileError> {
    match known {
        Type::Optional(value) => Ok(*value),
        Type::Dyn => Ok(Type::Dyn),
        other => Err(no_overload(place, &[other])),
    }
}

fn unsupported(what: impl Into<Box<str>>) -> CompileError {
    CompileError::Unsupported { what: what.into() }
}

fn no_overload(name: &str, types: &[Type]) -> CompileError {
    CompileError::Overload {
        call: call_text(name, types.iter().map(Type::to_string)),
    }
}

/// A call on something that is neither a value nor a namespace of functions.
fn unknown_member(namespace: &str, name: &str) -> CompileError {
    let root = namespace.split('.').next().unwrap_or_default();
    if library::is_namespace(root) {
        CompileError::UnknownFunction {
            name: printable(name, 80).into(),
        }
    } else {
        CompileError::UnknownName {
            name: printable(namespace, 80).into(),
        }
    }
}
