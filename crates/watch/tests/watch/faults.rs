//! Servers that go away and come back. Each scenario has a control plane of its own.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Method;
use kollect_testkit::{
    ControlPlane, control_plane::Options, ports, process::Program, service::Service,
};
use kollect_watch::{ApiServer, InterruptionClass, ListingCause, ListingMode, WatchSettings};
use kube::Client;
use serde_json::json;

use crate::mirror::Mirror;
use crate::setup::{BOTH, Place, config_maps, hasty, listed, watch};

fn control_plane() -> Result<ControlPlane> {
    ControlPlane::start_with(Options { controllers: false })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_that_is_forgotten_is_replaced_by_a_new_listing() -> Result<()> {
    let mut servers = control_plane()?;
    for listing in BOTH {
        let place = Place::on(servers.cluster(), "history")?;
        place.create_many(300).await?;
        let mirror = Mirror::new();
        let source = place.watch(&mirror, listed(listing));
        mirror.until_listed().await;
        let before = place.converge(&mirror).await?;

        // The consumer stands still while things happen, so that only a listing can tell of them.
        mirror.close_after(mirror.taken());
        place.delete("m-1").await?;
        place.change("m-2", "changed").await?;
        place.create("new", &json!({})).await?;
        for index in 0..300 {
            let secrets = format!("/api/v1/namespaces/{}/secrets", place.namespace);
            let secret = json!({ "metadata": { "name": format!("s-{index}") } });
            place.send(Method::POST, &secrets, &secret).await?;
        }
        servers.forget_history()?;
        assert_eq!(mirror.objects(), before, "rows are kept meanwhile");
        mirror.open();
        let after = place.converge(&mirror).await?;
        assert_eq!(after.len(), before.len());
        assert_ne!(after, before);
        mirror
            .until("a listing because of it", |_| {
                source.counters().listings(ListingCause::Expired) >= 1
            })
            .await;
        assert!(
            mirror.interruptions().contains(&InterruptionClass::Expired),
            "{:?}",
            mirror.steps()
        );
        place.change("m-3", "afterwards").await?;
        place.converge(&mirror).await?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_that_expire_are_read_again_as_one() -> Result<()> {
    let mut servers = control_plane()?;
    let place = Place::on(servers.cluster(), "pages")?;
    place.create_many(300).await?;
    let mirror = Mirror::new();
    mirror.close_after(150);
    let source = place.watch(&mirror, listed(ListingMode::Paged));
    mirror
        .until("the second page", |mirror| mirror.taken() == 150)
        .await;
    // Already delivered, and deleted before the listing that will be complete.
    let seen = mirror.objects();
    let seen = seen.values().next().context("some object")?;
    let name = seen["metadata"]["name"].as_str().context("a name")?;
    place.delete(name).await?;
    servers.forget_history()?;
    mirror.open();
    mirror.until_listed().await;
    place.converge(&mirror).await?;
    let listings = [ListingCause::Initial, ListingCause::Expired]
        .map(|cause| source.counters().listings(cause));
    assert_eq!(listings, [1, 1], "{:?}", mirror.steps());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_api_server_that_dies_and_comes_back() -> Result<()> {
    const COUNT: usize = 2000;
    let mut servers = control_plane()?;
    let place = Place::on(servers.cluster(), "restart")?;
    // More than fits between the server and a consumer that stands still.
    place.create_large(COUNT, 10_000).await?;
    for listing in BOTH {
        // In the middle of a listing.
        let mirror = Mirror::new();
        mirror.close_after(COUNT / 4);
        let source = place.watch(&mirror, listed(listing));
        mirror
            .until("part of the listing", |mirror| mirror.taken() == COUNT / 4)
            .await;
        servers.apiserver().kill()?;
        mirror.open();
        mirror
            .until_interrupted(InterruptionClass::Unavailable)
            .await;
        assert_eq!(
            mirror.finished_listings(),
            0,
            "what is known is not complete"
        );
        servers.apiserver().resume()?;
        place.converge(&mirror).await?;

        // In the middle of a stream, with changes right before and after.
        let before = mirror.interruptions().len();
        place.change("m-1", "before the crash").await?;
        servers.apiserver().kill()?;
        mirror
            .until("the crash", |mirror| mirror.interruptions().len() > before)
            .await;
        assert_eq!(mirror.objects().len(), COUNT, "rows are kept meanwhile");
        servers.apiserver().resume()?;
        place.delete("m-2").await?;
        place
            .change("m-3", &format!("after the crash {listing:?}"))
            .await?;
        place.converge(&mirror).await?;
        place.create("m-2", &json!({})).await?;

        // In good order.
        servers.apiserver().stop()?;
        servers.apiserver().resume()?;
        place
            .change("m-4", &format!("after the restart {listing:?}"))
            .await?;
        place.converge(&mirror).await?;
        assert!(!source.is_finished());
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_away_for_a_while() -> Result<()> {
    let mut servers = control_plane()?;
    let place = Place::on(servers.cluster(), "store")?;
    place.create_many(200).await?;
    let mirror = Mirror::new();
    let settings = WatchSettings {
        answer: Duration::from_secs(5),
        ..hasty()
    };
    let source = place.watch(&mirror, settings);
    mirror.until_listed().await;
    servers.etcd().kill()?;
    source.relist();
    mirror
        .until_interrupted(InterruptionClass::Unavailable)
        .await;
    assert_eq!(mirror.finished_listings(), 1);
    servers.etcd().resume()?;
    mirror
        .until("the second listing", |mirror| {
            mirror.finished_listings() >= 2
        })
        .await;
    place.change("m-1", "afterwards").await?;
    place.converge(&mirror).await?;
    Ok(())
}

/// A second API server on the same store that refuses streamed listings, as older ones do.
fn server_without_streams(servers: &mut ControlPlane) -> Result<(Service, Client)> {
    let pid = servers.apiserver().pid().context("the API server runs")?;
    let line = std::fs::read(format!("/proc/{pid}/cmdline"))?;
    let mut words = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty());
    let text = |word: &[u8]| String::from_utf8(word.to_vec());
    let path = text(words.next().context("a program")?)?;
    let port = ports::free()?;
    let mut program = Program::new("kube-apiserver-without-streams", path);
    for word in words {
        if !word.starts_with(b"--secure-port=") {
            program = program.arg(OsString::from(text(word)?));
        }
    }
    let program = program
        .arg(format!("--secure-port={port}"))
        .arg("--feature-gates=WatchList=false");

    let cluster = servers.cluster();
    let mut config = cluster.kube_config(cluster.admin())?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    config.default_retry = false;
    let client = Client::try_from(config)?;
    let probe =
        kollect_testkit::http::Client::tls(port, cluster.ca_pem())?.bearer(&cluster.admin().token);
    let service = Service::start(program, servers.directory(), move || {
        let status = probe.request("GET", "/readyz", None)?.status;
        anyhow::ensure!(status == 200, "{status}");
        Ok(())
    })?;
    Ok((service, client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_streamed_listings_is_read_in_pages() -> Result<()> {
    let mut servers = control_plane()?;
    let place = Place::on(servers.cluster(), "paged")?;
    place.create_many(250).await?;
    let (_second, client) = server_without_streams(&mut servers)?;
    let server = ApiServer::new(client);
    assert!(server.streams(&config_maps()));
    for round in 0..2 {
        let mirror = Mirror::new();
        let source = watch(
            &server,
            place.subject(),
            &mirror,
            listed(ListingMode::Streamed),
        );
        mirror.until_listed().await;
        assert!(!server.streams(&config_maps()), "it is remembered");
        // Only the first source had to be told.
        assert_eq!(source.counters().reconnects(), 1 - round);
        assert_eq!(mirror.interruptions(), []);
        place.change("m-1", &format!("changed {round}")).await?;
        place.converge(&mirror).await?;
    }
    Ok(())
}
