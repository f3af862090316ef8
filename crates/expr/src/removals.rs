//! Taking parts out of an object.
//!
//! Everything to be removed is collected first, from pointers and paths alike, and removed in one
//! pass. Only so can a profile name two elements of one array: both positions mean the array as it
//! was, not as the first removal left it.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value;

use crate::budget::Allowance;
use crate::jsonpath::walk::{Mismatch, Place};
use crate::jsonpath::{EvalError, Path};
use crate::pointer::Pointer;

/// The places of one object that are to be removed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Removals {
    root: Node,
}

/// A place on the way to removals. One with neither children nor mark is not built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    removed: bool,
    members: BTreeMap<Box<str>, Node>,
    elements: BTreeMap<usize, Node>,
}

/// A member or element on the way from the root.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Key<'a> {
    Member(&'a str),
    Element(usize),
}

impl Removals {
    /// Nothing is removed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there is anything to remove.
    pub fn is_empty(&self) -> bool {
        self.root == Node::default()
    }

    /// Marks what `pointer` addresses in `object`, if it is there. The root itself stays.
    pub fn add_pointer(&mut self, pointer: &Pointer, object: &Value) {
        if let Some(keys) = pointer.locate(object) {
            self.mark(keys);
        }
    }

    /// Marks all matches of `path` in `object`. The root itself stays, and values that the path
    /// does not fit are passed over: a removal that finds nothing has nothing to do.
    pub fn add_path(&mut self, path: &Path, object: &Value) -> Result<(), EvalError> {
        self.add_path_within(path, object, &mut Allowance::default())
    }

    /// Marks all matches of `path` in `object`, within what is left of `allowance`.
    pub fn add_path_within(
        &mut self,
        path: &Path,
        object: &Value,
        allowance: &mut Allowance,
    ) -> Result<(), EvalError> {
        let root = Located {
            value: object,
            trail: None,
        };
        for place in path.places(root, Mismatch::SelectsNothing, allowance)? {
            self.mark(place.keys());
        }
        Ok(())
    }

    fn mark<'k>(&mut self, keys: impl IntoIterator<Item = Key<'k>>) {
        let mut keys = keys.into_iter().peekable();
        if keys.peek().is_none() {
            return;
        }
        let mut node = &mut self.root;
        for key in keys {
            node = match key {
                Key::Member(name) => {
                    if !node.members.contains_key(name) {
                        node.members.insert(name.into(), Node::default());
                    }
                    node.members.get_mut(name).expect("inserted above")
                }
                Key::Element(position) => node.elements.entry(position).or_default(),
            };
        }
        node.removed = true;
    }

    /// Removes everything that was marked, from the object it was marked in or from a copy of it.
    /// Emptied maps and arrays stay.
    pub fn apply(&self, object: &mut Value) {
        self.root.apply(object);
    }
}

impl Node {
    fn apply(&self, value: &mut Value) {
        match value {
            Value::Object(members) => {
                for (name, node) in &self.members {
                    if node.removed {
                        members.remove(&**name);
                    } else if let Some(member) = members.get_mut(&**name) {
                        node.apply(member);
                    }
                }
            }
            Value::Array(elements) if !self.elements.is_empty() => {
                let mut position = 0;
                elements.retain_mut(|element| {
                    let node = self.elements.get(&position);
                    position += 1;
                    match node {
                        Some(node) if node.removed => return false,
                        Some(node) => node.apply(element),
                        None => {}
                    }
                    true
                });
            }
            _ => {}
        }
    }
}

/// A value together with the way to it. Ways share their beginnings.
#[derive(Clone)]
struct Located<'a> {
    value: &'a Value,
    trail: Option<Rc<Trail<'a>>>,
}

struct Trail<'a> {
    parent: Option<Rc<Trail<'a>>>,
    key: Key<'a>,
}

impl<'a> Located<'a> {
    fn child(&self, key: Key<'a>, value: &'a Value) -> Self {
        let parent = self.trail.clone();
        Self {
            value,
            trail: Some(Rc::new(Trail { parent, key })),
        }
    }

    /// The keys from the root to this place.
    fn keys(&self) -> impl Iterator<Item = Key<'a>> {
        let mut keys = Vec::new();
        let mut next = self.trail.as_deref();
        while let Some(trail) = next {
            keys.push(trail.key);
            next = trail.parent.as_deref();
        }
        keys.into_iter().rev()
    }
}

impl<'a> Place<'a> for Located<'a> {
    fn value(&self) -> &'a Value {
        self.value
    }

    fn member(&self, name: &'a str, value: &'a Value) -> Self {
        self.child(Key::Member(name), value)
    }

    fn element(&self, position: usize, value: &'a Value) -> Self {
        self.child(Key::Element(position), value)
    }
}
