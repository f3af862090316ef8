//! Starting and stopping, panics, kinds that come and go, and a server that wants to be left alone.

use std::time::{Duration, Instant};

use anyhow::Result;
use kollect_api::GroupVersionKind;
use kollect_testkit::{
    Cluster,
    rbac::{Rule, Scope as Rights},
    wait::eventually,
};
use kollect_watch::{
    ApiServer, Consumer, InterruptionClass, View, WatchDelivery, WatchEnded, WatchScope,
    WatchSettings, WatchSource, WatchSubject,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::mirror::Mirror;
use crate::setup::{
    BOTH, Place, Whole, client, config_maps, converge, discover, hasty, listed, send, watch,
};

struct Panics;

impl Consumer<Value> for Panics {
    async fn take(&mut self, delivery: WatchDelivery<Value>) {
        if let WatchDelivery::Object(_) = delivery {
            panic!("not this one");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c3_a_consumer_that_panics_begins_anew_and_hurts_no_other() -> Result<()> {
    let place = Place::new("panic")?;
    place.create_many(3).await?;
    let parent = CancellationToken::new();
    let server = ApiServer::new(place.client.clone());
    let view = || View::full(Whole::of(&config_maps()));
    let healthy = Mirror::new();
    let other =
        WatchSource::new(server.clone(), place.subject(), view()).spawn(healthy.clone(), &parent);
    let (sender, mut panics) = tokio::sync::mpsc::unbounded_channel();
    server.kept_by(move |subject, wait| {
        let _ = sender.send((subject.resource.plural.clone(), wait));
    });
    let broken = WatchSource::new(server, place.subject(), view()).spawn(Panics, &parent);
    let mut last = Duration::ZERO;
    for _ in 0..3 {
        let (plural, wait) = panics.recv().await.expect("a panic is told");
        assert_eq!(plural, "configmaps");
        assert!(wait > Duration::ZERO, "no spinning");
        last = last.max(wait);
    }
    assert!(!broken.is_finished() && last < Duration::from_mins(5));
    assert!(broken.counters().reconnects() >= 2);
    healthy.until_listed().await;
    place.change("m-0", "after the panic").await?;
    place.converge(&healthy).await?;
    assert!(!other.is_finished());
    parent.cancel();
    assert_eq!(other.stop().await, WatchEnded::Stopped);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_is_prompt_and_waits_for_the_delivery_in_progress() -> Result<()> {
    let place = Place::new("stop")?;
    place.create_many(20).await?;
    let idle = Mirror::new();
    let source = place.watch(&idle, hasty());
    idle.until_listed().await;
    let began = Instant::now();
    assert_eq!(source.stop().await, WatchEnded::Stopped);
    assert!(
        began.elapsed() < Duration::from_secs(1),
        "{:?}",
        began.elapsed()
    );

    let busy = Mirror::new();
    busy.close_after(5);
    let source = place.watch(&busy, hasty());
    busy.until("five objects", |mirror| mirror.taken() == 5)
        .await;
    let stopping = tokio::spawn(source.stop());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!stopping.is_finished(), "the sixth object is being taken");
    busy.open();
    assert_eq!(stopping.await?, WatchEnded::Stopped);
    assert_eq!(busy.taken(), 6, "and it was the last");

    let dropped = Mirror::new();
    let source = place.watch(&dropped, hasty());
    dropped.until_listed().await;
    drop(source);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let taken = dropped.taken();
    place.change("m-0", "unseen").await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(dropped.taken(), taken, "a dropped handle stops the source");
    Ok(())
}

fn gadget_crd(group: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("gadgets.{group}") },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": { "plural": "gadgets", "singular": "gadget", "kind": "Gadget" },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                } },
            }],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kind_that_is_installed_late_removed_and_installed_again() -> Result<()> {
    let cluster = Cluster::shared()?;
    for listing in BOTH {
        let place = Place::new("crd")?;
        let group = format!("{}.example.com", place.namespace);
        let kind = GroupVersionKind::new(&group, "v1", "Gadget");
        let subject = || -> Result<WatchSubject> {
            let mut resource = (*config_maps()).clone();
            resource.group.clone_from(&kind.group);
            resource.plural = "gadgets".to_owned();
            Ok(WatchSubject::new(resource.into(), WatchScope::All))
        };
        let mirror = Mirror::new();
        let server = ApiServer::new(place.client.clone());
        let source = watch(&server, subject()?, &mirror, listed(listing));
        mirror
            .until_interrupted(InterruptionClass::NotInstalled)
            .await;
        assert_eq!(mirror.finished_listings(), 0);

        let path = format!("/apis/{group}/v1/gadgets");
        let in_namespace = format!("/apis/{group}/v1/namespaces/{}/gadgets", place.namespace);
        for round in 1..=2 {
            cluster.apply(&gadget_crd(&group).to_string())?;
            let crd = format!("crd/gadgets.{group}");
            cluster.kubectl(&["wait", "--for=condition=Established", "--timeout=60s", &crd])?;
            mirror
                .until("a listing", |mirror| mirror.finished_listings() >= round)
                .await;
            assert_eq!(discover(&place.client, &kind).await?.plural, "gadgets");
            for size in 0..20 {
                let gadget = json!({
                    "apiVersion": format!("{group}/v1"), "kind": "Gadget",
                    "metadata": { "name": format!("g-{size}") }, "spec": { "size": size },
                });
                send(&place.client, http::Method::POST, &in_namespace, &gadget).await?;
            }
            let api_version = format!("{group}/v1");
            let kind = (api_version.as_str(), "Gadget");
            let held = converge(&place.client, &path, kind, &mirror, |all| all).await?;
            assert_eq!(held.len(), 20, "{listing:?}");

            let before = mirror.interruptions().len();
            cluster.kubectl(&["delete", "--timeout=60s", &crd])?;
            mirror
                .until("the end of the kind", |mirror| {
                    let after = &mirror.interruptions()[before..];
                    after.contains(&InterruptionClass::NotInstalled)
                })
                .await;
            assert_eq!(mirror.objects().len(), 0);
        }
        assert!(!source.is_finished());
    }
    Ok(())
}

/// A priority level without seats for one service account. It lets a request in while no other
/// is being answered, and answers all others with 429 and a time to wait.
fn no_seats(namespace: &str, account: &str) -> Value {
    let api = "flowcontrol.apiserver.k8s.io/v1";
    let subject = json!({ "name": account, "namespace": namespace });
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": api,
            "kind": "PriorityLevelConfiguration",
            "metadata": { "name": namespace },
            "spec": { "type": "Limited", "limited": {
                "nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0,
                "limitResponse": { "type": "Reject" },
            } },
        },
        {
            "apiVersion": api,
            "kind": "FlowSchema",
            "metadata": { "name": namespace },
            "spec": {
                "priorityLevelConfiguration": { "name": namespace },
                "matchingPrecedence": 3,
                "rules": [{
                    "subjects": [{ "kind": "ServiceAccount", "serviceAccount": subject }],
                    "resourceRules": [{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                        "namespaces": ["*"], "clusterScope": true }],
                }],
            },
        },
    ] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_throttles_is_left_alone_until_it_answers() -> Result<()> {
    let cluster = Cluster::shared()?;
    let (place, large) = (Place::new("throttled")?, Place::new("throttled-large")?);
    place.create_many(10).await?;
    large.create_large(20, 900_000).await?;
    let user = cluster.create_service_account(&place.namespace, "patient")?;
    let read = Rule {
        group: "",
        resources: &["configmaps"],
        verbs: &["list", "watch"],
    };
    for namespace in [&place.namespace, &large.namespace] {
        cluster.grant(Rights::Namespace(namespace), &user, &[read])?;
    }
    let name = &place.namespace;
    cluster.apply(&no_seats(name, "patient").to_string())?;
    let patient = Place {
        client: client(cluster, &user)?,
        namespace: place.namespace.clone(),
    };
    // An answer that nobody reads takes the only place.
    let request = http::Request::get(large.path("")).body(kube::client::Body::empty())?;
    let held = patient.client.send(request).await?;
    assert_eq!(held.status(), 200);
    let api = cluster.api(&user)?;
    eventually("the throttle", || {
        let status = api.request("GET", &place.path(""), None)?.status;
        anyhow::ensure!(status == 429, "{status}");
        Ok(())
    })?;

    let mirror = Mirror::new();
    let source = patient.watch(&mirror, hasty());
    mirror
        .until("two refusals", |mirror| mirror.interruptions().len() >= 2)
        .await;
    let began = Instant::now();
    let before = mirror.interruptions().len();
    mirror
        .until("two more", |mirror| {
            mirror.interruptions().len() >= before + 2
        })
        .await;
    // Without the server's word the waits would be at most half a second.
    assert!(
        began.elapsed() >= Duration::from_millis(1500),
        "{:?}",
        began.elapsed()
    );
    assert!(
        mirror
            .interruptions()
            .iter()
            .all(|class| *class == InterruptionClass::Throttled)
    );

    drop(held);
    place.converge(&mirror).await?;
    assert_eq!(mirror.finished_listings(), 1);
    drop(source);
    cluster.kubectl(&["delete", "flowschema,prioritylevelconfiguration", name])?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_selector_that_the_server_rejects_is_reported() -> Result<()> {
    let place = Place::new("rejected")?;
    for listing in BOTH {
        let mirror = Mirror::new();
        let mut subject = place.subject();
        subject.selector = Some("a in b".into());
        let server = ApiServer::new(place.client.clone());
        let settings = WatchSettings {
            slow_retry: Duration::from_mins(1),
            ..listed(listing)
        };
        let source = watch(&server, subject, &mirror, settings);
        mirror.until_interrupted(InterruptionClass::Rejected).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        assert_eq!(
            mirror.interruptions(),
            [InterruptionClass::Rejected],
            "one try a minute"
        );
        source.retry_now();
        mirror
            .until("the next try", |mirror| mirror.interruptions().len() == 2)
            .await;
    }
    Ok(())
}
