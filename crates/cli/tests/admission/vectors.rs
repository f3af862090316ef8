//! The vectors of the API, through the API server.

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{http::Response, wait::eventually};
use serde_json::Value;

use crate::{
    data::{self, RefusedBy, Vector},
    stage::{Case, cluster},
};

/// What exists in a context, in the namespace of the case where it was `team-a`.
fn put_context(case: &Case, context: &str) -> Result<()> {
    for mut object in data::context_manifests(context) {
        if object["metadata"]["namespace"] == "team-a" {
            object["metadata"]["namespace"] = case.namespace.as_str().into();
        }
        cluster().apply(&object.to_string())?;
    }
    Ok(())
}

fn send(case: &Case, vector: &Vector) -> Result<Response> {
    let mut manifest = vector.manifest(&case.namespace);
    case.label(&mut manifest);
    case.try_out("POST", &manifest)
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn expect(case: &Case, vector: &Vector) -> Result<()> {
    let answer = send(case, vector)?;
    let said = text(&answer);
    let id = &vector.id;
    match vector.refused_by {
        Some(RefusedBy::Schema) => {
            ensure!(answer.status == 422 || answer.status == 400, "{id}: {said}");
        }
        Some(RefusedBy::Rules) => {
            ensure!(answer.status == 403, "{id}: {} {said}", answer.status);
            let status: Value = serde_json::from_slice(&answer.body)?;
            let message = status["message"].as_str().unwrap_or_default();
            let expected = vector.says.as_deref().unwrap_or_default();
            ensure!(
                message.contains(expected),
                "{id}: {message} does not say {expected}"
            );
            let webhook = "admission webhook \"vkollect";
            ensure!(message.contains(webhook), "{id}: {message}");
        }
        Some(RefusedBy::Nobody) | None => {
            ensure!(answer.is_success(), "{id}: {said}");
            let warnings = answer.warnings();
            if let Some(expected) = &vector.warns {
                let told = warnings.iter().any(|warning| warning.contains(expected));
                ensure!(told, "{id}: {warnings:?} do not say {expected}");
            }
        }
    }
    Ok(())
}

fn all() -> Vec<Vector> {
    let mut all = data::refused();
    all.extend(data::edge());
    all
}

fn check(case: &Case, context: Option<&str>) -> Result<usize> {
    let vectors = all().into_iter();
    let mut vectors: Vec<Vector> = vectors
        .filter(|vector| vector.context.as_deref() == context)
        .collect();
    // Refusals first: once one is seen, the operator knows the context.
    vectors.sort_by_key(|vector| vector.refused_by != Some(RefusedBy::Rules));
    let mut failures = Vec::new();
    for vector in &vectors {
        let outcome = eventually(&vector.id, || expect(case, vector));
        failures.extend(outcome.err().map(|error| format!("{error:#}")));
        ensure!(failures.len() < 5, "{}", failures.join("\n"));
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(vectors.len())
}

#[test]
fn refused_and_accepted_vectors_pass_through_the_api_server() -> Result<()> {
    let case = Case::new("vectors")?;
    let operator = case.serve(&["--target-authorization=off"])?;
    for namespace in ["kollect-system", "team-a", "team-b", "tenant-b"] {
        let made = serde_json::json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        });
        cluster().apply(&made.to_string())?;
    }
    let outcome = || -> Result<usize> {
        let mut count = check(&case, None)?;
        for mut manifest in data::accepted() {
            if manifest["metadata"]["namespace"].is_string() {
                manifest["metadata"]["namespace"] = case.namespace.as_str().into();
            }
            case.label(&mut manifest);
            let answer = case.try_out("POST", &manifest)?;
            ensure!(answer.is_success(), "{manifest}: {}", text(&answer));
            count += 1;
        }
        for context in ["scope", "cscope"] {
            put_context(&case, context)?;
            count += check(&case, Some(context))?;
        }
        cluster().kubectl(&["delete", "kollectclusterscope", "plat"])?;
        Ok(count)
    };
    let count = outcome().with_context(|| operator.log())?;
    ensure!(count > 120, "only {count}");
    Ok(())
}

#[test]
fn cluster_kinds_are_denied_in_tenant_mode_and_can_be_let_through() -> Result<()> {
    let case = Case::new("tenant")?;
    let watched = format!("--watch-namespaces={}", case.namespace);
    let operator = case.serve(&["--tenant-mode", &watched])?;
    let count = check(&case, Some("tenant")).with_context(|| operator.log())?;
    ensure!(count >= 3, "only {count}");
    drop(operator);
    let operator = case.serve(&["--tenant-mode", &watched, "--deny-cluster-kinds=false"])?;
    for vector in all() {
        if vector.context.as_deref() == Some("tenant") {
            let answer = send(&case, &vector)?;
            ensure!(
                answer.is_success(),
                "{}: {}{}",
                vector.id,
                text(&answer),
                operator.log()
            );
        }
    }
    Ok(())
}
