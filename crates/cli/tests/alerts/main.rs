//! Alerts and the dashboard of the chart, on a real Prometheus that scrapes the built program.
//!
//! In health no alert stirs and every panel of the dashboard shows something. Then one thing after
//! the other really fails, and each alert fires. Only the time that an alert waits before it fires is
//! shortened; its expression is what is shipped.

mod stage;

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{
    prometheus,
    trouble::{Effect, on},
};
use serde_json::{Value, json};

use crate::stage::Stage;

const ALERTS: &str = include_str!("../../../../charts/kollect/files/alerts.yaml");
const DASHBOARD: &str = include_str!("../../../../charts/kollect/files/dashboard.json");
const DOCUMENTATION: &str = include_str!("../../../../docs/metrics.md");

/// How long health is watched.
const WHILE: Duration = Duration::from_secs(6);
/// More objects than the operator writes at a time, and than the alert tolerates to wait.
const MANY: usize = 40;

/// The rules as shipped.
fn rules() -> Result<Vec<Value>> {
    let shipped: Value = serde_saphyr::from_str(ALERTS)?;
    let groups = shipped["groups"].as_array().context("groups")?;
    ensure!(groups.len() == 1 && groups[0]["name"] == "kollect.rules");
    let rules = groups[0]["rules"].as_array().context("rules")?;
    Ok(rules.clone())
}

/// The rules as shipped, except that they fire after a second.
fn impatient() -> Result<String> {
    let mut rules = rules()?;
    for rule in &mut rules {
        rule["for"] = json!("1s");
    }
    Ok(json!({"groups": [{"name": "kollect.rules", "rules": rules}]}).to_string())
}

fn names() -> Result<BTreeSet<String>> {
    let name = |rule: &Value| Some(rule["alert"].as_str()?.to_owned());
    rules()?
        .iter()
        .map(|rule| name(rule).context("an alert has a name"))
        .collect()
}

#[test]
fn rules_are_well_formed_and_documented() -> Result<()> {
    prometheus::check_rules(ALERTS)?;
    // Those of the original keep their names and their order.
    let original = [
        "KollectReconcileErrors",
        "KollectInventoryExportErrors",
        "KollectSinkExportErrors",
        "KollectSinkConnectionTestFailures",
        "KollectExportLatencyHigh",
        "KollectWorkqueueBacklog",
    ];
    let rules = rules()?;
    for (rule, name) in rules.iter().zip(original) {
        ensure!(rule["alert"] == name, "{name} is not in its place");
    }
    for rule in &rules {
        let name = rule["alert"].as_str().context("a name")?;
        ensure!(rule["labels"]["severity"] == "warning", "{name}");
        ensure!(rule["for"].is_string(), "{name} waits for nothing");
        for annotation in ["summary", "description"] {
            let text = rule["annotations"][annotation].as_str().unwrap_or_default();
            ensure!(text.len() > 10, "{name} has no {annotation}");
        }
    }
    let documented: BTreeSet<String> = DOCUMENTATION
        .lines()
        .filter_map(|line| line.strip_prefix("| `Kollect")?.split_once('`'))
        .map(|(name, _)| format!("Kollect{name}"))
        .collect();
    ensure!(documented == names()?, "docs/metrics.md: {documented:?}");
    Ok(())
}

/// The queries of the dashboard, by panel.
fn queries() -> Result<Vec<(String, String)>> {
    let dashboard: Value = serde_json::from_str(DASHBOARD)?;
    let panels = dashboard["panels"].as_array().context("panels")?;
    let mut queries = Vec::new();
    for panel in panels.iter().filter(|panel| panel["type"] != "row") {
        let title = panel["title"].as_str().context("a panel has a title")?;
        let targets = panel["targets"].as_array().context("targets")?;
        ensure!(!targets.is_empty(), "{title} asks for nothing");
        for target in targets {
            let query = target["expr"].as_str().context("a query")?;
            // What Grafana puts in, for a short life.
            let query = query
                .replace("$__rate_interval", "1m")
                .replace("$namespace", ".*");
            ensure!(
                !query.contains('$'),
                "{title} has an unknown variable: {query}"
            );
            queries.push((title.to_owned(), query));
        }
    }
    ensure!(queries.len() >= 20);
    Ok(queries)
}

