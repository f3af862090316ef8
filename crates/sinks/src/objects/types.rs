//! Attributes as typed columns.
//!
//! Types come from what profiles declare, never from the rows: a column that changes its type with
//! the data breaks every query that was written before. What a column once was it stays; where a
//! profile changes its mind, another column begins.

use std::collections::{BTreeMap, BTreeSet};

use kollect_inventory::{CanonicalRef, canonical::View};
use serde::{Deserialize, Serialize};

use crate::layout::{csv::column_name, segment::mark};

/// What a typed column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ColumnType {
    Text,
    Int,
    Float,
    Bool,
    /// A list of texts.
    List,
    #[serde(rename = "list<int>")]
    IntList,
    #[serde(rename = "list<float>")]
    FloatList,
    #[serde(rename = "list<bool>")]
    BoolList,
    /// From text to text.
    Map,
    /// Anything, as JSON text.
    Json,
}

impl ColumnType {
    /// The type that a profile's word means.
    fn of(word: &str) -> Self {
        let word = word.trim().to_ascii_lowercase();
        let element = word
            .strip_prefix("list<")
            .and_then(|rest| rest.strip_suffix('>'))
            .or_else(|| word.strip_prefix("[]"));
        if let Some(element) = element {
            return match Self::of(element) {
                ColumnType::Int => ColumnType::IntList,
                ColumnType::Float => ColumnType::FloatList,
                ColumnType::Bool => ColumnType::BoolList,
                _ => ColumnType::List,
            };
        }
        match word.as_str() {
            "string" | "text" => ColumnType::Text,
            "int" | "integer" | "long" => ColumnType::Int,
            "float" | "double" | "number" => ColumnType::Float,
            "bool" | "boolean" => ColumnType::Bool,
            "list" | "array" => ColumnType::List,
            "map" | "object" => ColumnType::Map,
            _ => ColumnType::Json,
        }
    }

    /// The word that marks a column of this type where another type had the name first.
    fn word(self) -> &'static str {
        match self {
            ColumnType::Text => "text",
            ColumnType::Int => "int",
            ColumnType::Float => "float",
            ColumnType::Bool => "bool",
            ColumnType::List => "list",
            ColumnType::IntList => "list_int",
            ColumnType::FloatList => "list_float",
            ColumnType::BoolList => "list_bool",
            ColumnType::Map => "map",
            ColumnType::Json => "json",
        }
    }
}

/// A column of an attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct TypedColumn {
    /// The name of the column.
    pub(super) name: String,
    /// The attribute.
    pub(super) attribute: String,
    #[serde(rename = "type")]
    pub(super) type_: ColumnType,
}

/// The columns of an inventory and those of them that are in use: what profiles declare, and what
/// earlier files had.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TypedColumns {
    /// In the order of their names.
    pub(super) all: Vec<TypedColumn>,
    /// Pairs of columns of one attribute, where its type changed or differs between profiles.
    pub(super) retyped: Vec<(String, String)>,
}

impl TypedColumns {
    /// The columns for what is `declared` (words by attribute), after those that were there before.
    pub(super) fn new(
        declared: &BTreeMap<String, BTreeSet<String>>,
        before: &[TypedColumn],
    ) -> Self {
        let mut all: BTreeMap<String, TypedColumn> = BTreeMap::new();
        for column in before {
            all.insert(column.name.clone(), column.clone());
        }
        let mut retyped = Vec::new();
        for (attribute, words) in declared {
            let mut types: BTreeSet<ColumnType> =
                words.iter().map(|word| ColumnType::of(word)).collect();
            if types.is_empty() {
                types.insert(ColumnType::Json);
            }
            for type_ in types {
                let known =
                    |column: &TypedColumn| column.attribute == *attribute && column.type_ == type_;
                if all.values().any(known) {
                    continue;
                }
                let plain = column_name(attribute);
                let of_another = |name: &str| {
                    let other = all.get(name);
                    other.is_some_and(|column| column.attribute != *attribute)
                };
                // Two attributes that would share a name do not.
                let plain = if of_another(&plain) {
                    format!("{plain}_{}", mark(attribute.as_bytes()))
                } else {
                    plain
                };
                let name = if all.contains_key(&plain) {
                    format!("{plain}__{}", type_.word())
                } else {
                    plain.clone()
                };
                if name != plain {
                    retyped.push((plain, name.clone()));
                }
                all.insert(
                    name.clone(),
                    TypedColumn {
                        name,
                        attribute: attribute.clone(),
                        type_,
                    },
                );
            }
        }
        Self {
            all: all.into_values().collect(),
            retyped,
        }
    }
}

