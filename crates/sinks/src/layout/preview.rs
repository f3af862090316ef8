//! What a layout would look like, shown on the sink before anything is exported.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kollect_api::{
    InventoryId, effective,
    sink::{
        SinkSpec,
        common::{Format, LayoutContent, LayoutMode, ProvisioningMode},
        status::{KafkaPreview, LayoutPreview, Preview},
    },
};
use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Snapshot, TargetKind};

use super::error::LayoutError;
use super::held::Nothing;
use super::manifest::Embedding;
use super::render::render_all;
use super::{Header, Layout};
use crate::sink::DocumentOptions;

/// Names of the Deployments that are shown.
const SAMPLES: [&str; 4] = ["api", "web", "cache", "worker"];
/// How many paths are shown.
const SHOWN: usize = 3;

/// The inventory that previews pretend to export.
pub fn sample_inventory() -> InventoryId {
    InventoryId::namespaced("team-a", "api")
}

/// The part of `status.preview` that the spec alone tells: files, formats, provisioning,
/// destinations. The time, and what only a backend knows, is for others to add.
pub fn preview(spec: &SinkSpec) -> Preview {
    let common = spec.common();
    let (format, git) = match spec {
        SinkSpec::Snapshot(snapshot) => (
            effective::format(spec.sink_type(), common, snapshot.object_store.as_ref()),
            spec.sink_type().is_git(),
        ),
        SinkSpec::Database(_) | SinkSpec::Event(_) => {
            (effective::format(spec.sink_type(), common, None), false)
        }
    };
    let mode = effective::provisioning_mode(common);
    let mut warnings = Vec::new();
    if mode == ProvisioningMode::Existing {
        warnings.push(
            "provisioning.mode=existing: kollect will NOT create destination resources; preflight verifies existence"
                .to_owned(),
        );
    }
    if format == Format::Parquet {
        warnings.push(
            "serialization.format=parquet: typed identity columns + JSON attributes + optional hotAttributes"
                .to_owned(),
        );
    }
    let object_path = document_path(spec);
    let kafka = match spec {
        SinkSpec::Event(event) => event.kafka.as_ref(),
        SinkSpec::Snapshot(_) | SinkSpec::Database(_) => None,
    };
    Preview {
        kafka: kafka.map(|kafka| KafkaPreview {
            topic: Some(kafka.topic.clone()),
        }),
        input_sample_source: Some("synthetic".to_owned()),
        provisioning_mode: Some(match mode {
            ProvisioningMode::Ensure => "ensure".to_owned(),
            ProvisioningMode::Existing => "existing".to_owned(),
        }),
        serialization_format: Some(format.as_str().to_owned()),
        layout: git.then(|| layout(spec, object_path.as_deref())),
        object_path,
        warnings,
        ..Preview::default()
    }
}

/// The path of the document, also for a layout that does not work out otherwise.
fn document_path(spec: &SinkSpec) -> Option<String> {
    let SinkSpec::Snapshot(snapshot) = spec else {
        return None;
    };
    let plain = || {
        let mut plain = snapshot.clone();
        plain.common.layout = None;
        Layout::of_snapshot(&plain)
    };
    let layout = Layout::of_snapshot(snapshot).or_else(|_| plain()).ok()?;
    let path = layout.document_path(&sample_inventory(), 1).ok()?;
    Some(path.to_string())
}

fn layout(spec: &SinkSpec, document: Option<&str>) -> LayoutPreview {
    let asked = spec.common().layout.as_ref();
    let mode = asked
        .and_then(|layout| layout.mode)
        .unwrap_or(LayoutMode::Document);
    let content = asked
        .and_then(|layout| layout.content)
        .unwrap_or(LayoutContent::Item);
    let resolved = Layout::new(spec);
    let sample_paths = match resolved.as_ref().map(sample_paths) {
        Ok(Ok(paths)) => paths,
        // What is wrong with the layout is said elsewhere; the document path is what is sure.
        _ => document.map(str::to_owned).into_iter().collect(),
    };
    LayoutPreview {
        mode: Some(mode.as_str().to_owned()),
        content: Some(content.as_str().to_owned()),
        prune: Some(match resolved {
            Ok(layout) => layout.prunes(mode),
            Err(_) => mode != LayoutMode::Document,
        }),
        sample_paths,
    }
}

fn sample_paths(layout: &Layout) -> Result<Vec<String>, LayoutError> {
    let mut interner = Interner::new();
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: "team-a",
        target_name: "deployments",
        namespace: "team-a",
        group: "apps",
        version: "v1",
        kind: "Deployment",
    });
    let mut attributes = AttributesBuffer::new();
    // Every sample carries an object, so that a layout of manifests has something to show; a mode
    // that is not set stays what it is for rows that carry none.
    attributes.set(&object());
    let row = |name: &&str| interner.row(&origin, name, &format!("uid-{name}"), attributes.view());
    let rows = Snapshot::new(SAMPLES.iter().map(row));
    let documents = DocumentOptions {
        embedding: Embedding::Known(BTreeSet::new()),
        ..DocumentOptions::default()
    };
    let inventory = sample_inventory();
    let header = Header {
        inventory: &inventory,
        generation: 1,
        at: Timestamp::UNIX_EPOCH,
        documents: &documents,
    };
    let rendering = render_all(layout, &header, &rows, &Nothing)?;
    let mut by_name = BTreeMap::new();
    rendering.each_row(|path, row| {
        by_name.insert(row.name().to_owned(), path);
    })?;
    // Documents and the index, then rows in the order of the samples.
    let mut paths = rendering.paths()?;
    paths.truncate(paths.len() - by_name.len());
    paths.extend(SAMPLES.iter().filter_map(|name| by_name.remove(*name)));
    let shown = paths.iter().take(SHOWN).map(ToString::to_string);
    Ok(shown.collect())
}

/// An object that every sample carries.
fn object() -> serde_json::Map<String, serde_json::Value> {
    let resource = serde_json::json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    [("resource".to_owned(), resource)].into_iter().collect()
}
