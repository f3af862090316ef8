//! Views that follow the profiles: one per target, a column per attribute, typed as declared.
//!
//! Which attributes a target has is seen in its rows, what type they have is what the profiles
//! declare. A view only ever grows: columns are added at its end, and those of attributes that are
//! no more stay and are NULL, so nothing that others built on it breaks. Several clusters may share a view;
//! one that has every column that is wanted will do, whoever made it.

use std::collections::{BTreeMap, BTreeSet};

use kollect_api::sink::database::{
    POSTGRES_VIEW_COLUMNS, PostgresColumn, PostgresColumnType, PostgresView,
};
use kollect_inventory::Row;

use crate::sink::AttributeTypes;

/// No profile has more attributes, and no view needs more columns.
const MOST_COLUMNS: usize = 256;
/// Targets of an inventory that get a view.
const MOST_VIEWS: usize = 100;
/// The longest name that the server keeps whole.
const LONGEST_NAME: usize = 63;

/// The attributes that rows of targets have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Shapes(BTreeMap<String, BTreeSet<String>>);

impl Shapes {
    /// Looks at rows. Says whether anything was new.
    pub(super) fn see<'r>(&mut self, rows: impl Iterator<Item = &'r Row>) -> bool {
        let mut news = false;
        for row in rows {
            let target = row.origin().target_name();
            if !self.0.contains_key(target) {
                if self.0.len() >= MOST_VIEWS {
                    continue;
                }
                self.0.insert(target.to_owned(), BTreeSet::new());
                news = true;
            }
            let Some(known) = self.0.get_mut(target) else {
                continue;
            };
            for (name, _) in row.attributes().iter() {
                if !known.contains(&*name) && known.len() < MOST_COLUMNS {
                    known.insert(name.into_owned());
                    news = true;
                }
            }
        }
        news
    }

    /// Targets that are here and not there.
    pub(super) fn without<'s>(&'s self, other: &'s Self) -> impl Iterator<Item = &'s str> {
        let gone = self
            .0
            .keys()
            .filter(|target| !other.0.contains_key(*target));
        gone.map(String::as_str)
    }

    /// The views that these rows deserve.
    pub(super) fn views(&self, types: &AttributeTypes) -> Vec<PostgresView> {
        let view = |(target, attributes): (&String, &BTreeSet<String>)| PostgresView {
            name: target.clone(),
            target: target.clone(),
            columns: attributes
                .iter()
                .filter_map(|attribute| column(attribute, types))
                .collect(),
        };
        let named = self
            .0
            .iter()
            .filter(|(target, _)| (1..=LONGEST_NAME).contains(&target.len()));
        named.map(view).collect()
    }
}

/// The column of an attribute, if it can be one.
fn column(attribute: &str, types: &AttributeTypes) -> Option<PostgresColumn> {
    let name = if POSTGRES_VIEW_COLUMNS.contains(&attribute) {
        format!("attr_{attribute}")
    } else {
        attribute.to_owned()
    };
    let usable = name.trim() == name && (1..=LONGEST_NAME).contains(&name.len());
    let declared = types.get(attribute);
    // Two profiles may differ; then the value is shown as it is.
    let word = declared
        .filter(|words| words.len() == 1)
        .and_then(BTreeSet::first);
    (usable && !name.contains('\0')).then(|| PostgresColumn {
        attribute: (name != attribute).then(|| attribute.to_owned()),
        name,
        type_: Some(word.map_or(PostgresColumnType::Jsonb, |word| type_of(word))),
    })
}

/// The type that a profile's word means.
fn type_of(word: &str) -> PostgresColumnType {
    match word.trim().to_ascii_lowercase().as_str() {
        "string" | "text" => PostgresColumnType::Text,
        "int" | "integer" | "long" => PostgresColumnType::Bigint,
        "float" | "double" | "number" => PostgresColumnType::DoublePrecision,
        "bool" | "boolean" => PostgresColumnType::Boolean,
        "time" | "timestamp" | "datetime" => PostgresColumnType::Timestamptz,
        _ => PostgresColumnType::Jsonb,
    }
}

