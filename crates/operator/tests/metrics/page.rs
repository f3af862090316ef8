//! What is on the page, from a fabricated collection.

use std::time::Duration;

use kollect_api::sink::SinkType;
use kollect_collect::plan::TargetKey;
use kollect_operator::metrics::conditions::{Standing, Told};
use serde_json::json;

use crate::fabricated::Fabricated;

const SERIES: &str = "kollect_custom_resource_series{";
const LABELED: &str = "kollect_custom_resource_labeled_series{";
const CAPPED: &str = "kollect_custom_resource_labeled_series_capped_total{";

fn sums() -> serde_json::Value {
    json!({"attributes": [{"name": "replicas", "path": "$.data.n"}, {"name": "zone", "path": "$.data.z"}]})
}

#[tokio::test]
async fn rows_are_counted_per_target_and_series_vanish_with_it() {
    let mut all = Fabricated::new(Duration::ZERO);
    all.profile("maps", sums());
    all.target("one", "maps");
    all.target("two", "maps");
    all.cluster_target("one", "maps");
    all.pass();
    let (one, two) = (
        TargetKey::namespaced("a", "one"),
        TargetKey::namespaced("a", "two"),
    );
    all.row(&one, "x", &json!({"replicas": 2, "zone": "z"}));
    all.row(&one, "y", &json!({"replicas": 1}));
    all.row(&two, "x", &json!({"replicas": 40}));
    all.row(&TargetKey::cluster("one"), "x", &json!({}));

    assert_eq!(
        all.samples("kollect_collect_items_total"),
        ["kollect_collect_items_total 4"]
    );
    let collected = |all: &Fabricated| all.samples("kollect_collected_objects{");
    let line = |namespace: &str, name: &str, rows: u64| {
        format!(
            "kollect_collected_objects{{profile=\"maps\",gvk=\"/v1/ConfigMap\",\
             target_namespace=\"{namespace}\",target_name=\"{name}\"}} {rows}"
        )
    };
    let expected = [line("a", "one", 2), line("a", "two", 1), line("", "one", 1)];
    assert_eq!(collected(&all), expected);
    assert_eq!(
        all.samples("kollect_informer_objects"),
        ["kollect_informer_objects{group=\"\",version=\"v1\",resource=\"configmaps\"} 4"]
    );
    let sums: Vec<_> = all.samples(SERIES);
    let of = |series: &str, name: &str| {
        let wanted =
            format!("series=\"{series}\",target_namespace=\"a\",target_name=\"{name}\"}} ");
        let found = sums.iter().find_map(|line| line.split_once(&wanted));
        found.map(|(_, value)| value.to_owned())
    };
    assert_eq!(of("replicas", "one").as_deref(), Some("3.0"));
    assert_eq!(of("replicas", "two").as_deref(), Some("40.0"));
    assert_eq!(of("object_count", "one").as_deref(), Some("2.0"));
    assert_eq!(of("zone", "one"), None);

    all.no_row(&one, "x");
    assert_eq!(collected(&all)[0], line("a", "one", 1), "deletions count");
    all.remove_target("one");
    all.pass();
    assert_eq!(collected(&all), [line("a", "two", 1), line("", "one", 1)]);
    assert!(
        !all.samples(SERIES)
            .iter()
            .any(|line| { line.contains("target_namespace=\"a\",target_name=\"one\"") })
    );
}

#[tokio::test]
async fn labelled_series_carry_every_label_and_are_capped() {
    let mut all = Fabricated::new(Duration::ZERO);
    let mut spec = sums();
    spec["metrics"] = json!([{"name": "by_zone", "path": "replicas", "labels": ["zone"]}]);
    all.profile("maps", spec);
    all.target("one", "maps");
    all.pass();
    let one = TargetKey::namespaced("a", "one");
    for number in 0..202 {
        let zone = format!("{number:03}");
        all.row(&one, &zone, &json!({"replicas": 1, "zone": zone}));
    }
    all.row(&one, "odd", &json!({"replicas": 5, "zone": "000\"\\\n"}));
    let shown = all.samples(LABELED);
    assert_eq!(shown.len(), 200);
    let fixed = "profile=\"maps\",gvk=\"/v1/ConfigMap\",series=\"by_zone\",\
                 target_namespace=\"a\",target_name=\"one\"";
    assert_eq!(shown[0], format!("{LABELED}{fixed},zone=\"000\"}} 1.0"));
    // What users write into objects cannot break the page; a line break is shown as an escape,
    // whose backslash the page escapes once more.
    assert_eq!(
        shown[1],
        format!("{LABELED}{fixed},zone=\"000\\\"\\\\\\\\n\"}} 5.0")
    );
    // One sampling per page: this is the second, with three combinations left out each time.
    assert_eq!(all.samples(CAPPED), [format!("{CAPPED}{fixed}}} 6")]);
    assert_eq!(all.samples(CAPPED), [format!("{CAPPED}{fixed}}} 9")]);
}

