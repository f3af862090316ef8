//! One inventory in one MongoDB collection: what the first export costs, what the same rows cost again,
//! and what one changed row costs. The yardstick is the driver's own `insert_many` of the same
//! documents, confirmed in the same way.

use std::{
    env,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::TryStreamExt as _;
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    address::AddressPolicy,
    sink::{KollectDatabaseSinkSpec, SinkSpec},
};
use kollect_bench::{
    bar, process,
    rows::{Maker, median},
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Sink, backend::Environment, credentials, dial::Dialer,
    mongo::MongoSink, secret::SecretData,
};
use kollect_testkit::{Mongo, mongo::MongoUser};
use mongodb::{
    Client, Collection,
    bson::{Document, RawDocumentBuf, doc},
    options::{Acknowledgment, WriteConcern},
};
use serde_json::json;

/// How many single rows are changed, one after the other.
const CHANGES: usize = 25;

fn main() -> Result<ExitCode> {
    let rows: usize = env::args()
        .nth(1)
        .map_or(Ok(100_000), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(measure(rows))
}

async fn measure(count: usize) -> Result<ExitCode> {
    let server = Mongo::start()?;
    let user = server.create_user("bench")?;
    let sink = sink(&server, &user)?;
    let mut maker = Maker::default();
    let mut rows = Snapshot::new((0..count).map(|number| maker.row(number, 0)));
    let before = process::usage(std::process::id())?;

    let started = Instant::now();
    let receipt = sink
        .deliver(&delivery(DeliveryRows::All(rows.clone())))
        .await?;
    let first = started.elapsed();
    ensure!(receipt.written == count as u64, "{receipt:?}");
    let used = process::usage(std::process::id())?;
    println!(
        "first export of {count} rows: {first:.2?}, peak memory +{:.1} MiB",
        used.peak - before.resident
    );

    let started = Instant::now();
    let again = sink
        .deliver(&delivery(DeliveryRows::All(rows.clone())))
        .await?;
    let again_took = started.elapsed();
    ensure!(again.written == 0, "the same rows were written again");

    let mut times = Vec::new();
    for change in 0..CHANGES {
        let after = maker.row((change * 7_919) % count, change + 1);
        let old = rows.get(after.identity()).cloned();
        let mut delta = Delta::new();
        delta.record(old, Some(after));
        rows = rows.apply(&delta);
        let started = Instant::now();
        let changes = DeliveryRows::Changes(Arc::new(delta));
        let receipt = sink.deliver(&delivery(changes)).await?;
        times.push(started.elapsed());
        ensure!(receipt.written == 1, "{receipt:?}");
    }
    let theirs = yardstick(&server, &user).await?;
    println!(
        "the same rows again: {again_took:.2?}; one changed row: {:.2?}; insert_many: {theirs:.2?}",
        median(times)
    );
    let ratio = |time: Duration| time.as_secs_f64() / theirs.as_secs_f64();
    Ok(bar::report(&[
        bar::Bar {
            name: "first export against insert_many of the same documents",
            figure: ratio(first),
            most: 2.0,
            unit: "x",
        },
        bar::Bar {
            name: "the same rows again against insert_many",
            figure: ratio(again_took),
            most: 0.5,
            unit: "x",
        },
    ]))
}

/// The same documents, by the driver alone, into a collection with the same index.
async fn yardstick(server: &Mongo, user: &MongoUser) -> Result<Duration> {
    let client = Client::with_uri_str(server.uri()).await?;
    let database = client.database(&user.database);
    let from: Collection<RawDocumentBuf> = database.collection("items");
    let documents: Vec<RawDocumentBuf> = from.find(doc! {}).await?.try_collect().await?;
    let keys: Document = [
        "inventory_namespace",
        "inventory_name",
        "cluster",
        "target_name",
        "source_uid",
    ]
    .map(|field| (field.to_owned(), 1.into()))
    .into_iter()
    .collect();
    database
        .run_command(doc! {"createIndexes": "yardstick", "indexes": [{"key": keys, "name": "key", "unique": true}]})
        .await?;
    let to: Collection<RawDocumentBuf> = database.collection("yardstick");
    let confirmed = WriteConcern::builder()
        .w(Acknowledgment::Majority)
        .journal(true)
        .build();
    let started = Instant::now();
    to.insert_many(documents).write_concern(confirmed).await?;
    Ok(started.elapsed())
}

fn sink(server: &Mongo, user: &MongoUser) -> Result<MongoSink> {
    let spec: KollectDatabaseSinkSpec = serde_json::from_value(json!({
        "type": "mongodb",
        "cluster": "bench",
        "mongodb": {"databaseRef": {"name": "uri"}, "database": user.database, "collection": "items"},
    }))?;
    let spec = SinkSpec::Database(spec);
    let uri = server.uri_of(user);
    let secret: SecretData = [("uri", uri.as_str())].into_iter().collect();
    let materials = credentials::materials(&spec, "bench", |_| Some(secret.clone()))?;
    let environment = Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse()?],
            ..AddressPolicy::default()
        }),
        work_dir: env::temp_dir(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    };
    Ok(MongoSink::new(&spec, materials, &environment)?)
}

fn delivery(rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: InventoryId::namespaced("bench", "deployments"),
        generation: 1,
        at: Timestamp::now(),
        rows,
        documents: DocumentOptions::default(),
    }
}
