//! From rows to where they go.

use std::{collections::BTreeSet, num::NonZeroU64, sync::Arc, time::Duration};

use anyhow::{Context as _, Result};
use jiff::Timestamp;
use kollect_api::{SinkKey, sink::SinkSpec};
use kollect_inventory::{Document, HeldRows, Pass, Snapshot};
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Receipt, Sink,
    backend::{self, Environment, SinkSeed},
};
use serde_json::Value;

use super::{
    local::{Directory, Written},
    print::{Batch, Printer, Settings},
    report::{Level, Report},
    shape::Shape,
    units::Unit,
    way::Prepared,
};
use crate::render::{Format, Look};

/// A place to deliver to.
#[derive(Debug, Clone)]
pub(crate) struct Destination {
    /// The sink object; nothing for a directory that the command line named.
    key: Option<SinkKey>,
    /// How messages name it.
    title: String,
    backend: Backend,
}

#[derive(Debug, Clone)]
enum Backend {
    Directory(Box<Directory>),
    Sink {
        sink: Arc<dyn Sink>,
        /// Whether it can leave rows as they are of which nothing is known.
        keeps_held: bool,
    },
}

impl Destination {
    /// A directory for the documents of one cluster.
    pub(crate) fn directory(directory: Directory) -> Self {
        Self {
            key: None,
            title: directory.title(),
            backend: Backend::Directory(Box::new(directory)),
        }
    }
}

/// Builds the sinks of one cluster, whose name takes the place of a `spec.cluster` that is not
/// given. Nothing is connected yet.
pub(crate) async fn open(
    sinks: &[Prepared],
    environment: &Environment,
    cluster: &str,
) -> Result<Vec<Destination>> {
    let mut destinations = Vec::new();
    for Prepared {
        key,
        spec,
        materials,
    } in sinks
    {
        let spec = named(spec, cluster);
        let keeps_held = backend::keeps_held(&spec);
        let seed = SinkSeed {
            key: key.clone(),
            spec: Arc::new(spec),
            materials: materials.clone(),
        };
        let sink = backend::open(seed, environment).await;
        destinations.push(Destination {
            title: key.to_string(),
            backend: Backend::Sink {
                sink: sink.with_context(|| key.to_string())?,
                keeps_held,
            },
            key: Some(key.clone()),
        });
    }
    Ok(destinations)
}

/// The specification with a name for the cluster.
fn named(spec: &SinkSpec, cluster: &str) -> SinkSpec {
    let mut spec = spec.clone();
    if spec.cluster().is_empty() {
        spec.common_mut().cluster = Some(cluster.to_owned());
    }
    spec
}

/// How messages name it.
pub(crate) const STANDARD_OUTPUT: &str = "standard output";

/// What became of one unit at one destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Exported {
    pub(crate) title: String,
    pub(crate) to: String,
    pub(crate) result: Result<String, NotExported>,
}

/// Why something was not exported.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotExported {
    /// Its rows are not known; that was told already.
    #[error("{0}")]
    HeldBack(String),
    /// The destination failed.
    #[error("{0}")]
    Failed(String),
}

/// How an export goes.
pub(crate) struct Exporting<'r> {
    /// One time for everything that is written.
    pub(crate) at: Timestamp,
    /// Only say what would be delivered.
    pub(crate) dry_run: bool,
    /// How long one delivery may take.
    pub(crate) timeout: Duration,
    pub(crate) report: &'r Report,
    /// How texts are written that no sink writes.
    pub(crate) shape: Arc<Shape>,
    pub(crate) headers: bool,
}

impl Exporting<'_> {
    /// The rows of a unit in a format that no sink has.
    fn text(
        &self,
        unit: &Unit,
        rows: &Snapshot,
        format: Format,
        cluster: &str,
    ) -> std::io::Result<Vec<u8>> {
        let mut printer = Printer::new(Settings {
            format,
            look: Look::of_file(self.headers),
            shape: Arc::clone(&self.shape),
            attributes: unit.attributes.clone(),
            several_clusters: false,
            titles: false,
            at: self.at,
        });
        let mut text = Vec::new();
        let batch = Batch {
            cluster: cluster.to_owned(),
            target: unit.id.clone(),
            rows: rows.clone(),
            attributes: unit.attributes.clone(),
        };
        printer.batch(&batch, &mut text)?;
        printer.finish(&mut text)?;
        Ok(text)
    }
}

