//! Rows that look like those of Deployments, for benches of sinks without a cluster.

use std::time::Duration;

use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, TargetKind};
use serde_json::json;

/// Over how many namespaces the rows are spread.
pub const NAMESPACES: usize = 100;

/// The one in the middle.
pub fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// The name of an object.
pub fn name(number: usize) -> String {
    format!("app-{number:06}")
}

/// Makes rows that look like those of Deployments.
#[derive(Default)]
pub struct Maker {
    interner: Interner,
    attributes: AttributesBuffer,
}

impl Maker {
    /// The row of an object in one of its versions.
    pub fn row(&mut self, number: usize, version: usize) -> Row {
        let namespace = format!("ns-{:03}", number % NAMESPACES);
        let origin = self.interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "bench",
            target_name: "deployments",
            namespace: &namespace,
            group: "apps",
            version: "v1",
            kind: "Deployment",
        });
        let name = name(number);
        let attributes = json!({
            "images": [format!("registry.example.com/{namespace}/{name}:1.{version}.{number}")],
            "labels": { "app": name, "team": namespace, "tier": "backend" },
            "replicas": number % 7 + 1,
            "strategy": "RollingUpdate",
        });
        if let Some(object) = attributes.as_object() {
            self.attributes.set(object);
        }
        let uid = format!("00000000-0000-4000-8000-{number:012}");
        self.interner
            .row(&origin, &name, &uid, self.attributes.view())
    }
}
