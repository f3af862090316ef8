//! What a status cannot lead to, whatever somebody wrote into it.

use super::*;
use crate::inventories::status::{InventoryFacts, status};

/// Entries of a status as somebody with ill intent would write them.
fn forged() -> Vec<kollect_api::inventory::SinkExportStatus> {
    let times = ["9999-12-30T22:00:00Z", "-009999-01-02T02:00:00Z"];
    let namespaces = [
        None,
        Some(""),
        Some("team-b"),
        Some("../team-b"),
        Some("kollect-system"),
    ];
    let names = [
        "",
        "/",
        "database/",
        "database/pg",
        "database/pg/../x",
        "nonsense/pg",
        "event/\u{0}",
    ];
    let mut all = Vec::new();
    for time in times {
        for namespace in namespaces {
            for name in names {
                let entry = json!({
                    "name": name, "namespace": namespace, "lastExportTime": time,
                    "lastChecksum": "x".repeat(100), "itemCount": i64::MAX,
                    "conditions": [{
                        "type": "Synced", "status": "True", "reason": "Exported", "message": "",
                        "lastTransitionTime": time, "observedGeneration": i64::MIN,
                    }],
                });
                all.push(serde_json::from_value(entry).expect("an entry"));
            }
        }
    }
    all
}

#[test]
fn a14_a_forged_status_leads_to_no_sink_of_another_namespace() {
    let world = Small::default().sink("pg", json!({}));
    for deleted in [None, Some("2026-01-15T12:00:00Z")] {
        let mut subject = inventory(json!({}));
        subject.status.sink_exports = forged();
        subject.deleted_at = deleted.map(|at| at.parse().expect("a time"));
        let plan = world.plan(&subject);
        let retired = plan.order.retire.iter().map(|sink| &sink.key);
        let all: BTreeSet<&str> = retired
            .chain(&plan.orphans)
            .map(|key| key.namespace.as_str())
            .collect();
        assert_eq!(all.into_iter().collect::<Vec<_>>(), ["team-a"]);
        assert_eq!(plan.order.retire.len(), 1, "the one that is there");
    }
}

#[test]
fn a14_no_forged_status_keeps_the_next_one_from_being_made() {
    let world = Small::default().sink("pg", json!({}));
    let references = json!({"databaseSinkRefs": [{"name": "pg"}]});
    for mut subject in [
        inventory(references.clone()),
        rollup("9999-12-30T22:00:00Z", references),
    ] {
        for generation in [None, Some(i64::MIN), Some(1), Some(i64::MAX)] {
            subject.status.sink_exports = forged();
            subject.status.observed_generation = generation;
            subject.status.item_count = i64::MIN;
            for deleted in [
                None,
                Some("9999-12-30T22:00:00Z"),
                Some("-009999-01-02T02:00:00Z"),
            ] {
                subject.deleted_at = deleted.map(|at| at.parse().expect("a time"));
                let plan = world.plan(&subject);
                let lane = |sink: &SinkOrder| kollect_export::report::LaneReport {
                    key: sink.key.clone(),
                    state: kollect_export::report::LaneState::Behind,
                    last_export: None,
                    confirmed_at: None,
                    skipped: None,
                    read_back: None,
                    often: None,
                };
                // An exporter that has not looked yet leaves the status as it is.
                let report = kollect_export::Report {
                    lanes: plan.order.deliver.iter().map(lane).collect(),
                    ..kollect_export::Report::default()
                };
                let facts = InventoryFacts {
                    generation: subject.generation,
                    cluster: subject.rollup.is_some(),
                    plan: &plan,
                    report: &report,
                    steady: Duration::from_hours(1),
                    patience: Duration::ZERO,
                    degraded: &[],
                };
                let now = "2026-01-15T12:00:00Z".parse().expect("a time");
                let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
                let next = status(&subject.status, &facts, &now);
                let own = Some(subject.generation);
                // Nothing is said before the exporter has looked at its sinks.
                let silent = plan.undecided || !plan.order.deliver.is_empty();
                assert!(silent || next.observed_generation == own);
            }
        }
    }
}

#[test]
fn a14_a_forged_status_of_a_cluster_inventory_stays_within_its_scopes() {
    let spec = json!({"targetRefs": ["alpha"]});
    let mut subject = rollup("2026-01-15T11:50:00Z", spec);
    subject.status.sink_exports = forged();
    let free = Small::default().sink("pg", json!({}));
    let bound = Small::default()
        .sink("pg", json!({}))
        .cluster_scope(json!({"allowedStaticRefNamespaces": ["kollect-system"]}));
    let namespaces = |world: &Small| -> Vec<String> {
        let plan = world.plan(&subject);
        let retired = plan.order.retire.iter();
        retired.map(|sink| sink.key.namespace.clone()).collect()
    };
    assert!(
        namespaces(&free).contains(&"team-b".to_owned()),
        "no limit was set"
    );
    assert_eq!(namespaces(&bound), ["kollect-system"]);
}
