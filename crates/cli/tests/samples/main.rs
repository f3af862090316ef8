//! Samples for other projects' kinds: applied to a real API server that serves those kinds with their
//! real schemas, and collected from it. What comes out is in `rows.yaml`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kollect_api::crd;
use kollect_testkit::{
    Cluster, RunDir,
    definitions::{ARGO_CD, CERT_MANAGER, FLUX, TRIVY},
    wait::eventually,
};
use serde_json::Value;

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/samples")
}

/// Creates an object of a case, status included.
fn create(cluster: &Cluster, object: &Value) -> Result<()> {
    cluster.apply(&object.to_string())?;
    if object["status"].is_null() {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, group) = (text(&object["kind"]), text(&object["apiVersion"]));
    let group = group.split('/').next().unwrap_or_default();
    let patch = serde_json::json!({"status": object["status"]}).to_string();
    let (name, namespace) = (
        text(&object["metadata"]["name"]),
        text(&object["metadata"]["namespace"]),
    );
    let resource = format!("{kind}.{group}");
    let arguments = [
        "patch",
        &resource,
        &name,
        "--namespace",
        &namespace,
        "--type=merge",
        "-p",
        &patch,
    ];
    // Kinds without the subresource take a status with everything else.
    let beside = [&arguments[..], &["--subresource=status"]].concat();
    cluster
        .kubectl(&beside)
        .or_else(|_| cluster.kubectl(&arguments))
        .map(|_| ())
}

/// The rows of a sample, by name of the object.
fn collected(cluster: &Cluster, sample: &Path) -> Result<Vec<Value>> {
    let output = Command::new(env!("CARGO_BIN_EXE_kollect"))
        .args([
            "collect",
            "--quiet",
            "--format=ndjson",
            "--output=-",
            "--config",
        ])
        .arg(sample)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {complaint}", sample.display());
    let text = String::from_utf8(output.stdout)?;
    let rows: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    Ok(rows?)
}

#[test]
fn samples_collect_from_the_real_kinds() -> Result<()> {
    let cluster = Cluster::shared()?;
    cluster.define(crd::all_yaml().iter().map(|file| &file.yaml))?;
    for definition in [ARGO_CD, CERT_MANAGER, FLUX, TRIVY] {
        // Too large to be kept as an annotation, which is what a plain apply does.
        let run = RunDir::new("definition")?;
        let file = run.write_private("definition.yaml", definition.yaml()?)?;
        let file = file.to_str().context("a path")?;
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", file];
        cluster
            .kubectl(&apply)
            .with_context(|| definition.module.to_owned())?;
    }
    cluster.apply(
        r#"{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-tools"}}"#,
    )?;

    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples/rows.yaml");
    let cases: Vec<Value> = serde_saphyr::from_str(&std::fs::read_to_string(cases)?)?;
    ensure!(cases.len() == 5);
    for case in &cases {
        let sample = samples().join(case["sample"].as_str().context("a sample")?);
        let name = sample.display();
        cluster
            .apply(&std::fs::read_to_string(&sample)?)
            .with_context(|| name.to_string())?;
        for object in case["objects"].as_array().context("objects")? {
            // A definition is served a moment after it was accepted.
            eventually("the kind", || create(cluster, object)).with_context(|| name.to_string())?;
        }
        let rows = collected(cluster, &sample)?;
        let found: Vec<Value> = rows
            .iter()
            .map(|row| serde_json::json!({"name": row["name"], "attributes": row["attributes"]}))
            .collect();
        let expected = case["rows"].as_array().context("rows")?;
        ensure!(
            found == *expected,
            "{name}:\n{:#}\ninstead of\n{:#}",
            Value::Array(found),
            case["rows"]
        );
    }
    Ok(())
}
