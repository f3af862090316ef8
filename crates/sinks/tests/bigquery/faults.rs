//! Answers that are lost, jobs that go on, quotas, and rights that go.

use kollect_inventory::Snapshot;
use kollect_sinks::{Sink, SinkError};
use serde_json::json;

use super::{
    gate::{Seen, Trouble},
    items::deployments,
    stage::{Stage, T1, T2, T3, changes, everything, inventory},
};

/// A rule that applies to the first requests that are meant.
fn first(
    times: usize,
    meant: impl Fn(&Seen) -> bool + Send + 'static,
    trouble: Trouble,
) -> impl FnMut(&Seen) -> Option<Trouble> + Send + 'static {
    let mut left = times;
    move |seen| {
        if left == 0 || !meant(seen) {
            return None;
        }
        left -= 1;
        Some(trouble.clone())
    }
}

fn inserts(seen: &Seen) -> bool {
    seen.change().is_some_and(|text| text.starts_with("INSERT"))
}

/// The answer to a job is lost: it is found by its name, and runs once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_answer_is_lost_runs_once() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    stage.gate.rule(first(1, inserts, Trouble::LoseAnswer));
    everything(&sink, &inventory(), T1, &deployments(5, 1))
        .await
        .expect("rows");
    let sent: Vec<_> = stage.gate.seen().into_iter().filter(inserts).collect();
    assert_eq!(sent.len(), 2, "it was sent again");
    assert_eq!(sent[0].body, sent[1].body, "under the same name");
    assert_eq!(stage.rows().await.len(), 5, "and ran once");
}

/// A request that never arrived is sent again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_vanished_is_sent_again() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    stage.gate.rule(first(2, |_| true, Trouble::Vanish));
    stage
        .gate
        .rule(first(2, inserts, Trouble::refusal(503, "backendError")));
    everything(&sink, &inventory(), T1, &deployments(5, 1))
        .await
        .expect("rows");
    assert_eq!(stage.rows().await.len(), 5);
}

/// A delivery is given up while its job is on the way. Whatever becomes of the job, the next delivery
/// is the last word: the name of the job is taken before anything else happens.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_was_given_up_never_arrives_later() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let (old, new) = (deployments(5, 1), deployments(2, 2));
    everything(&sink, &inventory(), T1, &Snapshot::default())
        .await
        .expect("nothing");
    // No attempt is answered, and none is carried out.
    stage.gate.rule(first(usize::MAX, inserts, Trouble::Vanish));
    let failed = everything(&sink, &inventory(), T1, &old).await;
    assert!(matches!(failed, Err(SinkError::Transient(_))), "{failed:?}");
    let lost = stage
        .gate
        .seen()
        .into_iter()
        .find(inserts)
        .expect("the job");
    stage.gate.calm();
    everything(&sink, &inventory(), T2, &new)
        .await
        .expect("rows");
    assert_eq!(stage.rows().await.len(), 2);
    // Now it arrives after all.
    stage.post("jobs", lost.body).await;
    let rows = stage.rows().await;
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows.iter().all(|row| row.at == T2));
}

/// D40: a statement that fails is the last one of its delivery, and says its stage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d40_a_failed_statement_ends_the_delivery() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    everything(&sink, &inventory(), T1, &deployments(5, 1))
        .await
        .expect("rows");
    stage.gate.forget();
    let deletes = |seen: &Seen| seen.change().is_some_and(|text| text.starts_with("DELETE"));
    stage
        .gate
        .rule(first(1, deletes, Trouble::refusal(400, "invalidQuery")));
    let failed = everything(&sink, &inventory(), T2, &deployments(3, 2)).await;
    assert!(
        matches!(&failed, Err(SinkError::Terminal(text))
            if text.starts_with("bigquery emulator delete: run: invalidQuery (400)") && !text.contains("a value")),
        "{failed:?}"
    );
    assert_eq!(stage.gate.changes().len(), 1, "nothing after it");
    assert_eq!(stage.rows().await.len(), 5);
}