/// Delivers all units, or says what would be delivered.
pub(crate) async fn export(
    units: &[Unit],
    destinations: &[Destination],
    exporting: &Exporting<'_>,
) -> Vec<Exported> {
    let mut exported = Vec::new();
    for unit in units {
        for destination in destinations {
            let max_document_bytes = match (&unit.sinks, &destination.key) {
                (Some(sinks), Some(key)) => match sinks.iter().find(|sink| sink.key == *key) {
                    Some(sink) => sink.max_document_bytes,
                    None => continue,
                },
                _ => None,
            };
            let result = deliver(unit, destination, max_document_bytes, exporting).await;
            exported.push(Exported {
                title: unit.title.clone(),
                to: destination.title.clone(),
                result,
            });
        }
    }
    exported
}

async fn deliver(
    unit: &Unit,
    destination: &Destination,
    max_document_bytes: Option<NonZeroU64>,
    exporting: &Exporting<'_>,
) -> Result<String, NotExported> {
    let Exporting {
        at,
        dry_run,
        timeout,
        report,
        ..
    } = *exporting;
    let rows = unit.rows.clone().map_err(NotExported::HeldBack)?;
    let documents = DocumentOptions {
        max_bytes: max_document_bytes,
        embedding: unit.embedding.clone(),
        types: Arc::clone(&unit.types),
    };
    let count = rows.len();
    if let Backend::Directory(directory) = &destination.backend {
        let written = match directory.own_format() {
            None => directory.write(&unit.id, &rows, at, &documents, dry_run),
            Some(format) => {
                let text = exporting.text(unit, &rows, format, directory.cluster());
                let text = text.map_err(|error| NotExported::Failed(error.to_string()))?;
                directory.write_text(&unit.id, text, dry_run)
            }
        };
        let written = written.map_err(|error| NotExported::Failed(error.to_string()))?;
        let path = directory.path(&unit.id).unwrap_or_default();
        return Ok(match (written, dry_run) {
            (Written::Changed, false) => format!("{count} rows in {path}"),
            (Written::Unchanged, false) => format!("{count} rows in {path}, unchanged"),
            (Written::Changed, true) => format!("would write {count} rows to {path}"),
            (Written::Unchanged, true) => format!("{path} is unchanged, {count} rows"),
        });
    }
    if dry_run {
        let bytes = Document::whole(Arc::new(Pass::at(at)), rows.clone()).byte_len();
        report.event(
            Level::Info,
            "dry-run: would write export",
            &[
                ("target", unit.id.to_string().into()),
                ("to", destination.title.clone().into()),
                ("rows", rows.len().into()),
                ("bytes", Value::from(bytes)),
            ],
        );
        return Ok(format!("would write {} rows", rows.len()));
    }
    let sink = match &destination.backend {
        Backend::Directory(_) => return Ok(String::new()),
        Backend::Sink { keeps_held, .. } if !keeps_held && !rows.held().is_empty() => {
            return Err(NotExported::Failed(unread(rows.held())));
        }
        Backend::Sink { sink, .. } => sink,
    };
    let delivery = Delivery {
        inventory: unit.id.clone(),
        generation: 0,
        at,
        rows: DeliveryRows::All(rows),
        documents,
    };
    match tokio::time::timeout(timeout, sink.deliver(&delivery)).await {
        Ok(Ok(receipt)) => Ok(told(count, &receipt)),
        Ok(Err(error)) => Err(NotExported::Failed(error.to_string())),
        Err(_) => Err(NotExported::Failed(format!(
            "no answer within {} s; give more time with --timeout",
            timeout.as_secs()
        ))),
    }
}

/// Why a sink is left as it is that cannot keep what it holds of namespaces nobody can read.
fn unread(held: &[HeldRows]) -> String {
    let namespaces = held.iter().filter_map(|one| one.namespace.as_deref());
    let namespaces: BTreeSet<&str> = namespaces.collect();
    let named: Vec<&str> = namespaces.into_iter().take(10).collect();
    format!(
        "namespaces may not be read, and the sink cannot keep what it holds of them: [{}]; grant list there, or exclude them",
        named.join(" ")
    )
}

/// A receipt for people.
fn told(rows: usize, receipt: &Receipt) -> String {
    let mut text = format!("{rows} rows");
    if receipt.removed > 0 {
        text.push_str(&format!(", {} removed", receipt.removed));
    }
    if let Some(skipped) = &receipt.skipped {
        text.push_str(&format!(
            ", {} left out that carry no object (the first is {})",
            skipped.rows, skipped.first
        ));
    }
    if let Some(note) = &receipt.note {
        text.push_str(&format!(", {note}"));
    }
    text
}
