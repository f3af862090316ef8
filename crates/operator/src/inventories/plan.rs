//! What is to be exported where, from everything that users configured.
//!
//! Pure: the inventory, the scopes, the cluster targets, the namespaces and the sinks go in; an
//! order for the exporter and what has to be said about it come out.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::jiff::Timestamp;
use kollect_api::{
    InventoryScope, KollectClusterScope, KollectClusterTarget, KollectScope, SinkKey,
    condition::{Condition, ConditionStatus, ConditionType, Reason},
    effective,
    inventory::KollectClusterInventorySpec,
    reference::SinkFamily,
    rules::{outside_sinks, outside_static_refs},
    scope::Ceiling,
};
use kollect_collect::{
    inventory_rows::{self, ClusterRows},
    plan::NamespaceListing,
    store::RowSelection,
};
use kollect_export::{
    Configuration, Order, SinkOrder,
    order::{Resume, Source},
};
use kollect_sinks::{AttributeTypes, DocumentOptions, SinkError, layout::Embedding};
use sha2::{Digest as _, Sha256};

use super::subject::{Reference, Subject};
use crate::{
    sink_objects::{Access, Lookup, SinkObject, truncated},
    sink_usability::objection,
    statements::find,
    target_status::Trouble,
};

/// For how long an inventory may be there before anybody minds that it selects no target: objects
/// of one manifest arrive one after the other.
const BOOTSTRAP: Duration = Duration::from_mins(5);

/// What the plan of an inventory depends on.
pub struct World<'w> {
    /// All scopes of teams.
    pub scopes: &'w [Arc<KollectScope>],
    /// All scopes of the platform.
    pub cluster_scopes: &'w [Arc<KollectClusterScope>],
    /// The namespaces.
    pub namespaces: &'w NamespaceListing,
    /// The cluster targets.
    pub cluster_targets: &'w [Arc<KollectClusterTarget>],
    /// What of all this is not known.
    pub gaps: &'w Gaps,
    /// The targets of a team's rows that nobody waits for because they are at fault themselves, and
    /// why; and whether there are others.
    pub held: &'w dyn Fn(&RowSelection) -> Held,
    /// Looks for a sink.
    pub find: &'w dyn Fn(&SinkKey) -> Lookup,
    /// Looks for its credentials.
    pub access: &'w dyn Fn(&SinkObject) -> Access,
    /// What is known of the profiles behind an inventory with these cluster targets.
    pub embedding: &'w dyn Fn(&InventoryScope, &BTreeSet<String>) -> Embedding,
    /// The attributes of the profiles behind an inventory, and their declared types.
    pub types: &'w dyn Fn(&InventoryScope, &BTreeSet<String>) -> Arc<AttributeTypes>,
    /// The operator's own size of documents, if it was given.
    pub max_export_bytes: Option<i64>,
    /// Now.
    pub now: Timestamp,
}

/// What is not known of the configuration. What is not known is not empty: whoever depends on it
/// exports nothing and removes nothing, and says what is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gaps {
    /// Why scopes of teams cannot be read.
    pub scopes: Option<String>,
    /// Namespaces with scopes that cannot be read or decoded, and what is wrong with them.
    pub unreadable_scopes: BTreeMap<String, String>,
    /// Why cluster scopes cannot be read, or one of them cannot be decoded.
    pub cluster_scopes: Option<String>,
    /// Why targets of teams cannot be read.
    pub targets: Option<String>,
    /// Namespaces whose targets cannot be read, and why.
    pub unread_targets: BTreeMap<String, String>,
    /// Why cluster targets cannot be read.
    pub cluster_targets: Option<String>,
    /// Cluster targets that cannot be decoded, and why.
    pub unreadable_cluster_targets: BTreeMap<String, String>,
    /// What teams' inventories depend on and could be read once, but cannot now.
    pub stale: Vec<String>,
    /// The same for the inventories of the platform.
    pub cluster_stale: Vec<String>,
}

/// Targets that nobody waits for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Their names, and what is wrong with them.
    pub targets: Vec<(String, String)>,
    /// Others that collect nothing, and what is wrong with them: they have no rows to keep.
    pub broken: Vec<(String, String)>,
    /// Whether there are other targets, or other namespaces of theirs, whose rows are exported.
    pub others: bool,
    /// Targets of which something may not be read any more, and what: their rows are exported as
    /// they were.
    pub stale: Vec<(String, String)>,
}

