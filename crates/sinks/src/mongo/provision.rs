//! Making the collection ready, and telling it from another one of the same name.

use kollect_api::sink::common::ProvisioningMode;
use mongodb::bson::{Bson, Document, doc};

use super::{
    connection::Connection,
    fault::{DUPLICATE_KEY, Fault, NAMESPACE_EXISTS, NAMESPACE_NOT_FOUND},
    names::{KEY, Names},
};
use crate::error::SinkError;

/// The name of the index that is created.
const INDEX: &str = "kollect_key";

/// A collection that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Which collection it is; another one of the same name has another one.
    pub(super) id: String,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

/// What a sink wants in the database.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) names: Names,
    pub(super) mode: ProvisioningMode,
    pub(super) cluster: String,
    /// Settings of the spec that mean nothing here, said with every full delivery.
    pub(super) idle_settings: Vec<String>,
}

impl Plan {
    /// Finds the collection or makes it. `known` is what was found earlier: its indexes are not
    /// looked at again.
    pub(super) async fn ready(
        &self,
        connection: &Connection,
        known: Option<&Place>,
    ) -> Result<Place, Fault> {
        let id = match self.look(connection).await? {
            Some(id) => id,
            None if self.mode == ProvisioningMode::Existing => return Err(self.missing().into()),
            None => {
                self.create(connection).await?;
                let found = self.look(connection).await?;
                found.ok_or_else(|| {
                    SinkError::transient("mongodb create collection: it went away again")
                })?
            }
        };
        if let Some(known) = known.filter(|known| known.id == id) {
            return Ok(known.clone());
        }
        let mut warnings = self.idle_settings.clone();
        warnings.extend(self.index(connection).await?);
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(Place { id, warnings })
    }

    /// The collection, if it is there. Refuses what only looks like one.
    pub(super) async fn look(&self, connection: &Connection) -> Result<Option<String>, Fault> {
        let stage = match self.mode {
            ProvisioningMode::Ensure => "mongodb list collections",
            ProvisioningMode::Existing => "mongodb verify collection",
        };
        let question = doc! {
            "listCollections": 1,
            "filter": {"name": &self.names.collection},
            "maxTimeMS": 30_000,
        };
        let answer = connection.command(&self.names, stage, question).await?;
        let found = first_batch(&answer).next();
        let Some(found) = found else { return Ok(None) };
        let kind = found.get_str("type").unwrap_or_default();
        if kind != "collection" {
            return Err(SinkError::terminal(format!(
                "{stage}: {} is a view or a time series; a sink needs a collection",
                self.names.full()
            ))
            .into());
        }
        let id = found
            .get_document("info")
            .ok()
            .and_then(|info| match info.get("uuid") {
                Some(Bson::Binary(uuid)) => uuid.to_uuid().ok().map(|uuid| uuid.to_string()),
                _ => None,
            });
        // A server that does not say is believed to have one collection of a name.
        Ok(Some(id.unwrap_or_default()))
    }

    /// The error for `existing` mode when there is nothing.
    pub(super) fn missing(&self) -> SinkError {
        SinkError::terminal(format!(
            "mongodb collection {} does not exist (provisioning.mode=existing); create it with the \
             unique index of status.preview, or use mode ensure",
            self.names.full()
        ))
    }

    async fn create(&self, connection: &Connection) -> Result<(), Fault> {
        let stage = "mongodb create collection";
        let create = doc! {
            "create": &self.names.collection,
            "writeConcern": {"w": "majority"},
            "maxTimeMS": 30_000,
        };
        match connection.command(&self.names, stage, create).await {
            // Somebody else was faster.
            Err(fault) if fault.code == Some(NAMESPACE_EXISTS) => Ok(()),
            other => other.map(drop),
        }
    }

