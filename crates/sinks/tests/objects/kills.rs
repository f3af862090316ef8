//! A process that is killed in the middle of an upload.
//!
//! `KOLLECT_UPLOAD_KILLS` says how often; `cargo xtask soak` asks for a hundred times.

use std::{
    collections::BTreeMap,
    process::{Command, Stdio},
    time::Duration,
};

use kollect_inventory::Snapshot;
use kollect_testkit::{S3, s3::Bucket};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::stage::{Sketch, blocking, bucket, delivery, objects, rows};

/// Tells the child where to write, and as what.
const CHILD: &str = "KOLLECT_UPLOAD_CHILD";

/// Text that does not compress, so that files are large: `round` decides it.
fn many(round: u64, count: u64) -> Snapshot {
    let names: Vec<String> = (0..count).map(|n| format!("cm-{n:05}")).collect();
    let lines: Vec<_> = names
        .iter()
        .map(|name| {
            let noise: Vec<u8> = (0..16_u64)
                .flat_map(|n| Sha256::digest(format!("{round} {name} {n}")).to_vec())
                .collect();
            let noise = hex(&noise);
            (
                "ConfigMap",
                "team-a",
                &**name,
                json!({"noise": noise, "round": round}),
            )
        })
        .collect();
    rows(&lines)
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

fn sketch(bucket: &str, port: u16, key: &str) -> Sketch {
    let spec = json!({
        "type": "s3",
        "endpoint": format!("http://127.0.0.1:{port}/{bucket}/pre/fix"),
        "cluster": "lab",
        "serialization": {"format": "parquet", "compression": "none"},
    });
    Sketch {
        name: "lake".to_owned(),
        spec,
        secret: vec![
            (
                "accessKeyID".to_owned(),
                kollect_testkit::s3::ACCESS_KEY.to_owned(),
            ),
            ("secretAccessKey".to_owned(), key.to_owned()),
        ],
    }
}

/// What the killed process does; by itself, a delivery like any other.
#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_uploads() {
    let (place, rounds, count) = match std::env::var(CHILD) {
        Ok(told) => {
            let told: Value = serde_json::from_str(&told).expect("JSON");
            (told, 50, 12_000)
        }
        Err(_) => {
            let (bucket, port) = bucket("child").await;
            let key = blocking(|| S3::shared().unwrap().secret_key().to_owned()).await;
            (
                json!({"bucket": bucket.name, "port": port, "key": key}),
                1,
                10,
            )
        }
    };
    let port = place["port"]
        .as_u64()
        .and_then(|port| u16::try_from(port).ok());
    let text = |key: &str| place[key].as_str().unwrap().to_owned();
    let sink = sketch(&text("bucket"), port.unwrap(), &text("key"));
    let sink = sink.open().await.unwrap();
    for round in 0..rounds {
        let receipt = sink
            .deliver(&delivery(many(round, count), "2026-08-01T12:00:00Z"))
            .await;
        assert!(receipt.unwrap().written >= count);
    }
}

/// The set that a manifest names, if it is complete.
fn complete(objects: &BTreeMap<String, Vec<u8>>) -> bool {
    let directory = "inventory/cluster_name=lab/inventory=team-a.web";
    let Some(latest) = objects.get(&format!("{directory}/latest.json")) else {
        return true;
    };
    let latest: Value = serde_json::from_slice(latest).expect("a manifest is whole");
    latest["files"].as_array().unwrap().iter().all(|file| {
        let path = format!("{directory}/{}", file["path"].as_str().unwrap());
        // Replaced in place, so the file may be newer than the manifest, and is never cut.
        objects
            .get(&path)
            .is_some_and(|bytes| bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"))
    })
}

async fn is_true(bucket: &Bucket) -> bool {
    let objects = objects(bucket).await;
    let directory = "inventory/cluster_name=lab/inventory=team-a.web";
    let latest: Value =
        serde_json::from_slice(&objects[&format!("{directory}/latest.json")]).unwrap();
    latest["files"].as_array().unwrap().iter().all(|file| {
        let bytes = &objects[&format!("{directory}/{}", file["path"].as_str().unwrap())];
        file["sha256"] == hex(&Sha256::digest(bytes))
    })
}

/// Whenever it is killed, what is visible is whole; the next delivery leaves no trace of it.
#[tokio::test(flavor = "multi_thread")]
async fn killed_uploads_leave_nothing_half_written() {
    let kills: u32 = std::env::var("KOLLECT_UPLOAD_KILLS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(3);
    let (bucket, port) = bucket("kills").await;
    let key = blocking(|| S3::shared().unwrap().secret_key().to_owned()).await;
    let told = json!({"bucket": bucket.name, "port": port, "key": key}).to_string();
    let mut interrupted = 0;
    for kill in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kills::a_process_that_uploads"])
            .env(CHILD, &told)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Not before it has begun: an upload in parts is under way, or a file is there.
        let moment = Duration::from_millis(u64::from(kill * 137 % 400));
        for _ in 0..600 {
            let seen = bucket.clone();
            let begun = blocking(move || !seen.uploads().unwrap().is_empty()).await;
            if begun || child.try_wait().unwrap().is_some() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        tokio::time::sleep(moment).await;
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(complete(&objects(&bucket).await), "after kill {kill}");
        let seen = bucket.clone();
        interrupted += u32::from(!blocking(move || seen.uploads().unwrap()).await.is_empty());

        let sink = sketch(&bucket.name, port, &key).open().await.unwrap();
        let next = delivery(many(1000 + u64::from(kill), 10), "2026-08-01T13:00:00Z");
        sink.deliver(&next).await.unwrap();
        assert!(
            is_true(&bucket).await,
            "after the delivery that follows kill {kill}"
        );
        let seen = bucket.clone();
        let left = blocking(move || seen.uploads().unwrap()).await;
        assert!(left.is_empty(), "after kill {kill}: {left:?}");
    }
    assert!(
        interrupted > 0,
        "no upload was under way at any of {kills} kills"
    );
}
