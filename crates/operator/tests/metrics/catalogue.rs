//! The catalogue, the page and the documentation name the same metrics.

use std::{collections::BTreeMap, time::Duration};

use kollect_collect::plan::TargetKey;
use kollect_operator::metrics::catalogue::{self, Kind};
use serde_json::json;

use crate::fabricated::Fabricated;

#[tokio::test]
async fn the_page_shows_what_the_catalogue_names() {
    let mut all = Fabricated::new(Duration::ZERO);
    all.profile(
        "maps",
        json!({"attributes": [{"name": "n", "path": "$.data.n"}]}),
    );
    all.target("one", "maps");
    all.pass();
    all.row(&TargetKey::namespaced("a", "one"), "x", &json!({"n": 1}));
    let page = all.metrics.render();
    assert!(page.ends_with("# EOF\n"));

    let shown: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .collect();
    let mut shown_sorted = shown.clone();
    shown_sorted.sort_unstable();
    let mut named: Vec<String> = catalogue::ALL
        .iter()
        .map(|metric| format!("{} {}", metric.family(), metric.kind.as_str()))
        .collect();
    named.sort_unstable();
    assert_eq!(shown_sorted, named);

    // Every sample belongs to a metric and has exactly its labels.
    let by_name: BTreeMap<&str, _> = catalogue::ALL.iter().map(|m| (m.name, *m)).collect();
    for line in page.lines().filter(|line| !line.starts_with('#')) {
        let name = line.split(['{', ' ']).next().expect("a name");
        let histogram = ["_bucket", "_sum", "_count"]
            .iter()
            .find_map(|suffix| by_name.get(name.strip_suffix(suffix)?))
            .filter(|metric| metric.kind == Kind::Histogram);
        let metric = by_name.get(name).or(histogram);
        let metric = metric.unwrap_or_else(|| panic!("{line}"));
        let labels: Vec<&str> = line
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'))
            .map(|(labels, _)| labels.split(',').collect())
            .unwrap_or_default();
        let labels: Vec<&str> = labels
            .iter()
            .filter_map(|label| label.split_once('=').map(|(name, _)| name))
            .filter(|name| *name != "le")
            .collect();
        assert_eq!(labels, metric.labels, "{line}");
    }
}

#[test]
fn the_documentation_lists_the_catalogue() {
    let text = include_str!("../../../../docs/metrics.md");
    let listed: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("| `kollect_"))
        .collect();
    let expected: Vec<String> = catalogue::ALL
        .iter()
        .map(|metric| {
            let labels: Vec<String> = metric.labels.iter().map(|l| format!("`{l}`")).collect();
            format!(
                "| `{}` | {} | {} | {} |",
                metric.name,
                metric.kind.as_str(),
                labels.join(", "),
                metric.help
            )
        })
        .collect();
    assert_eq!(listed, expected);
}

#[test]
fn names_follow_the_conventions() {
    for metric in catalogue::ALL {
        assert!(metric.name.starts_with("kollect_"));
        assert_eq!(metric.help.matches(['\n', '\r']).count(), 0);
        if metric.kind == Kind::Counter {
            assert!(metric.name.ends_with("_total"), "{}", metric.name);
        }
    }
}

/// The metrics of the original, whose dashboards and alerts go on working.
const ORIGINAL: &str = "
    kollect_reconcile_total kollect_reconcile_duration_seconds kollect_workqueue_depth
    kollect_reconcile_errors_total kollect_watch_map_list_errors_total
    kollect_namespace_fingerprint_cache_total kollect_collect_items_total
    kollect_collected_objects kollect_informer_objects kollect_informer_cluster_wide_scope
    kollect_informer_resync_dispatches_total kollect_collect_namespace_mismatch_total
    kollect_inventory_items_total kollect_collect_dispatch_duration_seconds
    kollect_collect_dispatch_queue_depth kollect_collect_dispatch_backpressure_total
    kollect_export_duration_seconds kollect_export_bytes_total kollect_sink_errors_total
    kollect_export_spill_warn_total kollect_export_shard_warn_total
    kollect_export_debounced_total kollect_sink_connection_test_total
    kollect_static_ref_resolution_total kollect_access_cache_total
    kollect_custom_resource_series kollect_custom_resource_labeled_series
    kollect_custom_resource_labeled_series_capped_total kollect_sink_exports_total";

