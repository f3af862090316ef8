//! Streams: order, bookmarks, ends in good order, exchange of the decoder.

use std::time::Duration;

use anyhow::Result;
use kollect_api::GroupVersionKind;
use kollect_watch::{
    ApiServer, Consumer, ListingCause, View, WatchDelivery, WatchSettings, WatchSource,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::mirror::{Mirror, Step};
use crate::setup::{BOTH, Place, Whole, converge, hasty, listed};

/// Hands everything on as it comes.
struct Tape(mpsc::UnboundedSender<WatchDelivery<Value>>);

impl Consumer<Value> for Tape {
    async fn take(&mut self, delivery: WatchDelivery<Value>) {
        // The test may have seen enough.
        let _ = self.0.send(delivery);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_arrive_once_and_in_order() -> Result<()> {
    let place = Place::new("order")?;
    for listing in BOTH {
        let (sender, mut tape) = mpsc::unbounded_channel();
        let server = ApiServer::new(place.client.clone());
        let view = View::full(Whole::new(&GroupVersionKind::new("", "v1", "ConfigMap")));
        let mut subject = place.subject();
        subject.selector = Some("watched".into());
        let _source = WatchSource::new(server, subject, view)
            .settings(listed(listing))
            .spawn(Tape(sender), &CancellationToken::new());
        assert_eq!(tape.recv().await, Some(WatchDelivery::ListingStarted));
        let finished = tape.recv().await.expect("a running source");
        assert!(
            matches!(finished, WatchDelivery::ListingFinished { .. }),
            "{finished:?}"
        );

        let created = place.create("one", &json!({ "watched": "yes" })).await?;
        for value in ["1", "2", "3"] {
            place.change("one", value).await?;
        }
        place.delete("one").await?;
        let mut seen = Vec::new();
        let (gone, version) = loop {
            match tape.recv().await.expect("a running source") {
                WatchDelivery::Object(object) => seen.push(object["data"]["value"].clone()),
                WatchDelivery::Gone {
                    identity,
                    resource_version,
                } => break (identity, resource_version),
                // A bookmark may come at any time.
                WatchDelivery::Progress { .. } => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(seen, ["one", "1", "2", "3"], "{listing:?}");
        assert_eq!(gone.uid, created["metadata"]["uid"]);
        let first = created["metadata"]["resourceVersion"].as_str().unwrap();
        let version: u64 = version.parse()?;
        assert!(version > first.parse()?, "the version of the deletion");
        assert_eq!(
            (gone.namespace, gone.name.as_str()),
            (place.namespace.clone(), "one")
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_end_are_continued_from_their_bookmarks() -> Result<()> {
    let place = Place::new("bookmarks")?;
    let other = Place::new("bookmarks-other")?;
    place.create_many(5).await?;
    for listing in BOTH {
        let mirror = Mirror::new();
        // A bookmark is sent two seconds before the end of a stream.
        let settings = WatchSettings {
            stream: Duration::from_secs(5),
            listing_stream: Duration::from_secs(5),
            ..listed(listing)
        };
        let source = place.watch(&mirror, settings);
        mirror.until_listed().await;
        let created = other
            .create(&format!("{listing:?}").to_lowercase(), &json!({}))
            .await?;
        let version: u64 = created["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse()?;
        mirror
            .until("a bookmark beyond what happened elsewhere", |mirror| {
                mirror.steps().iter().any(|step| match step {
                    Step::Progress(reached) => reached.parse::<u64>().unwrap() >= version,
                    _ => false,
                })
            })
            .await;
        let counters = source.counters().clone();
        mirror
            .until("two ends of streams", |_| counters.reconnects() >= 2)
            .await;
        place.change("m-1", &format!("{listing:?}")).await?;
        place.converge(&mirror).await?;
        assert_eq!(
            mirror.interruptions(),
            [],
            "an end in good order is no trouble"
        );
        let listings: u64 = ListingCause::ALL
            .map(|cause| counters.listings(cause))
            .iter()
            .sum();
        assert_eq!(listings, 1, "and no reason to read everything again");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_stream_is_replaced() -> Result<()> {
    let place = Place::new("silence")?;
    place.create_many(3).await?;
    let mirror = Mirror::new();
    let settings = WatchSettings {
        silence: Duration::from_secs(6),
        ..hasty()
    };
    let source = place.watch(&mirror, settings);
    mirror.until_listed().await;
    let counters = source.counters().clone();
    mirror
        .until("a new stream", |_| counters.reconnects() >= 1)
        .await;
    place.change("m-1", "changed").await?;
    place.converge(&mirror).await?;
    assert_eq!(counters.listings(ListingCause::Initial), 1);
    assert_eq!(mirror.finished_listings(), 1);
    assert_eq!(mirror.interruptions(), []);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_decoder_sees_all_objects_again() -> Result<()> {
    let place = Place::new("decoder")?;
    place.create_many(40).await?;
    for listing in BOTH {
        let mirror = Mirror::new();
        let source = place.watch(&mirror, listed(listing));
        mirror.until_listed().await;
        let decoder = Whole::new(&GroupVersionKind::new("", "v2", "Renamed"));
        source.show(View::full(decoder));
        mirror
            .until("the second listing", |mirror| {
                mirror.finished_listings() == 2
            })
            .await;
        assert_eq!(source.counters().listings(ListingCause::Requested), 1);
        let objects = mirror.objects();
        assert!(objects.len() >= 40);
        for object in objects.values() {
            assert_eq!(
                (&object["apiVersion"], &object["kind"]),
                (&json!("v2"), &json!("Renamed"))
            );
        }
        place.change("m-7", &format!("{listing:?}")).await?;
        let kind = ("v2", "Renamed");
        converge(&place.client, &place.path(""), kind, &mirror, |all| all).await?;

        source.relist();
        mirror
            .until("the third listing", |mirror| {
                mirror.finished_listings() == 3
            })
            .await;
        assert_eq!(mirror.interruptions(), []);
    }
    Ok(())
}
