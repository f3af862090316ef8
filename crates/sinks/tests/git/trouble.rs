//! Servers that break off, refuse and lie.

use std::{num::NonZeroU64, time::Duration};

use kollect_sinks::SinkError;
use kollect_testkit::{Proxy, git::SshServer};
use serde_json::json;

use crate::{
    stage::{Stage, everything, hook, inventory, row},
    vectors::{a, b},
};

/// The connection breaks in the middle of a push, at many places: the branch holds the old state or
/// the new one, and the next delivery puts everything right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_that_breaks_off_leaves_the_branch_whole() {
    let stage = Stage::start();
    let url = stage.repository.https_url().to_owned();
    let port: u16 = url
        .rsplit(':')
        .next()
        .unwrap()
        .split('/')
        .next()
        .unwrap()
        .parse()
        .unwrap();
    let proxy = Proxy::to(("127.0.0.1", port)).unwrap();
    let through = url.replace(&format!(":{port}"), &format!(":{}", proxy.port()));
    let sink = stage.sink(json!({ "endpoint": through, "layout": { "mode": "perResource" } }));
    let mut before = vec![a()];
    sink.deliver(&everything(&inventory(), &before))
        .await
        .unwrap();
    let mut broken = 0;
    for round in 0..8_u32 {
        let rows: Vec<_> = (0..500)
            .map(|n| {
                row(
                    "Deployment",
                    &format!("app-{n}"),
                    &json!({ "n": n, "round": round }),
                )
            })
            .collect();
        // The push of some 70 kB takes about two seconds.
        proxy.throttle(Some(32 * 1024));
        let delivery = everything(&inventory(), &rows);
        let cut = async {
            tokio::time::sleep(Duration::from_millis(400 * u64::from(round))).await;
            proxy.refuse();
        };
        let (delivered, ()) = tokio::join!(sink.deliver(&delivery), cut);
        let found = stage.paths().len();
        match delivered {
            Ok(_) => assert_eq!(found, 500),
            Err(error) => {
                broken += 1;
                assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
                // The old state, or the new one if only the answer got lost.
                assert!([before.len(), rows.len()].contains(&found), "{found}");
            }
        }
        proxy.throttle(None);
        proxy.accept().unwrap();
        sink.deliver(&delivery).await.unwrap();
        let round = format!("round: {round}");
        let files = stage.visible();
        assert!(files.len() == 500 && files.values().all(|file| file.contains(&round)));
        before = rows;
    }
    assert!(broken > 2, "only {broken} deliveries were cut off");
    stage.assert_linear();
}

/// A hook that says no is an answer, and its words are passed on.
#[tokio::test]
async fn s23_a_protected_branch_is_terminal() {
    let stage = Stage::start();
    hook(
        &stage.repository,
        "#!/bin/sh\necho 'error: protected branch, see https://bot:hunter2@wiki.example/' >&2\nexit 1\n",
    );
    let sink = stage.sink(json!({}));
    let error = sink
        .deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    let text = error.message();
    assert!(
        text.contains("git push rejected") && text.contains("protected branch"),
        "{text}"
    );
    assert!(!text.contains("hunter2"), "{text}");
}

/// S25 of the export timelines: a set of parts arrives as one commit, so none is ever torn. What is
/// refused leaves the set before it whole, and is delivered from its first part on. (The backends of
/// the original that write part by part are none of ours.)
#[tokio::test]
async fn s25_a_set_of_parts_is_never_torn() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "serialization": { "format": "json" } }));
    let long = |name: &str| row("Deployment", name, &json!({ "payload": "x".repeat(220) }));
    let delivery = |names: &[&str]| {
        let rows: Vec<_> = names.iter().map(|name| long(name)).collect();
        let mut delivery = everything(&inventory(), &rows);
        delivery.documents.max_bytes = NonZeroU64::new(900);
        delivery
    };
    let set = |total: usize| {
        let part = |index| format!("inventory/team-a/web.part-{index:04}-of-{total:04}.json");
        let manifest = "inventory/team-a/web.manifest.json".to_owned();
        let parts = (1..=total).map(part);
        std::iter::once(manifest).chain(parts).collect::<Vec<_>>()
    };
    sink.deliver(&delivery(&["a", "b"])).await.unwrap();
    assert_eq!(stage.paths(), set(2));
    let (before, commits) = (stage.visible(), stage.commits());

    hook(&stage.repository, "#!/bin/sh\nexit 1\n");
    sink.deliver(&delivery(&["a", "b", "c"])).await.unwrap_err();
    assert_eq!(stage.visible(), before, "two parts of two");

    hook(&stage.repository, "#!/bin/sh\nexit 0\n");
    sink.deliver(&delivery(&["a", "b", "c"])).await.unwrap();
    assert_eq!(stage.paths(), set(3), "and no part of the old set");
    assert_eq!(stage.commits(), commits + 1);
}

