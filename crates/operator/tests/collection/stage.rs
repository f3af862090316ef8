//! A cluster of our own, whose servers may be taken away, and objects in it.

use std::{
    ops::Range,
    sync::{LazyLock, Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kollect_api::crd;
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

/// The control plane of this test binary. Scenarios take turns: some of them break it.
pub(crate) fn stage() -> MutexGuard<'static, ControlPlane> {
    static STAGE: LazyLock<Mutex<ControlPlane>> = LazyLock::new(|| {
        let plane = ControlPlane::start_with(Options { controllers: false }).expect("a cluster");
        let definitions = crd::all_yaml();
        let definitions = definitions.iter().map(|file| &file.yaml);
        plane.cluster().define(definitions).expect("our CRDs");
        Mutex::new(plane)
    });
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Objects of one scenario.
pub(crate) struct Scene {
    pub(crate) cluster: Cluster,
    pub(crate) namespace: String,
}

impl Scene {
    pub(crate) fn new(cluster: &Cluster, name: &str) -> Result<Self> {
        Ok(Self {
            cluster: cluster.clone(),
            namespace: cluster.create_namespace(name)?,
        })
    }

    pub(crate) fn apply(&self, manifest: &Value) -> Result<()> {
        self.cluster.apply(&manifest.to_string()).map(|_| ())
    }

    /// A profile of ConfigMaps with these attributes.
    pub(crate) fn profile(&self, attributes: &Value) -> Result<Value> {
        let profile = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
            "metadata": {"name": "maps", "namespace": self.namespace},
            "spec": {"targetGVK": {"version": "v1", "kind": "ConfigMap"}, "attributes": attributes},
        });
        self.apply(&profile)?;
        Ok(profile)
    }

    /// A target of that profile, with this spec beside the reference.
    pub(crate) fn target(&self, spec: Value) -> Result<()> {
        let mut spec = spec;
        spec["profileRef"] = "maps".into();
        self.apply(&json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
            "metadata": {"name": "maps", "namespace": self.namespace},
            "spec": spec,
        }))
    }

    /// Creates or replaces ConfigMaps `m-<from>` to `m-<to>` with this value.
    pub(crate) fn maps(&self, namespace: &str, numbers: Range<usize>, value: &str) -> Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let client = self.cluster.client(self.cluster.admin())?;
            let api: Api<ConfigMap> = Api::namespaced(client, namespace);
            stream::iter(numbers)
                .map(|number| {
                    let api = &api;
                    async move {
                        let name = format!("m-{number}");
                        let map = json!({
                            "apiVersion": "v1", "kind": "ConfigMap",
                            "metadata": {"name": name, "labels": {"n": number.to_string()}},
                            "data": {"value": value, "number": number.to_string()},
                        });
                        let apply = PatchParams::apply("scene").force();
                        api.patch(&name, &apply, &Patch::Apply(map))
                            .await
                            .map(|_| ())
                    }
                })
                .buffer_unordered(16)
                .try_collect::<()>()
                .await?;
            Ok(())
        })
    }

    pub(crate) fn delete_map(&self, namespace: &str, number: usize) -> Result<()> {
        let api = self.cluster.api(self.cluster.admin())?;
        let path = format!("/api/v1/namespaces/{namespace}/configmaps/m-{number}");
        api.request("DELETE", &path, None)?.json().map(|_| ())
    }

    /// All ConfigMaps of a namespace as the API server has them now.
    pub(crate) fn list(&self, namespace: &str) -> Result<Vec<Value>> {
        let api = self.cluster.api(self.cluster.admin())?;
        let mut list = api.get(&format!("/api/v1/namespaces/{namespace}/configmaps"))?;
        let items = list["items"].take();
        let mut items = items.as_array().cloned().context("a list has items")?;
        for item in &mut items {
            item["apiVersion"] = "v1".into();
            item["kind"] = "ConfigMap".into();
        }
        Ok(items)
    }

    /// The condition of a type on the scenario's target: status, reason and message.
    pub(crate) fn condition(&self, type_: &str) -> Result<(String, String, String)> {
        let text = self.cluster.kubectl(&[
            "get",
            "kollecttarget",
            "maps",
            "-n",
            &self.namespace,
            "-o",
            "json",
        ])?;
        let target: Value = serde_json::from_str(&text)?;
        let conditions = target["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let found = conditions
            .into_iter()
            .find(|condition| condition["type"] == type_);
        let found = found.with_context(|| format!("no condition {type_} in {target}"))?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        Ok((text("status"), text("reason"), text("message")))
    }
}
