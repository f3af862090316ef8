//! Operator and command line take the same rows for the same configuration, without a cluster.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use kollect_api::condition::Reason;
use kollect_collect::plan::{NamespaceFacts, NamespaceListing};
use kollect_operator::{
    inventories::{
        plan::{self, InventoryPlan},
        subject::Subject,
    },
    sink_objects::{Access, Lookup, SinkObject},
};
use kollect_sinks::SinkError;
use serde_json::{Value, json};

use super::*;

/// The table that the rule itself is tested with.
const TABLE: &str = include_str!("../../../../collect/tests/data/plan/inventory_rows.yaml");

fn listing(table: &Value, kind: Option<&str>) -> NamespaceListing {
    let all = table["namespaces"].as_object().expect("namespaces");
    let all = all.iter().map(|(name, labels)| {
        let labels = serde_json::from_value(labels.clone()).expect("labels");
        let facts = NamespaceFacts {
            labels,
            ..NamespaceFacts::default()
        };
        (name.clone(), facts)
    });
    match kind {
        None => NamespaceListing::Complete(all.collect()),
        Some("partial") => NamespaceListing::Partial(all.collect()),
        _ => NamespaceListing::Unread,
    }
}

fn object<T: serde::de::DeserializeOwned>(kind: &str, metadata: &Value, spec: &Value) -> T {
    let object = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec,
    });
    serde_json::from_value(object).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

fn plan_of(inventory: &KollectClusterInventory, world: &World) -> InventoryPlan {
    let now: Timestamp = "2026-02-01T00:00:00Z".parse().expect("a time");
    let world = plan::World {
        scopes: &[],
        cluster_scopes: &[],
        namespaces: &world.namespaces,
        cluster_targets: &world.cluster_targets,
        embedding: &|_, _| kollect_sinks::layout::Embedding::Unknown,
        types: &|_, _| std::sync::Arc::default(),
        gaps: &plan::Gaps::default(),
        held: &|_| plan::Held::default(),
        find: &|_| Lookup::Missing,
        access: &|_: &SinkObject| Access::Failed(SinkError::terminal("there are none")),
        max_export_bytes: None,
        now,
    };
    // What the rules say about selectors that are missing is another matter.
    let subject = Subject {
        invalid: None,
        ..Subject::from(inventory)
    };
    plan::plan(&subject, &world)
}

#[test]
fn operator_and_command_line_select_the_same_rows() {
    let options = serde_saphyr::options! { strict_booleans: true };
    let table: Value = serde_saphyr::from_str_with_options(TABLE, options).expect("the table");
    let targets = table["targets"].as_array().expect("targets").iter();
    let targets = targets.map(|written| {
        let mut spec = written["spec"].clone();
        spec["profileRef"] = json!({"name": "p", "namespace": "team"});
        Arc::new(object("KollectClusterTarget", &written["metadata"], &spec))
    });
    let mut world = World {
        cluster_targets: targets.collect(),
        ..World::default()
    };
    // Old enough that nobody waits for targets any more.
    let metadata = json!({"name": "all", "creationTimestamp": "2026-01-01T00:00:00Z"});
    let mut known = 0;
    for vector in table["vectors"].as_array().expect("vectors") {
        let id = &vector["id"];
        world.namespaces = listing(&table, vector["listing"].as_str());
        let inventory = object("KollectClusterInventory", &metadata, &vector["spec"]);
        let plan = plan_of(&inventory, &world);
        let gate = plan.gate.as_ref().map(|gate| gate.reason);
        match selection(&inventory, &world) {
            Ok((selection, targets)) => {
                assert_eq!(plan.order.scope, selection, "{id}");
                assert_eq!(plan.targets, targets, "{id}");
                assert!(!plan.undecided, "{id}");
                // Whether targets are ready is known to the operator alone.
                assert!(matches!(gate, None | Some(Reason::TargetDegraded)), "{id}");
                known += 1;
            }
            Err(why) => {
                let doubt = plan.doubt.as_ref().map(|doubt| doubt.reason);
                // That there is none is known to the operator, which empties what it exported; the
                // command line writes nothing.
                let empty = doubt == Some(Reason::NoTargets);
                assert_eq!(plan.order.open, empty, "{id}");
                match vector["state"].as_str() {
                    Some("notKnownYet") => {
                        let said = gate == Some(Reason::NamespaceLookupFailed);
                        assert!(plan.undecided || said, "{id}");
                    }
                    Some("missing") => assert_eq!(gate, Some(Reason::NoTargets), "{id}"),
                    Some(_) => assert!(empty, "{id}"),
                    None => {
                        let gate = plan.gate.expect("a gate");
                        assert_eq!(gate.reason, Reason::InvalidSpec, "{id}");
                        assert_eq!(gate.message, why, "{id}");
                    }
                }
            }
        }
    }
    assert!(known > 10, "the table holds selections: {known}");
}

fn plan_of_namespaced(inventory: &kollect_api::KollectInventory) -> InventoryPlan {
    let world = plan::World {
        scopes: &[],
        cluster_scopes: &[],
        namespaces: &NamespaceListing::Unread,
        cluster_targets: &[],
        embedding: &|_, _| kollect_sinks::layout::Embedding::Unknown,
        types: &|_, _| std::sync::Arc::default(),
        gaps: &plan::Gaps::default(),
        held: &|_| plan::Held::default(),
        find: &|_| Lookup::Missing,
        access: &|_: &SinkObject| Access::Failed(SinkError::terminal("there are none")),
        max_export_bytes: None,
        now: Timestamp::UNIX_EPOCH,
    };
    // What the rules say about selectors that are missing is another matter.
    let subject = Subject {
        invalid: None,
        ..Subject::from(inventory)
    };
    plan::plan(&subject, &world)
}

#[test]
fn operator_and_command_line_select_the_same_rows_of_a_namespace() {
    let metadata = json!({"name": "inv", "namespace": "team"});
    let plan = plan_of_namespaced(&object("KollectInventory", &metadata, &json!({})));
    assert_eq!(plan.order.scope, inventory_rows::of_inventory("team"));
    assert!(plan.order.open);
}

#[test]
fn b13_operator_and_command_line_split_documents_at_the_same_size() {
    let metadata = json!({"name": "inv", "namespace": "team"});
    // Reference, inventory, effective.
    for (reference, own, effective) in [
        (None, None, None),
        (None, Some(1_000), Some(1_000)),
        (Some(500), Some(1_000), Some(500)),
        (Some(0), Some(1_000), Some(1_000)),
        (Some(-1), Some(-1), None),
    ] {
        let spec = json!({
            "maxExportBytes": own,
            "snapshotSinkRefs": [{"name": "git", "maxExportBytes": reference}],
        });
        let inventory = object("KollectInventory", &metadata, &spec);
        let plan = plan_of_namespaced(&inventory);
        let operator = plan.order.deliver[0].documents.max_bytes;
        let here = sinks(&Object::Inventory(inventory), own)[0].max_document_bytes;
        assert_eq!(operator, here, "{reference:?} {own:?}");
        let here = here.map(std::num::NonZeroU64::get);
        assert_eq!(here, effective, "{reference:?} {own:?}");
    }
}
