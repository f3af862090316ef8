//! Ways to get in, and what is said where there is none.

use base64::{Engine, engine::general_purpose::STANDARD};
use kollect_api::sink::common::ProvisioningMode;
use kollect_sinks::{SinkError, conformance::rows::Rows};
use kollect_testkit::{
    kafka::{USER, token},
    names::unique,
};
use serde_json::{Value, json};

use super::{
    broker::{all, eventually, kafka, merge, open, sink},
    reader::{ask, ends, records},
};

/// A class with a piece of the text that has to be there.
fn assert_error(error: &SinkError, class: &str, piece: &str, case: &str) {
    let found = match error {
        SinkError::Terminal(_) => "terminal",
        SinkError::Transient(_) => "transient",
        SinkError::Forbidden(_) => "forbidden",
        SinkError::OutOfStep(_) => "out of step",
    };
    assert_eq!(found, class, "{case}: {error}");
    assert!(error.message().contains(piece), "{case}: {error}");
}

#[tokio::test]
async fn every_way_in_works() {
    let kafka = kafka().await;
    let (ca, password) = (kafka.ca_pem(), kafka.password());
    let client = kafka.client(USER).unwrap();
    let trust = json!({"tls": {"caSecretRef": {"name": "ca"}}});
    let user = [("username", USER), ("password", password), ("ca.crt", &ca)];
    let identity = [
        ("tls.key", client.key_pem.as_str()),
        ("tls.crt", &client.cert_pem),
    ];
    let mut make = Rows::new();
    let rows = make.deployments(3, 1);
    for compression in ["none", "gzip", "snappy", "zstd"] {
        for mechanism in ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let mut spec = trust.clone();
            merge(
                &mut spec,
                json!({
                    "kafka": {"saslMechanism": mechanism},
                    "serialization": {"compression": compression},
                }),
            );
            let topic = unique("in");
            let sink = open(&kafka.sasl(), &topic, spec, &user).await.unwrap();
            all(&sink, &rows).await.unwrap();
            assert_eq!(records(&topic).await.len(), 3, "{mechanism} {compression}");
            let probed = sink.probe().await.unwrap();
            assert!(
                probed.starts_with("Kafka broker metadata request succeeded"),
                "{probed}"
            );
        }
    }
    let mut spec = trust.clone();
    merge(
        &mut spec,
        json!({"kafka": {"saslMechanism": "OAUTHBEARER"}}),
    );
    let token = token(USER);
    let secret = [("token", token.as_str()), ("ca.crt", &ca)];
    let topic = unique("in");
    let sink = open(&kafka.sasl(), &topic, spec, &secret).await.unwrap();
    all(&sink, &rows).await.unwrap();
    assert_eq!(records(&topic).await.len(), 3, "OAUTHBEARER");
    // The authority as a bundle, so that tls.crt of the Secret is the client's.
    let bundle = STANDARD.encode(&ca);
    let topic = unique("in");
    let spec = json!({"tls": {"caBundle": bundle}});
    let sink = open(&kafka.mutual(), &topic, spec, &identity)
        .await
        .unwrap();
    all(&sink, &rows).await.unwrap();
    assert_eq!(records(&topic).await.len(), 3);
}

/// What is wrong, broker, settings, Secret, and the class and a piece of what is said.
type Case<'a> = (
    &'a str,
    String,
    Value,
    &'a [(&'a str, &'a str)],
    &'a str,
    &'a str,
);

#[tokio::test]
async fn closed_doors_say_what_to_do() {
    let kafka = kafka().await;
    let (ca, password) = (kafka.ca_pem(), kafka.password());
    let trust = json!({"tls": {"caSecretRef": {"name": "ca"}}});
    let oauth = json!({
        "tls": {"caSecretRef": {"name": "ca"}}, "kafka": {"saslMechanism": "OAUTHBEARER"},
    });
    let right = [("username", USER), ("password", password), ("ca.crt", &ca)];
    let wrong = [
        ("username", USER),
        ("password", "wrong-horse"),
        ("ca.crt", &ca),
    ];
    let token = [("token", "a.b.c"), ("ca.crt", &ca)];
    let wire = kafka.wire().unwrap();
    let nobody = [("ca.crt", ca.as_str())];
    let cases: [Case<'_>; 9] = [
        (
            "password",
            kafka.sasl(),
            trust.clone(),
            &wrong,
            "terminal",
            "rejects the credentials",
        ),
        (
            "mechanism",
            wire.broker(),
            json!({}),
            &right,
            "terminal",
            "does not offer SCRAM-SHA-256",
        ),
        (
            "token",
            kafka.sasl(),
            oauth,
            &token,
            "terminal",
            "rejects the credentials",
        ),
        (
            "authority",
            kafka.sasl(),
            json!({"tls": {}}),
            &right,
            "terminal",
            "spec.tls.caBundle",
        ),
        (
            "no TLS",
            kafka.sasl(),
            json!({}),
            &right,
            "transient",
            "spec.tls",
        ),
        (
            "no SASL",
            kafka.sasl(),
            trust.clone(),
            &nobody,
            "transient",
            "spec.kafka.secretRef",
        ),
        (
            "no certificate",
            kafka.mutual(),
            trust.clone(),
            &nobody,
            "transient",
            "mutual",
        ),
        (
            "SASL not wanted",
            kafka.plain(),
            json!({}),
            &right,
            "terminal",
            "hung up",
        ),
        (
            "nobody there",
            "127.0.0.1:1".to_owned(),
            json!({}),
            &[],
            "transient",
            "127.0.0.1:1",
        ),
    ];
    let mut make = Rows::new();
    for (case, broker, spec, secret, class, piece) in cases {
        let sink = open(&broker, &unique("closed"), spec, secret)
            .await
            .unwrap();
        let delivered = all(&sink, &make.deployments(1, 1)).await.unwrap_err();
        let probed = sink.probe().await.unwrap_err();
        for error in [delivered, probed] {
            if ["no certificate", "SASL not wanted"].contains(&case) {
                // Which word a broker finds for it depends on its version.
                assert!(!matches!(error, SinkError::OutOfStep(_)), "{case}: {error}");
            } else {
                assert_error(&error, class, piece, case);
            }
            assert!(!error.message().contains("wrong-horse"), "{case}");
        }
    }
}

