//! What users configured: all objects of our own kinds and the namespaces, kept current.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kollect_api::{
    KollectClusterInventory, KollectClusterScope, KollectClusterTarget, KollectConnectionTest,
    KollectDatabaseSink, KollectEventSink, KollectInventory, KollectProfile, KollectScope,
    KollectSnapshotSink, KollectTarget,
};
use kollect_collect::plan::{NamespaceFacts, NamespaceListing, ProfileFact, Readable, World};
use kollect_watch::{
    ApiServer, InterruptionClass, Resource as Served, View, WatchHandle, WatchScope, WatchSource,
    WatchSubject,
};
use kube::Resource;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::{
    table::{Compare, NamespacedName, Shared, Table, TypedDecoder, relevance},
    wakeups::Wakeups,
};

/// One kind, from one watch or from one watch per namespace.
pub struct Kind<K: Resource + DeserializeOwned + Send + 'static> {
    parts: Vec<Shared<K>>,
    /// Held because a watch ends with its handle.
    watches: Vec<WatchHandle<TypedDecoder<K>>>,
}

impl<K> Kind<K>
where
    K: Resource<DynamicType = ()> + DeserializeOwned + PartialEq + Send + Sync + 'static,
{
    fn nobody() -> Self {
        Self {
            parts: Vec::new(),
            watches: Vec::new(),
        }
    }

    fn watch(context: &Context<'_>, scopes: &[WatchScope]) -> Self {
        Self::watch_into(context, scopes, || {
            Shared::new(Arc::clone(&context.changed))
        })
    }

    /// Watches a kind whose statuses we write: not every new version concerns everybody.
    fn watch_relevant(context: &Context<'_>, scopes: &[WatchScope], compare: Compare<K>) -> Self {
        let table = || Shared::comparing(Arc::clone(&context.changed), compare);
        Self::watch_into(context, scopes, table)
    }

    fn watch_into(
        context: &Context<'_>,
        scopes: &[WatchScope],
        table: impl Fn() -> Shared<K>,
    ) -> Self {
        let resource = Arc::new(Served {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: scopes.iter().any(|scope| *scope != WatchScope::All),
        });
        let mut kind = Self::nobody();
        for scope in scopes {
            let shared = table();
            let subject = WatchSubject::new(Arc::clone(&resource), scope.clone());
            let view = View::full(TypedDecoder::default());
            let source = WatchSource::new(Arc::clone(context.server), subject, view);
            kind.parts.push(shared.clone());
            kind.watches.push(source.spawn(shared, context.stop));
        }
        kind
    }

    /// Whether all objects are known.
    pub fn is_listed(&self) -> bool {
        self.parts.iter().all(|part| part.read(Table::is_listed))
    }

    /// All objects that can be read.
    pub fn all(&self) -> Vec<Arc<K>> {
        let mut all = Vec::new();
        for part in &self.parts {
            part.read(|table| all.extend(table.objects().map(|(_, object)| Arc::clone(object))));
        }
        all
    }

    /// One object.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<K>> {
        self.parts
            .iter()
            .find_map(|part| part.read(|table| table.get(namespace, name).cloned()))
    }

    /// The objects that cannot be read, and why.
    pub fn unreadable(&self) -> Vec<(NamespacedName, String)> {
        let mut all = Vec::new();
        for part in &self.parts {
            part.read(|table| {
                all.extend(
                    table
                        .unreadable()
                        .map(|(key, why)| (key.clone(), why.clone())),
                );
            });
        }
        all
    }

    /// Why the kind cannot be read at present, if so.
    pub fn trouble(&self) -> Option<(InterruptionClass, String)> {
        self.parts.iter().find_map(|part| {
            part.read(|table| {
                table
                    .trouble()
                    .map(|trouble| (trouble.class, trouble.message.clone()))
            })
        })
    }
}

/// What all watches of the configuration share.
struct Context<'c> {
    server: &'c Arc<ApiServer>,
    stop: &'c CancellationToken,
    changed: Arc<Wakeups>,
}

/// Everything users configured.
pub struct Configuration {
    /// Notified of every change.
    pub changed: Arc<Wakeups>,
    /// Profiles.
    pub profiles: Kind<KollectProfile>,
    /// Targets of teams.
    pub targets: Kind<KollectTarget>,
    /// Targets of the platform.
    pub cluster_targets: Kind<KollectClusterTarget>,
    /// Ceilings of teams.
    pub scopes: Kind<KollectScope>,
    /// Ceilings of the platform.
    pub cluster_scopes: Kind<KollectClusterScope>,
    /// Inventories of teams.
    pub inventories: Kind<KollectInventory>,
    /// Inventories of the platform.
    pub cluster_inventories: Kind<KollectClusterInventory>,
    /// Git and object stores.
    pub snapshot_sinks: Kind<KollectSnapshotSink>,
    /// Databases.
    pub database_sinks: Kind<KollectDatabaseSink>,
    /// Streams.
    pub event_sinks: Kind<KollectEventSink>,
    /// Probes that somebody asked for.
    pub connection_tests: Kind<KollectConnectionTest>,
    namespaces: Kind<Namespace>,
    definitions: Kind<CustomResourceDefinition>,
}