    /// Finds the unique index, or creates it if that is wanted. Says what is wrong with the others.
    async fn index(&self, connection: &Connection) -> Result<Vec<String>, Fault> {
        let stage = "mongodb ensure index";
        let question = doc! {"listIndexes": &self.names.collection, "maxTimeMS": 30_000};
        let answer = match connection.command(&self.names, stage, question).await {
            Ok(answer) => answer,
            // It went away just now; the next delivery begins again.
            Err(fault) if fault.code == Some(NAMESPACE_NOT_FOUND) => {
                return Err(
                    SinkError::transient(format!("{stage}: the collection went away")).into(),
                );
            }
            Err(fault) => return Err(fault),
        };
        let shapes: Vec<Shape> = first_batch(&answer).map(shape).collect();
        let full = self.names.full();
        let mut warnings = Vec::new();
        if shapes.contains(&Shape::WithoutCluster) {
            warnings.push(format!(
                "{full} has a unique index without the cluster, so clusters with the same objects block \
                 each other; drop it once every operator that writes there is of this version"
            ));
        }
        if shapes.contains(&Shape::WithCluster) {
            return Ok(warnings);
        }
        if self.mode == ProvisioningMode::Existing {
            warnings.push(format!(
                "{full} has no unique index on {}; two operators that write at the same time may leave \
                 rows twice, and every look for a row reads the whole collection",
                KEY.join(", ")
            ));
            return Ok(warnings);
        }
        let key: Document = KEY
            .iter()
            .map(|field| ((*field).to_owned(), Bson::Int32(1)))
            .collect();
        let create = doc! {
            "createIndexes": &self.names.collection,
            "indexes": [{"key": key, "name": INDEX, "unique": true}],
            "writeConcern": {"w": "majority"},
            "maxTimeMS": 100_000,
        };
        match connection.command(&self.names, stage, create).await {
            Ok(_) => Ok(warnings),
            Err(fault) if fault.code == Some(DUPLICATE_KEY) => Err(SinkError::terminal(format!(
                "{stage}: {full} holds several documents with the same {}; remove all but one of each",
                KEY.join(", ")
            ))
            .into()),
            Err(fault) => Err(fault),
        }
    }
}

/// What an index does for a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    WithCluster,
    WithoutCluster,
    Other,
}

fn shape(index: &Document) -> Shape {
    let whole = index.get_bool("unique").unwrap_or(false)
        && !index.contains_key("partialFilterExpression")
        && !index.get_bool("sparse").unwrap_or(false)
        && !index.contains_key("collation");
    let Ok(key) = index.get_document("key") else {
        return Shape::Other;
    };
    let mut fields: Vec<&str> = key.keys().map(String::as_str).collect();
    fields.sort_unstable();
    let mut wanted = KEY.to_vec();
    wanted.sort_unstable();
    if whole && fields == wanted {
        return Shape::WithCluster;
    }
    wanted.retain(|field| *field != "cluster");
    if whole && fields == wanted {
        return Shape::WithoutCluster;
    }
    Shape::Other
}

/// The documents of the first batch of a cursor. Few are expected, and no more are asked for.
fn first_batch(answer: &Document) -> impl Iterator<Item = &Document> {
    answer
        .get_document("cursor")
        .ok()
        .and_then(|cursor| cursor.get_array("firstBatch").ok())
        .into_iter()
        .flatten()
        .filter_map(Bson::as_document)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_unique_indexes_count() {
        let five = doc! {"cluster": 1, "inventory_namespace": 1, "inventory_name": 1, "target_name": 1, "source_uid": -1};
        let four =
            doc! {"inventory_namespace": 1, "inventory_name": 1, "target_name": 1, "source_uid": 1};
        for (index, expected) in [
            (
                doc! {"key": five.clone(), "unique": true},
                Shape::WithCluster,
            ),
            (
                doc! {"key": four.clone(), "unique": true},
                Shape::WithoutCluster,
            ),
            (doc! {"key": four, "unique": false}, Shape::Other),
            (doc! {"key": five.clone()}, Shape::Other),
            (
                doc! {"key": five.clone(), "unique": true, "sparse": true},
                Shape::Other,
            ),
            (
                doc! {"key": five, "unique": true, "partialFilterExpression": {}},
                Shape::Other,
            ),
            (doc! {"key": {"_id": 1}}, Shape::Other),
            (doc! {}, Shape::Other),
        ] {
            assert_eq!(shape(&index), expected, "{index}");
        }
    }
}
