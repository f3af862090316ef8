//! The troublesome API server is an API server, and fails in exactly the ways it is told to.

use std::io::{BufRead, BufReader};
use std::process::Stdio;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::rbac::{self, read};
use kollect_testkit::trouble::{DISCOVERY, Effect, on};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Cluster, Trouble};
use serde_json::{Value, json};

const NAMESPACES: &str = "/api/v1/namespaces";

fn status_of(trouble: &Trouble, path: &str) -> Result<u16> {
    let cluster = trouble.cluster();
    let answer = cluster.api(cluster.admin())?.request("GET", path, None)?;
    Ok(answer.status)
}

#[test]
fn without_rules_it_is_the_server_behind_it() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let namespace = trouble.cluster().create_namespace("through")?;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "m", "namespace": namespace}, "data": {"long": "x".repeat(300_000)},
    });
    trouble.cluster().apply(&map.to_string())?;
    let path = format!("{NAMESPACES}/{namespace}/configmaps");
    let api = trouble.cluster().api(trouble.cluster().admin())?;
    let listed = api.get(&path)?;
    let items = listed["items"].as_array().context("a list has items")?;
    assert!(items.iter().any(|item| item["data"] == map["data"]));
    assert_eq!(
        trouble.answered(&on("list", "configmaps").within(&namespace), 200),
        1
    );
    assert!(
        trouble.requests(&on("get", DISCOVERY)) > 0,
        "kubectl asks what is served"
    );

    // Whoever asks is known behind it.
    let restricted = trouble.cluster().api(trouble.cluster().restricted())?;
    assert_eq!(restricted.request("GET", NAMESPACES, None)?.status, 403);
    Ok(())
}

#[test]
fn rules_are_about_verbs_resources_and_namespaces() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let (one, two) = (
        format!("{NAMESPACES}/default/configmaps"),
        format!("{NAMESPACES}/kube-system/configmaps"),
    );
    let refused = trouble.rule(
        on("list", "configmaps").within("default"),
        Effect::Status(403),
    );
    assert_eq!(status_of(&trouble, &one)?, 403);
    assert_eq!(status_of(&trouble, &two)?, 200);
    assert_eq!(
        status_of(&trouble, &format!("{one}/none"))?,
        404,
        "get is another verb"
    );
    trouble.lift(refused);
    assert_eq!(status_of(&trouble, &one)?, 200);

    for status in [404, 410, 429, 500, 503, 504] {
        let rule = trouble.rule(on("*", "configmaps"), Effect::RetryAfter(status, 7));
        assert_eq!(status_of(&trouble, &two)?, status);
        trouble.lift(rule);
    }
    trouble.rule_times(
        on("get", DISCOVERY).named("/apis/apps/v1"),
        Effect::Status(503),
        2,
    );
    let asked: Vec<u16> = (0..3)
        .map(|_| status_of(&trouble, "/apis/apps/v1"))
        .collect::<Result<_>>()?;
    assert_eq!(asked, [503, 503, 200], "so many times");

    trouble.rule_for(
        on("list", "namespaces"),
        Effect::Status(500),
        Duration::from_millis(300),
    );
    assert_eq!(status_of(&trouble, NAMESPACES)?, 500);
    eventually("the end of the rule", || {
        ensure!(status_of(&trouble, NAMESPACES)? == 200, "it goes on");
        Ok(())
    })
}

