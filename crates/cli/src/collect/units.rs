//! What is exported: each inventory, or each target where there are none. Pure.

use std::{collections::BTreeSet, num::NonZeroU64, sync::Arc};

use kollect_api::{
    InventoryId, KollectClusterInventory, KollectClusterTarget, SinkKey, effective,
    inventory::Dedupe, rules::Object,
};
use kollect_collect::{
    inventory_rows::{self, ClusterRows},
    plan::{TargetKey, World},
    store::RowSelection,
};
use kollect_inventory::{Snapshot, TargetKind, rollup};
use kollect_operator::inventories::embedding::ProfilesInUse;
use kollect_sinks::{AttributeTypes, layout::Embedding};

use super::outcome::{Named, TargetOutcome};
use crate::configuration::{Configuration, sink_refs};

/// One thing that is exported as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) id: InventoryId,
    /// How messages name it.
    pub(crate) title: String,
    /// Its rows, or why they are not known.
    pub(crate) rows: Result<Snapshot, String>,
    /// Where it goes; nothing for everywhere.
    pub(crate) sinks: Option<Vec<UnitSink>>,
    /// What is known of its profiles.
    pub(crate) embedding: Embedding,
    /// The attributes of its profile, in their order; empty if there are several profiles.
    pub(crate) attributes: Vec<String>,
    /// The types that they declare.
    pub(crate) types: Arc<AttributeTypes>,
}

/// Where a unit goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnitSink {
    pub(crate) key: SinkKey,
    /// The size above which documents are split.
    pub(crate) max_document_bytes: Option<NonZeroU64>,
}

/// Each target by itself.
pub(crate) fn of_targets(outcomes: &[TargetOutcome]) -> Vec<Unit> {
    let wanted = outcomes.iter().filter(|outcome| !outcome.suspended);
    wanted
        .map(|outcome| Unit {
            id: id_of(&outcome.key),
            title: format!("target {}", Named(&outcome.key)),
            rows: outcome
                .rows
                .clone()
                .ok_or_else(|| outcome.held_back().to_owned()),
            sinks: None,
            // One profile, so that any of its rows tells.
            embedding: Embedding::Unknown,
            attributes: outcome.attributes(),
            types: Arc::default(),
        })
        .collect()
}

/// The inventory that the rows of a target alone make.
pub(crate) fn id_of(key: &TargetKey) -> InventoryId {
    match key.owner {
        TargetKind::Target => InventoryId::namespaced(&*key.namespace, &*key.name),
        TargetKind::ClusterTarget => InventoryId::cluster(&*key.name),
    }
}

/// Each inventory with the rows that an operator would give it; nothing where there are none.
pub(crate) fn of_inventories(
    configuration: &Configuration,
    world: &World,
    outcomes: &[TargetOutcome],
) -> Vec<Unit> {
    let mut units = Vec::new();
    let profiles = ProfilesInUse::new(&world.profiles, &world.targets, &world.cluster_targets);
    for object in &configuration.objects {
        let unit = match object {
            Object::Inventory(inventory) if !inventory.spec.suspend => {
                let selection = inventory_rows::of_inventory(object.namespace());
                let id = InventoryId::namespaced(object.namespace(), object.name());
                Unit {
                    embedding: profiles.embedding(&id.scope, &BTreeSet::new()),
                    types: Arc::new(profiles.types(&id.scope, &BTreeSet::new())),
                    id,
                    title: format!("inventory {}/{}", object.namespace(), object.name()),
                    rows: rows(&selection, Dedupe::KeepAll, outcomes),
                    sinks: Some(sinks(object, inventory.spec.max_export_bytes)),
                    attributes: Vec::new(),
                }
            }
            Object::ClusterInventory(inventory) if !inventory.spec.suspend => {
                let id = InventoryId::cluster(object.name());
                let selected = selection(inventory, world);
                let targets = selected.as_ref().map(|(_, targets)| targets);
                Unit {
                    embedding: targets.map_or(Embedding::Unknown, |targets| {
                        profiles.embedding(&id.scope, targets)
                    }),
                    types: targets.map_or_else(
                        |_| Arc::default(),
                        |targets| Arc::new(profiles.types(&id.scope, targets)),
                    ),
                    id,
                    title: format!("cluster inventory {}", object.name()),
                    rows: selected.and_then(|(selection, _)| {
                        rows(&selection, inventory.spec.dedupe, outcomes)
                    }),
                    sinks: Some(sinks(object, None)),
                    attributes: Vec::new(),
                }
            }
            _ => continue,
        };
        units.push(unit);
    }
    units
}

