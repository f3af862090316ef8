//! Which parts of the object a program may look at.
//!
//! The program is run over places instead of values: for every operation, where in the object its
//! result may come from. Variables of macros are followed, so that
//! `object.spec.containers.map(c, c.image)` reads `spec.containers[*].image` and nothing else.
//! Looking at a scalar or at the type of a value is presence; what is compared deeply, handed to a
//! function that looks inside or returned is read as a whole.

use std::rc::Rc;

use super::kind::Kinds;
use super::library::Looks;
use super::node::{Loop, Node, Path, Root, To, Vars, Yield};
use super::ops::Op;
use super::value::Val;
use crate::budget::{CompileBudget, Exhausted};
use crate::reads::{Extent, ReadSet, Step};

/// Where a value may come from this many places, the answer is "everything": alternatives of
/// alternatives would double with every one.
const MOST_PLACES: usize = 64;
/// How many steps of paths are handled in all before the answer is "everything" likewise.
const MOST_WORK: usize = 100_000;
/// What one of these steps costs of the budget for compiling.
const STEPS_PER_WORK: u64 = 10;

/// What is known about the reads of a program.
pub(super) struct Reads {
    pub(super) set: ReadSet,
    /// The program looks inside of values whose members it does not name: it compares them, hands
    /// them to functions or picks members by computed keys.
    pub(super) looks_inside: bool,
}

/// The reads of a program.
pub(super) fn reads(
    node: &Node,
    slots: usize,
    budget: &mut CompileBudget,
) -> Result<Reads, Exhausted> {
    let mut analysis = Analysis {
        set: ReadSet::nothing(),
        slots: vec![Origin::default(); slots],
        work: 0,
        gave_up: false,
        looks_inside: false,
    };
    let result = analysis.visit(node);
    let looks_inside = analysis.looks_inside;
    analysis.mark(&result, Extent::Whole);
    budget.charge(analysis.work as u64 * STEPS_PER_WORK)?;
    let Analysis { set, gave_up, .. } = analysis;
    Ok(Reads {
        set: if gave_up { ReadSet::everything() } else { set },
        looks_inside: looks_inside || gave_up,
    })
}

#[derive(Debug, Clone, PartialEq)]
enum Hop {
    Member(Rc<str>),
    Any,
}

/// Where a value may come from: it may be what is at one of these places, or a list, map or
/// optional that was built and holds values of these origins. A scalar that was computed has none.
#[derive(Debug, Clone, Default)]
struct Origin {
    places: Vec<Rc<[Hop]>>,
    inside: Option<Box<Origin>>,
}

impl Origin {
    fn built(inside: Origin) -> Origin {
        Origin {
            places: Vec::new(),
            inside: Some(Box::new(inside)),
        }
    }

    fn join(mut self, other: Origin) -> Origin {
        for place in other.places {
            if !self.places.contains(&place) {
                self.places.push(place);
            }
        }
        self.inside = match (self.inside, other.inside) {
            (Some(left), Some(right)) => Some(Box::new(left.join(*right))),
            (left, right) => left.or(right),
        };
        self
    }
}

struct Analysis {
    set: ReadSet,
    slots: Vec<Origin>,
    work: usize,
    gave_up: bool,
    looks_inside: bool,
}

impl Analysis {
    fn visit(&mut self, node: &Node) -> Origin {
        if self.gave_up {
            return Origin::default();
        }
        match node {
            Node::Const(_) => Origin::default(),
            Node::Path(path) => self.walk(path),
            Node::Has(path) => {
                self.walk(path);
                Origin::default()
            }
            Node::Select(select) => {
                let operand = self.visit(&select.operand);
                self.step(&operand, &Hop::Member(select.field.as_ref().into()))
            }
            Node::HasField(select) => {
                let operand = self.visit(&select.operand);
                self.step(&operand, &Hop::Member(select.field.as_ref().into()));
                Origin::default()
            }
            Node::Index(index) => {
                let operand = self.visit(&index.operand);
                self.visit(&index.key);
                let hop = match &index.key {
                    Node::Const(Val::Text(key)) => Hop::Member(key.as_str().into()),
                    Node::Const(_) => Hop::Any,
                    _ => {
                        self.looks_inside = true;
                        Hop::Any
                    }
                };
                self.step(&operand, &hop)
            }
            Node::Not(operand) | Node::Negate(operand) => {
                self.visit(operand);
                Origin::default()
            }
            Node::And(terms) | Node::Or(terms) => {
                for term in terms {
                    self.visit(term);
                }
                Origin::default()
            }
            Node::Cond(parts) => {
                self.visit(&parts[0]);
                let then = self.visit(&parts[1]);
                then.join(self.visit(&parts[2]))
            }
            Node::Binary(binary) => {
                let left = self.visit(&binary.left);
                let right = self.visit(&binary.right);
                self.binary(binary.op, &left, &right, binary.scalar)
            }
            Node::List(items) => {
                let items = items.iter().map(|item| self.visit(&item.value));
                let inside = items.reduce(Origin::join);
                Origin::built(inside.unwrap_or_default())
            }
            Node::Map(entries) => {
                let mut inside = Origin::default();
                for entry in entries {
                    self.visit(&entry.key);
                    inside = inside.join(self.visit(&entry.value));
                }
                Origin::built(inside)
            }
            Node::Call(call) => {
                let args: Vec<Origin> = call.args.iter().map(|arg| self.visit(arg)).collect();
                let mut result = Origin::default();
                for function in &call.overloads {
                    for (at, arg) in args.iter().enumerate() {
                        let inside = function.param(at).is_some_and(Kinds::holds_values);
                        match function.reads {
                            Looks::Through => result = result.join(arg.clone()),
                            Looks::Whole if inside => self.mark(arg, Extent::Whole),
                            Looks::Shape if inside => self.mark(arg, Extent::Shape),
                            _ => {}
                        }
                    }
                }
                result
            }
            Node::Loop(looped) => self.looped(looped),
            Node::Bind(bind) => {
                self.slots[bind.slot] = self.visit(&bind.value);
                self.visit(&bind.body)
            }
            Node::OptMap(map) => {
                self.slots[map.slot] = self.visit(&map.operand);
                self.visit(&map.body)
            }
        }
    }

