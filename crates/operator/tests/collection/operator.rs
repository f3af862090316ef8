//! The control loop, run inside the test so that its store can be looked at.

use std::{collections::BTreeMap, sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};
use kollect_collect::{
    extract::{self, Extractor},
    plan::TargetKey,
    store::Store,
};
use kollect_inventory::AttributesBuffer;
use kollect_operator::{
    controller::{CollectionSettings, Controller},
    metrics::Observed,
};
use kollect_testkit::{Cluster, cluster::User, wait::eventually};
use kollect_watch::connection;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::stage::Scene;

/// A running operator. Dropping it stops it in order.
pub(crate) struct Operator {
    pub(crate) store: Store,
    pub(crate) observed: Arc<Observed>,
    stop: CancellationToken,
    thread: Option<thread::JoinHandle<()>>,
}

impl Operator {
    pub(crate) fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_as(cluster, cluster.admin(), CollectionSettings::default())
    }

    pub(crate) fn start_as(
        cluster: &Cluster,
        user: &User,
        settings: CollectionSettings,
    ) -> Result<Self> {
        let stop = CancellationToken::new();
        let (sender, receiver) = oneshot::channel();
        let (cluster, user, token) = (cluster.clone(), user.clone(), stop.clone());
        let settings = CollectionSettings {
            count_resync: Duration::from_millis(200),
            review_interval: Duration::from_secs(2),
            ..settings
        };
        let thread = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime");
            runtime.block_on(async move {
                // The provider is chosen by whoever makes the first client.
                cluster.client(&user).expect("a client");
                let mut config = cluster.kube_config(&user).expect("credentials");
                config.default_retry = false;
                let client = connection::client(config).expect("a client");
                let controller = Controller::new(&client, settings, &token);
                let observed = Arc::clone(controller.observed());
                sender.send((controller.store().clone(), observed)).ok();
                controller.run(&token).await;
            });
        });
        let (store, observed) = receiver.blocking_recv()?;
        Ok(Self {
            store,
            observed,
            stop,
            thread: Some(thread),
        })
    }

    /// The rows of the scenario's target: name to attributes.
    pub(crate) fn rows(&self, scene: &Scene) -> BTreeMap<String, String> {
        let key = TargetKey::namespaced(&scene.namespace, "maps");
        let rows = self.store.rows(&key).into_iter();
        rows.map(|row| {
            let mut json = Vec::new();
            row.write_json(&mut json);
            let value: Value = serde_json::from_slice(&json).expect("a row is JSON");
            let object = format!("{}/{}", value["namespace"], value["name"]);
            (object, value["attributes"].to_string())
        })
        .collect()
    }

    /// Waits until the rows equal a fresh list of these namespaces, extracted with the profile.
    pub(crate) fn expect(&self, scene: &Scene, profile: &Value, namespaces: &[&str]) -> Result<()> {
        eventually("rows that equal a fresh list", || {
            let expected = fresh(scene, profile, namespaces)?;
            let rows = self.rows(scene);
            ensure!(rows == expected, "rows {rows:?}\nlist {expected:?}");
            Ok(())
        })
    }

    /// Waits until the target has this many rows.
    pub(crate) fn expect_count(&self, scene: &Scene, count: usize) -> Result<()> {
        eventually("the number of rows", || {
            let rows = self.rows(scene).len();
            ensure!(rows == count, "{rows} rows instead of {count}");
            Ok(())
        })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(
                ended.is_ok() || thread::panicking(),
                "the operator panicked"
            );
        }
    }
}

/// What the rows must be: a plain list, extracted.
fn fresh(scene: &Scene, profile: &Value, namespaces: &[&str]) -> Result<BTreeMap<String, String>> {
    let profile = serde_json::from_value(profile.clone())?;
    let extractor = Extractor::new(&profile, &extract::Settings::default());
    let mut buffer = AttributesBuffer::default();
    let mut expected = BTreeMap::new();
    for namespace in namespaces {
        for object in scene.list(namespace)? {
            let attributes = extractor.extract(&object, &mut buffer)?;
            let mut json = Vec::new();
            attributes.write_json(&mut json);
            let attributes: Value = serde_json::from_slice(&json)?;
            let name = format!(
                "{}/{}",
                object["metadata"]["namespace"], object["metadata"]["name"]
            );
            expected.insert(name, attributes.to_string());
        }
    }
    Ok(expected)
}
