//! Settings that must not get as far as a server, and commits as they must look.

use kollect_api::InventoryId;
use kollect_sinks::SinkError;
use serde_json::{Value, json};

use crate::stage::{Sketch, Stage, everything, inventory, row};

/// What is wrong with a description is said when the sink is made, before any connection.
#[test]
fn descriptions_that_cannot_work_are_terminal() {
    type Secret = Vec<(String, String)>;
    let stage = Stage::start();
    let secret = |pairs: &[(&str, &str)]| -> Secret {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    let cases: Vec<(&str, Value, Secret, &str)> = vec![
        (
            "S07 ssh on https",
            json!({ "endpoint": "https://git.example/r.git", "git": { "auth": { "type": "ssh" } } }),
            secret(&[]),
            "ssh:// endpoint",
        ),
        (
            "S07 token on ssh",
            json!({ "endpoint": "ssh://git@git.example/r.git", "git": { "auth": { "type": "token" } } }),
            secret(&[("token", "hunter2")]),
            "https:// endpoint",
        ),
        (
            "S08 no known_hosts",
            json!({ "endpoint": "ssh://git@git.example/r.git" }),
            secret(&[("ssh-privatekey", KEY)]),
            "known_hosts",
        ),
        (
            "no key",
            json!({ "endpoint": "ssh://git@git.example/r.git" }),
            secret(&[("known_hosts", "git.example ssh-ed25519 AAAA")]),
            "ssh-privatekey",
        ),
        (
            "S13 gitlab over ssh",
            json!({ "type": "gitlab", "endpoint": "ssh://git@h/g/p.git", "git": null }),
            secret(&[]),
            "http",
        ),
        (
            "no endpoint",
            json!({ "endpoint": "" }),
            secret(&[]),
            "spec.endpoint",
        ),
        (
            "an unknown scheme",
            json!({ "endpoint": "ftp://user:hunter2@git.example/r.git" }),
            secret(&[]),
            "scheme",
        ),
        (
            "a branch that is none",
            json!({ "endpoint": "https://git.example/r.git#branch=a..b" }),
            secret(&[]),
            "branch",
        ),
    ];
    for (name, spec, secret, part) in cases {
        let sketch = Sketch {
            secret,
            ..stage.sketch(spec)
        };
        let error = stage.build(&sketch).expect_err(name);
        assert!(matches!(error, SinkError::Terminal(_)), "{name}: {error:?}");
        assert!(error.message().contains(part), "{name}: {error}");
        assert!(!error.message().contains("hunter2"), "{name}: {error}");
    }
}

/// A key made for this test; it opens nothing.
const KEY: &str = "-----BEGIN OPENSSH PRIVATE KEY-----
b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW
QyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYgAAAJgAIAxdACAM
XQAAAAtzc2gtZWQyNTUxOQAAACCzPq7zfqLffKoBDe/eo04kH2XxtSmk9D7RQyf1xUqrYg
AAAEC2BsIi0QwW2uFscKTUUXNHLsYX4FxlaSDSblbAj7WR7bM+rvN+ot98qgEN796jTiQf
ZfG1KaT0PtFDJ/XFSqtiAAAAEHVzZXJAZXhhbXBsZS5jb20BAgMEBQ==
-----END OPENSSH PRIVATE KEY-----
";

/// S10: admission is not the only guard.
#[test]
fn s10_a_forbidden_address_is_refused_at_run_time_too() {
    let stage = Stage::start();
    for endpoint in ["https://169.254.169.254/r.git", "https://localhost/r.git"] {
        let sketch = stage.sketch(json!({ "endpoint": endpoint }));
        let error = stage.build(&sketch).unwrap_err();
        assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    }
}

/// S31 and V01: who commits, what the commit says, and that git reads the trailers.
#[tokio::test]
async fn s31_commits_say_what_was_asked_for() {
    let stage = Stage::start();
    let sink = stage.sink(json!({
        "cluster": "lab",
        "git": {
            "commitMessage": "sub {name}",
            "commitBody": "body\nline2",
            "commitTrailers": ["A: 1", "  ", "B: {cluster}"],
            "author": { "name": "Bot", "email": "bot@x" },
        },
    }));
    let one = InventoryId::namespaced("team-a", "one");
    sink.deliver(&everything(&one, &[b()])).await.unwrap();
    let show = |format: &str| {
        stage
            .repository
            .git(&["log", "-1", &format!("--format={format}"), "main"])
            .unwrap()
    };
    assert_eq!(show("%B"), "sub one\n\nbody\nline2\n\nA: 1\nB: lab");
    assert_eq!(show("%an <%ae> %cn <%ce>"), "Bot <bot@x> Bot <bot@x>");
    assert_eq!(
        show("%(trailers:key=A,valueonly)%(trailers:key=B,valueonly)"),
        "1\nlab"
    );
    assert_eq!(show("%aI"), "2026-08-01T12:00:00+00:00");
}

#[tokio::test]
async fn s32_subjects_have_placeholders() {
    let stage = Stage::start();
    let sink = stage.sink(json!({
        "git": { "commitMessage":
            "sync {namespace}/{name} gen={generation}/{exportGeneration} n={itemCount} at \
             {exportedAt} via {sink} {path} {unknown}" },
    }));
    sink.deliver(&everything(&inventory(), &[b()]))
        .await
        .unwrap();
    assert_eq!(
        stage.subject(),
        "sync team-a/web gen=4/4 n=1 at 2026-08-01T12:00:00Z via git-main \
         inventory/team-a/web.yaml {unknown}"
    );
}

/// V01 and V28: the default subject.
#[tokio::test]
async fn the_default_subject_names_inventory_and_checksum() {
    let stage = Stage::start();
    let sink = stage.sink(json!({}));
    sink.deliver(&everything(&inventory(), &[a(), b()]))
        .await
        .unwrap();
    assert_eq!(
        stage.subject(),
        "chore(prod-west/team-a/web): export 2 items @ 97b6658eed89"
    );
    let fleet = InventoryId::cluster("fleet");
    sink.deliver(&everything(&fleet, &[b()])).await.unwrap();
    assert_eq!(
        stage.subject(),
        "chore(prod-west/cluster/fleet): export 1 items @ 17d8cfd2ac58"
    );
    assert_eq!(
        stage.paths(),
        ["inventory/cluster/fleet.yaml", "inventory/team-a/web.yaml"]
    );
}

/// S01 and S02 with a server: the fragment names the branch, the setting wins.
#[tokio::test]
async fn branches_are_made_where_they_are_asked_for() {
    let stage = Stage::start();
    let url = format!("{}#branch=develop", stage.repository.https_url());
    let by_fragment = stage.sink(json!({ "endpoint": url }));
    by_fragment.probe().await.unwrap();
    by_fragment
        .deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    let configured = stage.sink(json!({ "endpoint": url, "git": { "branch": "exports/main" } }));
    configured
        .deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    let branches = stage
        .repository
        .git(&["for-each-ref", "--format=%(refname)"])
        .unwrap();
    assert_eq!(branches, "refs/heads/develop\nrefs/heads/exports/main");
}

/// A password in the endpoint is not used and not shown.
#[tokio::test]
async fn s03_userinfo_of_the_endpoint_is_ignored() {
    let stage = Stage::start();
    let url = stage.repository.https_url_as("somebody", "hunter2-in-url");
    let sink = stage.sink(json!({ "endpoint": url }));
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
    assert!(!format!("{sink:?}").contains("hunter2"));
}

/// S04 to S06 need a server that tells who came; the header is checked beside its code.
#[tokio::test]
async fn tokens_with_line_breaks_work() {
    let stage = Stage::start();
    let mut sketch = stage.sketch(json!({ "git": { "forceBasicAuth": true } }));
    sketch.secret = vec![
        ("username".into(), "kollect\n".into()),
        ("token".into(), format!("{}\n", stage.server.password())),
        ("password".into(), "not this one".into()),
    ];
    let sink = stage.build(&sketch).unwrap();
    sink.deliver(&everything(&inventory(), &[a()]))
        .await
        .unwrap();
}

/// The same file twice is no commit, also after a restart, and also in formats that say when they
/// were written.
#[tokio::test]
async fn s27_an_unchanged_inventory_makes_no_commit() {
    for spec in [
        json!({}),
        json!({ "serialization": { "format": "json" } }),
        json!({ "layout": { "mode": "split" } }),
        json!({ "layout": { "mode": "perResource" } }),
    ] {
        let stage = Stage::start();
        let sink = stage.sink(spec.clone());
        let first = everything(&inventory(), &[a(), b()]);
        let receipt = sink.deliver(&first).await.unwrap();
        assert_eq!(
            receipt.note,
            Some(format!("commit {}", stage.tip())),
            "{spec}"
        );
        let mut later = everything(&inventory(), &[a(), b()]);
        later.at = "2026-08-02T12:00:00Z".parse().unwrap();
        let again = sink.deliver(&later).await.unwrap();
        assert_eq!(again.written, 0, "{spec}");
        stage.sink(spec.clone()).deliver(&later).await.unwrap();
        assert_eq!(stage.commits(), 1, "{spec}");
    }
}

pub(crate) fn a() -> kollect_inventory::Row {
    row(
        "Deployment",
        "api",
        &json!({ "image": "nginx:1.27", "replicas": 3 }),
    )
}

pub(crate) fn b() -> kollect_inventory::Row {
    row(
        "ConfigMap",
        "cfg",
        &json!({ "keys": ["a", "b"], "ok": true }),
    )
}