/// Fails unless every panel of the dashboard shows numbers.
fn expect_no_empty_panel(stage: &Stage) -> Result<()> {
    let queries = queries()?;
    let mut pulse = 0;
    stage.eventually("no empty panel", || {
        // Of a cluster in which nothing happens some rates say nothing.
        pulse += 1;
        stage.put("still-0", pulse)?;
        let mut empty = Vec::new();
        for (title, query) in &queries {
            let series = stage.prometheus.query(query)?;
            let shown = series.iter().any(|series| {
                series["value"][1]
                    .as_str()
                    .is_some_and(|value| value != "NaN")
            });
            if !shown {
                empty.push(format!("{title}: {query}"));
            }
        }
        ensure!(empty.is_empty(), "empty: {empty:#?}");
        Ok(())
    })
}

/// Fails unless all rules are evaluated and none stirs.
fn expect_silence(stage: &Stage) -> Result<()> {
    let alerts = stage.prometheus.alerts()?;
    let known: BTreeSet<String> = alerts.keys().cloned().collect();
    ensure!(known == names()?, "{known:?}");
    for (name, alert) in &alerts {
        ensure!(
            alert.evaluated && alert.error.is_none(),
            "{name}: {alert:?}"
        );
        ensure!(alert.state == "inactive", "{name} is {}", alert.state);
    }
    Ok(())
}

/// Waits until these fire.
fn expect_firing(stage: &Stage, expected: &[&str], fired: &mut BTreeSet<String>) -> Result<()> {
    stage.eventually(&format!("{expected:?}"), || {
        let alerts = stage.prometheus.alerts()?;
        let states: BTreeMap<&String, &String> = alerts
            .iter()
            .map(|(name, alert)| (name, &alert.state))
            .collect();
        for name in expected {
            let state = alerts.get(*name).map(|alert| &*alert.state);
            ensure!(state == Some("firing"), "{name} does not fire: {states:?}");
        }
        Ok(())
    })?;
    fired.extend(expected.iter().map(|name| (*name).to_owned()));
    Ok(())
}

#[test]
fn every_alert_is_silent_in_health_and_fires_in_its_failure() -> Result<()> {
    let mut stage = Stage::start(&impatient()?)?;
    stage.expect_rows(5)?;
    expect_no_empty_panel(&stage)?;
    stage.eventually("silence", || expect_silence(&stage))?;
    let begun = std::time::Instant::now();
    while begun.elapsed() < WHILE {
        expect_silence(&stage)?;
        thread::sleep(Duration::from_millis(500));
    }

    let mut fired = BTreeSet::new();
    // A user's mistake.
    stage.apply("KollectTarget", "astray", &json!({"profileRef": "nowhere"}))?;
    let astray = [
        "KollectReconcileErrors",
        "KollectTargetNotReady",
        "KollectTargetDegraded",
    ];
    expect_firing(&stage, &astray, &mut fired)?;

    // A database that does not answer any more, and a sink that leads nowhere.
    stage.database_hangs(true);
    stage.put("another", 9)?;
    stage.probe_nothing()?;
    let hanging = [
        "KollectInventoryExportErrors",
        "KollectSinkExportErrors",
        "KollectSinkConnectionTestFailures",
        "KollectExportLatencyHigh",
        "KollectInventoryNotSynced",
        "KollectInventoryDegraded",
    ];
    expect_firing(&stage, &hanging, &mut fired)?;
    stage.database_hangs(false);

    // An API server that breaks off what is collected.
    let refused = stage
        .trouble
        .rule(on("*", "configmaps"), Effect::Status(500));
    stage.trouble.cut(&on("watch", "configmaps"));
    expect_firing(&stage, &["KollectWatchInterrupted"], &mut fired)?;
    stage.trouble.lift(refused);

    // An API server that takes no statuses.
    let silent = stage
        .trouble
        .rule(on("*", "kollecttargets/status"), Effect::Silence);
    let finalizers = stage
        .trouble
        .rule(on("patch", "kollecttargets"), Effect::Silence);
    stage.apply_targets(MANY)?;
    expect_firing(&stage, &["KollectWorkqueueBacklog"], &mut fired)?;
    stage.trouble.lift(silent);
    stage.trouble.lift(finalizers);

    // No operator at all.
    stage.stop_operator();
    expect_firing(&stage, &["KollectDown"], &mut fired)?;
    ensure!(
        fired == names()?,
        "not every alert was made to fire: {fired:?}"
    );
    Ok(())
}
