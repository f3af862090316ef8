//! The data files.

use serde_json::{Map, Value};

use crate::support::{Case, read};

fn run(file: &str) {
    let objects: Map<String, Value> = read("objects.yaml");
    let cases: Vec<Case> = read(file);
    assert!(!cases.is_empty());
    for case in &cases {
        case.run(&objects);
    }
}

#[test]
fn attributes() {
    run("attributes.yaml");
}

#[test]
fn helm_releases() {
    run("helm.yaml");
}

#[test]
fn secrets_are_guarded() {
    run("secret-guard.yaml");
}

#[test]
fn redaction() {
    run("redaction.yaml");
}

#[test]
fn pruning() {
    run("pruning.yaml");
}

#[test]
fn profiles_that_users_have() {
    run("contracts.yaml");
}
