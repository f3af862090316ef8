//! A cluster with many large definitions of kinds, as service meshes and clouds install them.

use std::thread;

use anyhow::{Context as _, Result};
use kollect_testkit::http;
use serde_json::{Value, json};

const COUNT: usize = 300;
const BYTES: usize = 200_000;
const AT_ONCE: usize = 6;

/// Creates them all.
pub(crate) fn create(api: &http::Client) -> Result<()> {
    thread::scope(|scope| {
        let workers: Vec<_> = (0..AT_ONCE)
            .map(|worker| {
                scope.spawn(move || -> Result<()> {
                    for number in (worker..COUNT).step_by(AT_ONCE) {
                        api.post(PATH, &definition(number))
                            .with_context(|| format!("definition {number}"))?;
                    }
                    Ok(())
                })
            })
            .collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().expect("no panic"))
    })
}

const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Large by its description: what makes a definition large is what nobody who collects reads.
fn definition(number: usize) -> Value {
    let plural = format!("burdens{number}");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.load.example.com")},
        "spec": {
            "group": "load.example.com", "scope": "Namespaced",
            "names": {"plural": plural, "kind": format!("Burden{number}")},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "description": "word ".repeat(BYTES / 5),
                }},
            }],
        },
    })
}