impl Gaps {
    /// What keeps an inventory from being exported.
    fn for_export(&self, subject: &Subject, namespace: &str) -> Option<Trouble> {
        let scope = self.unreadable_scopes.get(namespace).cloned();
        let targets = || self.unread_targets.get(namespace).cloned();
        let scopes = (Reason::ScopeLookupFailed, self.scopes.clone().or(scope));
        let own = match &subject.rollup {
            None => vec![
                (
                    Reason::TargetLookupFailed,
                    self.targets.clone().or_else(targets),
                ),
                scopes,
            ],
            Some(spec) => vec![
                (
                    Reason::TargetLookupFailed,
                    self.cluster_targets
                        .clone()
                        .or_else(|| self.unreadable_among(spec)),
                ),
                (Reason::ScopeLookupFailed, self.cluster_scopes.clone()),
                scopes,
            ],
        };
        let (reason, why) = own
            .into_iter()
            .find_map(|(reason, why)| Some((reason, why?)))?;
        Some(Trouble {
            reason,
            message: format!("{why}; rows stay as they are"),
        })
    }

    /// A cluster target that cannot be decoded and may be meant by an inventory.
    fn unreadable_among(&self, spec: &KollectClusterInventorySpec) -> Option<String> {
        let named = |name: &str| spec.target_refs.iter().any(|entry| entry.trim() == name);
        let mut meant = self.unreadable_cluster_targets.iter();
        let (name, why) = meant.find(|(name, _)| spec.target_refs.is_empty() || named(name))?;
        Some(format!(
            "KollectClusterTarget {name:?} cannot be understood by this operator: {why}"
        ))
    }

    /// What an inventory that is exported depends on and nobody can read at present.
    fn for_doubt(&self, subject: &Subject) -> Option<Trouble> {
        let stale = if subject.rollup.is_some() {
            &self.cluster_stale
        } else {
            &self.stale
        };
        let first = stale.first()?;
        let more = match stale.len() - 1 {
            0 => String::new(),
            more => format!(" (and {more} more)"),
        };
        Some(Trouble {
            reason: Reason::InventoryListFailed,
            message: format!("{first}{more}; what was read before stays in use"),
        })
    }
}

impl Held {
    /// What is said about targets of which something is not known.
    fn trouble(&self) -> Option<Trouble> {
        let parts = [
            explained("held, their rows stay as they are", &self.targets),
            explained("collect nothing", &self.broken),
            explained("cannot be read, what was read before stays", &self.stale),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| Trouble {
            reason: Reason::TargetDegraded,
            message: parts.join("; "),
        })
    }
}

/// How many targets, what became of them, and why, for the first few.
fn explained(fate: &str, targets: &[(String, String)]) -> Option<String> {
    /// How many targets a message explains.
    const NAMED: usize = 3;
    /// How much is said about each: one must not leave the others without a word.
    const LONGEST: usize = 200;
    let mut texts: Vec<String> = targets
        .iter()
        .take(NAMED)
        .map(|(name, why)| match why.floor_char_boundary(LONGEST) {
            end if end < why.len() => format!("{name}: {}…", &why[..end]),
            _ => format!("{name}: {why}"),
        })
        .collect();
    if targets.len() > NAMED {
        texts.push("…".to_owned());
    }
    (!targets.is_empty())
        .then(|| format!("{} target(s) {fate}: [{}]", targets.len(), texts.join("; ")))
}

/// What is wrong with one sink of an inventory before anything is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Finding {
    /// Which sink.
    pub key: SinkKey,
    /// What is wrong.
    pub trouble: Trouble,
}

/// What to do for an inventory, and what to say about it.
#[derive(Debug, Clone)]
pub struct InventoryPlan {
    /// For the exporter.
    pub order: Order,
    /// Why nothing is exported at all.
    pub gate: Option<Trouble>,
    /// What is wrong although exports go on.
    pub doubt: Option<Trouble>,
    /// Nothing definite is known yet: the status stays as it is.
    pub undecided: bool,
    /// The sinks that cannot be used.
    pub findings: Vec<Finding>,
    /// Sinks that the inventory no longer refers to and that are gone as well, or that it could not
    /// refer to: nothing is cleaned up there.
    pub orphans: Vec<SinkKey>,
    /// The cluster targets that are rolled up.
    pub targets: BTreeSet<String>,
}

