//! The suite of all backends, on each kind of object store.

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
use kollect_testkit::Proxy;
use serde_json::{Value, json};

use crate::{
    places::{Kind, Place},
    stage::Sketch,
};

/// A bucket behind a wire of its own.
struct StoreSubject {
    place: Place,
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

impl StoreSubject {
    async fn start(kind: Kind, files: Files) -> Self {
        let place = Place::new(kind, "conformance").await;
        Self {
            proxy: Proxy::to(("127.0.0.1", place.port())).expect("a wire"),
            place,
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
        let mut sketch = self.place.sketch(self.proxy.port(), extra);
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
impl Subject for StoreSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.sketch(cluster).open().await.expect("a sink")
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        let mut sketch = self.sketch("prod-west");
        self.place.spoil(&mut sketch, self.proxy.port());
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
        let bytes = self.place.read(&key).await;
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
        self.place.clear().await;
        true
    }

    async fn mark(&self) -> Option<String> {
        Some(format!("{:?}", self.place.marks().await))
    }

    fn secrets(&self) -> Vec<String> {
        self.place.secrets()
    }
}

macro_rules! on {
    ($($name:ident: $kind:ident $files:ident),* $(,)?) => {$(
        mod $name {
            kollect_sinks::conformance_tests!(
                super::StoreSubject::start(super::Kind::$kind, super::Files::$files).await
            );
        }
    )*};
}

on! {
    json_document: S3 Json,
    compressed_lines: S3 CompressedLines,
    set_of_files: S3 Set,
    gcs_json_document: Gcs Json,
    gcs_set_of_files: Gcs Set,
    azure_json_document: AzureKey Json,
    azure_set_of_files: AzureSignature Set,
}