impl Configuration {
    /// Watches everything, in these namespaces or in all of them. In tenant mode nothing
    /// cluster-scoped is looked at: a tenant's operator has no right to.
    pub fn watch(
        server: &Arc<ApiServer>,
        namespaces: &[String],
        tenant_mode: bool,
        stop: &CancellationToken,
    ) -> Self {
        let changed = Arc::new(Wakeups::default());
        let context = Context {
            server,
            stop,
            changed: Arc::clone(&changed),
        };
        let scopes: Vec<WatchScope> = if namespaces.is_empty() {
            vec![WatchScope::All]
        } else {
            namespaces
                .iter()
                .map(|name| WatchScope::Namespace(name.as_str().into()))
                .collect()
        };
        let cluster: &[WatchScope] = if tenant_mode { &[] } else { &[WatchScope::All] };
        Self {
            profiles: Kind::watch(&context, &scopes),
            targets: Kind::watch_relevant(&context, &scopes, relevance::target),
            cluster_targets: Kind::watch_relevant(&context, cluster, relevance::cluster_target),
            scopes: Kind::watch(&context, &scopes),
            cluster_scopes: Kind::watch(&context, cluster),
            inventories: Kind::watch_relevant(&context, &scopes, relevance::inventory),
            cluster_inventories: Kind::watch_relevant(
                &context,
                cluster,
                relevance::cluster_inventory,
            ),
            connection_tests: Kind::watch(&context, &scopes),
            snapshot_sinks: Kind::watch_relevant(&context, &scopes, relevance::snapshot_sink),
            database_sinks: Kind::watch_relevant(&context, &scopes, relevance::database_sink),
            event_sinks: Kind::watch_relevant(&context, &scopes, relevance::event_sink),
            namespaces: Kind::watch(&context, cluster),
            definitions: Kind::watch(&context, cluster),
            changed,
        }
    }

    /// Whether enough is known to plan: every kind has been listed once. Namespaces and CRDs may
    /// be out of reach permanently.
    pub fn is_listed(&self) -> bool {
        let denied = |trouble: Option<(InterruptionClass, String)>| {
            trouble.is_some_and(|(class, _)| class == InterruptionClass::Forbidden)
        };
        self.profiles.is_listed()
            && self.targets.is_listed()
            && self.cluster_targets.is_listed()
            && self.scopes.is_listed()
            && self.cluster_scopes.is_listed()
            && self.inventories.is_listed()
            && self.cluster_inventories.is_listed()
            && self.connection_tests.is_listed()
            && self.snapshot_sinks.is_listed()
            && self.database_sinks.is_listed()
            && self.event_sinks.is_listed()
            && (self.namespaces.is_listed() || denied(self.namespaces.trouble()))
            && (self.definitions.is_listed() || denied(self.definitions.trouble()))
    }

    /// Why something cannot be listed yet, for people who wait.
    pub fn waiting_for(&self) -> Option<String> {
        let troubles = [
            ("KollectProfile", self.profiles.trouble()),
            ("KollectTarget", self.targets.trouble()),
            ("KollectClusterTarget", self.cluster_targets.trouble()),
            ("KollectScope", self.scopes.trouble()),
            ("KollectClusterScope", self.cluster_scopes.trouble()),
            ("KollectInventory", self.inventories.trouble()),
            (
                "KollectClusterInventory",
                self.cluster_inventories.trouble(),
            ),
            ("KollectSnapshotSink", self.snapshot_sinks.trouble()),
            ("KollectDatabaseSink", self.database_sinks.trouble()),
            ("KollectEventSink", self.event_sinks.trouble()),
            ("KollectConnectionTest", self.connection_tests.trouble()),
            ("Namespace", self.namespaces.trouble()),
        ];
        troubles
            .into_iter()
            .find_map(|(kind, trouble)| trouble.map(|(_, message)| format!("{kind}: {message}")))
    }

    /// The part of the plan's world that users configured.
    pub fn fill(&self, world: &mut World) {
        world.targets = self.targets.all();
        world.cluster_targets = self.cluster_targets.all();
        world.profiles = self.profile_facts();
        world.scopes = Readable::Read(self.scopes.all());
        world.cluster_scopes = Readable::Read(self.cluster_scopes.all());
        world.namespaces = self.namespace_listing();
    }

    /// The groups for which a CustomResourceDefinition exists, with what changes when it does.
    pub fn definitions(&self) -> BTreeMap<String, String> {
        let all = self.definitions.all();
        let named = all.iter().filter_map(|definition| {
            let meta = &definition.metadata;
            Some((meta.name.clone()?, meta.resource_version.clone()?))
        });
        named.collect()
    }

    /// The profiles, as far as they can be read.
    pub fn profile_facts(&self) -> BTreeMap<NamespacedName, ProfileFact> {
        let mut facts: BTreeMap<NamespacedName, ProfileFact> = BTreeMap::new();
        for profile in self.profiles.all() {
            let namespace = profile.metadata.namespace.clone().unwrap_or_default();
            let name = profile.metadata.name.clone().unwrap_or_default();
            facts.insert((namespace, name), ProfileFact::Found(profile));
        }
        for (key, why) in self.profiles.unreadable() {
            facts.insert(key, ProfileFact::Failed(why));
        }
        facts
    }

    /// The namespaces, as far as they can be seen.
    pub fn namespace_listing(&self) -> NamespaceListing {
        let known = self.namespaces.all().into_iter().map(|namespace| {
            let meta = &namespace.metadata;
            let facts = NamespaceFacts {
                labels: meta.labels.clone().unwrap_or_default(),
                annotations: meta.annotations.clone().unwrap_or_default(),
            };
            (meta.name.clone().unwrap_or_default(), facts)
        });
        let known: BTreeMap<_, _> = known.collect();
        if self.namespaces.parts.is_empty() || !self.namespaces.is_listed() {
            NamespaceListing::Partial(known)
        } else {
            NamespaceListing::Complete(known)
        }
    }
}
