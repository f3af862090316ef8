//! Servers that answer something else than what they did.

use kollect_sinks::SinkError;
use serde_json::{Value, json};

use crate::{
    liar::{Liar, Lie},
    stage::{Sketch, blocking, bucket, delivery, objects, rows},
};

const AT: &str = "2026-08-01T12:00:00Z";
const BUSY: &str =
    "<Error><Code>InternalError</Code><Message>secret-of-the-server</Message></Error>";
const SLOW: &str = "<Error><Code>SlowDown</Code></Error>";
const KEY: &str = "inventory/team-a/web.json";

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
#[tokio::test(flavor = "multi_thread")]
async fn an_error_after_the_upload_is_no_error() {
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
        let (bucket, port) = bucket("after").await;
        let liar = Liar::to(port);
        let sink = Sketch::s3(&bucket, liar.port, json!({}))
            .open()
            .await
            .unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        liar.tell(lie("PUT", KEY, told, true, answer));
        sink.deliver(&delivery(some(2), AT))
            .await
            .unwrap_or_else(|error| panic!("{answer:?}: {error}"));
        assert_eq!(replicas(&objects(&bucket).await[KEY]), 2, "{answer:?}");
        assert!(told > 1 || liar.is_done(), "{answer:?}");
    }
}

/// What was not written is told, with its class, and heals with the next delivery.
#[tokio::test(flavor = "multi_thread")]
async fn refused_uploads_heal() {
    for answer in [
        Some(("500 Internal Server Error", BUSY)),
        Some(("503 Slow Down", SLOW)),
        Some(("412 Precondition Failed", "")),
        Some(("429 Too Many Requests", "")),
        None,
    ] {
        let (bucket, port) = bucket("refused").await;
        let liar = Liar::to(port);
        let sink = Sketch::s3(&bucket, liar.port, json!({}))
            .open()
            .await
            .unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        liar.tell(lie("PUT", KEY, 3, false, answer));
        let failed = sink.deliver(&delivery(some(2), AT)).await;
        match failed {
            // A refusal that comes once may be overcome at once.
            Ok(_) => {}
            Err(SinkError::Transient(text)) => {
                assert!(!text.contains("secret-of-the-server"), "{text}");
                assert_eq!(replicas(&objects(&bucket).await[KEY]), 1, "{answer:?}");
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
        assert_eq!(replicas(&objects(&bucket).await[KEY]), 2, "{answer:?}");
    }
}

/// A list that leaves out what is there, or never ends, makes nobody remove anything.
#[tokio::test(flavor = "multi_thread")]
async fn lists_that_lie_remove_nothing() {
    const EMPTY: &str = "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>";
    const CUT: &str = "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>";
    const GARBLED: &str = "<ListBucketResult><Contents><Key>";
    for page in [EMPTY, CUT, GARBLED] {
        let (bucket, port) = bucket("lists").await;
        let liar = Liar::to(port);
        let sink = Sketch::s3(&bucket, liar.port, json!({}))
            .open()
            .await
            .unwrap();
        sink.deliver(&delivery(some(1), AT)).await.unwrap();
        let before = objects(&bucket).await;
        liar.tell(lie("GET", "list-type=2", 20, false, Some(("200 OK", page))));
        let _ = sink.deliver(&delivery(some(1), AT)).await;
        let _ = sink.retire(&delivery(some(1), AT).inventory).await;
        assert_eq!(objects(&bucket).await, before, "{page}");
    }
}

/// A clock that is wrong heals; credentials that are wrong do not.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_have_classes() {
    for (answer, terminal) in [
        ("<Error><Code>RequestTimeTooSkewed</Code></Error>", false),
        ("<Error><Code>InvalidAccessKeyId</Code></Error>", true),
    ] {
        let (bucket, port) = bucket("classes").await;
        let liar = Liar::to(port);
        let sink = Sketch::s3(&bucket, liar.port, json!({}))
            .open()
            .await
            .unwrap();
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
        assert!(blocking(move || bucket.objects().unwrap()).await.is_empty());
    }
}
