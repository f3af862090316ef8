//! One inventory as Parquet in a bucket of S3: what a whole export costs beside a plain client's upload
//! of the same bytes, how much memory it takes, and how large the file is.
//!
//! The bar for time is what the plain client needs, and encoding the rows at 100 MB/s of their JSON.

use std::{
    env, fs,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    address::AddressPolicy,
    sink::{KollectSnapshotSinkSpec, SinkSpec},
};
use kollect_bench::{
    bar, process,
    rows::{Maker, median},
};
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{
    AttributeTypes, Delivery, DeliveryRows, DocumentOptions, Sink,
    backend::Environment,
    credentials,
    dial::Dialer,
    http::{HttpClient, object_store::GuardedConnector},
    objects::ObjectSink,
    secret::SecretData,
    tls::Trust,
};
use kollect_testkit::{
    S3,
    s3::{ACCESS_KEY, Bucket},
};
use object_store::{ObjectStoreExt as _, aws::AmazonS3Builder, path::Path};
use serde_json::json;

/// How often each is measured, in turn.
const ROUNDS: usize = 7;
/// How fast rows have to be encoded, in bytes of their JSON per second.
const ENCODING: f64 = 100e6;

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
    let server = S3::start()?;
    let bucket = server.create_bucket("bench")?;
    let sink = sink(&server, &bucket, "lake", &json!({"format": "parquet"}))?;
    let mut maker = Maker::default();
    let mut rows = Snapshot::new((0..count).map(|number| maker.row(number, 0)));

    // The one delivery that memory is measured at has the server's connections already.
    sink.probe().await?;
    let rest = process::usage(std::process::id())?.resident;
    // From here on the kernel counts the peak anew.
    fs::write("/proc/self/clear_refs", "5").context("the peak cannot be reset")?;
    let receipt = sink.deliver(&delivery(rows.clone())).await?;
    ensure!(receipt.written == count as u64, "{receipt:?}");
    let peak = process::usage(std::process::id())?.peak;

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut file = Bytes::new();
    for round in 1..=ROUNDS {
        let after = maker.row((round * 7_919) % count, round);
        let before = rows.get(after.identity()).cloned();
        let mut delta = Delta::new();
        delta.record(before, Some(after));
        rows = rows.apply(&delta);

        let started = Instant::now();
        let receipt = sink.deliver(&delivery(rows.clone())).await?;
        ours.push(started.elapsed());
        ensure!(receipt.written == count as u64, "{receipt:?}");

        file = parquet(&bucket)?;
        theirs.push(plain_upload(&server, &bucket, &file).await?);
    }

    let packed = json!({"format": "ndjson", "compression": "gzip"});
    let lines = self::sink(&server, &bucket, "lines", &packed)?;
    let lines = lines.deliver(&delivery(rows.clone())).await?.bytes;

    let (ours, theirs) = (median(ours), median(theirs));
    let plain = rows.items_len();
    let encoding = Duration::from_secs_f64(megabytes(plain) * 1e6 / ENCODING);
    let size = file.len() as u64;
    println!("{count} rows, median of {ROUNDS} rounds");
    println!();
    println!("| | time | bytes |");
    println!("| --- | --- | --- |");
    println!(
        "| export as Parquet | {ours:.0?} | {:.2} MB |",
        megabytes(size)
    );
    println!(
        "| plain client, the same bytes | {theirs:.0?} | {:.2} MB |",
        megabytes(size)
    );
    println!(
        "| encoding at 100 MB/s | {encoding:.0?} | {:.2} MB of JSON |",
        megabytes(plain)
    );
    println!(
        "| gzip'd NDJSON of the same rows | | {:.2} MB |",
        megabytes(lines)
    );
    println!();
    println!("memory: {rest:.1} MiB at rest with all rows, {peak:.1} MiB at most");
    Ok(bar::report(&[
        bar::Bar {
            name: "export against plain upload and encoding at 100 MB/s",
            figure: ours.as_secs_f64() / (theirs + encoding).as_secs_f64(),
            most: 2.0,
            unit: "x",
        },
        bar::Bar {
            name: "peak memory above rest",
            figure: peak - rest,
            most: 128.0,
            unit: "MiB",
        },
        bar::Bar {
            name: "file against gzip'd NDJSON",
            figure: megabytes(size) / megabytes(lines),
            most: 0.4,
            unit: "x",
        },
    ]))
}

fn megabytes(bytes: u64) -> f64 {
    // A few hundred megabytes at most.
    f64::from(u32::try_from(bytes).unwrap_or(u32::MAX)) / 1e6
}

/// The one file of the set.
fn parquet(bucket: &Bucket) -> Result<Bytes> {
    let key = "lake/inventory/cluster_name=bench/inventory=bench.deployments/part-0001.parquet";
    let bytes = bucket.read(key)?.context("the file is not there")?;
    Ok(bytes.into())
}

/// One upload by a client that does nothing else.
async fn plain_upload(server: &S3, bucket: &Bucket, bytes: &Bytes) -> Result<Duration> {
    let client = HttpClient::new(dialer()?, &Trust::default())?;
    let store = AmazonS3Builder::new()
        .with_bucket_name(&bucket.name)
        .with_region("us-east-1")
        .with_endpoint(format!("http://127.0.0.1:{}", server.port()))
        .with_allow_http(true)
        .with_access_key_id(ACCESS_KEY)
        .with_secret_access_key(server.secret_key())
        .with_http_connector(GuardedConnector::new(client, Duration::from_mins(1)))
        .build()?;
    let path = Path::from("yardstick/file.parquet");
    // The connection is there already, as ours is.
    store.put(&path, Bytes::new().into()).await?;
    let started = Instant::now();
    store.put(&path, bytes.clone().into()).await?;
    Ok(started.elapsed())
}

fn dialer() -> Result<Dialer> {
    Ok(Dialer::new(AddressPolicy {
        allowed_networks: vec!["127.0.0.0/8".parse()?],
        ..AddressPolicy::default()
    }))
}

fn sink(
    server: &S3,
    bucket: &Bucket,
    prefix: &str,
    serialization: &serde_json::Value,
) -> Result<ObjectSink> {
    let spec: KollectSnapshotSinkSpec = serde_json::from_value(json!({
        "type": "s3",
        "endpoint": format!("http://127.0.0.1:{}/{}/{prefix}", server.port(), bucket.name),
        "cluster": "bench",
        "secretRef": {"name": "keys"},
        "serialization": serialization,
    }))?;
    let spec = SinkSpec::Snapshot(spec);
    let secret: SecretData = [
        ("accessKeyID", ACCESS_KEY),
        ("secretAccessKey", server.secret_key()),
    ]
    .into_iter()
    .collect();
    let materials = credentials::materials(&spec, "bench", |_| Some(secret.clone()))?;
    let environment = Environment {
        dialer: dialer()?,
        work_dir: env::temp_dir(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    };
    Ok(ObjectSink::new(
        prefix,
        "bench",
        &spec,
        &materials,
        &environment,
    )?)
}

fn delivery(rows: Snapshot) -> Delivery {
    let mut types = AttributeTypes::new();
    for (name, word) in [
        ("images", "list"),
        ("labels", "map"),
        ("replicas", "int"),
        ("strategy", "string"),
    ] {
        let words = types.entry(name.to_owned()).or_default();
        words.insert(word.to_owned());
    }
    Delivery {
        inventory: InventoryId::namespaced("bench", "deployments"),
        generation: 1,
        at: Timestamp::now(),
        rows: DeliveryRows::All(rows),
        documents: DocumentOptions {
            types: Arc::new(types),
            ..DocumentOptions::default()
        },
    }
}