/// One broker of several is enough, wherever it stands in the list.
#[tokio::test]
async fn brokers_that_are_gone_are_passed_over() {
    let plain = kafka().await.plain();
    let topic = unique("brokers");
    let brokers = json!({"kafka": {"brokers": ["127.0.0.1:1", "127.0.0.1:2", plain]}});
    let sink = sink(&topic, brokers).await;
    sink.probe().await.unwrap();
    all(&sink, &Rows::new().deployments(1, 1)).await.unwrap();
}

#[tokio::test]
async fn a_topic_is_created_only_if_that_is_wanted() {
    let topic = unique("missing");
    let existing = json!({"provisioning": {"mode": ProvisioningMode::Existing}});
    let strict = sink(&topic, existing.clone()).await;
    let rows = Rows::new().deployments(2, 1);
    for error in [
        all(&strict, &rows).await.unwrap_err(),
        strict.probe().await.unwrap_err(),
    ] {
        assert_error(
            &error,
            "terminal",
            &format!("topic {topic:?} does not exist"),
            "existing",
        );
    }
    let ensuring = sink(&topic, json!({})).await;
    let probed = ensuring.probe().await.unwrap();
    assert!(
        probed.contains("is created with the first export"),
        "{probed}"
    );
    assert_eq!(ends(&topic).await, None, "neither created it");
    all(&ensuring, &rows).await.unwrap();
    assert_eq!(all(&strict, &rows).await.unwrap().written, 0);
    strict.probe().await.unwrap();
    // Deleted under a sink: changes are refused, all rows bring it back.
    ask(json!({"do": "delete", "topic": topic})).await;
    let next = Rows::new().deployments(3, 1);
    let error = super::broker::changes(&ensuring, &rows, &next)
        .await
        .unwrap_err();
    assert_error(&error, "out of step", "deleted or replaced", "deleted");
    assert_eq!(all(&ensuring, &next).await.unwrap().written, 3);
    // Replaced under a sink: noticed by its offsets.
    ask(json!({"do": "delete", "topic": topic})).await;
    ask(json!({"do": "create", "topic": topic})).await;
    let last = Rows::new().deployments(3, 2);
    let outcome = super::broker::changes(&ensuring, &next, &last).await;
    assert_error(
        &outcome.unwrap_err(),
        "out of step",
        "deleted or replaced",
        "replaced",
    );
    all(&ensuring, &last).await.unwrap();
    assert_eq!(super::reader::newest(&topic).await.len(), 3);
}

#[tokio::test]
async fn who_may_not_write_is_told_what_to_grant() {
    let topic = unique("forbidden");
    ask(json!({"do": "create", "topic": topic})).await;
    let operations = ["READ", "DESCRIBE"];
    ask(json!({"do": "allow", "topic": topic, "user": USER, "operations": operations})).await;
    let kafka = kafka().await;
    let (ca, password) = (kafka.ca_pem(), kafka.password());
    let trust = json!({"tls": {"caSecretRef": {"name": "ca"}}});
    let secret = [("username", USER), ("password", password), ("ca.crt", &ca)];
    let sink = open(&kafka.sasl(), &topic, trust, &secret).await.unwrap();
    eventually("the rule is in force", async || sink.probe().await.is_err()).await;
    for error in [
        all(&sink, &Rows::new().deployments(1, 1))
            .await
            .unwrap_err(),
        sink.probe().await.unwrap_err(),
    ] {
        assert_error(&error, "forbidden", "Write", "no right to write");
    }
}
