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