/// Makes the plan of an inventory.
pub fn plan(subject: &Subject, world: &World<'_>) -> InventoryPlan {
    let ceilings = ceilings(subject, world);
    let Selection {
        scope,
        targets,
        trouble: mut gate,
        mut undecided,
        mut doubt,
    } = select(subject, world);
    let namespace = governing_namespace(subject);
    if let Some(gap) = world.gaps.for_export(subject, namespace) {
        gate = Some(gap);
        undecided = false;
    }
    doubt = doubt.or_else(|| world.gaps.for_doubt(subject));
    let held = (world.held)(&scope);
    // Nothing is left to export. A rollup waits for every one of its targets anyway.
    let nothing_left = !held.others && !held.targets.is_empty() && subject.rollup.is_none();
    match held.trouble() {
        Some(trouble) if nothing_left => gate = gate.or(Some(trouble)),
        trouble => doubt = trouble.or(doubt),
    }
    if subject.suspend {
        gate = Some(Trouble {
            reason: Reason::Suspended,
            message: "spec.suspend is true".to_owned(),
        });
        undecided = false;
    } else if let Some(denial) = denial(subject, &ceilings) {
        gate = Some(denial);
        undecided = false;
    } else if let Some(invalid) = &subject.invalid
        && gate.is_none()
    {
        gate = Some(Trouble {
            reason: Reason::InvalidSpec,
            message: invalid.clone(),
        });
        undecided = false;
    }
    let floor = effective::floor(ceilings.iter().copied());
    let embedding = (world.embedding)(&subject.id.scope, &targets);
    let types = (world.types)(&subject.id.scope, &targets);
    let mut findings = Vec::new();
    let deleted = subject.deleted_at.is_some();
    let mut deliver = Vec::new();
    for reference in &subject.references {
        let found = (world.find)(&reference.key);
        if let Some(trouble) = objection(&reference.key, &found) {
            findings.push(Finding {
                key: reference.key.clone(),
                trouble,
            });
        }
        deliver.push(sink_order(
            subject, reference, &found, floor, &embedding, &types, world,
        ));
    }
    let mut retire = Vec::new();
    let mut orphans = Vec::new();
    for key in leftovers(subject) {
        let known = deliver.iter().find(|sink| sink.key == key).cloned();
        match (world.find)(&key) {
            Lookup::Missing => orphans.push(key),
            _ if is_out_of_bounds(subject, &key, &ceilings) => orphans.push(key),
            found => {
                let reference = Reference {
                    key,
                    interval: None,
                    change_interval: None,
                    max_export_bytes: None,
                };
                let order = known.unwrap_or_else(|| {
                    sink_order(
                        subject, &reference, &found, floor, &embedding, &types, world,
                    )
                });
                retire.push(SinkOrder {
                    // An unverified connection does not keep rows from being removed.
                    source: match found {
                        Lookup::Found(sink) => source((world.access)(&sink)),
                        _ => order.source,
                    },
                    ..order
                });
            }
        }
    }
    if deleted {
        deliver.clear();
        findings.clear();
    }
    InventoryPlan {
        order: Order {
            inventory: subject.id.clone(),
            generation: subject.generation,
            scope,
            dedupe: subject.dedupe(),
            open: gate.is_none() && !undecided && !deleted,
            deliver,
            retire,
        },
        gate,
        doubt,
        undecided,
        findings,
        orphans,
        targets,
    }
}

/// The ceilings over an inventory and its intervals.
fn ceilings<'w>(subject: &Subject, world: &World<'w>) -> Vec<Ceiling<'w>> {
    let namespace = governing_namespace(subject);
    let own = world
        .scopes
        .iter()
        .filter(|scope| scope.metadata.namespace.as_deref() == Some(namespace))
        .map(|scope| scope.ceiling());
    let mut all: Vec<_> = own.collect();
    if subject.rollup.is_some() {
        all.extend(world.cluster_scopes.iter().map(|scope| scope.ceiling()));
    }
    all
}

