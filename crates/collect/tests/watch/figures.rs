//! What a listing costs against a bare list with the same client, for people to look at:
//! `cargo test -p kollect-collect --test watch figures -- --ignored --nocapture`.

use std::time::{Duration, Instant};

use anyhow::Result;
use kollect_collect::watch::{
    Consumer, Decode, DecodeError, Decoded, Delivery, Listing, Server, Settings, Source, View,
};
use kube::api::{Api, DynamicObject, ListParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::setup::{Place, Whole, config_maps};

const COUNT: usize = 5000;

/// Counts objects until the listing is finished.
struct Count {
    objects: usize,
    done: Option<oneshot::Sender<usize>>,
}

impl<T: Send + 'static> Consumer<T> for Count {
    async fn take(&mut self, delivery: Delivery<T>) {
        match delivery {
            Delivery::Object(_) => self.objects += 1,
            Delivery::ListingFinished { .. } => {
                if let Some(done) = self.done.take() {
                    // The receiver waits for exactly this.
                    let _ = done.send(self.objects);
                }
            }
            _ => {}
        }
    }
}

/// Reads the version and skips the rest, as a projection that needs nothing would.
struct Skip;

impl Decode for Skip {
    type Object = ();

    fn decode(&self, json: &[u8]) -> Result<Decoded<()>, DecodeError> {
        #[derive(serde::Deserialize)]
        struct Object {
            metadata: Metadata,
        }
        #[derive(serde::Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: String,
        }
        let object: Object = serde_json::from_slice(json)?;
        Ok(Decoded {
            resource_version: object.metadata.resource_version,
            object: (),
        })
    }
}

async fn listing<D: Decode>(place: &Place, listing: Listing, decoder: D) -> Result<Duration> {
    let settings = Settings {
        listing,
        ..Settings::default()
    };
    let (done, finished) = oneshot::channel();
    let count = Count {
        objects: 0,
        done: Some(done),
    };
    let began = Instant::now();
    let server = Server::new(place.client.clone());
    let source = Source::new(server, place.subject(), View::full(decoder))
        .settings(settings)
        .spawn(count, &CancellationToken::new());
    let objects = finished.await?;
    let took = began.elapsed();
    assert!(objects >= COUNT, "{objects}");
    source.stop().await;
    Ok(took)
}

async fn bare_list(place: &Place) -> Result<Duration> {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "ConfigMap"));
    let api: Api<DynamicObject> =
        Api::namespaced_with(place.client.clone(), &place.namespace, &kind);
    let began = Instant::now();
    let list = api.list(&ListParams::default()).await?;
    let took = began.elapsed();
    assert!(list.items.len() >= COUNT);
    Ok(took)
}

async fn bare_value_list(place: &Place) -> Result<Duration> {
    let request = http::Request::get(place.path("")).body(Vec::new())?;
    let began = Instant::now();
    let list: Value = place.client.request(request).await?;
    let took = began.elapsed();
    assert!(
        list["items"]
            .as_array()
            .is_some_and(|items| items.len() >= COUNT)
    );
    Ok(took)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "measures time, so it has to run alone"]
async fn figures_of_a_listing() -> Result<()> {
    let place = Place::new("figures")?;
    place.create_many(COUNT).await?;
    let value = || Whole::new(&config_maps().kind);
    let mut rows: [(&str, Vec<Duration>); 6] = [
        ("bare list, dynamic objects", Vec::new()),
        ("bare list, JSON values", Vec::new()),
        ("streamed, JSON values", Vec::new()),
        ("paged, JSON values", Vec::new()),
        ("streamed, metadata read", Vec::new()),
        ("paged, metadata read", Vec::new()),
    ];
    for _ in 0..5 {
        rows[0].1.push(bare_list(&place).await?);
        rows[1].1.push(bare_value_list(&place).await?);
        rows[2]
            .1
            .push(listing(&place, Listing::Streamed, value()).await?);
        rows[3]
            .1
            .push(listing(&place, Listing::Paged, value()).await?);
        rows[4]
            .1
            .push(listing(&place, Listing::Streamed, Skip).await?);
        rows[5].1.push(listing(&place, Listing::Paged, Skip).await?);
    }
    let best = |times: &[Duration]| times.iter().min().copied().unwrap_or_default();
    let yardstick = best(&rows[0].1).as_secs_f64();
    println!("{COUNT} ConfigMaps, best of 5:");
    for (name, times) in &rows {
        let best = best(times).as_secs_f64();
        println!(
            "  {name:28} {:6.0} ms  {:.2}x",
            best * 1000.0,
            best / yardstick
        );
    }
    // The bar for all of collection, of which this is the first part.
    assert!(best(&rows[4].1).as_secs_f64() < 1.5 * yardstick);
    Ok(())
}