/// What has to happen to a view.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It has every column.
    Nothing,
    /// It gets these columns: those it has, and new ones.
    Grow(Vec<PostgresColumn>),
    /// It has a column of another type.
    Elsewhere,
}

/// What has to happen to a view that has columns of these names and types, as the server calls
/// them.
pub(super) fn step(found: &[(String, String)], wanted: &[PostgresColumn]) -> Step {
    let mut columns = Vec::new();
    for (name, type_) in found {
        let Some(type_) = server_type(type_) else {
            return Step::Elsewhere;
        };
        match wanted.iter().find(|column| column.name == *name) {
            Some(column) if column.type_ != Some(type_) => return Step::Elsewhere,
            Some(column) => columns.push(column.clone()),
            None => {
                let attribute = name.strip_prefix("attr_");
                let attribute = attribute.filter(|name| POSTGRES_VIEW_COLUMNS.contains(name));
                columns.push(PostgresColumn {
                    name: name.clone(),
                    attribute: attribute.map(str::to_owned),
                    type_: Some(type_),
                });
            }
        }
    }
    let new = wanted
        .iter()
        .filter(|column| found.iter().all(|(name, _)| *name != column.name));
    let before = columns.len();
    columns.extend(new.cloned());
    if columns.len() == before {
        Step::Nothing
    } else {
        Step::Grow(columns)
    }
}

fn server_type(name: &str) -> Option<PostgresColumnType> {
    Some(match name {
        "text" => PostgresColumnType::Text,
        "bigint" => PostgresColumnType::Bigint,
        "double precision" => PostgresColumnType::DoublePrecision,
        "boolean" => PostgresColumnType::Boolean,
        "timestamp with time zone" => PostgresColumnType::Timestamptz,
        "jsonb" => PostgresColumnType::Jsonb,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn types(pairs: &[(&str, &[&str])]) -> AttributeTypes {
        pairs
            .iter()
            .map(|(name, words)| {
                let words = words.iter().map(|word| (*word).to_owned()).collect();
                ((*name).to_owned(), words)
            })
            .collect()
    }

    #[test]
    fn types_are_what_profiles_declare() {
        let types = types(&[
            ("image", &["string"]),
            ("replicas", &["Int"]),
            ("both", &["int", "string"]),
            ("name", &["text"]),
        ]);
        for (attribute, expected) in [
            ("image", Some(("image", PostgresColumnType::Text))),
            ("replicas", Some(("replicas", PostgresColumnType::Bigint))),
            ("both", Some(("both", PostgresColumnType::Jsonb))),
            ("other", Some(("other", PostgresColumnType::Jsonb))),
            ("name", Some(("attr_name", PostgresColumnType::Text))),
            (&"x".repeat(64), None),
            (" x", None),
        ] {
            let found = column(attribute, &types);
            let found = found.map(|column| (column.name, column.type_.unwrap_or_default()));
            let expected = expected.map(|(name, type_)| (name.to_owned(), type_));
            assert_eq!(found, expected, "{attribute}");
        }
    }

    #[test]
    fn views_only_grow() {
        let column = |name: &str, type_| PostgresColumn {
            name: name.to_owned(),
            attribute: None,
            type_: Some(type_),
        };
        let image = column("image", PostgresColumnType::Text);
        let replicas = column("replicas", PostgresColumnType::Bigint);
        let found = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            let pair = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
            pairs.iter().map(pair).collect()
        };
        let both = [image.clone(), replicas.clone()];
        for (there, wanted, expected) in [
            (
                &[("image", "text"), ("replicas", "bigint")][..],
                &both[..],
                Step::Nothing,
            ),
            (
                &[("replicas", "bigint"), ("image", "text")],
                &both,
                Step::Nothing,
            ),
            (
                &[("replicas", "bigint"), ("image", "text")],
                &both[..1],
                Step::Nothing,
            ),
            (
                &[("replicas", "bigint")],
                &both,
                Step::Grow(vec![replicas.clone(), image.clone()]),
            ),
            (&[], &both, Step::Grow(both.to_vec())),
            (&[("replicas", "text")], &both, Step::Elsewhere),
            (&[("x", "oid")], &both, Step::Elsewhere),
        ] {
            assert_eq!(step(&found(there), wanted), expected, "{there:?}");
        }
    }
}
