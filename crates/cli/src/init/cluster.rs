//! The cluster that the questions are about. Only what is asked for is read.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::{api::core::v1::Namespace, apimachinery::pkg::apis::meta::v1::APIResourceList};
use kollect_api::GroupVersionKind;
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, ListParams},
    config::KubeConfigOptions,
};
use serde_json::Value;
use tokio::runtime::Runtime;

use super::blueprint::Namespaces;
use crate::collect::contexts;

/// A kind that can be collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offered {
    pub(crate) kind: GroupVersionKind,
    pub(crate) plural: String,
    /// Its singular and short names.
    pub(crate) names: Vec<String>,
    pub(crate) namespaced: bool,
}

/// An object by namespace and name.
pub(crate) type Place = (String, String);

/// What the questions need to know.
pub(crate) trait Cluster {
    /// The context and the address of the API server.
    fn place(&self) -> (&str, &str);
    /// All kinds that can be listed and read, in no order.
    fn kinds(&self) -> Result<Vec<Offered>>;
    /// All namespaces, in no order.
    fn namespaces(&self) -> Result<Vec<String>>;
    /// Names of some objects; nothing else of them is read.
    fn names(&self, kind: &Offered, namespaces: &Namespaces, limit: u32) -> Result<Vec<Place>>;
    /// One object.
    fn get(&self, kind: &Offered, place: &Place) -> Result<Value>;
}

/// A cluster behind a context.
pub(crate) struct LiveCluster {
    context: String,
    server: String,
    client: Client,
    runtime: Runtime,
}

impl LiveCluster {
    /// Builds the client. Nothing is asked yet.
    pub(crate) fn open(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        runtime: Runtime,
    ) -> Result<Self> {
        let kubeconfig = contexts::read_kubeconfig(kubeconfig)?;
        let known = kubeconfig.contexts.iter();
        let known: Vec<String> = known.map(|context| context.name.clone()).collect();
        let wanted: Vec<String> = context.map(str::to_owned).into_iter().collect();
        let current = kubeconfig.current_context.as_deref();
        let mut selected = contexts::select(&wanted, &known, current, drop)?;
        let (Some(context), true) = (selected.pop(), selected.is_empty()) else {
            bail!("--context must name one context");
        };
        let options = KubeConfigOptions {
            context: Some(context.clone()),
            ..KubeConfigOptions::default()
        };
        let config = runtime.block_on(Config::from_custom_kubeconfig(kubeconfig, &options));
        let config = config.with_context(|| format!("context {context} is not usable"))?;
        let server = config.cluster_url.to_string();
        let entered = runtime.enter();
        let client = Client::try_from(config).context("cannot build a client")?;
        drop(entered);
        Ok(Self {
            context,
            server,
            client,
            runtime,
        })
    }

    fn api(&self, kind: &Offered, namespace: &str) -> Api<DynamicObject> {
        let gvk = &kind.kind;
        let api_version = match gvk.group.as_str() {
            "" => gvk.version.clone(),
            group => format!("{group}/{}", gvk.version),
        };
        let resource = ApiResource {
            group: gvk.group.clone(),
            version: gvk.version.clone(),
            api_version,
            kind: gvk.kind.clone(),
            plural: kind.plural.clone(),
        };
        if kind.namespaced && !namespace.is_empty() {
            Api::namespaced_with(self.client.clone(), namespace, &resource)
        } else {
            Api::all_with(self.client.clone(), &resource)
        }
    }
}