    fn walk(&mut self, path: &Path) -> Origin {
        let mut origin = match path.root {
            Root::Object => Origin {
                places: vec![Rc::from([])],
                inside: None,
            },
            Root::Slot(slot) => self.slots[slot].clone(),
        };
        for step in &path.steps {
            let hop = match &step.to {
                To::Member(name) => Hop::Member(name.as_ref().into()),
                To::Element(_) => Hop::Any,
            };
            origin = self.step(&origin, &hop);
        }
        origin
    }

    fn binary(&mut self, op: Op, left: &Origin, right: &Origin, scalar: bool) -> Origin {
        match op {
            Op::Equal | Op::NotEqual if !scalar => {
                self.mark(left, Extent::Whole);
                self.mark(right, Extent::Whole);
            }
            Op::In => {
                // In a map the keys are looked at, in a list the elements.
                self.mark(right, Extent::Shape);
                let elements = self.step(right, &Hop::Any);
                if !scalar {
                    self.mark(left, Extent::Whole);
                    self.mark(&elements, Extent::Whole);
                }
            }
            Op::Add if !scalar => {
                let head = self.step(left, &Hop::Any);
                let tail = self.step(right, &Hop::Any);
                return Origin::built(head.join(tail));
            }
            _ => {}
        }
        Origin::default()
    }

    fn looped(&mut self, looped: &Loop) -> Origin {
        let range = self.visit(&looped.range);
        let element = self.step(&range, &Hop::Any);
        match looped.vars {
            Vars::One(slot) => self.slots[slot] = element.clone(),
            Vars::Two(first, second) => {
                // The second variable is the member of a map, whatever its key.
                self.looks_inside = true;
                self.slots[first] = Origin::default();
                self.slots[second] = element.clone();
            }
        }
        match &looped.yields {
            Yield::All(predicate) | Yield::Exists(predicate) | Yield::ExistsOne(predicate) => {
                self.visit(predicate);
                Origin::default()
            }
            Yield::List { filter, item } => {
                self.visit_filter(filter.as_ref());
                Origin::built(self.visit(item))
            }
            Yield::Map { filter, value } => {
                self.visit_filter(filter.as_ref());
                Origin::built(self.visit(value))
            }
            Yield::MapEntries { filter, entry } => {
                self.visit_filter(filter.as_ref());
                let entry = self.visit(entry);
                Origin::built(self.step(&entry, &Hop::Any))
            }
            Yield::SortedBy(key) => {
                self.visit(key);
                Origin::built(element)
            }
        }
    }

    fn visit_filter(&mut self, filter: Option<&Node>) {
        if let Some(filter) = filter {
            self.visit(filter);
        }
    }

    /// One step into a value: the place is at least looked at.
    fn step(&mut self, from: &Origin, hop: &Hop) -> Origin {
        let mut to = Origin::default();
        if from.places.len() > MOST_PLACES {
            self.gave_up = true;
        }
        if self.gave_up {
            return to;
        }
        for place in &from.places {
            let place: Rc<[Hop]> = place.iter().chain([hop]).cloned().collect();
            self.insert(&place, Extent::Presence);
            to.places.push(place);
        }
        match &from.inside {
            Some(inside) => to.join((**inside).clone()),
            None => to,
        }
    }

    fn mark(&mut self, origin: &Origin, extent: Extent) {
        self.looks_inside |= extent == Extent::Whole && !origin.places.is_empty();
        for place in &origin.places {
            self.insert(place, extent);
        }
        // What was built is looked at in full, or only its outside is.
        if let (Some(inside), Extent::Whole) = (&origin.inside, extent) {
            self.mark(inside, extent);
        }
    }

    fn insert(&mut self, place: &[Hop], extent: Extent) {
        self.work += 1 + place.len();
        if self.work > MOST_WORK {
            self.gave_up = true;
        }
        let steps = place.iter().map(|hop| match hop {
            Hop::Member(name) => Step::Member(name),
            Hop::Any => Step::Any,
        });
        self.set.insert(steps, extent);
    }
}
