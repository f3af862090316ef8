//! The suite of all backends, on S3.

use std::{io::Read as _, sync::Arc};

use async_trait::async_trait;
use kollect_api::{InventoryId, sink::snapshot::Partitioning};
use kollect_sinks::{
    Sink,
    conformance::Subject,
    layout::{
        Lake,
        lake::SetPlace,
        segment::{GREATEST_LENGTH, sanitise},
    },
};
use kollect_testkit::{Proxy, S3, s3::Bucket};
use serde_json::{Value, json};

use crate::stage::{Sketch, blocking, bucket};

/// A bucket behind a wire of its own.
struct S3Subject {
    bucket: Bucket,
    proxy: Proxy,
    files: Files,
}

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Files {
    Json,
    CompressedLines,
    Set,
}

const WRONG: &str = "wrong-donkey-battery-staple";

impl S3Subject {
    async fn start(files: Files) -> Self {
        let (bucket, port) = bucket("conformance").await;
        Self {
            bucket,
            proxy: Proxy::to(("127.0.0.1", port)).expect("a wire"),
            files,
        }
    }

    fn sketch(&self, cluster: &str) -> Sketch {
        let template = "{cluster}/{namespace}/{name}{extension}";
        let extra = match self.files {
            Files::Json => json!({ "pathTemplate": template }),
            Files::CompressedLines => json!({
                "pathTemplate": template,
                "serialization": { "format": "ndjson", "compression": "gzip" },
            }),
            Files::Set => json!({
                "serialization": { "compression": "zstd" },
                "objectStore": { "partitioning": "current" },
            }),
        };
        let mut sketch = Sketch::s3(&self.bucket, self.proxy.port(), extra);
        sketch.spec["cluster"] = json!(cluster);
        sketch
    }

    fn read(&self, bytes: &[u8]) -> Vec<Value> {
        match self.files {
            Files::Json => items(&serde_json::from_slice(bytes).unwrap()),
            Files::CompressedLines => {
                let mut text = String::new();
                let mut plain = flate2::read::GzDecoder::new(bytes);
                plain.read_to_string(&mut text).unwrap();
                let lines = text.lines().map(serde_json::from_str);
                lines.collect::<Result<_, _>>().unwrap()
            }
            Files::Set => {
                let plain = zstd::decode_all(bytes).unwrap();
                items(&serde_json::from_slice(&plain).unwrap())
            }
        }
    }
}

fn items(document: &Value) -> Vec<Value> {
    document["items"].as_array().cloned().unwrap_or_default()
}

#[async_trait]
impl Subject for S3Subject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.sketch(cluster).open().await.expect("a sink")
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut sketch = self.sketch("prod-west");
        WRONG.clone_into(&mut sketch.secret[1].1);
        Some(sketch.open().await.expect("a sink"))
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        let namespace = sanitise(inventory.namespace(), GREATEST_LENGTH);
        let name = &inventory.name;
        let key = match self.files {
            Files::Json => format!("pre/fix/{cluster}/{namespace}/{name}.json"),
            Files::CompressedLines => format!("pre/fix/{cluster}/{namespace}/{name}.ndjson.gz"),
            Files::Set => {
                let lake = Lake {
                    partitioning: Partitioning::Current,
                    keep_days: None,
                    extension: ".json.zst".to_owned(),
                };
                let place = SetPlace {
                    cluster,
                    inventory,
                    generation: 1,
                    at: jiff::Timestamp::UNIX_EPOCH,
                };
                format!("pre/fix/{}", lake.part(&place, 1, 1).unwrap())
            }
        };
        let bucket = self.bucket.clone();
        let bytes = blocking(move || bucket.read(&key).unwrap()).await;
        bytes.map_or_else(Vec::new, |bytes| self.read(&bytes))
    }

    async fn stop(&self) {
        self.proxy.refuse();
    }

    async fn start(&self) {
        self.proxy.accept().unwrap();
    }

    async fn stall(&self, on: bool) -> bool {
        self.proxy.stall(on);
        true
    }

    async fn lose(&self) -> bool {
        let bucket = self.bucket.clone();
        blocking(move || bucket.clear().is_ok()).await
    }

    async fn mark(&self) -> Option<String> {
        let bucket = self.bucket.clone();
        Some(blocking(move || format!("{:?}", bucket.objects().unwrap())).await)
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            S3::shared().unwrap().secret_key().to_owned(),
            WRONG.to_owned(),
        ]
    }
}

mod json_document {
    kollect_sinks::conformance_tests!(super::S3Subject::start(super::Files::Json).await);
}

mod compressed_lines {
    kollect_sinks::conformance_tests!(super::S3Subject::start(super::Files::CompressedLines).await);
}

mod set_of_files {
    kollect_sinks::conformance_tests!(super::S3Subject::start(super::Files::Set).await);
}
