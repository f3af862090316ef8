//! Rows and layouts for tests.

use jiff::Timestamp;
use kollect_api::{InventoryId, sink::SinkSpec};
use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, TargetKind};
use kollect_sinks::{
    DocumentOptions,
    layout::{Header, Layout, LayoutError},
};
use serde::Deserialize;
use serde_json::{Map, Value};

/// A row as data files show it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Item {
    pub(crate) target_name: Option<String>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) group: String,
    pub(crate) kind: String,
    pub(crate) uid: String,
    pub(crate) attributes: Option<Map<String, Value>>,
}

impl Item {
    pub(crate) fn row(&self) -> Row {
        let mut interner = Interner::new();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: self.target_name.as_deref().unwrap_or("deploys"),
            namespace: &self.namespace,
            group: &self.group,
            version: "v1",
            kind: &self.kind,
        });
        let mut buffer = AttributesBuffer::new();
        if let Some(attributes) = &self.attributes {
            buffer.set(attributes);
        }
        interner.row(&origin, &self.name, &self.uid, buffer.view())
    }
}

pub(crate) fn layout(spec: &Value) -> Result<Layout, LayoutError> {
    let spec = serde_json::from_value(spec.clone()).expect("a snapshot sink");
    Layout::new(&SinkSpec::Snapshot(spec))
}

pub(crate) fn at(time: &str) -> Timestamp {
    time.parse().expect("a time")
}

pub(crate) fn header<'a>(inventory: &'a InventoryId, documents: &'a DocumentOptions) -> Header<'a> {
    Header {
        inventory,
        generation: 4,
        at: at("2026-08-01T12:00:00Z"),
        documents,
    }
}
