//! Objects that came in without the webhook are judged by the same rules when the operator reads
//! them.

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::wait::eventually;
use serde_json::{Value, json};

use crate::{
    data::{self, RefusedBy},
    stage::Case,
};

/// The condition that says what is wrong, and what it says.
fn verdict(object: &Value) -> Option<(String, String)> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let told = conditions.iter().find(|condition| {
        let degraded = condition["type"] == "Degraded" && condition["status"] == "True";
        let unready = condition["type"] == "Ready" && condition["status"] == "False";
        degraded || unready
    })?;
    let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

#[test]
fn invalid_objects_that_are_stored_say_so_in_their_status() -> Result<()> {
    let case = Case::new("stored")?;
    let profile = json!({
        "targetGVK": {"version": "v1", "kind": "Pod"},
        "attributes": [{"name": "phase", "path": "$.status.phase"}],
    });
    let answer = case.send("POST", &case.object("KollectProfile", "p", &profile))?;
    ensure!(answer.is_success(), "{}", answer.status);
    // Whatever only the rules refuse, and that has a status, stored before anybody could object.
    let mut stored = Vec::new();
    for (number, vector) in data::refused().into_iter().enumerate() {
        // Sizes above the operator's limit are cut to it.
        if vector.refused_by != Some(RefusedBy::Rules)
            || vector.context.is_some()
            || vector.rule == "REFS-7"
        {
            continue;
        }
        let mut manifest = vector.manifest(&case.namespace);
        manifest["metadata"]["name"] = format!("v{number}").into();
        let kind = manifest["kind"].as_str().unwrap_or_default();
        let told = [
            "KollectTarget",
            "KollectInventory",
            "KollectSnapshotSink",
            "KollectDatabaseSink",
            "KollectEventSink",
        ];
        if !told.contains(&kind) {
            continue;
        }
        let answer = case.send("POST", &manifest)?;
        ensure!(
            answer.is_success(),
            "{}: {}",
            vector.id,
            String::from_utf8_lossy(&answer.body)
        );
        stored.push((vector, manifest));
    }
    ensure!(stored.len() > 10, "only {}", stored.len());
    let operator = case.serve(&["--target-authorization=off"])?;
    let mut failures = Vec::new();
    for (vector, manifest) in &stored {
        let says = vector.says.as_deref().unwrap_or_default();
        // Selectors that mean nothing are named as a whole.
        let says = says.split("matchExpressions[0].").next().unwrap_or(says);
        let outcome = eventually(&vector.id, || {
            let object = case.get(manifest)?;
            let (reason, message) = verdict(&object).context("no verdict yet")?;
            ensure!(
                message.contains(says),
                "{reason}: {message} does not say {says}"
            );
            Ok(())
        });
        failures.extend(
            outcome
                .err()
                .map(|error| format!("{} {error:#}", manifest["kind"])),
        );
    }
    ensure!(
        failures.is_empty(),
        "{}\n{}",
        failures.join("\n"),
        operator.log()
    );
    Ok(())
}
