//! What databases have in common: how a row is found in one, and which settings mean nothing there.

pub(crate) mod keys;
#[cfg(any(feature = "bigquery", feature = "mongodb"))]
pub(crate) mod wanted;

#[cfg(any(feature = "mongodb", feature = "postgres"))]
use std::{fs::File, io::Read, path::Path};

use kollect_api::sink::common::SinkCommon;
use kollect_inventory::Row;

/// The namespace that a database shows: objects without one are shown with the inventory's.
pub(crate) fn resource_namespace<'r>(row: &'r Row, inventory_namespace: &'r str) -> &'r str {
    match row.origin().namespace() {
        "" => inventory_namespace,
        namespace => namespace,
    }
}

/// What tells one content of a row from another, beside its key: the same in every
/// process. `encoding` changes when a database would store the same row as something else.
#[cfg(any(feature = "bigquery", feature = "mongodb"))]
pub(crate) fn content_hash(encoding: &[u8], row: &Row) -> i64 {
    use sha2::{Digest, Sha256};

    let origin = row.origin();
    let mut digest = Sha256::new();
    for part in [
        encoding,
        origin.target_namespace().as_bytes(),
        origin.namespace().as_bytes(),
        row.name().as_bytes(),
        origin.group().as_bytes(),
        origin.version().as_bytes(),
        origin.kind().as_bytes(),
        &row.content_hash().0.to_be_bytes(),
    ] {
        digest.update((part.len() as u64).to_be_bytes());
        digest.update(part);
    }
    let bytes = digest.finalize();
    i64::from_be_bytes(std::array::from_fn(|at| bytes[at]))
}

/// Settings that other sinks have and a database has no use for. They were never refused, so they
/// are not now; whoever set one is told that it does nothing.
pub(crate) fn idle_settings(common: &SinkCommon, sink_type: &str) -> Vec<String> {
    let naming = common
        .provisioning
        .as_ref()
        .and_then(|provisioning| provisioning.naming.as_ref()?.template.as_ref());
    let compression = common
        .serialization
        .as_ref()
        .and_then(|serialization| serialization.compression.as_ref());
    [
        (naming.is_some(), "spec.provisioning.naming.template"),
        (compression.is_some(), "spec.serialization.compression"),
        (common.path_template.is_some(), "spec.pathTemplate"),
    ]
    .into_iter()
    .filter(|(given, _)| *given)
    .map(|(_, field)| format!("{field} has no effect on a {sink_type} sink; remove it"))
    .collect()
}

/// No certificate or key is larger.
#[cfg(any(feature = "mongodb", feature = "postgres"))]
const LARGEST_FILE: u64 = 1 << 20;

/// A small file of a person's own machine that a connection string names. Nothing if it is none.
#[cfg(any(feature = "mongodb", feature = "postgres"))]
pub(crate) fn local_file(path: impl AsRef<Path>) -> Option<Vec<u8>> {
    // Asked before it is opened: opening a pipe waits for whoever writes to it.
    let found = std::fs::metadata(&path).ok()?;
    if !found.is_file() || found.len() > LARGEST_FILE {
        return None;
    }
    let mut content = Vec::new();
    let file = File::open(path).ok()?;
    file.take(LARGEST_FILE).read_to_end(&mut content).ok()?;
    Some(content)
}
