//! From the parser's tree to a program: names are resolved, types checked as far as they are
//! known, macros turned into loops, plain paths into walks and literals into constants.

use ::cel::common::ast::{CallExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr};
use ::cel::common::ast::{SelectExpr, operators};

use super::error::{CompileError, call_text, printable};
use super::eval::Machine;
use super::kind::{Kind, Kinds, Type};
use super::library::{self, Function};
use super::limits::Limits;
use super::node::{Binary, Call, Entry, Index, Item, Node, Path, Root, Select, To};
use super::ops::Op;
use super::scan::MAX_DEPTH;
use super::value::Val;

mod macros;

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
) -> Result<Lowered, CompileError> {
    let mut lowering = Lowering {
        environment,
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

struct Lowering<'e> {
    environment: &'e Environment<'e>,
    /// The variables of the macros around the current place, innermost last.
    scope: Vec<(&'e str, usize, Type)>,
    first_slot: usize,
    slots: usize,
    depth: usize,
}

impl<'e> Lowering<'e> {
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
        Ok((fold(node), known))
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
            (operators::LOGICAL_AND, args) => self.logic(args, true),
            (operators::LOGICAL_OR, args) => self.logic(args, false),
            (operators::LOGICAL_NOT, [operand]) => self.not(operand),
            (operators::NEGATE, [operand]) => self.negate(operand),
            (operators::CONDITIONAL, [condition, then, otherwise]) => {
                self.conditional(condition, then, otherwise)
            }
            (operators::INDEX, [operand, index]) => self.index(operand, index, false),
            (operators::OPT_INDEX, [operand, index]) => self.index(operand, index, true),
            (operators::OPT_SELECT, [operand, field]) => self.optional_select(operand, field),
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

    fn not(&mut self, operand: &'e IdedExpr) -> Result<Typed, CompileError> {
        let (node, known) = self.lower(operand)?;
        if !known.may_be(library::params::BOOL) {
            return Err(no_overload("!", &[known]));
        }
        Ok((Node::Not(Box::new(node)), Type::BOOL))
    }

    fn negate(&mut self, operand: &'e IdedExpr) -> Result<Typed, CompileError> {
        let (node, known) = self.lower(operand)?;
        if !known.may_be(Kinds::of(&[Kind::Int, Kind::Double, Kind::Duration])) {
            return Err(no_overload("-", &[known]));
        }
        Ok((Node::Negate(Box::new(node)), known))
    }

    fn logic(&mut self, args: &'e [IdedExpr], conjunction: bool) -> Result<Typed, CompileError> {
        let mut terms = Vec::new();
        for arg in args {
            let (node, known) = self.lower(arg)?;
            if !known.may_be(library::params::BOOL) {
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

    fn conditional(
        &mut self,
        condition: &'e IdedExpr,
        then: &'e IdedExpr,
        otherwise: &'e IdedExpr,
    ) -> Result<Typed, CompileError> {
        let (condition, known) = self.lower(condition)?;
        if !known.may_be(library::params::BOOL) {
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

    fn binary(
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

    fn index(
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

    fn optional_select(
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
        compile_patterns(&overloads, &mut nodes)?;
        let node = Node::Call(Box::new(Call {
            overloads: overloads.into(),
            args: nodes.into(),
        }));
        Ok((node, result))
    }
}

/// Compiles literal regular expressions once.
fn compile_patterns(overloads: &[&Function], args: &mut [Node]) -> Result<(), CompileError> {
    for (at, arg) in args.iter_mut().enumerate() {
        let wanted = overloads
            .iter()
            .all(|function| function.param(at) == Some(Kinds::PATTERN));
        if let Node::Const(Val::Text(pattern)) = arg
            && wanted
        {
            *arg = Node::Const(library::pattern::literal(pattern).map_err(|_| {
                CompileError::Pattern {
                    problem: printable(pattern, 160).into(),
                }
            })?);
        }
    }
    Ok(())
}

fn constant(literal: &LiteralValue) -> Typed {
    let (value, kind) = match literal {
        LiteralValue::Null => (Val::Null, Kind::Null),
        LiteralValue::Boolean(flag) => (Val::Bool(*flag.inner()), Kind::Bool),
        LiteralValue::Int(number) => (Val::Int(*number.inner()), Kind::Int),
        LiteralValue::UInt(number) => (Val::Uint(*number.inner()), Kind::Uint),
        LiteralValue::Double(number) => (Val::Double(*number.inner()), Kind::Double),
        LiteralValue::String(text) => (Val::Text(text.inner().to_owned()), Kind::String),
        LiteralValue::Bytes(bytes) => (Val::Bytes(bytes.inner().into()), Kind::Bytes),
    };
    (Node::Const(value), Type::Is(kind))
}

/// The type of a member of a value of this type, or nothing if it has no members.
fn member_type(known: &Type) -> Option<Type> {
    match known {
        Type::Dyn => Some(Type::Dyn),
        Type::Map(_, value) => Some((**value).clone()),
        _ => None,
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

/// Evaluates an operation on constants once and for all. One that fails, or that yields something
/// large, stays as it is.
fn fold(node: Node) -> Node {
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
        return node;
    }
    let limits = Limits {
        steps: 10_000,
        built_bytes: 16 << 10,
    };
    let value = Machine::new(&serde_json::Value::Null, 0, &limits)
        .eval(&node)
        .ok()
        .and_then(Val::into_static);
    value.map_or(node, Node::Const)
}
