//! What is looked at: a dump, or clusters.

use anyhow::Result;
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

    /// Looks at one of them. An error means that nothing could be seen at all.
    pub(crate) async fn look(
        &self,
        name: &str,
        world: World,
        keys: &[TargetKey],
        report: &Report,
    ) -> Result<Seen> {
        match self {
            Source::Dump(dump) => Ok(look_at_dump(dump, world, keys, report).await),
            Source::Clusters(clusters) => clusters.look(name, world, keys, report).await,
        }
    }
}

async fn look_at_dump(dump: &Dump, mut world: World, keys: &[TargetKey], report: &Report) -> Seen {
    let implied = dump.implied_namespaces();
    if !implied.is_empty() {
        let names: Vec<&str> = implied.iter().map(String::as_str).collect();
        let fields = [("namespaces", names.join(", ").into())];
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
    let plan = world::plan(&mut world, &mut &*dump).await;
    let gathered = dump.gather(&plan);
    let fields = [
        ("objects", dump.len().into()),
        ("seen", gathered.objects.into()),
    ];
    report.event(Level::Debug, "dump read", &fields);
    let mut outcomes = outcome::outcomes(keys, &plan, gathered, &[]);
    for outcome in &mut outcomes {
        for skip in &mut outcome.skips {
            if skip.reason == SkipReason::KindNotFound {
                NOT_DUMPED.clone_into(&mut skip.message);
            }
        }
    }
    Seen { world, outcomes }
}
