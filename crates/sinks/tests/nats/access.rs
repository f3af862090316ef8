//! Who gets in, and what whoever gets in may do.

use kollect_sinks::{ReadBack, SinkError, conformance::rows::Rows};
use kollect_testkit::{Nats, nats::Admission};
use serde_json::{Value, json};

use super::stage::{blocking, everything, open};

fn spec(url: &str, changes: &Value) -> Value {
    let mut spec = json!({
        "type": "nats",
        "cluster": "prod-west",
        "secretRef": {"name": "nats"},
        "nats": {"url": url, "subject": "inventory.events"},
    });
    for (key, value) in changes.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    spec
}

async fn start(admission: Admission) -> Nats {
    blocking(move || Nats::start(&admission))
        .await
        .expect("a server")
}

async fn refused(spec: Value, secret: &[(&str, &str)]) -> SinkError {
    match open(spec, secret).await {
        Ok(sink) => sink.probe().await.expect_err("refused"),
        Err(error) => error,
    }
}

/// Token, NKey and credentials file: each gets in, and nothing else does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_nkeys_and_credentials() {
    let rows = Rows::new().deployments(2, 1);
    for admission in [Admission::Token, Admission::NKey, Admission::Creds] {
        let server = start(admission.clone()).await;
        let url = format!("nats://127.0.0.1:{}", server.port());
        let (key, value) = match &admission {
            Admission::Token => ("token", server.password().to_owned()),
            Admission::NKey => ("nkey", Nats::nkey_seed().expect("a seed")),
            _ => ("creds", Nats::creds().expect("credentials")),
        };
        // With the line break that a file ends with.
        let value = format!("{value}\n");
        let sink = open(spec(&url, &json!({})), &[(key, &value)])
            .await
            .expect("a sink");
        sink.probe()
            .await
            .unwrap_or_else(|error| panic!("{admission:?}: {error}"));
        everything(&sink, &rows).await.expect("all rows");
        let error = refused(spec(&url, &json!({})), &[("token", "wrong-token")]).await;
        assert!(
            matches!(error, SinkError::Terminal(_)),
            "{admission:?}: {error:?}"
        );
        assert!(!error.message().contains("wrong-token"));
    }
}

/// TLS with an authority of one's own, with the client's certificate, and without either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_and_client_certificates() {
    use base64::{Engine, prelude::BASE64_STANDARD};
    let rows = Rows::new().deployments(2, 1);
    for admission in [Admission::Tls, Admission::Certificates] {
        let server = start(admission.clone()).await;
        let ca = BASE64_STANDARD.encode(server.ca_pem());
        let identity = server.client("kollect").expect("a certificate");
        let secret = match &admission {
            Admission::Tls => [("username", "user1"), ("password", server.password())],
            _ => [
                ("tls.crt", &*identity.cert_pem),
                ("tls.key", &*identity.key_pem),
            ],
        };
        for scheme in ["nats", "tls"] {
            let url = format!("{scheme}://127.0.0.1:{}", server.port());
            let trusting = json!({"tls": {"caBundle": ca}});
            let sink = open(spec(&url, &trusting), &secret).await.expect("a sink");
            sink.probe()
                .await
                .unwrap_or_else(|error| panic!("{admission:?}: {error}"));
            everything(&sink, &rows).await.expect("all rows");
            // Nobody who does not know the authority is sent credentials.
            let error = refused(spec(&url, &json!({})), &secret).await;
            assert!(error.message().contains("certificate"), "{error}");
        }
        if admission == Admission::Certificates {
            let url = format!("tls://127.0.0.1:{}", server.port());
            let trusting = json!({"tls": {"caBundle": ca}});
            refused(spec(&url, &trusting), &[("username", "user1")]).await;
        }
    }
}

/// C14: who may publish and not read publishes all rows and says so; who may not publish is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c14_without_the_right_to_read() {
    let permissions = r#"{
        publish: { allow: ["inventory.events.>", "$JS.API.STREAM.INFO.>", "$JS.API.STREAM.CREATE.>"] },
        subscribe: { allow: ["_INBOX.>"] } }"#;
    let server = start(Admission::Permissions(permissions.to_owned())).await;
    let url = format!("nats://127.0.0.1:{}", server.port());
    let secret = [("username", "limited"), ("password", server.password())];
    let sink = open(spec(&url, &json!({})), &secret).await.expect("a sink");
    let rows = Rows::new().deployments(3, 1);
    let receipt = everything(&sink, &rows).await.expect("a replay");
    assert_eq!(receipt.written, 3);
    let Some(ReadBack::Replayed(why)) = receipt.read_back else {
        panic!("no replay: {receipt:?}");
    };
    assert!(why.contains("CONSUMER.CREATE"), "{why}");
    let (messages, synced) = blocking(move || {
        let reader = server.reader().expect("a reader");
        let rows = "inventory.events.prod-west.team-a.web.>";
        let own = "inventory.events.prod-west.team-a.web";
        let stream = "kollect_events";
        let messages = reader.newest(stream, rows).expect("messages");
        (messages, reader.newest(stream, own).expect("messages"))
    })
    .await;
    assert_eq!(messages.len(), 3);
    let [synced] = &synced[..] else {
        panic!("one message that all were repeated: {synced:?}");
    };
    assert_eq!(synced["body"]["event"], "synced");
    assert_eq!(synced["body"]["count"], 3);
    assert_eq!(synced["headers"]["ce-type"], "dev.kollect.inventory.synced");
    let last = messages.last().expect("a message")["sequence"].as_u64();
    assert!(synced["sequence"].as_u64() > last);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_right_to_publish() {
    let permissions = r#"{
        publish: { allow: ["$JS.API.>"] }, subscribe: { allow: ["_INBOX.>"] } }"#;
    let server = start(Admission::Permissions(permissions.to_owned())).await;
    let url = format!("nats://127.0.0.1:{}", server.port());
    let secret = [("username", "limited"), ("password", server.password())];
    let sink = open(spec(&url, &json!({})), &secret).await.expect("a sink");
    let began = std::time::Instant::now();
    let error = everything(&sink, &Rows::new().deployments(3, 1))
        .await
        .expect_err("refused");
    assert!(matches!(error, SinkError::Forbidden(_)), "{error:?}");
    assert!(error.message().contains("inventory.events"), "{error}");
    assert!(began.elapsed().as_secs() < 9, "it is told, not waited for");
}

/// Several URLs: the first that answers is used, and each is judged by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_servers() {
    let (port, password) = blocking(|| {
        let server = Nats::shared().expect("a server");
        (server.port(), server.password().to_owned())
    })
    .await;
    let secret = [("username", "user1"), ("password", password.as_str())];
    let nobody = blocking(kollect_testkit::ports::free)
        .await
        .expect("a port");
    let url = format!("nats://127.0.0.1:{nobody},nats://127.0.0.1:{port}");
    let sink = open(spec(&url, &json!({})), &secret).await.expect("a sink");
    sink.probe().await.expect("the second answers");
    // What may not be reached is refused before anything is dialled.
    let url = format!("nats://127.0.0.1:{port},nats://169.254.169.254:4222");
    let error = refused(spec(&url, &json!({})), &secret).await;
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    assert!(error.message().starts_with("spec.nats.url: "), "{error}");
}
