//! An inventory object of either kind, as far as writing to it is concerned.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::{
    api::core::v1::Event, apimachinery::pkg::apis::meta::v1::ObjectMeta, jiff::Timestamp,
};
use kollect_api::{
    KollectClusterInventory, KollectInventory,
    condition::Condition,
    inventory::{KollectClusterInventoryStatus, KollectInventoryStatus},
    meta,
};
use kube::Client;
use serde::{Serialize, de::DeserializeOwned};

use super::status::InventoryStatus;
use crate::{
    configuration::Configuration,
    events::{self, Events},
    writer::{self, ApiOf, WriteError},
};

/// An inventory object of either kind.
#[derive(Debug, Clone)]
pub(super) enum InventoryObject {
    Namespaced(Arc<KollectInventory>),
    Cluster(Arc<KollectClusterInventory>),
}

/// What to do about our finalizer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FinalizerChange {
    Add,
    Remove,
}

impl InventoryObject {
    pub(super) fn version(&self) -> Option<String> {
        match self {
            Self::Namespaced(inventory) => inventory.metadata.resource_version.clone(),
            Self::Cluster(inventory) => inventory.metadata.resource_version.clone(),
        }
    }

    pub(super) fn has_finalizer(&self) -> bool {
        match self {
            Self::Namespaced(inventory) => {
                writer::has_finalizer(&**inventory, meta::INVENTORY_FINALIZER)
            }
            Self::Cluster(inventory) => {
                writer::has_finalizer(&**inventory, meta::CLUSTER_INVENTORY_FINALIZER)
            }
        }
    }

    pub(super) async fn write_finalizer(
        &self,
        client: &Client,
        change: FinalizerChange,
    ) -> Result<(), WriteError> {
        async fn write<K>(
            client: &Client,
            object: &K,
            name: &str,
            change: FinalizerChange,
        ) -> Result<(), WriteError>
        where
            K: ApiOf + Clone + Debug + DeserializeOwned,
        {
            let written = match change {
                FinalizerChange::Add => writer::add_finalizer(client, object, name).await,
                FinalizerChange::Remove => writer::remove_finalizer(client, object, name).await,
            };
            written.map(drop)
        }
        match self {
            Self::Namespaced(inventory) => {
                write(client, &**inventory, meta::INVENTORY_FINALIZER, change).await
            }
            Self::Cluster(inventory) => {
                let name = meta::CLUSTER_INVENTORY_FINALIZER;
                write(client, &**inventory, name, change).await
            }
        }
    }

    /// Writes a status that was computed from this version of the object. Returns the version that
    /// this makes.
    pub(super) async fn write_status(
        &self,
        client: &Client,
        base: Option<String>,
        status: &InventoryStatus,
    ) -> Result<Option<String>, WriteError> {
        async fn write<K, S>(
            client: &Client,
            object: &K,
            base: Option<String>,
            status: &S,
        ) -> Result<Option<String>, WriteError>
        where
            K: ApiOf + Clone + Debug + DeserializeOwned,
            S: Serialize + Debug,
        {
            let meta = ObjectMeta {
                resource_version: base,
                ..object.meta().clone()
            };
            let object: K = writer::write_status_of(client, &meta, status).await?;
            Ok(object.meta().resource_version.clone())
        }
        match self {
            Self::Namespaced(inventory) => {
                let status = KollectInventoryStatus::from(status.clone());
                write(client, &**inventory, base, &status).await
            }
            Self::Cluster(inventory) => {
                let status = KollectClusterInventoryStatus::from(status.clone());
                write(client, &**inventory, base, &status).await
            }
        }
    }

    /// The same object as it is known now: statuses change without a new plan.
    pub(super) fn current(&self, configuration: &Configuration) -> Self {
        let known = match self {
            Self::Namespaced(inventory) => {
                let meta = &inventory.metadata;
                let (namespace, name) = (meta.namespace.as_deref(), meta.name.as_deref());
                configuration
                    .inventories
                    .get(namespace.unwrap_or_default(), name.unwrap_or_default())
                    .filter(|known| known.metadata.uid == meta.uid)
                    .map(Self::Namespaced)
            }
            Self::Cluster(inventory) => {
                let meta = &inventory.metadata;
                configuration
                    .cluster_inventories
                    .get("", meta.name.as_deref().unwrap_or_default())
                    .filter(|known| known.metadata.uid == meta.uid)
                    .map(Self::Cluster)
            }
        };
        known.unwrap_or_else(|| self.clone())
    }

    /// The status that the object shows.
    pub(super) fn status(&self) -> InventoryStatus {
        let status = match self {
            Self::Namespaced(inventory) => inventory.status.as_ref().map(InventoryStatus::from),
            Self::Cluster(inventory) => inventory.status.as_ref().map(InventoryStatus::from),
        };
        status.unwrap_or_default()
    }

    pub(super) fn event(&self, condition: &Condition) -> Event {
        let now = Timestamp::now();
        match self {
            Self::Namespaced(inventory) => {
                events::event::<KollectInventory>(&inventory.metadata, condition, now)
            }
            Self::Cluster(inventory) => {
                events::event::<KollectClusterInventory>(&inventory.metadata, condition, now)
            }
        }
    }

    /// Takes note of what its conditions say, for the log.
    pub(super) fn observe(&self, events: &Events, conditions: &[Condition]) {
        match self {
            Self::Namespaced(inventory) => {
                events.observe::<KollectInventory>(&inventory.metadata, conditions);
            }
            Self::Cluster(inventory) => {
                events.observe::<KollectClusterInventory>(&inventory.metadata, conditions);
            }
        }
    }

    /// Tells what is worth telling about new conditions.
    pub(super) fn tell(&self, events: &Events, before: &[Condition], after: &[Condition]) {
        match self {
            Self::Namespaced(inventory) => {
                events.tell_of::<KollectInventory>(&inventory.metadata, before, after);
            }
            Self::Cluster(inventory) => {
                events.tell_of::<KollectClusterInventory>(&inventory.metadata, before, after);
            }
        }
    }
}
