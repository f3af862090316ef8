//! Rows that carry their object, and the object as a file that can be applied.
//!
//! Profiles with `export.mode: Resource` put a copy of the object into one attribute. A row does
//! not say so; it is recognised by carrying exactly one object of its own kind. Where the profiles
//! are known, they decide.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use kollect_inventory::{CanonicalJson, CanonicalRef, Row, Snapshot, canonical::View};

/// The attribute that holds the object when nobody says otherwise.
const DEFAULT_KEY: &str = "resource";

/// What is known of the profiles behind the rows of an inventory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Embedding {
    /// Nothing: the rows are looked at.
    #[default]
    Unknown,
    /// The attributes under which profiles put objects; none if no profile does.
    Known(BTreeSet<String>),
}

impl Embedding {
    /// The object that a row carries, if it does.
    pub(super) fn object<'r>(&self, row: &'r Row) -> Option<CanonicalRef<'r>> {
        let attributes = row.attributes();
        match self {
            Embedding::Known(keys) => keys
                .iter()
                .filter_map(|key| attributes.get(key))
                .find(|value| is_object_of(*value, row)),
            Embedding::Unknown => {
                let mut objects = attributes
                    .iter()
                    .map(|(_, value)| value)
                    .filter(|value| is_object_of(*value, row));
                let object = objects.next()?;
                objects.next().is_none().then_some(object)
            }
        }
    }

    /// The object that a row should carry because somebody asked for manifests.
    pub(super) fn wanted_object<'r>(&self, row: &'r Row) -> Option<CanonicalRef<'r>> {
        self.object(row).or_else(|| {
            let value = row.attributes().get(DEFAULT_KEY)?;
            matches!(value.view(), View::Object(_)).then_some(value)
        })
    }

    /// Whether an inventory is a set of objects rather than of rows.
    pub(super) fn is_everywhere(&self, rows: &Snapshot) -> bool {
        match self {
            Embedding::Known(keys) => !keys.is_empty(),
            Embedding::Unknown => {
                let mut shared = None;
                !rows.is_empty()
                    && rows.rows().iter().all(|row| {
                        let key = self.key(row);
                        key.is_some() && *shared.get_or_insert(key.clone()) == key
                    })
            }
        }
    }

    /// The attribute that the object is in.
    fn key(&self, row: &Row) -> Option<String> {
        let object = self.object(row)?;
        let mut attributes = row.attributes().iter();
        attributes
            .find(|(_, value)| *value == object)
            .map(|(name, _)| name.into_owned())
    }
}

/// Whether a value looks like the object of a row.
fn is_object_of(value: CanonicalRef<'_>, row: &Row) -> bool {
    let said = |key| {
        let text = value.get(key)?.text()?;
        (!text.trim().is_empty()).then_some(text)
    };
    let wanted = row.origin().kind();
    said("apiVersion").is_some()
        && said("kind").is_some_and(|kind| wanted.is_empty() || kind.eq_ignore_ascii_case(wanted))
}

/// The object with what the row already says put back: profiles leave name and namespace out of the
/// copy, but without them nobody can apply it. Nothing if the object is complete.
pub(super) fn restored(row: &Row, object: CanonicalRef<'_>) -> Option<CanonicalJson> {
    let origin = row.origin();
    let api_version = match origin.group() {
        "" => origin.version().to_owned(),
        group => format!("{group}/{}", origin.version()),
    };
    let kind = [("apiVersion", &*api_version), ("kind", origin.kind())];
    let name = [("name", row.name()), ("namespace", origin.namespace())];
    let named = match origin.namespace() {
        "" => &name[..1],
        _ => &name[..],
    };
    let metadata = object.get("metadata").unwrap_or(CanonicalRef::NULL);
    if !lacks(object, &kind) && !lacks(metadata, named) {
        return None;
    }
    let mut members = completed(object, &kind);
    members.insert(
        Cow::Borrowed("metadata"),
        written(&completed(metadata, named)),
    );
    Some(written(&members))
}

type Members<'a> = BTreeMap<Cow<'a, str>, CanonicalJson>;

fn lacks(object: CanonicalRef<'_>, texts: &[(&str, &str)]) -> bool {
    texts.iter().any(|(key, _)| object.get(key).is_none())
}

/// The members of an object and those texts that it lacks.
fn completed<'a>(object: CanonicalRef<'a>, texts: &[(&'a str, &str)]) -> Members<'a> {
    let mut members: Members<'a> = object
        .members()
        .map(|(key, value)| (key, value.to_owned()))
        .collect();
    for (key, text) in texts {
        members
            .entry(Cow::Borrowed(key))
            .or_insert_with(|| CanonicalJson::build(|slot| slot.string(text)));
    }
    members
}

fn written(members: &Members<'_>) -> CanonicalJson {
    CanonicalJson::build(|slot| {
        let mut object = slot.object();
        for (key, value) in members {
            object.member(key).canonical(value.borrowed());
        }
    })
}
