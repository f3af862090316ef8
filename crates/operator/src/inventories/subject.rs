//! An inventory of either kind, as far as its exports are concerned.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp};
use kollect_api::{
    InventoryId, KollectClusterInventory, KollectInventory, SinkKey,
    inventory::{Dedupe, KollectClusterInventorySpec},
    meta,
    reference::{SinkFamily, SinkRef},
    rules::{self, Object},
};

use super::status::InventoryStatus;

/// One sink that an inventory refers to.
#[derive(Debug, Clone, PartialEq)]
pub struct Reference {
    /// Which sink.
    pub key: SinkKey,
    /// Its own interval.
    pub interval: Option<kollect_api::Duration>,
    /// Its own least time between exports of changes.
    pub change_interval: Option<kollect_api::Duration>,
    /// Its own size ceiling.
    pub max_export_bytes: Option<i64>,
}

/// An inventory of either kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Subject {
    /// Which inventory.
    pub id: InventoryId,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.generation`.
    pub generation: i64,
    /// Somebody has deleted it.
    pub deleted_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Option<Timestamp>,
    /// The value of the annotation that asks for an export.
    pub requested_at: Option<String>,
    /// `spec.suspend`.
    pub suspend: bool,
    /// `spec.exportMinInterval`.
    pub interval: Option<kollect_api::Duration>,
    /// `spec.changeInterval`.
    pub change_interval: Option<kollect_api::Duration>,
    /// `spec.maxExportBytes`.
    pub max_export_bytes: Option<i64>,
    /// The sinks, in the order snapshot, database, event.
    pub references: Vec<Reference>,
    /// What a cluster inventory rolls up.
    pub rollup: Option<Box<KollectClusterInventorySpec>>,
    /// What the rules say against it: it came in without anybody looking, or a rule is newer.
    pub invalid: Option<String>,
    /// The status that the object shows.
    pub status: InventoryStatus,
    /// Sinks that this process has delivered to, whatever the status says.
    pub served: BTreeSet<SinkKey>,
}

impl Subject {
    /// What happens to objects that several targets saw.
    pub fn dedupe(&self) -> Dedupe {
        self.rollup
            .as_ref()
            .map(|spec| spec.dedupe)
            .unwrap_or_default()
    }

    /// How long ago it was created.
    pub fn age(&self, now: Timestamp) -> Duration {
        let age = self.created_at.map(|created| now.duration_since(created));
        age.and_then(|age| Duration::try_from(age).ok())
            .unwrap_or_default()
    }
}

impl From<&KollectInventory> for Subject {
    fn from(inventory: &KollectInventory) -> Self {
        let (meta, spec) = (&inventory.metadata, &inventory.spec);
        let namespace = meta.namespace.clone().unwrap_or_default();
        let name = meta.name.clone().unwrap_or_default();
        // A namespace in a reference is refused at admission and means nothing here either.
        let references = spec
            .all_sink_refs()
            .map(|(family, sink)| reference(family, sink, namespace.clone()));
        Subject {
            references: references.collect(),
            suspend: spec.suspend,
            interval: spec.export_min_interval.clone(),
            change_interval: spec.change_interval.clone(),
            max_export_bytes: spec.max_export_bytes,
            rollup: None,
            invalid: invalid(&Object::Inventory(inventory.clone())),
            status: inventory
                .status
                .as_ref()
                .map(InventoryStatus::from)
                .unwrap_or_default(),
            ..Subject::of(InventoryId::namespaced(&namespace, name), meta)
        }
    }
}

impl From<&KollectClusterInventory> for Subject {
    fn from(inventory: &KollectClusterInventory) -> Self {
        let (meta, spec) = (&inventory.metadata, &inventory.spec);
        let references = spec
            .all_sink_refs()
            .map(|(family, sink)| reference(family, sink, spec.namespace_of(sink).to_owned()));
        Subject {
            references: references.collect(),
            suspend: spec.suspend,
            interval: spec.export_min_interval.clone(),
            change_interval: spec.change_interval.clone(),
            max_export_bytes: None,
            status: inventory
                .status
                .as_ref()
                .map(InventoryStatus::from)
                .unwrap_or_default(),
            rollup: Some(Box::new(spec.clone())),
            invalid: invalid(&Object::ClusterInventory(inventory.clone())),
            ..Subject::of(
                InventoryId::cluster(meta.name.clone().unwrap_or_default()),
                meta,
            )
        }
    }
}

/// What the rules say against an inventory. Sizes above the operator's limit are none of it: they
/// are cut to the limit, which may have been raised when they were written.
fn invalid(object: &Object) -> Option<String> {
    let settings = rules::Settings {
        max_export_bytes: i64::MAX,
        ..rules::Settings::default()
    };
    rules::objection(object, &settings).map(|denial| denial.to_string())
}

impl Subject {
    fn of(id: InventoryId, meta: &ObjectMeta) -> Self {
        let annotations = meta.annotations.as_ref();
        Subject {
            id,
            uid: meta.uid.clone().unwrap_or_default(),
            generation: meta.generation.unwrap_or_default(),
            deleted_at: meta.deletion_timestamp.as_ref().map(|time| time.0),
            created_at: meta.creation_timestamp.as_ref().map(|time| time.0),
            requested_at: annotations
                .and_then(|all| all.get(meta::REQUESTED_AT_ANNOTATION))
                .cloned(),
            suspend: false,
            interval: None,
            change_interval: None,
            max_export_bytes: None,
            references: Vec::new(),
            rollup: None,
            invalid: None,
            status: InventoryStatus::default(),
            served: BTreeSet::new(),
        }
    }

    /// The finalizer of its kind.
    pub fn finalizer(&self) -> &'static str {
        if self.rollup.is_some() {
            meta::CLUSTER_INVENTORY_FINALIZER
        } else {
            meta::INVENTORY_FINALIZER
        }
    }
}

fn reference(family: SinkFamily, sink: &SinkRef, namespace: String) -> Reference {
    Reference {
        key: SinkKey {
            family,
            namespace,
            name: sink.name.trim().to_owned(),
        },
        interval: sink.export_min_interval.clone(),
        change_interval: sink.change_interval.clone(),
        max_export_bytes: sink.max_export_bytes,
    }
}