/// S26 of the export timelines: `maxExportBytes` splits documents, but no row.
#[tokio::test]
async fn s26_a_ceiling_below_one_row_is_terminal() {
    let stage = Stage::start();
    let sink = stage.sink(json!({}));
    let mut delivery = everything(&inventory(), &[a()]);
    delivery.documents.max_bytes = NonZeroU64::new(100);
    let error = sink.deliver(&delivery).await.unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    let expected = "single item export envelope exceeds maxExportBytes (100)";
    assert!(error.message().contains(expected), "{error}");
    assert!(stage.visible().is_empty());
}

/// A repository that nobody may push to over HTTP.
#[tokio::test]
async fn a_read_only_repository_fails_the_probe() {
    let stage = Stage::start();
    stage
        .repository
        .git(&["config", "http.receivepack", "false"])
        .unwrap();
    let sink = stage.sink(json!({}));
    for error in [
        sink.probe().await.unwrap_err(),
        sink.deliver(&everything(&inventory(), &[a()]))
            .await
            .unwrap_err(),
    ] {
        assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    }
}

/// The mirror is a cache: whatever happens to it between deliveries, the branch is right.
#[tokio::test]
async fn mirrors_may_vanish_and_rot() {
    let stage = Stage::start();
    let sink = stage.sink(json!({ "layout": { "mode": "perResource" } }));
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    let mirrors = stage.work.path().join("mirrors");
    for entry in std::fs::read_dir(&mirrors).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            std::fs::write(path.join("HEAD"), "nonsense").unwrap();
            std::fs::remove_dir_all(path.join("objects")).unwrap();
        }
    }
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    assert_eq!(stage.paths().len(), 1);
    std::fs::remove_dir_all(&mirrors).unwrap();
    sink.deliver(&everything(&inventory(), &[b()]))
        .await
        .unwrap();
    assert_eq!(stage.paths(), ["prod-west/team-a/configmap/cfg.yaml"]);
    assert_eq!(stage.commits(), 3);
}

/// What is not a Git server is said to be none.
#[tokio::test]
async fn a_server_that_is_no_git_server_is_terminal() {
    let stage = Stage::start();
    let url = stage.repository.https_url();
    let (server, _) = url.rsplit_once('/').unwrap();
    let sink = stage.sink(json!({ "endpoint": format!("{server}/nothing-here") }));
    let error = sink.probe().await.unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
}

/// A repository with longer object names would be misread.
#[tokio::test]
async fn a_sha256_repository_is_refused() {
    let stage = Stage::start();
    let path = stage.repository.path().to_string_lossy().into_owned();
    std::fs::remove_dir_all(&path).unwrap();
    let format = "--object-format=sha256";
    let made = std::process::Command::new("git")
        .args([
            "init",
            "--quiet",
            "--bare",
            "--initial-branch=main",
            format,
            &path,
        ])
        .status()
        .unwrap();
    assert!(made.success());
    stage
        .repository
        .git(&["config", "http.receivepack", "true"])
        .unwrap();
    let error = stage.sink(json!({})).probe().await.unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    assert!(error.message().contains("SHA-256"), "{error}");
}

/// Who does not want to know the server says so; then no known_hosts are needed.
#[tokio::test]
async fn an_ssh_server_may_be_trusted_blindly_on_request() {
    let stage = Stage::start();
    let ssh = SshServer::start().unwrap();
    let mut sketch = stage.sketch(json!({
        "endpoint": stage.repository.ssh_url(&ssh),
        "tls": { "caBundle": null, "insecureSkipVerify": true },
    }));
    sketch.secret = vec![("identity".into(), ssh.client_key().unwrap())];
    let sink = stage.build(&sketch).unwrap();
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    assert_eq!(stage.paths().len(), 1);
}
