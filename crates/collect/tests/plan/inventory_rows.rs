//! Which targets and namespaces a cluster inventory takes.

use std::{collections::BTreeMap, sync::Arc};

use kollect_api::{KollectClusterTarget, inventory::KollectClusterInventorySpec};
use kollect_collect::{
    inventory_rows::{self, ClusterRows},
    plan::{NamespaceFacts, NamespaceListing},
    store::RowSelection,
};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::support::data;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    targets: Vec<Value>,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    spec: KollectClusterInventorySpec,
    listing: Option<String>,
    targets: Option<Vec<String>>,
    namespaces: Option<Vec<String>>,
    state: Option<String>,
    invalid: Option<String>,
}

impl Table {
    fn listing(&self, kind: Option<&str>) -> NamespaceListing {
        let facts = |labels: &BTreeMap<String, String>| NamespaceFacts {
            labels: labels.clone(),
            ..NamespaceFacts::default()
        };
        let all = self.namespaces.iter();
        let all = all.map(|(name, labels)| (name.clone(), facts(labels)));
        match kind {
            None => NamespaceListing::Complete(all.collect()),
            Some("partial") => NamespaceListing::Partial(all.collect()),
            Some("unread") => NamespaceListing::Unread,
            Some(other) => panic!("{other} is no listing"),
        }
    }
}

fn target(written: &Value) -> Arc<KollectClusterTarget> {
    let mut object = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterTarget",
        "metadata": written["metadata"], "spec": written["spec"],
    });
    object["spec"]["profileRef"] = json!({"name": "p", "namespace": "team"});
    Arc::new(serde_json::from_value(object).expect("a target"))
}

#[test]
fn vectors() {
    let table: Table = data("inventory_rows.yaml");
    let targets: Vec<_> = table.targets.iter().map(target).collect();
    for vector in &table.vectors {
        let id = &vector.id;
        let listing = table.listing(vector.listing.as_deref());
        let rows = inventory_rows::of_cluster_inventory(&vector.spec, &targets, &listing);
        let (state, invalid) = match rows {
            Ok(ClusterRows::NotKnownYet) => (Some("notKnownYet"), None),
            Ok(ClusterRows::NoTargets) => (Some("noTargets"), None),
            Ok(ClusterRows::Missing(names)) => {
                let refs = &vector.spec.target_refs;
                assert!(
                    names.iter().all(|name| refs.iter().any(|one| one == name)),
                    "{id}"
                );
                assert!(!names.contains(&"alpha"), "{id}");
                (Some("missing"), None)
            }
            Err(invalid) => (None, Some(invalid.to_string())),
            Ok(ClusterRows::Known { selection, targets }) => {
                let names = targets.iter().filter_map(|one| one.metadata.name.clone());
                let mut names: Vec<String> = names.collect();
                names.sort();
                assert_eq!(Some(&names), vector.targets.as_ref(), "{id}");
                let expected = RowSelection::Cluster {
                    targets: names.into_iter().collect(),
                    namespaces: vector.namespaces.iter().flatten().cloned().collect(),
                };
                assert_eq!(selection, expected, "{id}");
                (None, None)
            }
        };
        assert_eq!(state, vector.state.as_deref(), "{id}");
        assert_eq!(invalid, vector.invalid, "{id}");
    }
}

#[test]
fn an_inventory_of_a_namespace_takes_the_rows_of_its_targets() {
    let rows = inventory_rows::of_inventory("team");
    assert_eq!(rows, RowSelection::Namespace("team".to_owned()));
}
