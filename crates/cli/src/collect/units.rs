//! What is exported: each inventory, or each target where there are none. Pure.

use std::{collections::BTreeSet, num::NonZeroU64};

use kollect_api::InventoryId;
use kollect_api::inventory::Dedupe;
use kollect_api::{KollectClusterInventory, rules::Object, selector::LabelSelector};
use kollect_collect::{
    gates::Selector,
    plan::{NamespaceListing, TargetKey, World},
    store::RowSelection,
};
use kollect_inventory::{Snapshot, TargetKind, rollup};
use kollect_sinks::DocumentOptions;

use super::outcome::{Named, TargetOutcome};
use crate::configuration::{Configuration, sink_refs};
use kollect_api::SinkKey;

/// One thing that is exported as a whole.
#[derive(Debug, Clone)]
pub(crate) struct Unit {
    pub(crate) id: InventoryId,
    /// How messages name it.
    pub(crate) title: String,
    /// Its rows, or why they are not known.
    pub(crate) rows: Result<Snapshot, String>,
    /// Where it goes; nothing for everywhere.
    pub(crate) sinks: Option<Vec<SinkKey>>,
    /// How its rows become documents.
    pub(crate) documents: DocumentOptions,
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
                .ok_or_else(|| "it was not collected".to_owned()),
            sinks: None,
            documents: DocumentOptions::default(),
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
    for object in &configuration.objects {
        let unit = match object {
            Object::Inventory(inventory) if !inventory.spec.suspend => {
                let scope = RowSelection::Namespace(object.namespace().to_owned());
                Unit {
                    id: InventoryId::namespaced(object.namespace(), object.name()),
                    title: format!("inventory {}/{}", object.namespace(), object.name()),
                    rows: rows(&scope, Dedupe::KeepAll, outcomes),
                    sinks: Some(sink_refs(object)),
                    documents: DocumentOptions {
                        max_bytes: inventory
                            .spec
                            .max_export_bytes
                            .and_then(|bytes| u64::try_from(bytes).ok())
                            .and_then(NonZeroU64::new),
                        ..DocumentOptions::default()
                    },
                }
            }
            Object::ClusterInventory(inventory) if !inventory.spec.suspend => Unit {
                id: InventoryId::cluster(object.name()),
                title: format!("cluster inventory {}", object.name()),
                rows: cluster_scope(inventory, world)
                    .and_then(|scope| rows(&scope, inventory.spec.dedupe, outcomes)),
                sinks: Some(sink_refs(object)),
                documents: DocumentOptions::default(),
            },
            _ => continue,
        };
        units.push(unit);
    }
    units
}

/// The rows of a scope, unless a target in it is not known completely.
fn rows(
    scope: &RowSelection,
    dedupe: Dedupe,
    outcomes: &[TargetOutcome],
) -> Result<Snapshot, String> {
    let mut rows = Vec::new();
    for outcome in outcomes {
        if !scope.includes_target(&outcome.key) || outcome.suspended {
            continue;
        }
        let Some(known) = &outcome.rows else {
            return Err(format!("target {} was not collected", Named(&outcome.key)));
        };
        let included = known.rows().iter().filter(|row| scope.includes_row(row));
        rows.extend(included.cloned());
    }
    // Merging looks at rows in canonical order.
    let rows = Snapshot::new(rows);
    Ok(match dedupe {
        Dedupe::KeepAll => rows,
        Dedupe::ByResourceUid => Snapshot::new(rollup::merge(rows.rows().iter().cloned(), dedupe)),
    })
}

/// Which targets and namespaces a cluster inventory means.
fn cluster_scope(
    inventory: &KollectClusterInventory,
    world: &World,
) -> Result<RowSelection, String> {
    let spec = &inventory.spec;
    let selector = |field: &str, selector: Option<&LabelSelector>| {
        Selector::compile_optional(selector).map_err(|error| format!("spec.{field}.{error}"))
    };
    let by_labels = selector("targetSelector", spec.target_selector.as_ref())?;
    let wanted: BTreeSet<&str> = spec.target_refs.iter().map(|name| name.trim()).collect();
    let targets = world.cluster_targets.iter().filter(|target| {
        let name = target.metadata.name.as_deref().unwrap_or_default();
        if wanted.is_empty() {
            by_labels.matches(&target.metadata.labels.clone().unwrap_or_default())
        } else {
            wanted.contains(name)
        }
    });
    let targets = targets.filter_map(|target| target.metadata.name.clone());
    let by_labels = selector("namespaceSelector", spec.namespace_selector.as_ref())?;
    let known = match &world.namespaces {
        NamespaceListing::Unread => return Err("namespaces are not known".to_owned()),
        NamespaceListing::Complete(known) | NamespaceListing::Partial(known) => known,
    };
    let namespaces = known.iter().filter(|(name, facts)| {
        (spec.namespaces.is_empty() || spec.namespaces.contains(name))
            && by_labels.matches(&facts.labels)
    });
    Ok(RowSelection::Cluster {
        targets: targets.collect(),
        namespaces: namespaces.map(|(name, _)| name.clone()).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kollect_collect::plan::NamespaceFacts;
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
spec: {databaseSinkRefs: [db], maxExportBytes: 100}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectInventory
metadata: {name: later, namespace: team}
spec: {databaseSinkRefs: [db], suspend: true}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectClusterTarget
metadata: {name: one, labels: {of: platform}}
spec: {profileRef: {name: p, namespace: team}, namespaceSelector: {matchLabels: {a: b}}}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectClusterTarget
metadata: {name: two, labels: {of: platform}}
spec: {profileRef: {name: p, namespace: team}, namespaceSelector: {matchLabels: {a: b}}}
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
        let configuration = Configuration::load(&[text], &Standard::default()).unwrap();
        assert_eq!(configuration.problems, []);
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
        assert_eq!(unit.documents.max_bytes, NonZeroU64::new(100));
        assert_eq!(unit.sinks.as_ref().unwrap().len(), 1);
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
}
