//! Where rows are: database, collection, and the part of it that belongs to one inventory.

use kollect_api::sink::{database::Mongodb, spec::SinkSpec};
use mongodb::bson::{RawDocumentBuf, cstr};

use crate::error::SinkError;

/// The fields that are unique together. The partition comes first, so that one range of the index
/// is one partition.
pub(super) const KEY: [&str; 5] = [
    "inventory_namespace",
    "inventory_name",
    "cluster",
    "target_name",
    "source_uid",
];

/// The longest name of database and collection together.
const LONGEST: usize = 255;

/// Database and collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    pub(super) database: String,
    pub(super) collection: String,
}

/// The documents of one inventory of one cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition<'p> {
    pub(super) namespace: &'p str,
    pub(super) name: &'p str,
    pub(super) cluster: &'p str,
}

impl Names {
    /// As the spec says.
    pub(super) fn of(mongodb: &Mongodb) -> Result<Self, SinkError> {
        let (database, collection) = (mongodb.database.trim(), mongodb.collection.trim());
        for (value, field) in [(database, "database"), (collection, "collection")] {
            if value.is_empty() {
                return Err(SinkError::terminal(format!(
                    "mongodb sink requires spec.mongodb.{field}"
                )));
            }
        }
        let forbidden = |characters: &'static [char]| move |c: char| characters.contains(&c);
        if database.contains(forbidden(&['/', '\\', '.', ' ', '"', '$', '\0'])) {
            return Err(SinkError::terminal(
                "spec.mongodb.database: a database has none of / \\ . blank \" $ in its name",
            ));
        }
        if ["admin", "local", "config"].contains(&database) {
            return Err(SinkError::terminal(
                "spec.mongodb.database: admin, local and config belong to the server; use another one",
            ));
        }
        if collection.contains(forbidden(&['$', '\0'])) || collection.starts_with("system.") {
            return Err(SinkError::terminal(
                "spec.mongodb.collection: a collection has no $ in its name and does not begin with system.",
            ));
        }
        if database.len() + collection.len() >= LONGEST {
            return Err(SinkError::terminal(format!(
                "spec.mongodb: database and collection together are longer than {LONGEST} bytes"
            )));
        }
        Ok(Self {
            database: database.to_owned(),
            collection: collection.to_owned(),
        })
    }

    /// `database.collection`
    pub(super) fn full(&self) -> String {
        format!("{}.{}", self.database, self.collection)
    }
}

impl Partition<'_> {
    /// A filter for all of its documents.
    pub(super) fn filter(&self) -> RawDocumentBuf {
        let mut filter = RawDocumentBuf::new();
        filter.append(cstr!("inventory_namespace"), self.namespace);
        filter.append(cstr!("inventory_name"), self.name);
        filter.append(cstr!("cluster"), self.cluster);
        filter
    }

    /// A filter for one of them.
    pub(super) fn filter_key(&self, target_name: &str, uid: &str) -> RawDocumentBuf {
        let mut filter = self.filter();
        filter.append(cstr!("target_name"), target_name);
        filter.append(cstr!("source_uid"), uid);
        filter
    }
}

/// The block of the spec.
pub(super) fn block(spec: &SinkSpec) -> Result<&Mongodb, SinkError> {
    let block = match spec {
        SinkSpec::Database(database) => database.mongodb.as_ref(),
        SinkSpec::Snapshot(_) | SinkSpec::Event(_) => None,
    };
    let block = block.ok_or_else(|| SinkError::terminal("mongodb sink requires spec.mongodb"))?;
    if block.database_ref.name.trim().is_empty() {
        return Err(SinkError::terminal(
            "mongodb sink requires spec.mongodb.databaseRef",
        ));
    }
    Ok(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_server_takes_are_refused() {
        for (database, collection, expected) in [
            (" d ", " c ", Ok("d.c")),
            ("d", "a.b", Ok("d.a.b")),
            ("", "c", Err("spec.mongodb.database")),
            ("d", "  ", Err("spec.mongodb.collection")),
            ("a.b", "c", Err("spec.mongodb.database")),
            ("a$b", "c", Err("spec.mongodb.database")),
            ("admin", "c", Err("belong to the server")),
            ("d", "system.users", Err("spec.mongodb.collection")),
            ("d", "$cmd", Err("spec.mongodb.collection")),
            ("d", &"c".repeat(254), Err("longer than 255")),
        ] {
            let names = Names::of(&Mongodb {
                database: database.to_owned(),
                collection: collection.to_owned(),
                ..Mongodb::default()
            });
            match (names, expected) {
                (Ok(names), Ok(full)) => assert_eq!(names.full(), full),
                (Err(SinkError::Terminal(text)), Err(part)) => {
                    assert!(text.contains(part), "{text}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
