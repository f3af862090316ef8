//! What users configured: all objects of our own kinds and the namespaces, kept current.
//!
//! Not to know is a state of its own. A kind that could not be listed since this process began is
//! not empty: [`Kind::unknown`] says what is missing, whoever depends on it leaves everything as
//! it is, and says so. A kind that was listed once and cannot be read now ([`Kind::stale`]) stays
//! in use as it was.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kollect_api::{
    KollectClusterInventory, KollectClusterScope, KollectClusterTarget, KollectConnectionTest,
    KollectDatabaseSink, KollectEventSink, KollectInventory, KollectProfile, KollectScope,
    KollectSnapshotSink, KollectTarget, SinkKey,
};
use kollect_collect::plan::{
    NamespaceFacts, NamespaceListing, ProfileFact, Readable, TargetKey, World,
};
use kollect_watch::{
    ApiServer, Decode, InterruptionClass, Resource as Served, View, WatchHandle, WatchScope,
    WatchSource, WatchSubject,
};
use kube::{Client, Resource};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{
    definitions::{Definition, DefinitionDecoder},
    named_namespaces::NamedNamespaces,
    table::{Compare, NamespacedName, Shared, Table, TypedDecoder, relevance},
    wakeups::Wakeups,
};

/// How long a refusal may last before anybody is told: an API server that has just started refuses
/// what it will allow in a moment.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long the first listing may take before it counts as not answered.
const SILENCE: Duration = Duration::from_secs(20);
/// How long a kind that was listed may be out of reach before anybody is told.
const STALE: Duration = Duration::from_secs(30);

/// What is not known of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unknown {
    /// Whether it is a right that is missing.
    pub forbidden: bool,
    /// What is missing and what to do, for people.
    pub why: String,
}

/// One kind, from one watch or from one watch per namespace.
pub struct Kind<K: Send + 'static, D: Decode<Object = K> = TypedDecoder<K>> {
    /// Plural and group, for people.
    name: String,
    parts: Vec<Shared<K>>,
    /// Where each part looks.
    scopes: Vec<WatchScope>,
    /// Held because a watch ends with its handle.
    watches: Vec<WatchHandle<D>>,
    since: Instant,
}

