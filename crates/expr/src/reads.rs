//! Which parts of an object a program may look at.
//!
//! The union over all programs on one resource drives the projected decoder: subtrees that nobody
//! reads are skipped in the byte stream and never allocated. The same knowledge decides whether an
//! expression can reach the data of a Secret.
//!
//! A read set over-approximates: it may name more than an evaluation touches, never less. The law
//! that makes it useful, checked by property tests, is that evaluating a program on an object and
//! on its projection gives the same result, errors included. For that, projection keeps:
//!
//! * every scalar it visits, as it is;
//! * the kind (object or array) of every container it visits, and the length of every array;
//! * the members named by [`ReadNode::members`], those reached through [`ReadNode::any`], all keys
//!   where [`ReadNode::shape`] is set, and everything where [`ReadNode::whole`] is set.
//!
//! Array elements and members that are kept only for their position or key hold `null`.
//! [`ReadSet::project`] is this rule as code, for tests of programs and of the decoder.

use std::collections::BTreeMap;

use serde_json::Value;

/// One step from a container to something inside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'p> {
    /// The member of this name.
    Member(&'p str),
    /// Any element of an array or any member of an object.
    Any,
}

/// What is read at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// Only that it is there, and its JSON type (`has(object.a.b)`).
    Presence,
    /// Its keys or its length, not what they hold (`size(object.a)`, `'k' in object.a`).
    Shape,
    /// All of it.
    Whole,
}

/// One place in the tree of reads. The empty node reads presence and type only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadNode {
    whole: bool,
    shape: bool,
    members: BTreeMap<Box<str>, ReadNode>,
    any: Option<Box<ReadNode>>,
}

impl ReadNode {
    /// Everything below this place is read.
    pub fn whole(&self) -> bool {
        self.whole
    }

    /// All keys (or the length) of this place are read, whatever they hold.
    pub fn shape(&self) -> bool {
        self.shape
    }

    /// Members read by name.
    pub fn members(&self) -> &BTreeMap<Box<str>, ReadNode> {
        &self.members
    }

    /// What is read of every element or member, in addition to `members`.
    pub fn any(&self) -> Option<&ReadNode> {
        self.any.as_deref()
    }

    /// Marks `extent` at the end of `path`, counted from this node.
    pub fn insert<'p>(&mut self, path: impl IntoIterator<Item = Step<'p>>, extent: Extent) {
        let mut node = self;
        for step in path {
            node = match step {
                Step::Member(name) => {
                    if !node.members.contains_key(name) {
                        node.members.insert(name.into(), ReadNode::default());
                    }
                    node.members.get_mut(name).expect("inserted above")
                }
                Step::Any => node.any.get_or_insert_with(Box::default),
            };
        }
        match extent {
            Extent::Presence => {}
            Extent::Shape => node.shape = true,
            Extent::Whole => node.whole = true,
        }
    }

    /// Whether a member of one of these names is read here or below.
    fn names_any(&self, names: &[&str]) -> bool {
        self.members
            .iter()
            .any(|(name, node)| names.contains(&&**name) || node.names_any(names))
            || self.any().is_some_and(|any| any.names_any(names))
    }

    /// Reads `sibling` wherever `member` may be read.
    fn add_sibling(&mut self, member: &str, sibling: &str) {
        for node in self.members.values_mut() {
            node.add_sibling(member, sibling);
        }
        if let Some(any) = &mut self.any {
            any.add_sibling(member, sibling);
        }
        let reads_member = self.any.is_some() || self.members.contains_key(member);
        if reads_member && !self.whole && !self.members.contains_key(sibling) {
            self.members.insert(sibling.into(), ReadNode::default());
        }
    }

    /// Adds everything `other` reads.
    pub fn merge(&mut self, other: &ReadNode) {
        self.whole |= other.whole;
        self.shape |= other.shape;
        for (name, node) in &other.members {
            self.members.entry(name.clone()).or_default().merge(node);
        }
        if let Some(any) = &other.any {
            self.any.get_or_insert_with(Box::default).merge(any);
        }
    }
}

/// The reads of one program, or of many, counted from the root of the object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadSet {
    root: ReadNode,
}

impl ReadSet {
    /// Nothing of the object is read.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Anything may be read: the program handles the object as a whole.
    pub fn everything() -> Self {
        let mut set = Self::default();
        set.root.whole = true;
        set
    }

    /// Whether the object as a whole may be read.
    pub fn is_everything(&self) -> bool {
        self.root.whole
    }

    /// The tree of reads from the root of the object.
    pub fn root(&self) -> &ReadNode {
        &self.root
    }

