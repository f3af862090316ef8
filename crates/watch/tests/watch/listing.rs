//! What a listing shows, in both ways to list.

use anyhow::Result;
use http::Method;
use kollect_watch::{
    ApiServer, DecodeError, ListingCause, ListingMode, View, WatchEnded, WatchScope, WatchSettings,
    WatchSource, WatchSubject,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::mirror::{Mirror, Objects, Step};
use crate::setup::{BOTH, Place, Whole, config_maps, hasty, listed, watch};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listing_equals_a_plain_list() -> Result<()> {
    let place = Place::new("listing")?;
    place.create_many(60).await?;
    for listing in BOTH {
        let mirror = Mirror::new();
        // Pages of seven: the last one is not full.
        let settings = WatchSettings {
            page_size: 7,
            ..listed(listing)
        };
        let source = place.watch(&mirror, settings);
        mirror.until_listed().await;
        let fresh = place.converge(&mirror).await?;
        assert!(fresh.len() >= 60, "{}", fresh.len());
        let steps = mirror.steps();
        let [Step::Started, Step::Finished(version)] = &steps[..] else {
            panic!("{listing:?}: {steps:?}");
        };
        assert!(version.parse::<u64>()? > 0);
        assert_eq!(source.counters().listings(ListingCause::Initial), 1);
        assert_eq!(source.counters().reconnects(), 0);
        assert!(source.counters().events() >= 60);
        assert!(source.counters().bytes() > 60 * 200);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_namespace_is_listed_too() -> Result<()> {
    let place = Place::new("empty")?;
    for listing in BOTH {
        let mirror = Mirror::new();
        let mut subject = place.subject();
        subject.selector = Some("no-such-label".into());
        let server = ApiServer::new(place.client.clone());
        let _source = watch(&server, subject, &mirror, listed(listing));
        mirror.until_listed().await;
        assert_eq!(mirror.objects().len(), 0);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_alone_is_sent_when_asked_for() -> Result<()> {
    let place = Place::new("metadata")?;
    place.create_many(20).await?;
    for listing in BOTH {
        let mirror = Mirror::new();
        let decoder = Whole::of(&config_maps());
        let server = ApiServer::new(place.client.clone());
        let source = WatchSource::new(server, place.subject(), View::metadata(decoder))
            .settings(listed(listing))
            .spawn(mirror.clone(), &CancellationToken::new());
        mirror.until_listed().await;
        place.change("m-3", &format!("{listing:?}")).await?;
        place.create("brief", &json!({})).await?;
        place.delete("brief").await?;

        let without_data = |mut objects: Objects| {
            for object in objects.values_mut() {
                object.as_object_mut().expect("an object").remove("data");
            }
            objects
        };
        place.converge_to(&mirror, without_data).await?;
        assert_eq!(source.stop().await, WatchEnded::Stopped);
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_label_selector_narrows_on_the_server() -> Result<()> {
    let places = [Place::new("select-a")?, Place::new("select-b")?];
    let mark = &places[0].namespace;
    for place in &places {
        place
            .create("in", &json!({ "mark": mark, "tier": "app" }))
            .await?;
        place
            .create("out", &json!({ "mark": mark, "tier": "infra" }))
            .await?;
    }
    let selector = format!("mark={mark},tier in (app,web)");
    for listing in BOTH {
        let mirror = Mirror::new();
        let mut subject = WatchSubject::new(config_maps(), WatchScope::All);
        subject.selector = Some(selector.as_str().into());
        let server = ApiServer::new(places[0].client.clone());
        let source = watch(&server, subject, &mirror, listed(listing));
        mirror.until_listed().await;
        let names = |mirror: &Mirror| {
            let objects = mirror.objects().into_values();
            let mut names: Vec<_> = objects
                .map(|object| {
                    let meta = &object["metadata"];
                    format!("{}/{}", meta["namespace"], meta["name"]).replace('"', "")
                })
                .collect();
            names.sort();
            names
        };
        let all = |name: &str| -> Vec<_> {
            places
                .iter()
                .map(|place| format!("{}/{name}", place.namespace))
                .collect()
        };
        assert_eq!(names(&mirror), all("in"), "{listing:?}");

        // Labels that change move objects in and out.
        for (name, tier) in [("in", "infra"), ("out", "web")] {
            for place in &places {
                let patch = json!({ "metadata": { "labels": { "tier": tier } } });
                place.send(Method::PATCH, &place.path(name), &patch).await?;
            }
        }
        mirror
            .until("the exchange", |mirror| names(mirror) == all("out"))
            .await;
        source.stop().await;
        for (name, tier) in [("in", "app"), ("out", "infra")] {
            for place in &places {
                let patch = json!({ "metadata": { "labels": { "tier": tier } } });
                place.send(Method::PATCH, &place.path(name), &patch).await?;
            }
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_object_that_is_too_large_is_reported_and_costs_no_other() -> Result<()> {
    let place = Place::new("large")?;
    place.create_many(30).await?;
    let large = json!({ "metadata": { "name": "large" }, "data": { "x": "y".repeat(300_000) } });
    place.send(Method::POST, &place.path(""), &large).await?;
    for listing in BOTH {
        let mirror = Mirror::new();
        let settings = WatchSettings {
            object_limit: 200_000,
            ..listed(listing)
        };
        let source = place.watch(&mirror, settings);
        mirror.until_listed().await;
        let without_large = |mut objects: Objects| {
            objects.retain(|_, object| object["metadata"]["name"] != "large");
            objects
        };
        place.converge_to(&mirror, without_large).await?;
        let reported = mirror.unreadable();
        assert_eq!(reported.len(), 1);
        assert_eq!(reported[0].error, DecodeError::TooLarge { limit: 200_000 });
        assert_eq!(source.counters().unreadable(), 1);

        // The stream goes on behind a change that is too large as well.
        let patch = json!({ "data": { "more": format!("{listing:?}") } });
        place
            .send(Method::PATCH, &place.path("large"), &patch)
            .await?;
        place.change("m-0", &format!("{listing:?}")).await?;
        mirror
            .until("the small change", |mirror| {
                let mut objects = mirror.objects().into_values();
                objects.any(|object| object["data"]["value"] == format!("{listing:?}"))
            })
            .await;
        assert_eq!(mirror.unreadable().len(), 2);
        assert_eq!(mirror.interruptions(), []);
    }
    Ok(())
}

/// 5,000 objects change, 500 go and 500 come while the listing is under way.
async fn changes_while_listing(listing: ListingMode) -> Result<()> {
    const COUNT: usize = 5000;
    let place = Place::new("churn")?;
    place.create_many(COUNT).await?;
    let mirror = Mirror::new();
    mirror.close_after(COUNT / 10);
    let source = place.watch(&mirror, listed(listing));
    mirror
        .until("the first objects", |mirror| mirror.taken() == COUNT / 10)
        .await;
    let churn = place.many(COUNT, |index| {
        let place = &place;
        async move {
            place.change(&format!("m-{index}"), "changed").await?;
            match index % 10 {
                0 => place.delete(&format!("m-{index}")).await,
                5 => place
                    .create(&format!("new-{index}"), &json!({}))
                    .await
                    .map(|_| ()),
                _ => Ok(()),
            }
        }
    });
    // The consumer goes on when part of the changes are made and meets the others under way.
    let release = async {
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        mirror.open();
        Ok(())
    };
    futures::future::try_join(churn, release).await?;
    assert_eq!(mirror.steps().first(), Some(&Step::Started));
    let fresh = place.converge(&mirror).await?;
    assert!(fresh.len() >= COUNT);
    let changed = fresh
        .values()
        .filter(|object| object["data"]["value"] == "changed");
    assert_eq!(changed.count(), COUNT - COUNT / 10);
    source.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_changes_while_listing_as_a_stream() -> Result<()> {
    changes_while_listing(ListingMode::Streamed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_thousand_changes_while_listing_in_pages() -> Result<()> {
    changes_while_listing(ListingMode::Paged).await
}

/// A cluster-scoped resource, whose path has no namespace.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_scoped_objects_are_listed() -> Result<()> {
    let place = Place::new("scoped")?;
    let kind = kollect_api::GroupVersionKind::new("", "v1", "Namespace");
    let namespaces = crate::setup::discover(&place.client, &kind).await?;
    assert!(!namespaces.namespaced);
    for listing in BOTH {
        let mirror = Mirror::new();
        let server = ApiServer::new(place.client.clone());
        let settings = WatchSettings { listing, ..hasty() };
        let subject = WatchSubject::new(namespaces.clone(), WatchScope::All);
        let _source = watch(&server, subject, &mirror, settings);
        mirror.until_listed().await;
        let found = mirror.objects().into_values().any(|object: Value| {
            object["metadata"]["name"] == place.namespace && object["kind"] == "Namespace"
        });
        assert!(found, "{listing:?}");
    }
    Ok(())
}
