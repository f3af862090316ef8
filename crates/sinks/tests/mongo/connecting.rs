//! Ways to a server: certificates, logins, addresses that are not allowed.

use std::time::{Duration, Instant};

use base64::{Engine, engine::general_purpose::STANDARD};
use kollect_sinks::{
    Sink, SinkError, credentials::materials, mongo::MongoSink, secret::SecretData,
};
use kollect_testkit::Mongo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::{
    items::deployments,
    server::{Stage, T1, environment, everything, inventory, sink_with, spec},
};

fn authority() -> Value {
    let pem = Mongo::shared().unwrap().ca_pem();
    json!({"tls": {"caBundle": STANDARD.encode(pem)}})
}

async fn delivers(sink: &dyn Sink) -> Result<(), SinkError> {
    everything(sink, &inventory(), T1, &deployments(3, 1)).await?;
    sink.probe().await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_follows_the_policy_of_all_sinks() {
    let stage = Stage::new().await;
    let tls = format!("{}&tls=true", stage.uri);
    let works = [
        (stage.uri.clone(), authority()),
        (tls.clone(), authority()),
        (tls.clone(), json!({"tls": {"insecureSkipVerify": true}})),
        (format!("{tls}&tlsInsecure=true"), json!({})),
    ];
    for (uri, changes) in works {
        let sink = stage.sink_at(&uri, changes.clone()).unwrap();
        delivers(&sink)
            .await
            .unwrap_or_else(|error| panic!("{changes}: {error}"));
    }
    let began = Instant::now();
    let error = delivers(&stage.sink_at(&tls, json!({})).unwrap())
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("spec.tls.caBundle")),
        "{error:?}"
    );
    assert!(
        began.elapsed() < Duration::from_secs(15),
        "it is known at once"
    );
    // The certificate is for 127.0.0.1 and localhost.
    let other = tls.replace("127.0.0.1", "127.0.0.2");
    assert!(
        delivers(&stage.sink_at(&other, authority()).unwrap())
            .await
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_a_login() {
    let stage = Stage::new().await;
    let server = Mongo::shared().unwrap();
    let identity = tokio::task::block_in_place(|| server.certified("certified-tenant").unwrap());
    let uri = format!(
        "mongodb://{}/?authMechanism=MONGODB-X509&tls=true",
        server.hosts()
    );
    let secret = |uri| {
        [
            ("uri", uri),
            ("tls.crt", identity.cert_pem.as_str()),
            ("tls.key", identity.key_pem.as_str()),
        ]
    };
    let sink = sink_with("certificate", &secret(uri.as_str()), authority()).unwrap();
    delivers(&sink).await.unwrap();
    let bare = sink_with("certificate", &[("uri", uri.as_str())], authority()).unwrap();
    let error = delivers(&bare).await.unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    drop(stage);
}

/// M5: at once, terminal, and without a word of the string.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn wrong_logins_are_told_apart_from_servers_that_are_gone() {
    let stage = Stage::new().await;
    let mechanism = |name: &str| format!("{}&authMechanism={name}", stage.uri);
    for name in ["SCRAM-SHA-1", "SCRAM-SHA-256"] {
        delivers(&stage.sink_at(&mechanism(name), json!({})).unwrap())
            .await
            .unwrap();
        let wrong = mechanism(name).replace(&stage.user.password, "wrong");
        let error = delivers(&stage.sink_at(&wrong, json!({})).unwrap())
            .await
            .unwrap_err();
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains("authentication failed")),
            "{error:?}"
        );
    }
    let anonymous = format!("mongodb://{}", Mongo::shared().unwrap().hosts());
    let error = delivers(&stage.sink_at(&anonymous, json!({})).unwrap())
        .await
        .unwrap_err();
    assert!(matches!(error, SinkError::Forbidden(_)), "{error:?}");
    let gone = "mongodb://u:p@127.0.0.1:1/?serverSelectionTimeoutMS=1000";
    let error = delivers(&stage.sink_at(gone, json!({})).unwrap())
        .await
        .unwrap_err();
    assert_eq!(
        error,
        SinkError::transient("mongodb connect: connection failed")
    );
}

/// The server is in a Secret, so only the dialler can judge it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forbidden_addresses_are_terminal_at_once() {
    for uri in [
        "mongodb://tenantuser:hunter2@127.0.0.1:1/tenantdb",
        "mongodb://tenantuser:hunter2@169.254.169.254/tenantdb",
        // A proxy of the string's own changes nothing.
        "mongodb://tenantuser:hunter2@127.0.0.1:1/tenantdb?proxyHost=127.0.0.1&proxyPort=2",
    ] {
        let spec = spec("d", json!({}));
        let data: SecretData = [("uri", uri)].into_iter().collect();
        let materials = materials(&spec, "team-a", |_| Some(data.clone())).unwrap();
        let sink = MongoSink::new(&spec, materials, &environment(&[])).unwrap();
        let began = Instant::now();
        for error in [
            delivers(&sink).await.unwrap_err(),
            sink.probe().await.unwrap_err(),
        ] {
            let SinkError::Terminal(text) = &error else {
                panic!("{error:?}");
            };
            assert!(text.contains("address policy forbids"), "{text}");
            for part in ["tenantuser", "hunter2", "127.0.0.1", "169.254", "tenantdb"] {
                assert!(!text.contains(part), "{text}");
            }
        }
        assert!(began.elapsed() < Duration::from_secs(15));
    }
}

/// A server that announces more than any server sends is left before anything is made room for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_means_harm_is_left() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut hello = [0; 1024];
                while stream.read(&mut hello).await.is_ok_and(|count| count > 0) {
                    let mut header = i32::MAX.to_le_bytes().to_vec();
                    header.extend([0; 8]);
                    header.extend(2013_i32.to_le_bytes());
                    if stream.write_all(&header).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    let uri = format!("mongodb://127.0.0.1:{port}/?serverSelectionTimeoutMS=8000");
    let sink = sink_with("d", &[("uri", &uri)], json!({})).unwrap();
    let error = delivers(&sink).await.unwrap_err();
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("longer than")),
        "{error:?}"
    );
}

#[test]
fn secrets_and_settings_are_checked_before_anything_is_connected() {
    for (secret, changes, says) in [
        (
            &[("password", "x")][..],
            json!({}),
            "mongodb secret must contain uri or connectionString key",
        ),
        (&[], json!({}), "mongodb databaseRef secret is empty"),
        (
            &[("uri", "nonsense")],
            json!({}),
            "mongodb connect: invalid connection string",
        ),
        (
            &[("uri", "mongodb://h")],
            json!({"options": {"x": "y"}}),
            "spec.options[x] is not known",
        ),
        (
            &[("uri", "mongodb://h")],
            json!({"mongodb": {"collection": " "}}),
            "requires spec.mongodb.collection",
        ),
        (
            &[("uri", "mongodb://h")],
            json!({"mongodb": {"database": "admin"}}),
            "belong to the server",
        ),
    ] {
        let error = sink_with("d", secret, changes).unwrap_err();
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains(says)),
            "{error:?}"
        );
    }
    let first = [
        ("uri", "  "),
        ("url", "mongodb://h"),
        ("MONGODB_URI", "nonsense"),
    ];
    assert!(sink_with("d", &first, json!({})).is_ok());
}