#[test]
fn c12_every_metric_of_the_original_is_there() {
    for name in ORIGINAL.split_whitespace() {
        let known = catalogue::ALL.iter().any(|metric| metric.name == name);
        assert!(known, "{name}");
    }
}

#[tokio::test]
async fn c12_exports_count_by_class_kind_and_namespace() {
    use std::sync::Arc;

    use kollect_api::{InventoryId, SinkKey, reference::SinkFamily, sink::SinkSpec};
    use kollect_export::{Observer as _, SinkSource};
    use kollect_operator::metrics::passes::{Outcome, Resolution};
    use kollect_sinks::{Demand, Receipt, SinkError, credentials::Materials};

    let all = Fabricated::new(Duration::ZERO);
    let key = SinkKey {
        family: SinkFamily::Database,
        namespace: "shared".to_owned(),
        name: "pg".to_owned(),
    };
    let spec = json!({
        "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
    });
    let source = SinkSource {
        key: key.clone(),
        uid: "u".to_owned(),
        version: 1,
        spec: Arc::new(SinkSpec::Database(
            serde_json::from_value(spec).expect("a sink"),
        )),
        demand: Demand::Changes,
        materials: Arc::new(Materials::default()),
    };
    let (team, platform) = (InventoryId::namespaced("a", "i"), InventoryId::cluster("c"));
    let large = Receipt {
        bytes: 1 << 20,
        ..Receipt::default()
    };
    let exports = &all.observed.exports;
    exports.delivered(&source, &team, Duration::from_secs(45), Ok(&large));
    exports.delivered(
        &source,
        &platform,
        Duration::from_secs(1),
        Ok(&Receipt::default()),
    );
    let refused = SinkError::terminal("no");
    exports.delivered(&source, &platform, Duration::ZERO, Err(&refused));
    for _ in 0..2 {
        exports.resolved(&platform, [(key.clone(), Resolution::NotFound)]);
    }
    let reconciles = &all.observed.reconciles;
    let sinks = &["kollectdatabasesink"];
    reconciles.begin(sinks);
    reconciles.end(sinks, Duration::from_millis(1), Outcome::Success);
    reconciles.failed("kollectdatabasesink");
    let page = all.metrics.render();
    for line in [
        r#"kollect_sink_exports_total{sink_type="postgres",sink_namespace="",result="success"} 1"#,
        r#"kollect_sink_exports_total{sink_type="postgres",sink_namespace="shared",result="success"} 1"#,
        r#"kollect_sink_exports_total{sink_type="postgres",sink_namespace="shared",result="failure"} 1"#,
        r#"kollect_reconcile_errors_total{kind="KollectClusterInventory",error_class="terminal"} 1"#,
        r#"kollect_export_duration_seconds_bucket{le="30.0",sink_type="postgres"} 2"#,
        r#"kollect_export_duration_seconds_bucket{le="60.0",sink_type="postgres"} 3"#,
        r#"kollect_export_duration_seconds_bucket{le="120.0",sink_type="postgres"} 3"#,
        "kollect_export_spill_warn_total 1",
        r#"kollect_static_ref_resolution_total{kind="KollectClusterInventory",ref_type="database",result="not_found"} 1"#,
        r#"kollect_reconcile_total{controller="kollectdatabasesink",result="success"} 1"#,
        r#"kollect_reconcile_total{controller="kollectdatabasesink",result="failure"} 1"#,
    ] {
        assert!(page.lines().any(|known| known == line), "{line}\n{page}");
    }
}
