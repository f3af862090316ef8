//! The same vectors through `kollect validate`, without a cluster; and a cluster's stored objects.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use crate::{
    data::{self, RefusedBy, Vector},
    stage::{Case, cluster},
};

fn validate(manifests: &[Value], flags: &[&str]) -> Result<Output> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kollect"))
        .arg("validate")
        .args(flags)
        .arg("-")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut text = String::new();
    for manifest in manifests {
        text.push_str(&format!("---\n{manifest}\n"));
    }
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(text.as_bytes())?;
    Ok(child.wait_with_output()?)
}

/// Profiles that an object refers to and that no context has, so that nothing is missing.
fn profile_of(manifest: &Value) -> Option<Value> {
    let spec = &manifest["spec"];
    let rule = spec.pointer("/resourceRules/0/gvk").cloned();
    let (name, namespace) = match manifest["kind"].as_str()? {
        "KollectTarget" => (
            spec["profileRef"].clone(),
            manifest["metadata"]["namespace"].clone(),
        ),
        "KollectClusterTarget" => {
            let reference = &spec["profileRef"];
            (reference["name"].clone(), reference["namespace"].clone())
        }
        _ => return None,
    };
    // Rules may spell it in any case.
    let deployment = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    let gvk = rule.filter(|gvk| gvk["kind"] != "deployment");
    let gvk = gvk.unwrap_or(deployment);
    Some(json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"targetGVK": gvk, "attributes": [{"name": "a", "path": "$.metadata.name"}]},
    }))
}

fn check(vector: &Vector) -> Result<()> {
    // Files may name sinks by their names alone, which the API server does not take.
    if vector.id == "V30" {
        return Ok(());
    }
    let manifest = vector.manifest("team-a");
    let context = vector.context.as_deref();
    let mut all = context.map(data::context_manifests).unwrap_or_default();
    let refused = vector.is_refused();
    if let Some(profile) = profile_of(&manifest)
        && !refused
        && !all.iter().any(|other| is_same(other, &profile))
    {
        all.push(profile);
    }
    let named = format!("{} \"x\" ", manifest["kind"].as_str().unwrap_or_default());
    all.push(manifest);
    let flags: &[&str] = if context == Some("tenant") {
        &["--deny-cluster-kinds"]
    } else {
        &[]
    };
    let output = validate(&all, flags)?;
    let said = String::from_utf8_lossy(&output.stderr);
    // Objects of the context may have faults of their own.
    // What only a person may do is a warning here, with the words of the operator.
    let foreseen =
        |line: &&str| !line.contains(": warning: ") || line.contains("only for kollect collect");
    let errors = said.lines().filter(foreseen);
    let errors: Vec<&str> = errors
        .filter(|line| line.contains(named.trim_end()))
        .collect();
    let id = &vector.id;
    ensure!(errors.is_empty() != refused, "{id}: {said}");
    ensure!(output.status.success() || !said.is_empty(), "{id}: silence");
    let expected = match vector.refused_by {
        Some(RefusedBy::Rules) => vector.says.as_ref(),
        Some(RefusedBy::Schema) => None,
        Some(RefusedBy::Nobody) | None => vector.warns.as_ref(),
    };
    if let Some(expected) = expected {
        ensure!(
            said.contains(expected),
            "{id}: {said} does not say {expected}"
        );
    }
    Ok(())
}

fn is_same(one: &Value, other: &Value) -> bool {
    let same = |at: &str| one.pointer(at) == other.pointer(at);
    same("/kind") && same("/metadata/name") && same("/metadata/namespace")
}

#[test]
fn validate_says_what_the_webhook_says() {
    let mut vectors = data::refused();
    vectors.extend(data::edge());
    let workers = 4;
    let failures: Vec<String> = std::thread::scope(|scope| {
        let shares = (0..workers).map(|worker| {
            let share = vectors.iter().skip(worker).step_by(workers);
            scope.spawn(move || {
                let failures = share.filter_map(|vector| check(vector).err());
                failures
                    .map(|error| format!("{error:#}"))
                    .collect::<Vec<_>>()
            })
        });
        let shares: Vec<_> = shares.collect();
        let failures = shares
            .into_iter()
            .map(|share| share.join().expect("no panic"));
        failures.flatten().collect()
    });
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn what_a_cluster_holds_is_judged_and_successors_are_named() -> Result<()> {
    let case = Case::new("live")?;
    let bad = json!({
        "targetGVK": {"version": "v1", "kind": "Pod"},
        "attributes": [{"name": "a", "path": "cel:1 +"}],
    });
    let stored = case.send("POST", &case.object("KollectProfile", "bad", &bad))?;
    ensure!(stored.is_success(), "{}", stored.status);
    let live = |namespace: &str| {
        Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["validate", "--live", "-n", namespace, "--kubeconfig"])
            .arg(cluster().kubeconfig())
            .output()
    };
    let output = live(&case.namespace)?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() != Some(0), "{said}");
    for part in [
        "KollectProfile \"bad\" is invalid: spec.attributes[0].path",
        "cel:1 +",
    ] {
        ensure!(said.contains(part), "{said}");
    }
    cluster().kubectl(&["delete", "kollectprofile", "bad", "-n", &case.namespace])?;
    let good = json!({
        "targetGVK": {"version": "v1", "kind": "Pod"},
        "attributes": [{"name": "a", "path": "$.metadata.name"}],
    });
    case.send("POST", &case.object("KollectProfile", "good", &good))?;
    let output = live(&case.namespace)?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && text.contains("1 profile"),
        "{output:?}"
    );

    let removed = [
        json!({"apiVersion": "kollect.dev/v1alpha1", "kind": "KollectSink", "metadata": {"name": "a"}, "spec": {}}),
        json!({"apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterProfile", "metadata": {"name": "a"}, "spec": {}}),
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
            "metadata": {"name": "a"}, "spec": {"sinkRefs": ["a"]},
        }),
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectClusterTarget", "metadata": {"name": "a"},
            "spec": {"profileRef": "p", "namespaceSelector": {"matchLabels": {"a": "b"}}},
        }),
    ];
    let output = validate(&removed, &[])?;
    let said = String::from_utf8_lossy(&output.stderr);
    for part in [
        "KollectSnapshotSink (git",
        "spec.profileRef.namespace",
        "spec.databaseSinkRefs",
        "{name: …, namespace: …}",
    ] {
        ensure!(said.contains(part), "{said} does not say {part}");
    }
    Ok(())
}
