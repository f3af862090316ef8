//! What differs. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::item::{Items, Key};
use crate::render::Grid;

/// What became of one object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    Added,
    Removed,
    /// Attribute, before, after; null where there is none.
    Changed(Vec<(String, Value, Value)>),
}

impl Change {
    fn word(&self) -> &'static str {
        match self {
            Change::Added => "added",
            Change::Removed => "removed",
            Change::Changed(_) => "changed",
        }
    }
}

/// All differences, in the order of kinds, namespaces and names.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Difference {
    pub(crate) changes: Vec<(Key, Change)>,
    /// How many objects are the same.
    pub(crate) same: usize,
}

/// Compares two sides. Attributes that are `ignored` do not count; one that is missing is null.
pub(crate) fn compare(before: &Items, after: &Items, ignored: &BTreeSet<String>) -> Difference {
    let mut difference = Difference::default();
    let keys: BTreeSet<&Key> = before.0.keys().chain(after.0.keys()).collect();
    for key in keys {
        let change = match (before.0.get(key), after.0.get(key)) {
            (Some(before), Some(after)) => {
                let changed = changed(before, after, ignored);
                if changed.is_empty() {
                    difference.same += 1;
                    continue;
                }
                Change::Changed(changed)
            }
            (None, _) => Change::Added,
            (Some(_), None) => Change::Removed,
        };
        difference.changes.push((key.clone(), change));
    }
    difference
}

fn changed(
    before: &Map<String, Value>,
    after: &Map<String, Value>,
    ignored: &BTreeSet<String>,
) -> Vec<(String, Value, Value)> {
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let of = |side: &Map<String, Value>, name: &str| side.get(name).cloned().unwrap_or_default();
    names
        .into_iter()
        .filter(|name| !ignored.contains(*name))
        .map(|name| (name.clone(), of(before, name), of(after, name)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

impl Difference {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// How many were added, removed and changed.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let mut counts = [0; 3];
        for (_, change) in &self.changes {
            counts[place(change)] += 1;
        }
        counts
    }

    /// Counts by kind and namespace.
    pub(crate) fn summary(&self) -> Grid {
        let mut counts: BTreeMap<(&str, &str), [usize; 3]> = BTreeMap::new();
        for (key, change) in &self.changes {
            counts.entry((&key.kind, &key.namespace)).or_default()[place(change)] += 1;
        }
        let mut grid = Grid::new(["kind", "namespace", "added", "removed", "changed"]);
        let number = |count: usize| {
            if count == 0 {
                Value::Null
            } else {
                count.into()
            }
        };
        for ((kind, namespace), [added, removed, changed]) in counts {
            grid.rows.push(vec![
                kind.into(),
                or_nothing(namespace),
                number(added),
                number(removed),
                number(changed),
            ]);
        }
        grid
    }

    /// One line per object that came or went, and per attribute that changed.
    pub(crate) fn details(&self) -> Grid {
        let columns = [
            "change",
            "kind",
            "namespace",
            "name",
            "attribute",
            "before",
            "after",
        ];
        let mut grid = Grid::new(columns);
        for (key, change) in &self.changes {
            let mut row = |attribute: Value, before: Value, after: Value| {
                grid.rows.push(vec![
                    change.word().into(),
                    key.kind.as_str().into(),
                    or_nothing(&key.namespace),
                    key.name.as_str().into(),
                    attribute,
                    before,
                    after,
                ]);
            };
            match change {
                Change::Added | Change::Removed => row(Value::Null, Value::Null, Value::Null),
                Change::Changed(attributes) => {
                    for (name, before, after) in attributes {
                        row(name.as_str().into(), before.clone(), after.clone());
                    }
                }
            }
        }
        grid
    }

    /// For programs.
    pub(crate) fn to_json(&self) -> Value {
        let [added, removed, changed] = self.counts();
        let changes = self.changes.iter().map(|(key, change)| {
            let mut one = json!({
                "change": change.word(),
                "kind": key.kind,
                "group": key.group,
                "namespace": key.namespace,
                "name": key.name,
                "target": key.target,
            });
            if let Change::Changed(attributes) = change {
                let attributes = attributes.iter().map(
                    |(name, before, after)| json!({"name": name, "before": before, "after": after}),
                );
                one["attributes"] = attributes.collect();
            }
            one
        });
        json!({
            "equal": self.is_empty(),
            "counts": {"added": added, "removed": removed, "changed": changed, "same": self.same},
            "changes": changes.collect::<Vec<_>>(),
        })
    }
}

fn place(change: &Change) -> usize {
    match change {
        Change::Added => 0,
        Change::Removed => 1,
        Change::Changed(_) => 2,
    }
}

fn or_nothing(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        text.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(rows: &[(&str, Value)]) -> Items {
        let mut items = Items::default();
        for (name, attributes) in rows {
            let row = json!({
                "targetNamespace": "s", "targetName": "t", "namespace": "n", "name": name, "kind": "Pod",
                "attributes": attributes,
            });
            items.add(row, &[]);
        }
        items
    }

    #[test]
    fn what_came_went_and_changed() {
        let before = items(&[
            ("a", json!({"x": 1})),
            ("b", json!({"x": 1, "y": [1]})),
            ("c", json!({"z": null})),
        ]);
        let after = items(&[
            ("b", json!({"x": 2, "y": [1, 2]})),
            ("c", json!({})),
            ("d", json!({})),
        ]);
        let difference = compare(&before, &after, &BTreeSet::new());
        assert_eq!(difference.counts(), [1, 1, 1]);
        assert_eq!(difference.same, 1, "null is nothing");
        let lines: Vec<String> = difference
            .details()
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(crate::render::cell)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        assert_eq!(
            lines,
            [
                "removed Pod n a - - -",
                "changed Pod n b x 1 2",
                "changed Pod n b y 1 1,2",
                "added Pod n d - - -",
            ]
        );
        let ignored = BTreeSet::from(["x".to_owned(), "y".to_owned()]);
        assert_eq!(compare(&before, &after, &ignored).counts(), [1, 1, 0]);
        assert!(compare(&before, &before, &ignored).is_empty());
    }
}