/// The namespace whose scopes are above an inventory.
fn governing_namespace(subject: &Subject) -> &str {
    match (&subject.id.scope, &subject.rollup) {
        (InventoryScope::Namespace(namespace), _) => namespace.as_str(),
        (InventoryScope::Cluster, Some(spec)) => spec.sink_namespace(),
        (InventoryScope::Cluster, None) => "",
    }
}

/// Why the scopes do not allow the inventory to be exported, if they do not.
fn denial(subject: &Subject, ceilings: &[Ceiling<'_>]) -> Option<Trouble> {
    let cluster = subject.rollup.is_some();
    // What a team's scope says about sinks binds the team, not the platform.
    let binding = ceilings
        .iter()
        .filter(|ceiling| (ceiling.kind == "KollectClusterScope") == cluster);
    for ceiling in binding {
        if let Some(spec) = &subject.rollup {
            for namespace in referred_namespaces(spec, &subject.references) {
                if let Some(message) = outside_static_refs(ceiling, &namespace) {
                    return Some(Trouble {
                        reason: Reason::SinkNamespaceDenied,
                        message,
                    });
                }
            }
        }
        for reference in &subject.references {
            let key = &reference.key;
            if let Some(message) = outside_sinks(ceiling, key.family, &key.name) {
                return Some(Trouble {
                    reason: Reason::ScopeSinkDenied,
                    message,
                });
            }
        }
    }
    None
}

fn referred_namespaces(
    spec: &KollectClusterInventorySpec,
    references: &[Reference],
) -> BTreeSet<String> {
    let profile = spec.profile_ref.as_ref();
    let profile = profile
        .map(|reference| reference.namespace().to_owned())
        .filter(|namespace| !namespace.is_empty());
    let sinks = references.iter().map(|sink| sink.key.namespace.clone());
    sinks.chain(profile).collect()
}

/// Which rows belong to an inventory.
struct Selection {
    scope: RowSelection,
    targets: BTreeSet<String>,
    /// Why the rows may not be exported, although it is known which they are.
    trouble: Option<Trouble>,
    undecided: bool,
    /// What is wrong although the rows may be exported.
    doubt: Option<Trouble>,
}

impl Selection {
    fn of(scope: RowSelection, targets: BTreeSet<String>) -> Self {
        Self {
            scope,
            targets,
            trouble: None,
            undecided: false,
            doubt: None,
        }
    }

    fn nothing() -> Self {
        let scope = RowSelection::Cluster {
            targets: BTreeSet::new(),
            namespaces: BTreeSet::new(),
        };
        Self::of(scope, BTreeSet::new())
    }
}

fn select(subject: &Subject, world: &World<'_>) -> Selection {
    let spec = match (&subject.id.scope, &subject.rollup) {
        (InventoryScope::Namespace(namespace), _) => {
            return Selection::of(inventory_rows::of_inventory(namespace), BTreeSet::new());
        }
        (InventoryScope::Cluster, None) => return Selection::nothing(),
        (InventoryScope::Cluster, Some(spec)) => spec,
    };
    let not_yet = || Selection {
        undecided: true,
        ..Selection::nothing()
    };
    let trouble = |reason, message| Selection {
        trouble: Some(Trouble { reason, message }),
        ..Selection::nothing()
    };
    match inventory_rows::of_cluster_inventory(spec, world.cluster_targets, world.namespaces) {
        Err(invalid) => trouble(Reason::InvalidSpec, invalid.to_string()),
        Ok(ClusterRows::NotKnownYet) => match world.namespaces {
            NamespaceListing::Unreadable(why) => trouble(
                Reason::NamespaceLookupFailed,
                format!("it is not known which namespaces there are: {why}; rows stay as they are"),
            ),
            NamespaceListing::Partial(_) => trouble(
                Reason::NamespaceLookupFailed,
                "the operator may not list namespaces, so it is not known what to roll up; grant it get, list and watch on namespaces; rows stay as they are".to_owned(),
            ),
            _ => not_yet(),
        },
        // Objects of one manifest arrive one after the other. Whoever has exported before has seen
        // its targets go.
        Ok(ClusterRows::NoTargets | ClusterRows::Missing(_))
            if subject.age(world.now) < BOOTSTRAP && subject.status.sink_exports.is_empty() =>
        {
            not_yet()
        }
        // A name that leads nowhere says nothing about rows: it may be a slip of the pen, or the
        // target is on its way. Whoever wants the rows gone takes the name away.
        Ok(ClusterRows::Missing(names)) => trouble(Reason::NoTargets, missing(&names)),
        // That there is none is known, so there are no rows either.
        Ok(ClusterRows::NoTargets) => Selection {
            doubt: Some(Trouble {
                reason: Reason::NoTargets,
                message: "no KollectClusterTarget objects matched, so the rollup is empty; check targetSelector and namespaceSelector".to_owned(),
            }),
            ..Selection::nothing()
        },
        Ok(ClusterRows::Known { selection, targets }) => {
            let name = |target: &&KollectClusterTarget| target.metadata.name.clone();
            Selection {
                trouble: not_ready(&targets),
                ..Selection::of(selection, targets.iter().filter_map(name).collect())
            }
        }
    }
}

/// The complaint about names that lead nowhere.
fn missing(names: &[&str]) -> String {
    let what = match names {
        [] => "spec.targetRefs names no target".to_owned(),
        [name] => format!("KollectClusterTarget {name:?} of spec.targetRefs does not exist"),
        [name, more @ ..] => format!(
            "KollectClusterTarget {name:?} and {} more of spec.targetRefs do not exist",
            more.len()
        ),
    };
    format!("{what}; create it, or remove the name; rows stay as they are")
}

/// The complaint about selected targets that are not ready, if there are any.
fn not_ready(targets: &[&KollectClusterTarget]) -> Option<Trouble> {
    let mut bad: Vec<(&str, Option<&Condition>)> = targets
        .iter()
        .filter(|target| !is_ready(target))
        .map(|target| {
            let name = target.metadata.name.as_deref().unwrap_or_default();
            let status = target.status.as_ref();
            let ready = status.and_then(|status| find(&status.conditions, ConditionType::Ready));
            (name, ready)
        })
        .collect();
    bad.sort_unstable_by_key(|(name, _)| *name);
    let names: Vec<&str> = bad.iter().map(|(name, _)| *name).collect();
    // The first few say why; whoever mends them sees the rest.
    let why: Vec<String> = bad
        .iter()
        .filter_map(|(name, ready)| Some((name, (*ready)?)))
        .take(3)
        .map(|(name, ready)| {
            let brief = &ready.message[..ready.message.floor_char_boundary(200)];
            format!("; {name}: {}: {brief}", ready.reason)
        })
        .collect();
    (!names.is_empty()).then(|| Trouble {
        reason: Reason::TargetDegraded,
        message: format!(
            "{} target(s) not Ready: [{}]{}",
            names.len(),
            names.join(" "),
            why.concat()
        ),
    })
}

fn is_ready(target: &KollectClusterTarget) -> bool {
    let conditions = target.status.iter().flat_map(|status| &status.conditions);
    conditions
        .filter(|condition| condition.type_ == ConditionType::Ready.as_str())
        .any(|condition| condition.status == ConditionStatus::True)
}

fn source(access: Access) -> Source {
    match access {
        Access::Reading => Source::Reading,
        Access::Ready(source) => Source::Ready(source),
        Access::Invalid(error) | Access::Failed(error) | Access::Unread(error) => {
            Source::Held(error)
        }
    }
}

fn sink_order(
    subject: &Subject,
    reference: &Reference,
    found: &Lookup,
    floor: Duration,
    embedding: &Embedding,
    types: &Arc<AttributeTypes>,
    world: &World<'_>,
) -> SinkOrder {
    let mut configuration = Sha256::new();
    for part in [
        &*subject.uid,
        subject.requested_at.as_deref().unwrap_or_default(),
    ] {
        configuration.update(part);
        configuration.update([0]);
    }
    configuration.update(subject.generation.to_be_bytes());
    // The profiles decide what files look like.
    if let Embedding::Known(attributes) = embedding {
        for attribute in attributes {
            configuration.update(attribute);
            configuration.update([0]);
        }
    }
    let (mut interval, mut change_interval) = (None, None);
    let source = match found {
        Lookup::Found(sink) => {
            let common = sink.spec.common();
            interval.clone_from(&common.export_min_interval);
            change_interval.clone_from(&common.change_interval);
            let source = source((world.access)(sink));
            if let Source::Ready(ready) = &source {
                configuration.update(&ready.uid);
                configuration.update(ready.version.to_be_bytes());
            }
            match objection(&reference.key, found) {
                Some(trouble) => Source::Held(SinkError::transient(trouble.message)),
                None => source,
            }
        }
        Lookup::Missing | Lookup::Unreadable { .. } => {
            let text = objection(&reference.key, found).map(|trouble| trouble.message);
            Source::Held(SinkError::terminal(text.unwrap_or_default()))
        }
    };
    SinkOrder {
        key: reference.key.clone(),
        source,
        configuration: Configuration(truncated(configuration)),
        interval: effective::interval(
            reference.key.family,
            reference.interval.as_ref(),
            interval.as_ref(),
            subject.interval.as_ref(),
            floor,
        ),
        change_interval: effective::change_interval(
            reference.change_interval.as_ref(),
            change_interval.as_ref(),
            subject.change_interval.as_ref(),
        ),
        documents: DocumentOptions {
            max_bytes: effective::max_export_bytes(
                reference.max_export_bytes,
                subject.max_export_bytes,
                world.max_export_bytes,
            ),
            embedding: embedding.clone(),
            types: Arc::clone(types),
        },
        resume: resume(subject, &reference.key),
    }
}

/// What an earlier process says it delivered, if that was for the same spec.
fn resume(subject: &Subject, key: &SinkKey) -> Option<Resume> {
    let status = &subject.status;
    if status.observed_generation != Some(subject.generation) {
        return None;
    }
    let entry = status
        .sink_exports
        .iter()
        .find(|entry| entry.name == key.within_inventory())
        .filter(|entry| entry.namespace.as_ref().is_none_or(|n| *n == key.namespace))?;
    let in_step = entry.conditions.iter().any(|c| {
        // What was left out is known again only after a delivery.
        c.type_ == ConditionType::Synced.as_str()
            && c.status == ConditionStatus::True
            && c.reason != Reason::RowsSkipped.as_str()
    });
    Some(Resume {
        checksum: entry.last_checksum.clone().filter(|_| in_step)?,
        at: entry.last_export_time.as_ref()?.0,
    })
}

/// The sinks that hold rows of this inventory and should not: those that the status or this process
/// remembers and the spec does not name; all of them when the inventory goes.
///
/// Whoever may write the status decides what it remembers, so it leads to no sink that the spec
/// could not have led to: the sinks of a namespaced inventory are in its own namespace, whatever
/// an entry says.
fn leftovers(subject: &Subject) -> BTreeSet<SinkKey> {
    let remembered = subject.status.sink_exports.iter().filter_map(|entry| {
        let (family, name) = entry.name.split_once('/')?;
        let family = SinkFamily::ALL.into_iter().find(|f| f.as_str() == family)?;
        Some(SinkKey {
            family,
            namespace: match &subject.id.scope {
                InventoryScope::Namespace(own) => own.clone(),
                InventoryScope::Cluster => entry.namespace.clone().unwrap_or_default(),
            },
            name: name.to_owned(),
        })
    });
    // A status is written after a delivery, and perhaps it could not be written.
    let remembered = remembered.chain(subject.served.iter().cloned());
    let named = subject.references.iter().map(|sink| sink.key.clone());
    if subject.deleted_at.is_some() {
        return remembered.chain(named).collect();
    }
    let named: BTreeSet<SinkKey> = named.collect();
    remembered.filter(|key| !named.contains(key)).collect()
}

/// Whether a cluster inventory may not refer to the namespace of a sink at all.
fn is_out_of_bounds(subject: &Subject, key: &SinkKey, ceilings: &[Ceiling<'_>]) -> bool {
    let mut binding = ceilings
        .iter()
        .filter(|ceiling| ceiling.kind == "KollectClusterScope");
    subject.rollup.is_some()
        && binding.any(|ceiling| outside_static_refs(ceiling, &key.namespace).is_some())
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