/// Where an inventory goes.
fn sinks(inventory: &Object, max_export_bytes: Option<i64>) -> Vec<UnitSink> {
    let references = sink_refs(inventory).into_iter();
    references
        .map(|(key, reference)| UnitSink {
            key,
            max_document_bytes: effective::max_export_bytes(
                reference.max_export_bytes,
                max_export_bytes,
                None,
            ),
        })
        .collect()
}

/// Which targets and namespaces a cluster inventory means, or why it cannot be exported.
fn selection(
    inventory: &KollectClusterInventory,
    world: &World,
) -> Result<(RowSelection, BTreeSet<String>), String> {
    let rows = inventory_rows::of_cluster_inventory(
        &inventory.spec,
        &world.cluster_targets,
        &world.namespaces,
    );
    match rows.map_err(|invalid| invalid.to_string())? {
        ClusterRows::Known { selection, targets } => {
            let name = |target: &&KollectClusterTarget| target.metadata.name.clone();
            Ok((selection, targets.iter().filter_map(name).collect()))
        }
        ClusterRows::NotKnownYet => Err(
            "not all namespaces are known; grant list on namespaces, or give a dump with all of them"
                .to_owned(),
        ),
        ClusterRows::NoTargets => Err(
            "no KollectClusterTarget matched; check targetSelector".to_owned(),
        ),
        ClusterRows::Missing(names) => Err(format!(
            "spec.targetRefs names KollectClusterTargets that do not exist: [{}]",
            names.join(" ")
        )),
    }
}

/// The rows of a selection, unless a target in it is not known completely.
fn rows(
    selection: &RowSelection,
    dedupe: Dedupe,
    outcomes: &[TargetOutcome],
) -> Result<Snapshot, String> {
    let mut rows = Vec::new();
    let mut held = Vec::new();
    for outcome in outcomes {
        if !selection.includes_target(&outcome.key) {
            continue;
        }
        let named = Named(&outcome.key);
        match (&outcome.rows, &outcome.key.owner) {
            (Some(known), _) => {
                let included = known
                    .rows()
                    .iter()
                    .filter(|row| selection.includes_row(row));
                rows.extend(included.cloned());
                let unread = known.held().iter().filter(|held| {
                    let namespace = held.namespace.as_deref();
                    namespace.is_none_or(|name| selection.includes_namespace(name))
                });
                held.extend(unread.cloned());
            }
            // A suspended target has no rows: those that it had leave the inventory. A rollup
            // waits for all of its targets, as it does in the operator.
            (None, TargetKind::Target) if outcome.suspended => {}
            (None, TargetKind::ClusterTarget) if outcome.suspended => {
                return Err(format!("target {named} is suspended"));
            }
            (None, _) => return Err(format!("target {named} was not collected")),
        }
    }
    Ok(rollup::merged(rows, dedupe).holding(held))
}

#[cfg(test)]
mod agreement;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kollect_collect::plan::{NamespaceFacts, NamespaceListing};
    use kollect_inventory::{AttributesBuffer, Interner, OriginParts};

    use super::*;
    use crate::{
        collect::{
            outcome::outcome_of,
            world::{self, Wishes},
        },
        configuration::Standard,
        manifest::Text,
    };

    const MANIFESTS: &str = "