/// A job that fails after it was begun: its own reason counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_fails_says_why() {
    for (reason, forbidden) in [("accessDenied", true), ("rateLimitExceeded", false)] {
        let stage = Stage::new().await;
        let sink = stage.sink(json!({}));
        let job = |state: serde_json::Value| Trouble::Answer(200, json!({"status": state}));
        stage
            .gate
            .rule(first(1, inserts, job(json!({"state": "RUNNING"}))));
        stage.gate.rule(first(
            1,
            |seen| seen.path.contains("/queries/") && seen.query.contains("timeoutMs"),
            Trouble::refusal(403, reason),
        ));
        stage.gate.rule(first(
            1,
            |seen| seen.method == "GET" && seen.path.contains("/jobs/"),
            job(json!({"state": "DONE", "errorResult": {"reason": reason}})),
        ));
        let failed = everything(&sink, &inventory(), T1, &deployments(3, 1)).await;
        let error = failed.expect_err("it failed");
        let text = error.message().to_owned();
        assert!(
            text.starts_with(&format!("bigquery emulator insert: status: {reason}")),
            "{text}"
        );
        assert_eq!(
            matches!(error, SinkError::Forbidden(_)),
            forbidden,
            "{error:?}"
        );
        assert_eq!(
            matches!(error, SinkError::Transient(_)),
            !forbidden,
            "{error:?}"
        );
        // It heals.
        everything(&sink, &inventory(), T2, &deployments(3, 1))
            .await
            .expect("rows");
        assert_eq!(stage.rows().await.len(), 3);
    }
}

/// A quota that is used up heals by itself, whatever status it comes with (06-W16).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn w16_a_quota_is_no_lack_of_rights() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    stage
        .gate
        .rule(first(1, inserts, Trouble::refusal(403, "quotaExceeded")));
    let failed = everything(&sink, &inventory(), T1, &deployments(3, 1)).await;
    assert!(
        matches!(&failed, Err(SinkError::Transient(text)) if text.contains("quotaExceeded (403)")),
        "{failed:?}"
    );
    everything(&sink, &inventory(), T2, &deployments(3, 1))
        .await
        .expect("rows");
}

/// Rights that go between two deliveries: told as such, and nothing is lost when they are back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_may_go_and_come_back() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    let (one, two) = (deployments(3, 1), deployments(4, 2));
    everything(&sink, &inventory(), T1, &one)
        .await
        .expect("rows");
    stage.gate.rule(first(
        usize::MAX,
        |_| true,
        Trouble::refusal(403, "accessDenied"),
    ));
    let refused = changes(&sink, &inventory(), T2, &one, &two).await;
    assert!(
        matches!(&refused, Err(SinkError::Forbidden(text)) if text.contains("roles/bigquery.dataEditor")),
        "{refused:?}"
    );
    stage.gate.calm();
    let out = changes(&sink, &inventory(), T2, &one, &two).await;
    assert!(matches!(out, Err(SinkError::OutOfStep(_))), "{out:?}");
    everything(&sink, &inventory(), T3, &two)
        .await
        .expect("rows");
    assert_eq!(stage.rows().await.len(), 4);
}

/// Sinks on one table, whatever their inventories, send one statement at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_job_per_table_at_a_time() {
    let stage = Stage::new().await;
    let sinks: Vec<_> = (0..4)
        .map(|number| stage.sink(json!({"cluster": format!("cluster-{number}")})))
        .collect();
    let rows = deployments(3, 1);
    everything(&sinks[0], &inventory(), T1, &rows)
        .await
        .expect("a table");
    let (inventory, rows) = (inventory(), deployments(6, 2));
    let deliveries = sinks.iter().map(|sink| async {
        let place = sink.place().await;
        let delivered = everything(sink, &inventory, T2, &rows).await;
        drop(place);
        delivered.expect("rows");
    });
    futures::future::join_all(deliveries).await;
    assert_eq!(stage.gate.at_once(), 1);
    assert_eq!(stage.rows().await.len(), 24);
}
