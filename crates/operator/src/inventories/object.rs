//! An inventory object of either kind, as far as writing to it is concerned.

use std::{fmt::Debug, sync::Arc};

use k8s_openapi::{api::core::v1::Event, jiff::Timestamp};
use kollect_api::{
    KollectClusterInventory, KollectInventory,
    condition::Condition,
    inventory::{KollectClusterInventoryStatus, KollectInventoryStatus},
    meta,
};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

use super::status::InventoryStatus;
use crate::writer::{self, ApiOf, WriteError};

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

    pub(super) async fn write_status(
        &self,
        client: &Client,
        status: &InventoryStatus,
    ) -> Result<(), WriteError> {
        match self {
            Self::Namespaced(inventory) => {
                let status = KollectInventoryStatus::from(status.clone());
                let written = writer::write_status(client, &**inventory, &status).await;
                written.map(drop)
            }
            Self::Cluster(inventory) => {
                let status = KollectClusterInventoryStatus::from(status.clone());
                let written = writer::write_status(client, &**inventory, &status).await;
                written.map(drop)
            }
        }
    }

    pub(super) fn event(&self, condition: &Condition) -> Event {
        fn event<K: Resource<DynamicType = ()>>(object: &K, condition: &Condition) -> Event {
            let component = format!("{}-controller", K::kind(&()).to_lowercase());
            writer::event(object, condition, &component, Timestamp::now())
        }
        match self {
            Self::Namespaced(inventory) => event(&**inventory, condition),
            Self::Cluster(inventory) => event(&**inventory, condition),
        }
    }
}