apiVersion: kollect.dev/v1alpha1
kind: KollectProfile
metadata: {name: p, namespace: team}
spec: {targetGVK: {version: v1, kind: Pod}, attributes: [{name: a, path: $.a}]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectDatabaseSink
metadata: {name: db, namespace: team}
spec: {type: postgres, postgres: {databaseRef: {name: s}, table: rows}}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectInventory
metadata: {name: mine, namespace: team}
spec: {databaseSinkRefs: [db, {name: small, maxExportBytes: 50}], maxExportBytes: 100}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectInventory
metadata: {name: later, namespace: team}
spec: {databaseSinkRefs: [db], suspend: true}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectClusterTarget
metadata: {name: one, labels: {of: platform}}
spec: {profileRef: {name: p, namespace: team}, namespaceSelector: {matchLabels: {tenant: 'yes'}}}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectClusterTarget
metadata: {name: two, labels: {of: platform}}
spec: {profileRef: {name: p, namespace: team}, namespaceSelector: {matchLabels: {tenant: 'yes'}}}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectClusterInventory
metadata: {name: all}
spec:
  targetSelector: {matchLabels: {of: platform}}
  namespaceSelector: {matchLabels: {tenant: 'yes'}}
  dedupe: byResourceUID
  sinkNamespace: team
  databaseSinkRefs: [db]
";

    fn outcome(key: &TargetKey, objects: Option<&[(&str, &str)]>) -> TargetOutcome {
        let mut interner = Interner::new();
        let mut buffer = AttributesBuffer::default();
        let mut row = |namespace: &str, name: &str| {
            buffer.start().attribute("a").signed(1);
            let origin = interner.origin(OriginParts {
                owner: key.owner,
                target_namespace: key.row_namespace(namespace),
                target_name: &key.name,
                namespace,
                group: "",
                version: "v1",
                kind: "Pod",
            });
            interner.row(&origin, name, name, buffer.view())
        };
        let rows = objects.map(|objects| {
            objects
                .iter()
                .map(|(namespace, name)| row(namespace, name))
                .collect()
        });
        outcome_of(key, rows)
    }

    fn units(outcomes: &[TargetOutcome]) -> BTreeMap<String, Unit> {
        let text = Text {
            name: "test".to_owned(),
            content: MANIFESTS.to_owned(),
        };
        let configuration = Configuration::load(&[text], &Standard::default());
        assert_eq!(configuration.failed(), 0);
        let mut world = world::world(&configuration, &Wishes::default());
        let facts = |tenant: &str| NamespaceFacts {
            labels: BTreeMap::from([("tenant".to_owned(), tenant.to_owned())]),
            ..NamespaceFacts::default()
        };
        world.namespaces = NamespaceListing::Complete(BTreeMap::from([
            ("x".to_owned(), facts("yes")),
            ("y".to_owned(), facts("no")),
        ]));
        let units = of_inventories(&configuration, &world, outcomes).into_iter();
        units.map(|unit| (unit.title.clone(), unit)).collect()
    }

    #[test]
    fn inventories_hold_what_an_operator_would_give_them() {
        let mine = TargetKey::namespaced("team", "t");
        let other = TargetKey::namespaced("elsewhere", "t");
        let (one, two) = (TargetKey::cluster("one"), TargetKey::cluster("two"));
        let known = [
            outcome(&mine, Some(&[("x", "a"), ("y", "b")])),
            outcome(&other, Some(&[("x", "a")])),
            outcome(&one, Some(&[("x", "a"), ("y", "b")])),
            outcome(&two, Some(&[("x", "a"), ("x", "c")])),
        ];
        let units = units(&known);
        assert_eq!(units.len(), 2, "the suspended one is nobody's");
        let unit = &units["inventory team/mine"];
        assert_eq!(unit.rows.as_ref().unwrap().len(), 2);
        let sizes = |unit: &Unit| {
            let sinks = unit.sinks.iter().flatten();
            let sizes = sinks.map(|sink| sink.max_document_bytes.map(NonZeroU64::get));
            sizes.collect::<Vec<_>>()
        };
        assert_eq!(sizes(unit), [Some(100), Some(50)]);
        // Namespace y is not selected, and an object that both targets see is one row.
        let unit = &units["cluster inventory all"];
        let rows = unit.rows.as_ref().unwrap();
        let names: Vec<(&str, &str)> = rows
            .rows()
            .iter()
            .map(|row| (row.origin().target_name(), row.name()))
            .collect();
        assert_eq!(names, [("two", "a"), ("two", "c")]);
        assert_eq!(unit.id, InventoryId::cluster("all"));
        assert_eq!(sizes(unit), [None]);
    }

    #[test]
    fn an_inventory_waits_for_all_its_targets() {
        let outcomes = [
            outcome(&TargetKey::namespaced("team", "t"), Some(&[("x", "a")])),
            outcome(&TargetKey::namespaced("team", "u"), None),
            outcome(&TargetKey::cluster("one"), None),
        ];
        let units = units(&outcomes);
        let why = |title: &str| units[title].rows.clone().unwrap_err();
        assert_eq!(
            why("inventory team/mine"),
            "target team/u was not collected"
        );
        assert_eq!(why("cluster inventory all"), "target one was not collected");
    }
    #[test]
    fn suspended_targets_leave_an_inventory_and_hold_a_rollup_back() {
        let paused = |key: TargetKey| TargetOutcome {
            suspended: true,
            ..outcome(&key, None)
        };
        let outcomes = [
            outcome(&TargetKey::namespaced("team", "t"), Some(&[("x", "a")])),
            paused(TargetKey::namespaced("team", "u")),
            paused(TargetKey::cluster("one")),
        ];
        let units = units(&outcomes);
        let rows = units["inventory team/mine"].rows.as_ref().unwrap();
        assert_eq!(rows.len(), 1);
        let rollup = units["cluster inventory all"].rows.as_ref();
        assert_eq!(rollup.unwrap_err(), "target one is suspended");
    }
}
