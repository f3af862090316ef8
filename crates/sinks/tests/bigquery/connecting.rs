//! Keys, tokens and probes.

use kollect_sinks::{Sink, SinkError, bigquery::Service};
use serde_json::{Value, json};

use super::{
    gate::{KEY, OTHER_KEY},
    items::deployments,
    stage::{Stage, T1, T2, everything, inventory, key_file, spec},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_in_spec_and_secret_are_told_before_anything_is_connected() {
    let stage = Stage::new().await;
    let file = key_file(KEY, stage.port);
    let with = |change: Value| {
        let mut file: Value = serde_json::from_str(&file).expect("a file");
        file.as_object_mut()
            .expect("an object")
            .extend(change.as_object().expect("an object").clone());
        file.to_string()
    };
    let user = with(json!({"type": "authorized_user"}));
    let broken = with(json!({"private_key": "-----BEGIN"}));
    for (changes, secret, expected) in [
        (json!({}), vec![], "bigquery secretRef secret is empty"),
        (
            json!({}),
            vec![("credentials.json", "  ")],
            "bigquery secret must contain credentials.json",
        ),
        (
            json!({}),
            vec![("key.json", file.as_str())],
            "bigquery secret must contain credentials.json",
        ),
        (
            json!({}),
            vec![("credentials.json", "{")],
            "bigquery client options: parse bigquery credentials.json: ",
        ),
        (
            json!({}),
            vec![("credentials.json", user.as_str())],
            "its type is not service_account",
        ),
        (
            json!({}),
            vec![("credentials.json", broken.as_str())],
            "private_key is no RSA key",
        ),
        (
            json!({"options": {"statement_timeout": "1"}}),
            vec![("credentials.json", file.as_str())],
            "spec.options[statement_timeout] is not known",
        ),
        (
            json!({"bigquery": {"table": "a`b"}}),
            vec![("credentials.json", file.as_str())],
            "spec.bigquery.table",
        ),
    ] {
        let spec = spec(&stage.dataset, changes);
        let made = Stage::sink_of(&spec, &secret, stage.service());
        let error = made.expect_err(expected);
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains(expected)),
            "{error:?} instead of {expected}"
        );
    }
    let spec = spec(&stage.dataset, json!({"bigquery": {"secretRef": null}}));
    let made = Stage::sink_of(&spec, &[], Service::google());
    let error = made.expect_err("no key").to_string();
    assert!(error.contains("spec.bigquery.secretRef"), "{error}");
    assert!(stage.gate.seen().is_empty(), "something was asked");
}

/// 06-W17: with an emulator nobody is asked for credentials, given or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_emulator_needs_no_key() {
    let stage = Stage::new().await;
    let port = stage.dataset.server.port();
    let plain = Service::emulator(&format!("127.0.0.1:{port}"));
    for changes in [json!({}), json!({"bigquery": {"secretRef": null}})] {
        let spec = spec(&stage.dataset, changes);
        let sink = Stage::sink_of(&spec, &[("credentials.json", "{")], plain.clone());
        let sink = sink.expect("a sink");
        sink.probe().await.expect("a probe");
        everything(&sink, &inventory(), T1, &deployments(2, 1))
            .await
            .expect("rows");
    }
    assert_eq!(stage.rows().await.len(), 2);
}

/// One token serves many requests; one that the service does not take any more is replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_are_kept_and_replaced() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    everything(&sink, &inventory(), T1, &deployments(2, 1))
        .await
        .expect("rows");
    assert_eq!(stage.gate.issued(), 1);
    stage.gate.expire();
    everything(&sink, &inventory(), T2, &deployments(3, 1))
        .await
        .expect("rows");
    assert_eq!(stage.gate.issued(), 2);
    assert_eq!(stage.rows().await.len(), 3);
}

/// M5: a key that is not accepted is terminal, and asks the token service once per attempt.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_not_accepted_is_terminal() {
    let stage = Stage::new().await;
    let sink = stage.sink_with(OTHER_KEY, json!({})).expect("a sink");
    let probed = sink.probe().await;
    let delivered = everything(&sink, &inventory(), T1, &deployments(2, 1)).await;
    for error in [probed.map(drop), delivered.map(drop)] {
        assert!(
            matches!(&error, Err(SinkError::Terminal(text)) if text.contains("authentication failed (invalid_grant)")),
            "{error:?}"
        );
    }
    assert!(stage.gate.seen().is_empty());
}

/// A probe reads the dataset and has a query checked; it makes nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_reads_and_checks() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({"bigquery": {"location": "EU"}}));
    let answer = sink.probe().await.expect("a probe");
    assert_eq!(
        answer,
        "BigQuery dataset metadata and dry-run query succeeded"
    );
    let seen = stage.gate.seen();
    assert_eq!(seen.len(), 2, "{seen:#?}");
    assert!(
        seen[0]
            .path
            .ends_with(&format!("/datasets/{}", stage.dataset.name))
    );
    assert_eq!(seen[1].body["configuration"]["dryRun"], true);
    assert_eq!(seen[1].body["jobReference"]["location"], "EU");
    assert_eq!(stage.table().await, None);

    let absent = stage.sink(json!({"bigquery": {"dataset": "nobody_has_it"}}));
    let error = absent.probe().await.expect_err("no dataset");
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.starts_with("bigquery dataset metadata: ")),
        "{error:?}"
    );
    let existing = stage.sink(json!({"provisioning": {"mode": "existing"}}));
    let error = existing.probe().await.expect_err("no table");
    assert!(
        error
            .message()
            .contains("does not exist (provisioning.mode=existing)"),
        "{error}"
    );
}

/// Addresses are judged for the service and for the token service that a key names.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_lead_to_no_forbidden_place() {
    let stage = Stage::new().await;
    let file = key_file(KEY, stage.port).replace("http://127.0.0.1", "http://169.254.169.254");
    let spec = spec(&stage.dataset, json!({}));
    let sink = Stage::sink_of(&spec, &[("credentials.json", &file)], stage.service());
    let error = sink.expect("a sink").probe().await.expect_err("forbidden");
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("forbidden")),
        "{error:?}"
    );
    assert_eq!(stage.gate.issued(), 0);
}