/// All kinds that can be listed and read, with the rights of the caller.
pub(crate) async fn kinds(client: &Client) -> Result<Vec<Offered>> {
    let mut found = Vec::new();
    let mut failure = None;
    let mut take = |group: &str, answer: kube::Result<APIResourceList>| match answer {
        Ok(list) => found.extend(offered(group, &list)),
        // One aggregated API that is down must not hide all others.
        Err(error) => failure = Some(error),
    };
    match client.list_core_api_versions().await {
        Ok(versions) => {
            for version in versions.versions {
                take("", client.list_core_api_resources(&version).await);
            }
        }
        Err(error) => take("", Err(error)),
    }
    if let Ok(groups) = client.list_api_groups().await {
        for group in groups.groups {
            // The preferred version; the others serve the same objects.
            let version = group
                .preferred_version
                .or(group.versions.into_iter().next());
            if let Some(version) = version {
                let version = version.group_version;
                take(&group.name, client.list_api_group_resources(&version).await);
            }
        }
    }
    match failure {
        Some(error) if found.is_empty() => {
            Err(error).context("the API server does not say which kinds it has")
        }
        _ => Ok(found),
    }
}

/// The kinds of a list that can be listed and read; subresources are none.
fn offered(group: &str, list: &APIResourceList) -> Vec<Offered> {
    let version = list.group_version.rsplit('/').next().unwrap_or_default();
    let resources = list.resources.iter().filter(|resource| {
        let has = |wanted: &str| resource.verbs.iter().any(|verb| verb == wanted);
        !resource.name.contains('/') && has("list") && has("get")
    });
    let resources = resources.map(|resource| Offered {
        kind: GroupVersionKind::new(group, version, &*resource.kind),
        plural: resource.name.clone(),
        names: {
            let short = resource.short_names.iter().flatten();
            let singular = std::iter::once(&resource.singular_name);
            singular.chain(short).cloned().collect()
        },
        namespaced: resource.namespaced,
    });
    resources.collect()
}

impl Cluster for LiveCluster {
    fn place(&self) -> (&str, &str) {
        (&self.context, &self.server)
    }

    fn kinds(&self) -> Result<Vec<Offered>> {
        self.runtime.block_on(kinds(&self.client))
    }

    fn namespaces(&self) -> Result<Vec<String>> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let list = self
            .runtime
            .block_on(api.list_metadata(&ListParams::default()));
        let list = list.context("cannot list namespaces; grant list on them, or choose all")?;
        let names = list.items.into_iter();
        Ok(names.filter_map(|item| item.metadata.name).collect())
    }

    fn names(&self, kind: &Offered, namespaces: &Namespaces, limit: u32) -> Result<Vec<Place>> {
        let places: Vec<String> = match namespaces {
            _ if !kind.namespaced => vec![String::new()],
            Namespaces::All => vec![String::new()],
            Namespaces::Named(names) => names.clone(),
            Namespaces::Labelled(labels) => self.labelled(labels)?,
        };
        let mut found = Vec::new();
        for namespace in places {
            let parameters = ListParams::default().limit(limit);
            let api = self.api(kind, &namespace);
            let list = self.runtime.block_on(api.list_metadata(&parameters));
            let list = list.with_context(|| format!("cannot list {}", kind.plural))?;
            found.extend(list.items.into_iter().map(|item| {
                let metadata = item.metadata;
                (
                    metadata.namespace.unwrap_or_default(),
                    metadata.name.unwrap_or_default(),
                )
            }));
            if found.len() >= limit as usize {
                found.truncate(limit as usize);
                break;
            }
        }
        Ok(found)
    }

    fn get(&self, kind: &Offered, (namespace, name): &Place) -> Result<Value> {
        let api = self.api(kind, namespace);
        let object = self.runtime.block_on(api.get(name));
        let object = object.with_context(|| format!("cannot read {} {name}", kind.kind.kind))?;
        Ok(serde_json::to_value(object)?)
    }
}

impl LiveCluster {
    fn labelled(&self, labels: &BTreeMap<String, String>) -> Result<Vec<String>> {
        let selector: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        let parameters = ListParams::default().labels(&selector.join(","));
        let api: Api<Namespace> = Api::all(self.client.clone());
        let list = self.runtime.block_on(api.list_metadata(&parameters));
        let list = list.context("cannot list namespaces")?;
        let names = list.items.into_iter();
        Ok(names.filter_map(|item| item.metadata.name).collect())
    }
}