#[test]
fn answers_are_cut_garbled_and_late() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let api = trouble.cluster().api(trouble.cluster().admin())?;
    for effect in [Effect::Half, Effect::Cut] {
        let rule = trouble.rule(on("list", "namespaces"), effect);
        assert!(api.request("GET", NAMESPACES, None).is_err());
        trouble.lift(rule);
    }
    let rule = trouble.rule(on("list", "namespaces"), Effect::Garbage);
    let answer = api.request("GET", NAMESPACES, None)?;
    assert!(answer.is_success() && answer.json().is_err());
    trouble.lift(rule);
    let late = Duration::from_millis(400);
    let rule = trouble.rule(on("list", "namespaces"), Effect::Delay(late));
    let begun = Instant::now();
    api.get(NAMESPACES)?;
    assert!(begun.elapsed() >= late);
    trouble.lift(rule);

    // Silence lasts until somebody ends it; then the answer comes.
    let rule = trouble.rule(on("list", "namespaces"), Effect::Silence);
    let asking = thread::spawn(move || api.get(NAMESPACES));
    eventually("the request", || {
        ensure!(
            trouble.answered(&on("list", "namespaces"), 0) >= 2,
            "not yet"
        );
        Ok(())
    })?;
    assert!(!asking.is_finished());
    trouble.lift(rule);
    asking.join().expect("no panic")?;
    Ok(())
}

#[test]
fn reviews_are_told_by_what_they_ask() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let api = trouble.cluster().api(trouble.cluster().admin())?;
    trouble.rule(
        on("create", "selfsubjectaccessreviews").saying("\"resource\":\"pods\""),
        Effect::Status(503),
    );
    let ask = |resource: &str| {
        let review =
            json!({"spec": {"resourceAttributes": {"verb": "list", "resource": resource}}});
        let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
        api.request("POST", path, Some(&review))
            .map(|answer| answer.status)
    };
    assert_eq!(ask("pods")?, 503);
    assert_eq!(ask("configmaps")?, 201);
    Ok(())
}

#[test]
fn watches_stream_through_and_can_be_silenced_and_cut() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let real = Cluster::shared()?;
    let namespace = real.create_namespace("stream")?;
    let mut kubectl = trouble.cluster().kubectl_command();
    let mut child = kubectl
        .args([
            "get",
            "configmaps",
            "-n",
            &namespace,
            "--watch-only",
            "-o",
            "name",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let (sender, lines) = mpsc::channel();
    let output = child.stdout.take().context("a pipe")?;
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    let watching = on("watch", "configmaps").within(&namespace);
    eventually("the watch", || {
        ensure!(trouble.open(&watching) == 1, "not yet");
        Ok(())
    })?;
    let put = |name: &str| -> Result<Value> {
        let path = format!("{NAMESPACES}/{namespace}/configmaps");
        real.api(real.admin())?
            .post(&path, &json!({"metadata": {"name": name}}))
    };
    let patience = Duration::from_secs(20);
    put("a")?;
    assert_eq!(lines.recv_timeout(patience)?, "configmap/a");
    let silence = trouble.rule(watching.clone(), Effect::Silence);
    put("b")?;
    assert!(lines.recv_timeout(Duration::from_millis(500)).is_err());
    trouble.lift(silence);
    assert_eq!(lines.recv_timeout(patience)?, "configmap/b");

    assert_eq!(trouble.cut(&watching), 1);
    eventually("the end of the watch", || {
        ensure!(trouble.open(&watching) == 0, "it goes on");
        Ok(())
    })?;
    let _ = child.kill();
    child.wait()?;
    Ok(())
}

#[test]
fn an_account_may_do_what_it_is_given_and_no_more() -> Result<()> {
    let trouble = Trouble::with(Cluster::shared()?)?;
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("least")?;
    let user = cluster.account(
        &namespace,
        &[rbac::CLUSTER_FACTS, &[read("", &["configmaps"])]],
    )?;
    let api = trouble.cluster().api(&user)?;
    for (path, status) in [
        (NAMESPACES, 200),
        ("/api/v1/configmaps", 200),
        ("/api/v1/secrets", 403),
    ] {
        assert_eq!(api.request("GET", path, None)?.status, status, "{path}");
    }
    let kubeconfig = trouble.kubeconfig(&user)?;
    let text = std::fs::read_to_string(kubeconfig)?;
    assert!(text.contains(&trouble.cluster().url()) && text.contains(&user.name));
    Ok(())
}