impl<K, D> Kind<K, D>
where
    K: Resource<DynamicType = ()> + PartialEq + Send + Sync + 'static,
    D: Decode<Object = K> + Default,
{
    fn watch(context: &Context<'_>, scopes: &[WatchScope]) -> Self {
        Self::watch_through(context, scopes, || View::full(D::default()))
    }

    /// Watches a kind whose statuses we write: not every new version concerns everybody.
    fn watch_relevant(context: &Context<'_>, scopes: &[WatchScope], compare: Compare<K>) -> Self {
        Self::watch_into(
            context,
            scopes,
            || View::full(D::default()),
            |what| Shared::comparing(Arc::clone(&context.changed), what, compare),
        )
    }

    fn watch_through(
        context: &Context<'_>,
        scopes: &[WatchScope],
        view: impl Fn() -> View<D>,
    ) -> Self {
        Self::watch_into(context, scopes, view, |what| {
            Shared::new(Arc::clone(&context.changed), what)
        })
    }

    fn watch_into(
        context: &Context<'_>,
        scopes: &[WatchScope],
        view: impl Fn() -> View<D>,
        table: impl Fn(&str) -> Shared<K>,
    ) -> Self {
        let resource = Arc::new(Served {
            group: K::group(&()).into_owned(),
            version: K::version(&()).into_owned(),
            plural: K::plural(&()).into_owned(),
            namespaced: scopes.iter().any(|scope| *scope != WatchScope::All),
        });
        let mut kind = Self {
            name: match &*resource.group {
                "" => resource.plural.clone(),
                group => format!("{}.{group}", resource.plural),
            },
            parts: Vec::new(),
            scopes: scopes.to_vec(),
            watches: Vec::new(),
            since: Instant::now(),
        };
        for scope in scopes {
            let what = match scope.namespace() {
                Some(namespace) => format!("{} in namespace {namespace:?}", kind.name),
                None => kind.name.clone(),
            };
            let shared = table(&what);
            let subject = WatchSubject::new(Arc::clone(&resource), scope.clone());
            let source = WatchSource::new(Arc::clone(context.server), subject, view());
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

    /// The objects of one namespace that can be read.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        let mut all = Vec::new();
        for part in &self.parts {
            part.read(|table| all.extend(table.objects_in(namespace).cloned()));
        }
        all
    }

    /// Whether objects of this namespace are looked at at all.
    pub fn looks_in(&self, namespace: &str) -> bool {
        let mut scopes = self.scopes.iter();
        scopes.any(|scope| scope.contains(namespace))
    }

    /// Why an object that is there cannot be read, if so.
    pub fn why_unreadable(&self, namespace: &str, name: &str) -> Option<String> {
        let mut parts = self.parts.iter();
        parts.find_map(|part| part.read(|table| table.why_unreadable(namespace, name).cloned()))
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

    /// What is missing to know the objects at all, once that is certain. Nothing while the first
    /// listing is under way as it should be.
    pub fn unknown(&self) -> Option<Unknown> {
        self.parts.iter().find_map(|part| self.part_unknown(part))
    }

    fn part_unknown(&self, part: &Shared<K>) -> Option<Unknown> {
        let waited = self.since.elapsed();
        part.read(|table| {
            let certain = match table.trouble() {
                Some(_) => waited >= PATIENCE,
                None => waited >= SILENCE,
            };
            (certain && !table.is_listed()).then(|| self.unlisted(table))
        })
    }

    /// What is missing to know the objects of a namespace, as things stand.
    pub fn unknown_in(&self, namespace: &str) -> Option<Unknown> {
        let mut parts = self.parts.iter().zip(&self.scopes);
        parts.find_map(|(part, scope)| {
            part.read(|table| {
                let missing = scope.contains(namespace) && !table.is_listed();
                missing.then(|| self.unlisted(table))
            })
        })
    }

    /// The namespaces whose objects are not known, where they are watched one by one; and why.
    pub fn unknown_namespaces(&self) -> BTreeMap<String, String> {
        let namespaces = self.scopes.iter().filter_map(WatchScope::namespace);
        namespaces
            .filter_map(|name| Some((name.to_owned(), self.unknown_in(name)?.why)))
            .collect()
    }

    /// Why no object is known, where all are watched together.
    pub fn unknown_everywhere(&self) -> Option<Unknown> {
        let together = self.scopes.contains(&WatchScope::All);
        self.unknown().filter(|_| together)
    }

    /// Whether something is known: all objects, or those of some namespaces.
    pub fn is_listed_somewhere(&self) -> bool {
        let mut parts = self.parts.iter();
        self.parts.is_empty() || parts.any(|part| part.read(Table::is_listed))
    }

    fn unlisted(&self, table: &Table<K>) -> Unknown {
        match table.trouble() {
            Some(trouble) => self.missing(trouble.class, &trouble.message),
            None => Unknown {
                forbidden: false,
                why: format!(
                    "{} cannot be listed: the API server has not answered yet",
                    self.name
                ),
            },
        }
    }

    /// Why the objects may have changed without anybody noticing, if that has been so for a while.
    pub fn stale(&self) -> Option<Unknown> {
        self.parts.iter().find_map(|part| {
            part.read(|table| {
                let trouble = table.trouble().filter(|_| table.is_listed())?;
                let lasting = trouble.since.elapsed() >= STALE;
                lasting.then(|| self.missing(trouble.class, &trouble.message))
            })
        })
    }

    fn missing(&self, class: InterruptionClass, message: &str) -> Unknown {
        let (forbidden, advice) = match class {
            InterruptionClass::Forbidden => (
                true,
                "; grant the operator get, list and watch on it, it is asked again within a minute",
            ),
            InterruptionClass::NotInstalled => (
                false,
                "; install its CustomResourceDefinition, it is asked again within a minute",
            ),
            _ => (false, "; it is asked again within a minute"),
        };
        Unknown {
            forbidden,
            why: format!(
                "{} cannot be listed and watched: {message}{advice}",
                self.name
            ),
        }
    }

    /// Whether the API server says everything about the kind at present.
    pub fn is_followed(&self) -> bool {
        let followed = |table: &Table<K>| table.is_listed() && table.trouble().is_none();
        self.parts.iter().all(|part| part.read(followed))
    }

    /// Whether everything is known that can be for now.
    fn is_settled(&self) -> bool {
        let mut parts = self.parts.iter();
        parts.all(|part| part.read(Table::is_listed) || self.part_unknown(part).is_some())
    }

    /// What keeps the first listing, for people who wait.
    fn waiting(&self) -> Option<String> {
        let trouble = self.parts.iter().find_map(|part| {
            part.read(|table| table.trouble().map(|trouble| trouble.message.clone()))
        });
        match trouble {
            _ if self.is_listed() => None,
            Some(message) => Some(format!("{}: {message}", self.name)),
            None => Some(format!("the first listing of {}", self.name)),
        }
    }
}

/// Which inventories depend on a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dependents {
    /// Those of teams.
    Teams,
    /// Those of the platform.
    Platform,
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
    /// Those that were named at the start, where namespaces are not listed.
    named_namespaces: NamedNamespaces,
    definitions: Kind<Definition, DefinitionDecoder>,
    /// Whether it was said which namespaces there are.
    watch_list: bool,
    /// Sinks that are not used because their namespaces have too many, and what to say about it.
    sinks_over_quota: Mutex<BTreeMap<SinkKey, String>>,
}

/// Does something with every kind that plans depend on.
macro_rules! each_kind {
    ($configuration:expr, $kind:ident => $answer:expr) => {{
        let it = $configuration;
        [
            {
                let $kind = &it.profiles;
                $answer
            },
            {
                let $kind = &it.targets;
                $answer
            },
            {
                let $kind = &it.cluster_targets;
                $answer
            },
            {
                let $kind = &it.scopes;
                $answer
            },
            {
                let $kind = &it.cluster_scopes;
                $answer
            },
            {
                let $kind = &it.inventories;
                $answer
            },
            {
                let $kind = &it.cluster_inventories;
                $answer
            },
            {
                let $kind = &it.connection_tests;
                $answer
            },
            {
                let $kind = &it.snapshot_sinks;
                $answer
            },
            {
                let $kind = &it.database_sinks;
                $answer
            },
            {
                let $kind = &it.event_sinks;
                $answer
            },
            {
                let $kind = &it.namespaces;
                $answer
            },
        ]
    }};
}

impl Configuration {
    /// Watches everything, in these namespaces or in all of them. In tenant mode nothing
    /// cluster-scoped is looked at, since a tenant's operator has no right to; the namespaces are
    /// read one by one through `client`.
    pub fn watch(
        server: &Arc<ApiServer>,
        client: &Client,
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
            named_namespaces: if tenant_mode {
                NamedNamespaces::follow(client, namespaces, &changed, stop)
            } else {
                NamedNamespaces::default()
            },
            // Only that they come and go matters; where they cannot be watched, kinds that are
            // missing are asked for now and then.
            definitions: Kind::watch_through(&context, cluster, || {
                View::metadata(DefinitionDecoder)
            }),
            watch_list: !namespaces.is_empty(),
            sinks_over_quota: Mutex::default(),
            changed,
        }
    }

    /// Whether there is nothing left to wait for: every kind has been listed once, or it is certain
    /// that it cannot be. Passes that follow know which.
    pub fn is_settled(&self) -> bool {
        let kinds = each_kind!(self, kind => kind.is_settled());
        kinds.iter().all(|settled| *settled) && self.named_namespaces.waiting().is_none()
    }

    /// Whether targets can be planned for. Without targets there is no plan at all: one without
    /// them would take all rows for gone. Targets of single namespaces that cannot be read concern
    /// the inventories there alone, and cluster targets cluster inventories; those know.
    pub fn can_plan(&self) -> bool {
        self.targets.is_listed_somewhere() && self.is_settled()
    }

    /// Why something cannot be listed yet, for people who wait.
    pub fn waiting_for(&self) -> Option<String> {
        each_kind!(self, kind => kind.waiting())
            .into_iter()
            .flatten()
            .next()
            .or_else(|| self.named_namespaces.waiting())
    }

    /// What could not be read for a while although it was once: exports go on with what was known.
    pub fn stale(&self, dependents: Dependents) -> Vec<String> {
        let own = match dependents {
            Dependents::Teams => [
                self.targets.stale(),
                self.scopes.stale(),
                self.inventories.stale(),
            ],
            Dependents::Platform => [
                self.cluster_targets.stale(),
                self.cluster_scopes.stale(),
                self.cluster_inventories.stale(),
            ],
        };
        let shared = [
            self.profiles.stale(),
            self.namespaces.stale(),
            self.snapshot_sinks.stale(),
            self.database_sinks.stale(),
            self.event_sinks.stale(),
        ];
        own.into_iter()
            .chain(shared)
            .flatten()
            .map(|unknown| unknown.why)
            .collect()
    }

    /// The part of the plan's world that users configured.
    pub fn fill(&self, world: &mut World) {
        world.targets = self.targets.all();
        world.cluster_targets = self.cluster_targets.all();
        world.unreadable_targets = self.unreadable_targets();
        world.profiles = self.profile_facts();
        let everywhere = self.profiles.unknown_everywhere();
        world.profiles_unread_in = self.profiles.unknown_namespaces();
        let refused = |namespace: &&String| {
            let unknown = self.profiles.unknown_in(namespace);
            unknown.is_some_and(|unknown| unknown.forbidden)
        };
        let mut forbidden: BTreeSet<String> = world
            .profiles_unread_in
            .keys()
            .filter(refused)
            .cloned()
            .collect();
        if everywhere.as_ref().is_some_and(|unknown| unknown.forbidden) {
            forbidden.insert(String::new());
        }
        world.profiles_forbidden = forbidden;
        world.profiles_unread = everywhere.map(|unknown| unknown.why);
        world.scopes = match self.scopes.unknown_everywhere() {
            None => Readable::Read(self.scopes.all()),
            Some(unknown) => Readable::Failed(unknown.why),
        };
        world.unreadable_scopes = self.unreadable_scopes();
        world.cluster_scopes = match self.cluster_scopes_unknown() {
            None => Readable::Read(self.cluster_scopes.all()),
            Some(why) => Readable::Failed(why),
        };
        world.namespaces = self.namespace_listing();
    }

    /// Notes which sinks are not used because their namespaces have too many.
    pub fn note_over_quota(&self, sinks: &BTreeMap<SinkKey, String>) {
        let mut known = self
            .sinks_over_quota
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if *known != *sinks {
            known.clone_from(sinks);
            drop(known);
            self.changed.notify();
        }
    }

    /// Why a sink is not used because its namespace has too many, if so.
    pub fn over_quota(&self, key: &SinkKey) -> Option<String> {
        let known = self.sinks_over_quota.lock();
        let known = known.unwrap_or_else(PoisonError::into_inner);
        known.get(key).cloned()
    }

    fn unreadable_targets(&self) -> BTreeMap<TargetKey, String> {
        let targets = self.targets.unreadable().into_iter();
        let targets =
            targets.map(|((namespace, name), why)| (TargetKey::namespaced(&namespace, &name), why));
        let cluster_targets = self.cluster_targets.unreadable().into_iter();
        let cluster_targets =
            cluster_targets.map(|((_, name), why)| (TargetKey::cluster(&name), why));
        targets.chain(cluster_targets).collect()
    }

    /// Namespaces of which it is not known what their scopes forbid, and why.
    pub fn unreadable_scopes(&self) -> BTreeMap<String, String> {
        let unreadable = self.scopes.unreadable().into_iter();
        let unreadable = unreadable.map(|((namespace, name), why)| {
            let why = format!(
                "KollectScope {name:?} in namespace {namespace:?} cannot be understood by this operator: {why}"
            );
            (namespace, why)
        });
        let mut all = self.scopes.unknown_namespaces();
        all.extend(unreadable);
        all
    }

    /// Why it is not known what cluster scopes forbid, if so.
    pub fn cluster_scopes_unknown(&self) -> Option<String> {
        let unreadable = self.cluster_scopes.unreadable().into_iter().next();
        let unreadable = unreadable.map(|((_, name), why)| {
            format!("KollectClusterScope {name:?} cannot be understood by this operator: {why}")
        });
        let unknown = self.cluster_scopes.unknown();
        unknown.map(|unknown| unknown.why).or(unreadable)
    }

    /// The groups for which a CustomResourceDefinition exists, with what changes when it does.
    pub fn definitions(&self) -> BTreeMap<String, String> {
        let all = self.definitions.all();
        let named = all.iter().filter_map(|definition| {
            let meta = definition.meta();
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

    /// A namespace, if it is known.
    pub fn namespace(&self, name: &str) -> Option<Arc<Namespace>> {
        self.namespaces.get("", name)
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
        if self.namespaces.parts.is_empty() {
            return NamespaceListing::Partial(self.named_namespaces.facts());
        }
        if self.namespaces.is_listed() {
            return NamespaceListing::Complete(known);
        }
        match self.namespaces.unknown() {
            // Which there are was said at the start; what they are like is not known.
            Some(unknown) if unknown.forbidden && self.watch_list => {
                NamespaceListing::Partial(known)
            }
            Some(unknown) => NamespaceListing::Unreadable(unknown.why),
            None => NamespaceListing::Unread,
        }
    }
}
