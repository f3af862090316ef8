//! Rows in, samples out.

use std::collections::BTreeMap;

use kollect_api::GroupVersionKind;
use kollect_collect::series::{Family, MAX_COMBINATIONS, Sample, Series, Subject};
use kollect_inventory::AttributesBuffer;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{profile, read};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    id: String,
    cap: Option<usize>,
    attributes: Vec<String>,
    metrics: Option<Value>,
    export: Option<Value>,
    rows: Vec<Map<String, Value>>,
    samples: Vec<String>,
}

impl Case {
    fn series(&self) -> Series {
        let attributes: Vec<Value> = self
            .attributes
            .iter()
            .map(|name| json!({"name": name, "path": "$.x"}))
            .collect();
        let mut spec = json!({
            "targetGVK": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "attributes": attributes,
        });
        if let Some(metrics) = &self.metrics {
            spec["metrics"] = metrics.clone();
        }
        if let Some(export) = &self.export {
            spec["export"] = export.clone();
        }
        Series::new(&profile(&BTreeMap::new(), spec))
    }
}

fn samples(
    series: &Series,
    rows: &[Map<String, Value>],
    cap: usize,
    gvk: &GroupVersionKind,
    target: (&str, &str),
) -> Vec<Sample> {
    let rows: Vec<AttributesBuffer> = rows
        .iter()
        .map(|row| {
            let mut buffer = AttributesBuffer::new();
            buffer.set(row);
            buffer
        })
        .collect();
    let subject = Subject {
        profile: "p",
        gvk,
        target_namespace: target.0,
        target_name: target.1,
    };
    series.samples_capped(subject, rows.iter().map(AttributesBuffer::view), cap)
}

fn deployment() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

/// The common labels of a sample, and the rest of it in the form of the data file.
fn split(sample: &Sample) -> (Vec<(&str, &str)>, String) {
    let family = match sample.family {
        Family::Plain => "series",
        Family::Labeled => "labeled",
        Family::Capped => "capped",
    };
    let labels: Vec<(&str, &str)> = sample
        .labels
        .iter()
        .map(|(name, value)| (&**name, value.as_str()))
        .collect();
    let series = labels[2].1;
    let own: Vec<String> = labels[5..]
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let own = match own.as_slice() {
        [] => String::new(),
        own => format!("{{{}}}", own.join(",")),
    };
    let text = format!("{family} {series}{own} {}", sample.value);
    let mut common = labels;
    common.truncate(5);
    (common, text)
}

#[test]
fn vectors() {
    let cases: Vec<Case> = read("series.yaml");
    assert!(!cases.is_empty());
    for case in &cases {
        let series = case.series();
        let cap = case.cap.unwrap_or(MAX_COMBINATIONS);
        let target = ("team-a", "deployments");
        let found = samples(&series, &case.rows, cap, &deployment(), target);
        let texts: Vec<String> = found.iter().map(|sample| split(sample).1).collect();
        assert_eq!(texts, case.samples, "{}", case.id);
        // Nothing is remembered: the same rows give the same samples again.
        let again = samples(&series, &case.rows, cap, &deployment(), target);
        assert_eq!(again, found, "{}", case.id);
    }
}

/// two targets with one profile do not overwrite each other.
#[test]
fn every_sample_says_whose_it_is() {
    let case = &read::<Vec<Case>>("series.yaml")[5..9];
    for case in case {
        let series = case.series();
        for target in [("team-a", "web"), ("team-b", "web"), ("team-b", "api")] {
            let gvk = GroupVersionKind::new("", "v1", "Service");
            for sample in &samples(&series, &case.rows, 2, &gvk, target) {
                let (common, _) = split(sample);
                let names: Vec<&str> = common.iter().map(|(name, _)| *name).collect();
                assert_eq!(
                    names,
                    [
                        "profile",
                        "gvk",
                        "series",
                        "target_namespace",
                        "target_name"
                    ]
                );
                let values = [common[0].1, common[1].1, common[3].1, common[4].1];
                assert_eq!(values, ["p", "/v1/Service", target.0, target.1]);
            }
        }
    }
}

#[test]
fn families_have_the_names_dashboards_know() {
    let names = [Family::Plain, Family::Labeled, Family::Capped].map(Family::name);
    assert_eq!(
        names,
        [
            "kollect_custom_resource_series",
            "kollect_custom_resource_labeled_series",
            "kollect_custom_resource_labeled_series_capped_total",
        ]
    );
}

/// The cap holds two hundred, and never means "no limit".
#[test]
fn the_cap_keeps_the_first_two_hundred() {
    let case = Case {
        id: String::new(),
        cap: None,
        attributes: vec!["v".to_owned(), "l".to_owned()],
        metrics: Some(json!([{"name": "t", "path": "v", "labels": ["l"]}])),
        export: None,
        rows: (0..500)
            .map(|at| {
                Map::from_iter([
                    ("v".into(), json!(1)),
                    ("l".into(), json!(format!("{at:03}"))),
                ])
            })
            .collect(),
        samples: Vec::new(),
    };
    let series = case.series();
    let target = ("a", "b");
    let all = samples(&series, &case.rows, MAX_COMBINATIONS, &deployment(), target);
    let kept: Vec<&str> = all
        .iter()
        .filter(|sample| sample.family == Family::Labeled)
        .map(|sample| sample.labels[5].1.as_str())
        .collect();
    assert_eq!((kept.len(), kept[0], kept[199]), (200, "000", "199"));
    let capped = all.iter().find(|sample| sample.family == Family::Capped);
    assert_eq!(capped.map(|sample| sample.value), Some(300.0));
    assert_eq!(samples(&series, &case.rows, 0, &deployment(), target), all);
}

/// A9: a row cannot make the page of metrics any length, nor move a terminal's cursor.
#[test]
fn a9_label_values_are_cut_and_printable() {
    let case = Case {
        id: "A9".to_owned(),
        cap: None,
        attributes: vec!["n".to_owned(), "zone".to_owned()],
        metrics: Some(json!([{"name": "total", "path": "n", "labels": ["zone"]}])),
        export: None,
        rows: Vec::new(),
        samples: Vec::new(),
    };
    let row = |zone: String| match json!({"n": 1, "zone": zone}) {
        Value::Object(row) => row,
        _ => unreachable!("a map"),
    };
    let rows = [
        row("ä".repeat(100_000)),
        row("ä".repeat(100_000) + "b"),
        row("a\u{1b}[31m\nb".to_owned()),
    ];
    let found = samples(&case.series(), &rows, 0, &deployment(), ("n", "t"));
    let zones: Vec<(&str, f64)> = found
        .iter()
        .filter(|sample| sample.family == Family::Labeled)
        .map(|sample| (sample.labels[5].1.as_str(), sample.value))
        .collect();
    let long = "ä".repeat(64);
    assert_eq!(zones, [("a\\u{1b}[31m\\nb", 1.0), (&*long, 2.0)]);
}
