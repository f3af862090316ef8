//! Servers that answer something else than what they did.

use kollect_sinks::SinkError;
use serde_json::{Value, json};

use crate::{
    liar::{Liar, Lie},
    places::{Kind, Place},
    stage::{delivery, rows},
};

const AT: &str = "2026-08-01T12:00:00Z";
const BUSY: &str =
    "<Error><Code>InternalError</Code><Message>secret-of-the-server</Message></Error>";
const SLOW: &str = "<Error><Code>SlowDown</Code></Error>";
const KEY: &str = "pre/fix/inventory/team-a/web.json";

/// The request that writes the document, as far as it differs from others.
fn writing(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Gcs => ("POST", "web.json"),
        Kind::S3 | Kind::AzureKey | Kind::AzureSignature => ("PUT", "inventory/team-a/web.json"),
    }
}

/// Part of the requests that list.
fn listing(kind: Kind) -> &'static str {
    match kind {
        Kind::S3 => "list-type=2",
        Kind::Gcs => "/o?prefix=",
        Kind::AzureKey | Kind::AzureSignature => "comp=list",
    }
}

/// A case for each kind of server.
macro_rules! everywhere {
    ($($case:ident),* $(,)?) => {$(
        mod $case {
            #[tokio::test(flavor = "multi_thread")]
            async fn s3() {
                super::$case(super::Kind::S3).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn gcs() {
                super::$case(super::Kind::Gcs).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn azure() {
                super::$case(super::Kind::AzureKey).await;
            }
        }
    )*};
}

everywhere! {
    an_error_after_the_upload_is_no_error,
    refused_uploads_heal,
    lists_that_lie_remove_nothing,
}

fn some(replicas: u32) -> kollect_inventory::Snapshot {
    rows(&[("Deployment", "team-a", "api", json!({"replicas": replicas}))])
}

fn replicas(document: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(document).unwrap();
    document["items"][0]["attributes"]["replicas"].clone()
}

fn lie(
    method: &'static str,
    about: &'static str,
    times: usize,
    done: bool,
    answer: Option<(&'static str, &'static str)>,
) -> Lie {
    Lie {
        method,
        about,
        times,
        done,
        answer,
    }
}

/// An object that was written although the answer says otherwise is there, and the delivery knows.
async fn an_error_after_the_upload_is_no_error(kind: Kind) {
    for (told, answer) in [
        (1, Some(("500 Internal Server Error", BUSY))),
        (10, Some(("500 Internal Server Error", BUSY))),
        (
            1,
            Some((
                "412 Precondition Failed",
                "<Error><Code>PreconditionFailed</Code></Error>",
            )),
        ),
        (1, Some(("503 Slow Down", SLOW))),
        (1, None),
    ] {
        let place = Place::new(kind, "after").await;
        let liar = Liar::to(place.port());
        let sketch = place.sketch(liar.port, json!({}));
        let sink = sketch.open().await.unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        let (method, about) = writing(kind);
        liar.tell(lie(method, about, told, true, answer));
        sink.deliver(&delivery(some(2), AT))
            .await
            .unwrap_or_else(|error| panic!("{answer:?}: {error}"));
        assert_eq!(replicas(&place.read(KEY).await.unwrap()), 2, "{answer:?}");
        assert!(told > 1 || liar.is_done(), "{answer:?}");
    }
}

/// What was not written is told, with its class, and heals with the next delivery.
async fn refused_uploads_heal(kind: Kind) {
    for answer in [
        Some(("500 Internal Server Error", BUSY)),
        Some(("503 Slow Down", SLOW)),
        Some(("412 Precondition Failed", "")),
        Some(("429 Too Many Requests", "")),
        None,
    ] {
        let place = Place::new(kind, "refused").await;
        let liar = Liar::to(place.port());
        let sketch = place.sketch(liar.port, json!({}));
        let sink = sketch.open().await.unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        let (method, about) = writing(kind);
        liar.tell(lie(method, about, 3, false, answer));
        let failed = sink.deliver(&delivery(some(2), AT)).await;
        match failed {
            // A refusal that comes once may be overcome at once.
            Ok(_) => {}
            Err(SinkError::Transient(text)) => {
                assert!(!text.contains("secret-of-the-server"), "{text}");
                assert_eq!(replicas(&place.read(KEY).await.unwrap()), 1, "{answer:?}");
            }
            Err(other) => panic!("{answer:?}: {other:?}"),
        }
        let mut last = Ok(());
        for _ in 0..4 {
            last = sink.deliver(&delivery(some(2), AT)).await.map(|_| ());
            if last.is_ok() {
                break;
            }
        }
        last.unwrap();
        assert_eq!(replicas(&place.read(KEY).await.unwrap()), 2, "{answer:?}");
    }
}

/// What is there besides records.
async fn files(place: &Place) -> Vec<(String, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    for key in place.marks().await.into_keys() {
        if !key.contains("/.kollect/") {
            let bytes = place.read(&key).await;
            found.push((key, bytes));
        }
    }
    found
}

/// A list that leaves out what is there, or never ends, makes nobody remove anything.
async fn lists_that_lie_remove_nothing(kind: Kind) {
    let pages: [&str; 3] = match kind {
        Kind::S3 => [
            "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>",
            "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
            "<ListBucketResult><Contents><Key>",
        ],
        Kind::Gcs => ["{}", r#"{"nextPageToken":"again"}"#, r#"{"items":[{"na"#],
        Kind::AzureKey | Kind::AzureSignature => [
            "<EnumerationResults><Blobs /><NextMarker /></EnumerationResults>",
            "<EnumerationResults><Blobs /><NextMarker>again</NextMarker></EnumerationResults>",
            "<html>",
        ],
    };
    for page in pages {
        let place = Place::new(kind, "lists").await;
        let liar = Liar::to(place.port());
        let sketch = place.sketch(liar.port, json!({}));
        let sink = sketch.open().await.unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        let before = files(&place).await;
        let lies = lie("GET", listing(kind), 20, false, Some(("200 OK", page)));
        liar.tell(lies);
        let _ = sink.deliver(&delivery(some(1), AT)).await;
        let _ = sink.retire(&delivery(some(1), AT).inventory).await;
        assert_eq!(files(&place).await, before, "{page}");
    }
}

/// A clock that is wrong heals; credentials that are wrong do not.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_classes() {
    for (answer, terminal) in [
        ("<Error><Code>RequestTimeTooSkewed</Code></Error>", false),
        ("<Error><Code>InvalidAccessKeyId</Code></Error>", true),
    ] {
        let place = Place::new(Kind::S3, "classes").await;
        let liar = Liar::to(place.port());
        let sketch = place.sketch(liar.port, json!({}));
        let sink = sketch.open().await.unwrap();
        liar.tell(lie(
            "GET",
            "list-type=2",
            9,
            false,
            Some(("403 Forbidden", answer)),
        ));
        let failed = sink.deliver(&delivery(some(1), AT)).await.unwrap_err();
        assert_eq!(
            matches!(failed, SinkError::Terminal(_)),
            terminal,
            "{failed}"
        );
        assert!(place.marks().await.is_empty());
    }
}