    /// Marks `extent` at the end of `path`.
    pub fn insert<'p>(&mut self, path: impl IntoIterator<Item = Step<'p>>, extent: Extent) {
        self.root.insert(path, extent);
    }

    /// Adds everything `other` reads.
    pub fn merge(&mut self, other: &ReadSet) {
        self.root.merge(&other.root);
    }

    /// Whether a member of one of these names is read by name, at any depth.
    pub fn names_any(&self, names: &[&str]) -> bool {
        self.root.names_any(names)
    }

    /// Reads the member `sibling` of every map of which the member `member` may be read, so that
    /// what the one says about the other can be seen.
    pub fn add_sibling(&mut self, member: &str, sibling: &str) {
        self.root.add_sibling(member, sibling);
    }

    /// What is left of `object` when everything that is not read is dropped.
    ///
    /// This states what projection means; the decoder does the same from bytes without building
    /// the object first, and is checked against this.
    pub fn project(&self, object: &Value) -> Value {
        project(object, &[&self.root])
    }

    /// Whether any member of the root called `name` (letter case ignored) may be read, by name or
    /// because a wildcard, the keys of the root or the whole object are read.
    ///
    /// Letter case is ignored because the Secret guard must not be dodged by spelling.
    pub fn may_read_root_member(&self, name: &str) -> bool {
        self.root.whole
            || self.root.shape
            || self.root.any.is_some()
            || self
                .root
                .members
                .keys()
                .any(|key| key.eq_ignore_ascii_case(name))
    }
}

/// What `nodes`, which all stand for the place of `value`, leave of it.
fn project(value: &Value, nodes: &[&ReadNode]) -> Value {
    if nodes.iter().any(|node| node.whole) {
        return value.clone();
    }
    let of_any: Vec<&ReadNode> = nodes.iter().filter_map(|node| node.any()).collect();
    match value {
        Value::Array(elements) => {
            let kept = |element| match of_any.as_slice() {
                [] => Value::Null,
                nodes => project(element, nodes),
            };
            Value::Array(elements.iter().map(kept).collect())
        }
        Value::Object(members) => {
            let keep_keys = nodes.iter().any(|node| node.shape);
            let kept = |(name, member): (&String, &Value)| {
                let mut below = of_any.clone();
                below.extend(
                    nodes
                        .iter()
                        .filter_map(|node| node.members.get(name.as_str())),
                );
                if !below.is_empty() {
                    Some((name.clone(), project(member, &below)))
                } else if keep_keys {
                    Some((name.clone(), Value::Null))
                } else {
                    None
                }
            };
            Value::Object(members.iter().filter_map(kept).collect())
        }
        scalar => scalar.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn projection_keeps_what_is_read_and_the_kind_of_what_is_passed() {
        use Step::{Any, Member};

        let object = json!({
            "list": [{"a": 1, "b": 2, "c": {"x": 1}}, "text", [3]],
            "keys": {"k": {"deep": 1}, "l": 2},
            "there": {"x": 1},
            "array": [1, {"x": 2}],
            "whole": {"x": [1, 2]},
            "unread": 1,
        });
        let mut set = ReadSet::nothing();
        set.insert([Member("list"), Any, Member("a")], Extent::Whole);
        set.insert([Member("list"), Any, Member("c")], Extent::Presence);
        set.insert([Member("keys")], Extent::Shape);
        set.insert([Member("keys"), Member("l")], Extent::Whole);
        set.insert([Member("there")], Extent::Presence);
        set.insert([Member("array"), Member("x")], Extent::Whole);
        set.insert([Member("whole")], Extent::Whole);
        set.insert([Member("missing"), Any], Extent::Whole);
        assert_eq!(
            set.project(&object),
            json!({
                "list": [{"a": 1, "c": {}}, "text", [null]],
                "keys": {"k": null, "l": 2},
                "there": {},
                "array": [null, null],
                "whole": {"x": [1, 2]},
            })
        );
        assert_eq!(ReadSet::everything().project(&object), object);
        assert_eq!(ReadSet::nothing().project(&object), json!({}));
    }

    #[test]
    fn named_members_are_also_read_as_any_member() {
        let mut set = ReadSet::nothing();
        set.insert([Step::Any, Step::Member("a")], Extent::Whole);
        set.insert([Step::Member("m"), Step::Member("b")], Extent::Whole);
        let object = json!({"m": {"a": 1, "b": 2, "c": 3}, "n": {"a": 1, "b": 2}});
        assert_eq!(
            set.project(&object),
            json!({"m": {"a": 1, "b": 2}, "n": {"a": 1}})
        );
    }

    #[test]
    fn merging_is_the_union_of_both_trees() {
        let mut left = ReadSet::nothing();
        left.insert(
            [Step::Member("spec"), Step::Member("replicas")],
            Extent::Whole,
        );
        let mut right = ReadSet::nothing();
        right.insert(
            [Step::Member("spec"), Step::Member("list"), Step::Any],
            Extent::Presence,
        );
        right.insert([Step::Member("status")], Extent::Shape);
        left.merge(&right);

        let spec = &left.root().members()["spec"];
        assert!(spec.members()["replicas"].whole());
        assert!(spec.members()["list"].any().is_some());
        assert!(left.root().members()["status"].shape());
        assert!(!left.is_everything());
    }

    #[test]
    fn root_members_are_found_in_any_spelling_and_through_wildcards() {
        let mut named = ReadSet::nothing();
        named.insert([Step::Member("DATA"), Step::Member("x")], Extent::Whole);
        assert!(named.may_read_root_member("data"));
        assert!(!named.may_read_root_member("stringData"));

        let mut any = ReadSet::nothing();
        any.insert([Step::Any], Extent::Whole);
        assert!(any.may_read_root_member("data"));
        assert!(ReadSet::everything().may_read_root_member("data"));
    }
}
