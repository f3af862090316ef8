//! A compiled expression: a small tree with everything resolved that can be before evaluation.

use super::error::{EvalError, LONGEST_PLACE, printable};
use super::library::Function;
use super::ops::Op;
use super::value::Val;

/// One operation.
#[derive(Debug)]
pub(super) enum Node {
    /// A literal, or what an expression of literals came to.
    Const(Val<'static>),
    /// A walk from a variable through members and elements, in one go.
    Path(Path),
    /// `has(…)` of such a walk.
    Has(Path),
    /// `operand.field` or `operand.?field` of anything else.
    Select(Box<Select>),
    /// `has(operand.field)` of anything else.
    HasField(Box<Select>),
    /// `operand[index]` or `operand[?index]`.
    Index(Box<Index>),
    Not(Box<Node>),
    Negate(Box<Node>),
    And(Box<[Node]>),
    Or(Box<[Node]>),
    /// Condition, then, otherwise.
    Cond(Box<[Node; 3]>),
    Binary(Box<Binary>),
    List(Box<[Item]>),
    Map(Box<[Entry]>),
    Call(Box<Call>),
    Loop(Box<Loop>),
    /// `cel.bind(variable, value, body)`.
    Bind(Box<Bind>),
    /// `operand.optMap(variable, body)`, `operand.optFlatMap(variable, body)`.
    OptMap(Box<OptMap>),
}

/// Where a walk begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Root {
    Object,
    /// A variable of a macro.
    Slot(usize),
}

/// A walk from a variable through fixed members and elements.
#[derive(Debug)]
pub(super) struct Path {
    pub(super) root: Root,
    pub(super) steps: Vec<PathStep>,
    /// The walk as it was written, for error texts.
    text: String,
}

/// One step of a walk.
#[derive(Debug)]
pub(super) struct PathStep {
    pub(super) to: To,
    /// Where the text of the path up to and with this step ends.
    end: usize,
}

/// What a step of a walk goes to.
#[derive(Debug)]
pub(super) enum To {
    Member(Box<str>),
    Element(i64),
}

impl Path {
    pub(super) fn new(root: Root, name: &str) -> Self {
        Path {
            root,
            steps: Vec::new(),
            text: name.to_owned(),
        }
    }

    pub(super) fn push(&mut self, to: To) {
        match &to {
            To::Member(name) if is_identifier(name) => {
                self.text.push('.');
                self.text.push_str(name);
            }
            To::Member(name) => {
                self.text.push_str("['");
                self.text.push_str(name);
                self.text.push_str("']");
            }
            To::Element(at) => {
                self.text.push('[');
                self.text.push_str(&at.to_string());
                self.text.push(']');
            }
        }
        let end = self.text.len();
        self.steps.push(PathStep { to, end });
    }

    /// The text of the walk up to and with step `at`.
    pub(super) fn place(&self, at: usize) -> &str {
        let end = self.steps.get(at).map_or(self.text.len(), |step| step.end);
        &self.text[..end]
    }

    #[cold]
    pub(super) fn no_such_key(&self, at: usize) -> EvalError {
        EvalError::NoSuchKey {
            place: printable(self.place(at), LONGEST_PLACE).into(),
        }
    }

    #[cold]
    pub(super) fn out_of_range(&self, at: usize) -> EvalError {
        EvalError::OutOfRange {
            place: printable(self.place(at), LONGEST_PLACE).into(),
        }
    }
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[derive(Debug)]
pub(super) struct Select {
    pub(super) operand: Node,
    pub(super) field: Box<str>,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct Index {
    pub(super) operand: Node,
    pub(super) key: Node,
    pub(super) optional: bool,
}

#[derive(Debug)]
pub(super) struct Binary {
    pub(super) op: Op,
    pub(super) left: Node,
    pub(super) right: Node,
    /// Whether an operand is known to hold no other values, so that equality looks at no more
    /// than the type of the other if that is a container.
    pub(super) scalar: bool,
}

/// One item of a list literal; an optional one is left out if it has no value.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// One entry of a map literal; an optional one is left out if it has no value.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: Node,
    pub(super) value: Node,
    pub(super) optional: bool,
}

/// A call of a library function. More than one overload remains where the types of the arguments
/// are not known before evaluation.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) overloads: Box<[&'static Function]>,
    pub(super) args: Box<[Node]>,
}

/// A macro that goes through a list or a map.
#[derive(Debug)]
pub(super) struct Loop {
    pub(super) range: Node,
    pub(super) vars: Vars,
    pub(super) yields: Yield,
}

/// The slots that receive the current element: the element of a list or the key of a map, or
/// index and element, or key and value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Vars {
    One(usize),
    Two(usize, usize),
}

/// What a macro makes of the elements.
#[derive(Debug)]
pub(super) enum Yield {
    All(Node),
    Exists(Node),
    ExistsOne(Node),
    List { filter: Option<Node>, item: Node },
    Map { filter: Option<Node>, value: Node },
    MapEntries { filter: Option<Node>, entry: Node },
    SortedBy(Node),
}

#[derive(Debug)]
pub(super) struct Bind {
    pub(super) slot: usize,
    pub(super) value: Node,
    pub(super) body: Node,
}

#[derive(Debug)]
pub(super) struct OptMap {
    pub(super) operand: Node,
    pub(super) slot: usize,
    pub(super) body: Node,
    /// The body yields an optional itself.
    pub(super) flat: bool,
}
