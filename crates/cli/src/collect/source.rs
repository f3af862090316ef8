//! What is looked at: a dump, or clusters.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use kollect_api::{rules::Object, target::ResourceRule};
use kollect_collect::plan::{TargetKey, World};

use super::{
    dump::Dump,
    live::Clusters,
    outcome::{self, SkipReason, TargetOutcome},
    report::{Level, Report},
    world,
};

/// What is looked at.
pub(crate) enum Source {
    Dump(Dump),
    Clusters(Clusters),
}

/// How a look is taken.
#[derive(Clone, Copy)]
pub(crate) struct Looking<'r> {
    pub(crate) report: &'r Report,
    /// Whether a target of which every object failed counts as one without rows.
    pub(crate) allow_empty: bool,
}

/// What was seen.
pub(crate) struct Seen {
    /// The world with everything that was asked.
    pub(crate) world: World,
    pub(crate) outcomes: Vec<TargetOutcome>,
}

/// What a kind that is missing means where there is nobody to ask.
const NOT_DUMPED: &str = "the dump holds no objects of the profile's kind, so nothing is known about them; dump that kind too, or check targetGVK";

/// The name of a dump, which has none.
const DUMP: &str = "dump";

impl Source {
    /// The names of the clusters, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        match self {
            Source::Dump(_) => vec![DUMP.to_owned()],
            Source::Clusters(clusters) => clusters.names().to_vec(),
        }
    }

    /// The namespace that a context works in; nothing where there is no such thing.
    pub(crate) fn namespace_of(&self, context: &str) -> Option<String> {
        match self {
            Source::Dump(_) => None,
            Source::Clusters(clusters) => Some(clusters.namespace_of(context)),
        }
    }

    /// Looks at one of them. An error means that nothing could be seen at all.
    pub(crate) async fn look(
        &self,
        name: &str,
        world: World,
        keys: &[TargetKey],
        looking: &Looking<'_>,
    ) -> Result<Seen> {
        match self {
            Source::Dump(dump) => look_at_dump(dump, world, keys, looking).await,
            Source::Clusters(clusters) => clusters.look(name, world, keys, looking).await,
        }
    }
}

async fn look_at_dump(
    dump: &Dump,
    mut world: World,
    keys: &[TargetKey],
    looking: &Looking<'_>,
) -> Result<Seen> {
    let report = looking.report;
    let implied = dump.implied_namespaces();
    if !implied.is_empty() {
        let names = outcome::some(implied.iter().map(String::as_str));
        let fields = [
            ("namespaces", names.into()),
            ("count", implied.len().into()),
        ];
        let message =
            "the dump has no Namespace objects for some namespaces; their labels count as absent";
        report.event(Level::Warn, message, &fields);
    }
    let (count, named) = dump.ambiguous();
    if count > 0 {
        let fields = [
            ("objects", count.into()),
            ("examples", named.join(", ").into()),
        ];
        let message = "some objects of the dump have a key twice in one map; the last one counts";
        report.event(Level::Warn, message, &fields);
    }
    world.namespaces = dump.namespaces();
    let refused = by_unknown_labels(&mut world, implied);
    let plan = world::plan(&mut world, &mut &*dump).await;
    let gathered = dump.gather(&plan, report)?;
    let fields = [
        ("objects", dump.len().into()),
        ("seen", gathered.objects.into()),
    ];
    report.event(Level::Debug, "dump read", &fields);
    let mut outcomes = outcome::outcomes(keys, &plan, gathered, &[], looking.allow_empty);
    outcome::add_refused(&mut outcomes, keys, &refused);
    for outcome in &mut outcomes {
        for skip in &mut outcome.skips {
            if skip.reason == SkipReason::KindNotFound {
                NOT_DUMPED.clone_into(&mut skip.message);
            }
        }
    }
    Ok(Seen { world, outcomes })
}

/// Takes out targets that select namespaces by labels which the dump does not tell. No label matches nothing and excludes nothing, and
/// both may be wrong.
fn by_unknown_labels(world: &mut World, implied: &BTreeSet<String>) -> BTreeMap<TargetKey, String> {
    let mut refused = BTreeMap::new();
    if implied.is_empty() {
        return refused;
    }
    let why = || {
        format!(
            "it selects namespaces by their labels, but the dump has no Namespace objects for {}; dump namespaces too",
            outcome::some(implied.iter().map(String::as_str))
        )
    };
    // Whoever names namespaces means no others.
    let concerned = |included: &[String]| {
        included.is_empty() || included.iter().any(|name| implied.contains(name.trim()))
    };
    let by_rules =
        |rules: &[ResourceRule]| rules.iter().any(|rule| rule.namespace_selector.is_some());
    world.targets.retain(|target| {
        let spec = &target.spec;
        let by_labels = spec.namespace_selector.is_some()
            || spec.namespace_exclude_selector.is_some()
            || by_rules(&spec.resource_rules);
        if !by_labels || !concerned(&spec.included_namespaces) {
            return true;
        }
        let object = Object::Target((**target).clone());
        let key = TargetKey::namespaced(object.namespace(), object.name());
        refused.insert(key, why());
        false
    });
    world.cluster_targets.retain(|target| {
        let spec = &target.spec;
        if !concerned(&spec.included_namespaces) {
            return true;
        }
        let object = Object::ClusterTarget((**target).clone());
        refused.insert(TargetKey::cluster(object.name()), why());
        false
    });
    refused
}
