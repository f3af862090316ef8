//! Discovery on a real API server: kinds that come and go, and a group that is broken.

use std::time::Duration;

use anyhow::Result;
use kollect_api::GroupVersionKind;
use kollect_testkit::{Cluster, ControlPlane, control_plane::Options};
use kollect_watch::discovery::{Answer, Discovery, Freshness, Missing, group_of_crd};
use serde_json::json;

fn kind(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind::new(group, version, kind)
}

fn described(answer: &Answer) -> String {
    match answer {
        Answer::Installed(served) => {
            let resource = &served.resource;
            let scope = if resource.namespaced {
                "namespaced"
            } else {
                "cluster"
            };
            format!("{} {scope} {}", resource.plural, served.is_watchable())
        }
        Answer::NotInstalled(Missing::GroupVersion) => "no group".to_owned(),
        Answer::NotInstalled(Missing::Kind) => "no kind".to_owned(),
        Answer::Unreachable(_) => "unreachable".to_owned(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_of_the_api_server() -> Result<()> {
    let cluster = Cluster::shared()?;
    let discovery = Discovery::new(cluster.client(cluster.admin())?);
    let cases = [
        (kind("", "v1", "ConfigMap"), "configmaps namespaced true"),
        (kind("", "v1", "Node"), "nodes cluster true"),
        (kind("core", "v1", "Node"), "nodes cluster true"),
        (kind("", "v1", "Endpoints"), "endpoints namespaced true"),
        (kind("", "v1", "Binding"), "bindings namespaced false"),
        (
            kind("apps", "v1", "Deployment"),
            "deployments namespaced true",
        ),
        (
            kind("networking.k8s.io", "v1", "NetworkPolicy"),
            "networkpolicies namespaced true",
        ),
        (
            kind("networking.k8s.io", "v1", "IngressClass"),
            "ingressclasses cluster true",
        ),
        (kind("apps", "v1", "Scale"), "no kind"),
        (kind("apps", "v1", "deployment"), "no kind"),
        (kind("apps", "v9", "Deployment"), "no group"),
        (kind("no.such.group", "v1", "Thing"), "no group"),
        // What is no name is not even asked for.
        (kind("", "v1/../../version#", "Thing"), "no group"),
        (kind("..", "v1", "Thing"), "no group"),
        (kind("apps", "v1?x=", "Deployment"), "no group"),
    ];
    for (kind, expected) in &cases {
        assert_eq!(
            described(&discovery.resolve(kind).await),
            *expected,
            "{kind}"
        );
    }
    let asked = discovery.requests();
    for (kind, expected) in &cases {
        assert_eq!(
            described(&discovery.resolve(kind).await),
            *expected,
            "{kind}"
        );
    }
    assert_eq!(
        discovery.requests(),
        asked,
        "all answers are remembered for a while"
    );
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_is_found_when_its_definition_comes_and_lost_when_it_goes() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("discovery")?;
    let group = format!("{namespace}.example.com");
    let name = format!("gateways.{group}");
    assert_eq!(group_of_crd(&name), Some(group.as_str()));
    assert_eq!(group_of_crd("no-group"), None);
    let gateway = kind(&group, "v1", "Gateway");
    let eager = Freshness {
        missing: Duration::from_millis(100),
        ..Freshness::default()
    };
    let discovery = Discovery::with_freshness(cluster.client(cluster.admin())?, eager);
    assert_eq!(described(&discovery.resolve(&gateway).await), "no group");

    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": name },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": { "plural": "gateways", "singular": "gateway", "kind": "Gateway" },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object" } } }],
        },
    });
    cluster.apply(&crd.to_string())?;
    // Nobody says anything: a missing kind is asked for again and again.
    let installed = wait_for(&discovery, &gateway, "gateways cluster true").await;
    assert!(installed, "the kind is found");

    cluster.kubectl(&["delete", "--timeout=60s", &format!("crd/{name}")])?;
    let before = discovery.requests();
    assert_eq!(
        described(&discovery.resolve(&gateway).await),
        "gateways cluster true"
    );
    assert_eq!(discovery.requests(), before, "what was found is remembered");
    discovery.group_changed("some.other.group");
    discovery.resolve(&gateway).await;
    assert_eq!(discovery.requests(), before);
    discovery.group_changed(&group);
    // The server needs a moment to take the path away.
    let lost = wait_for(&discovery, &gateway, "no group").await;
    assert!(lost, "an event makes it ask");
    Ok(())
}

async fn wait_for(discovery: &Discovery, kind: &GroupVersionKind, expected: &str) -> bool {
    for _ in 0..300 {
        if described(&discovery.resolve(kind).await) == expected {
            return true;
        }
        discovery.group_changed(&kind.group);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    false
}

/// An aggregated API whose server is missing; on the shared control plane it would keep
/// namespaces from being removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_broken_group_concerns_only_itself() -> Result<()> {
    let mut plane = ControlPlane::start_with(Options { controllers: false })?;
    let cluster = plane.cluster().clone();
    let service = json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": { "name": "v1.broken.example.com" },
        "spec": {
            "group": "broken.example.com", "version": "v1",
            "groupPriorityMinimum": 100, "versionPriority": 1,
            "insecureSkipTLSVerify": true,
            "service": { "name": "nobody", "namespace": "default" },
        },
    });
    cluster.apply(&service.to_string())?;
    let api = cluster.api(cluster.admin())?;
    kollect_testkit::wait::eventually("the broken group", || {
        let status = api
            .request("GET", "/apis/broken.example.com/v1", None)?
            .status;
        anyhow::ensure!(status == 503, "{status}");
        Ok(())
    })?;

    let mut config = cluster.kube_config(cluster.admin())?;
    config.default_retry = false;
    let eager = Freshness {
        missing: Duration::ZERO,
        deadline: Duration::from_secs(3),
        ..Freshness::default()
    };
    let discovery = Discovery::with_freshness(kube::Client::try_from(config)?, eager);
    let broken = kind("broken.example.com", "v1", "Thing");
    let deployment = kind("apps", "v1", "Deployment");
    let job = kind("batch", "v1", "Job");
    let Answer::Unreachable(problem) = discovery.resolve(&broken).await else {
        panic!("a group whose server is away is neither there nor missing");
    };
    assert!(problem.contains("503"), "{problem}");
    assert_eq!(
        described(&discovery.resolve(&deployment).await),
        "deployments namespaced true"
    );

    // The whole API server goes away: what was known stays known, and nothing new is.
    plane.apiserver().kill()?;
    discovery.group_changed("apps");
    assert_eq!(
        described(&discovery.resolve(&deployment).await),
        "deployments namespaced true"
    );
    assert_eq!(described(&discovery.resolve(&job).await), "unreachable");
    plane.apiserver().resume()?;
    assert_eq!(
        described(&discovery.resolve(&job).await),
        "jobs namespaced true"
    );
    Ok(())
}