/// A whole number that fits 64 bits.
pub(super) fn int(value: CanonicalRef<'_>) -> Option<i64> {
    match value.view() {
        View::Number(text) => text.parse().ok(),
        _ => None,
    }
}

/// A number.
pub(super) fn float(value: CanonicalRef<'_>) -> Option<f64> {
    match value.view() {
        View::Number(text) => text.parse().ok().filter(|number: &f64| number.is_finite()),
        _ => None,
    }
}

/// A truth value.
pub(super) fn boolean(value: CanonicalRef<'_>) -> Option<bool> {
    match value.view() {
        View::Bool(value) => Some(value),
        _ => None,
    }
}

/// A text as it is, and anything else as JSON.
pub(super) fn text_or_json(value: CanonicalRef<'_>) -> String {
    match value.view() {
        View::Text(text) => text.into_owned(),
        _ => value.as_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(pairs: &[(&str, &[&str])]) -> BTreeMap<String, BTreeSet<String>> {
        pairs
            .iter()
            .map(|(name, words)| {
                let words = words.iter().map(|word| (*word).to_owned()).collect();
                ((*name).to_owned(), words)
            })
            .collect()
    }

    fn names(columns: &TypedColumns) -> Vec<(&str, ColumnType)> {
        columns
            .all
            .iter()
            .map(|column| (column.name.as_str(), column.type_))
            .collect()
    }

    #[test]
    fn words_of_profiles() {
        for (word, expected) in [
            ("string", ColumnType::Text),
            (" Int ", ColumnType::Int),
            ("double", ColumnType::Float),
            ("boolean", ColumnType::Bool),
            ("list", ColumnType::List),
            ("list<int>", ColumnType::IntList),
            ("[]bool", ColumnType::BoolList),
            ("list<string>", ColumnType::List),
            ("map", ColumnType::Map),
            ("quantity", ColumnType::Json),
        ] {
            assert_eq!(ColumnType::of(word), expected, "{word}");
        }
    }

    #[test]
    fn l5_l12_columns_are_added_and_never_retyped() {
        let first = TypedColumns::new(
            &declared(&[("name", &["string"]), ("replicas", &["int"]), ("raw", &[])]),
            &[],
        );
        assert_eq!(
            names(&first),
            [
                ("attr_name", ColumnType::Text),
                ("attr_raw", ColumnType::Json),
                ("attr_replicas", ColumnType::Int),
            ]
        );
        let second = TypedColumns::new(
            &declared(&[("replicas", &["string"]), ("image", &["string"])]),
            &first.all,
        );
        assert_eq!(
            names(&second),
            [
                ("attr_image", ColumnType::Text),
                ("attr_name", ColumnType::Text),
                ("attr_raw", ColumnType::Json),
                ("attr_replicas", ColumnType::Int),
                ("attr_replicas__text", ColumnType::Text),
            ]
        );
        let pair = ("attr_replicas".to_owned(), "attr_replicas__text".to_owned());
        assert_eq!(second.retyped, [pair]);
        // It is a warning once, and the columns stay.
        let third = TypedColumns::new(&declared(&[("replicas", &["string"])]), &second.all);
        assert_eq!((third.all, third.retyped), (second.all, vec![]));
    }

    #[test]
    fn two_attributes_never_share_a_column() {
        let columns = TypedColumns::new(&declared(&[("a-b", &["int"]), ("a.b", &["int"])]), &[]);
        let found = names(&columns);
        assert_eq!(found[0].0, "attr_a_b");
        assert!(found[1].0.starts_with("attr_a_b_"), "{found:?}");
        let again = TypedColumns::new(&declared(&[("a.b", &["int"])]), &columns.all);
        assert_eq!(again, columns);
    }
}