#[tokio::test]
async fn rows_are_looked_through_once_per_interval() {
    let mut all = Fabricated::new(Duration::from_hours(1));
    all.profile("maps", sums());
    all.target("one", "maps");
    all.pass();
    let one = TargetKey::namespaced("a", "one");
    all.row(&one, "x", &json!({"replicas": 1}));
    let first = all.samples(SERIES);
    assert_eq!(first.len(), 2);
    all.row(&one, "y", &json!({"replicas": 1}));
    assert_eq!(all.samples(SERIES), first);
    // Another profile is another matter.
    let mut spec = sums();
    spec["metrics"] = json!([{"name": "total", "path": "replicas"}]);
    all.profile("maps", spec);
    all.pass();
    let now = all.samples(SERIES);
    assert!(
        now.iter().any(|line| line.contains("series=\"total\"")),
        "{now:?}"
    );
}

#[tokio::test]
async fn passes_and_the_beginnings_of_trouble_are_counted() {
    let mut all = Fabricated::new(Duration::ZERO);
    all.profile("maps", sums());
    all.target("good", "maps");
    all.target("bad", "nowhere");
    all.cluster_target("bad", "nowhere");
    all.cluster_target("good", "maps");
    for _ in 0..3 {
        all.pass();
    }
    assert_eq!(
        all.samples("kollect_reconcile_total"),
        [
            "kollect_reconcile_total{controller=\"kollecttarget\",result=\"success\"} 3",
            "kollect_reconcile_total{controller=\"kollectclustertarget\",result=\"success\"} 3",
        ]
    );
    // All of them from the start: an alert sees growth, not the first sample.
    let errors = all.samples("kollect_reconcile_errors_total");
    assert_eq!(errors.len(), 12, "{errors:?}");
    let counted: Vec<&String> = errors.iter().filter(|line| !line.ends_with(" 0")).collect();
    assert_eq!(
        counted,
        [
            "kollect_reconcile_errors_total{kind=\"KollectTarget\",error_class=\"terminal\"} 1",
            "kollect_reconcile_errors_total{kind=\"KollectClusterTarget\",error_class=\"terminal\"} 1",
        ]
    );
    assert_eq!(
        all.samples("kollect_sink_errors_total").len(),
        SinkType::ALL.len() * 3
    );
    assert_eq!(
        all.samples("kollect_sink_connection_test_total").len(),
        SinkType::ALL.len() * 2
    );
    let resolved =
        "kollect_static_ref_resolution_total{kind=\"KollectClusterTarget\",ref_type=\"profile\"";
    assert_eq!(
        all.samples(resolved),
        [
            format!("{resolved},result=\"ok\"}} 1"),
            format!("{resolved},result=\"not_found\"}} 1"),
        ]
    );
    let count = "kollect_reconcile_duration_seconds_count{controller=\"kollecttarget\"}";
    assert_eq!(all.samples(count), [format!("{count} 3")]);
    assert_eq!(
        all.samples("kollect_watch_interrupted"),
        [
            "kollect_watch_interrupted{group=\"\",version=\"v1\",resource=\"configmaps\",class=\"throttled\"} 1"
        ]
    );
}

#[tokio::test]
async fn what_objects_say_of_themselves_is_on_the_page() {
    let all = Fabricated::new(Duration::ZERO);
    assert!(
        all.samples("kollect_writes_waiting").is_empty(),
        "not known"
    );
    let standing = |namespace: &str, name: &str| Standing {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        profile: "maps".to_owned(),
        ready: true,
        synced: true,
        items: 3,
        exported: Some(1_700_000_000),
        ..Standing::default()
    };
    let bad = Standing {
        ready: false,
        synced: false,
        degraded: Some("ProfileNotFound"),
        exported: Some(-1),
        ..standing("a", "bad")
    };
    let told = Told {
        targets: vec![standing("", "good"), bad.clone()],
        inventories: vec![standing("a", "good"), bad],
        waiting: 7,
    };
    all.observed.told_by(move || told.clone());
    for (metric, expected) in [
        (
            "kollect_target_ready",
            vec![
                r#"{target_namespace="",target_name="good",profile="maps"} 1"#,
                r#"{target_namespace="a",target_name="bad",profile="maps"} 0"#,
            ],
        ),
        (
            "kollect_target_degraded",
            vec![
                r#"{target_namespace="",target_name="good",reason=""} 0"#,
                r#"{target_namespace="a",target_name="bad",reason="ProfileNotFound"} 1"#,
            ],
        ),
        (
            "kollect_inventory_synced",
            vec![
                r#"{inventory_namespace="a",inventory_name="good"} 1"#,
                r#"{inventory_namespace="a",inventory_name="bad"} 0"#,
            ],
        ),
        (
            "kollect_inventory_degraded",
            vec![
                r#"{inventory_namespace="a",inventory_name="good",reason=""} 0"#,
                r#"{inventory_namespace="a",inventory_name="bad",reason="ProfileNotFound"} 1"#,
            ],
        ),
        (
            "kollect_inventory_last_export_timestamp_seconds",
            vec![r#"{inventory_namespace="a",inventory_name="good"} 1700000000"#],
        ),
        (
            "kollect_conditions_omitted",
            vec![r#"{kind="target"} 0"#, r#"{kind="inventory"} 0"#],
        ),
        ("kollect_writes_waiting", vec![" 7"]),
    ] {
        let expected: Vec<String> = expected
            .iter()
            .map(|end| format!("{metric}{end}"))
            .collect();
        assert_eq!(all.samples(metric), expected);
    }
}
