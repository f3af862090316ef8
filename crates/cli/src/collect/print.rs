//! Rows on standard output, or in one file: batch after batch, as they come.
//!
//! | Format | Form |
//! | --- | --- |
//! | ndjson | one row per line; with several clusters, each says which |
//! | csv | one row per line, the same columns for all |
//! | yaml | one list of rows; with several clusters one document for each |
//! | json | one array of documents, each with its target, checksum and time |
//! | table, wide, markdown | one table per target |

use std::{
    io::{self, Write},
    sync::Arc,
};

use jiff::Timestamp;
use kollect_api::{InventoryId, visible::visible};
use kollect_inventory::{Document, Pass, Snapshot};
use kollect_sinks::{DocumentOptions, layout};
use serde_json::{Value, json};

use super::{
    local::Naming,
    shape::{Column, Shape},
};
use crate::render::{self, Format, Look};

/// The rows of one target in one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) cluster: String,
    pub(crate) target: InventoryId,
    pub(crate) rows: Snapshot,
    /// The attributes of its profile, in their order.
    pub(crate) attributes: Vec<String>,
}

/// Prints batches.
#[derive(Debug)]
pub(crate) struct Printer {
    settings: Settings,
    state: State,
}

#[derive(Debug, Default)]
struct State {
    batches: usize,
    rows: usize,
    last_cluster: Option<String>,
    /// An array has to be written as a whole.
    records: Vec<Value>,
}

/// How batches are printed.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) format: Format,
    pub(crate) look: Look,
    pub(crate) shape: Arc<Shape>,
    /// The attributes of all profiles.
    pub(crate) attributes: Vec<String>,
    pub(crate) several_clusters: bool,
    /// Whether tables have titles.
    pub(crate) titles: bool,
    /// One time for everything.
    pub(crate) at: Timestamp,
}

impl Printer {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::default(),
        }
    }

    /// Writes the rows of one target.
    pub(crate) fn batch(&mut self, batch: &Batch, out: &mut impl Write) -> io::Result<()> {
        match self.settings.format {
            Format::Table | Format::Wide | Format::Markdown => self.table(batch, out)?,
            Format::Csv => self.csv(batch, out)?,
            Format::Ndjson if !self.settings.shape.is_own() => self.ndjson(batch, out)?,
            Format::Yaml if !self.settings.shape.is_own() => self.yaml(batch, out)?,
            Format::Json if !self.settings.shape.is_own() => {
                let record = self.record(batch)?;
                self.state.records.push(record);
            }
            Format::Ndjson => self
                .grid(batch)
                .write(Format::Ndjson, self.settings.look, out)?,
            Format::Yaml => {
                if !batch.rows.is_empty() {
                    self.grid(batch)
                        .write(Format::Yaml, self.settings.look, out)?;
                }
            }
            Format::Json => {
                let grid = self.grid(batch);
                let mut text = Vec::new();
                grid.write(Format::Json, self.settings.look, &mut text)?;
                let rows: Vec<Value> = serde_json::from_slice(&text)?;
                self.state.records.extend(rows);
            }
        }
        self.state.batches += 1;
        self.state.rows += batch.rows.len();
        self.state.last_cluster = Some(batch.cluster.clone());
        Ok(())
    }

    /// Writes what belongs at the end.
    pub(crate) fn finish(&mut self, out: &mut impl Write) -> io::Result<()> {
        match self.settings.format {
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.state.records)?;
                out.write_all(b"\n")?;
            }
            Format::Yaml if self.state.rows == 0 => out.write_all(b"[]\n")?,
            Format::Csv if self.state.batches == 0 && self.settings.look.headers => {
                let columns = self.csv_columns();
                out.write_all(render::csv_head(&names(&columns)).as_bytes())?;
            }
            _ => {}
        }
        out.flush()
    }

    fn grid(&self, batch: &Batch) -> render::Grid {
        let columns = self.settings.shape.columns.clone();
        let columns = columns.unwrap_or_else(|| self.columns(batch));
        self.settings
            .shape
            .grid(&batch.rows, &batch.cluster, &columns)
    }

    /// The usual columns of a table.
    fn columns(&self, batch: &Batch) -> Vec<Column> {
        let mut columns = Vec::new();
        let rows = batch.rows.rows();
        if self.settings.several_clusters && !self.settings.titles {
            columns.push(Column::Cluster);
        }
        if rows.iter().any(|row| !row.origin().namespace().is_empty()) {
            columns.push(Column::Namespace);
        }
        columns.push(Column::Name);
        let attributes = batch.attributes.iter().cloned();
        columns.extend(attributes.map(Column::Attribute));
        if self.settings.format == Format::Wide {
            columns.extend([Column::Kind, Column::Uid]);
        }
        columns
    }

    fn csv_columns(&self) -> Vec<Column> {
        if let Some(columns) = &self.settings.shape.columns {
            return columns.clone();
        }
        let mut columns = vec![
            Column::Cluster,
            Column::TargetNamespace,
            Column::TargetName,
            Column::Namespace,
            Column::Name,
            Column::Group,
            Column::Version,
            Column::Kind,
            Column::Uid,
        ];
        let attributes = self.settings.attributes.iter().cloned();
        columns.extend(attributes.map(Column::Attribute));
        columns
    }

    fn csv(&mut self, batch: &Batch, out: &mut impl Write) -> io::Result<()> {
        let columns = self.csv_columns();
        if self.state.batches == 0 && self.settings.look.headers {
            out.write_all(render::csv_head(&names(&columns)).as_bytes())?;
        }
        if self.settings.shape.is_own() {
            let grid = self
                .settings
                .shape
                .grid(&batch.rows, &batch.cluster, &columns);
            for row in &grid.rows {
                out.write_all(render::csv_line(row).as_bytes())?;
            }
            return Ok(());
        }
        for row in batch.rows.rows() {
            let cells: Vec<Value> = columns
                .iter()
                .map(|column| column.of(row, &batch.cluster))
                .collect();
            out.write_all(render::csv_line(&cells).as_bytes())?;
        }
        Ok(())
    }

    fn ndjson(&self, batch: &Batch, out: &mut impl Write) -> io::Result<()> {
        let mut line = String::new();
        for row in batch.rows.rows() {
            line.clear();
            row.write_json(&mut line);
            if self.settings.several_clusters {
                let cluster = Value::from(batch.cluster.as_str());
                let rest = line.strip_prefix('{').unwrap_or(&line);
                writeln!(out, "{{\"cluster\":{cluster},{rest}")?;
            } else {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }

    fn yaml(&self, batch: &Batch, out: &mut impl Write) -> io::Result<()> {
        if batch.rows.is_empty() {
            return Ok(());
        }
        if self.settings.several_clusters
            && self.state.last_cluster.as_ref() != Some(&batch.cluster)
        {
            writeln!(out, "---\n# cluster: {}", visible(&batch.cluster))?;
        }
        let naming = Naming::new(&batch.cluster, Format::Yaml, false, true);
        let naming = naming.map_err(io::Error::other)?;
        let documents = DocumentOptions::default();
        let rendering = naming.render(
            &batch.target,
            &batch.rows,
            self.settings.at,
            &documents,
            &layout::Nothing,
        );
        for file in rendering.map_err(io::Error::other)?.files() {
            let file = file.map_err(io::Error::other)?;
            for piece in file.body.pieces() {
                out.write_all(&piece)?;
            }
        }
        Ok(())
    }

    fn record(&self, batch: &Batch) -> io::Result<Value> {
        let pass = Pass {
            cluster: batch.cluster.clone(),
            ..Pass::at(self.settings.at)
        };
        let document = Document::whole(Arc::new(pass), batch.rows.clone());
        let mut text = Vec::new();
        document.write(&mut text);
        let naming = Naming::new(
            &batch.cluster,
            Format::Yaml,
            self.settings.several_clusters,
            false,
        );
        let path = naming.and_then(|naming| naming.path(&batch.target));
        let envelope: Value = serde_json::from_slice(&text)?;
        Ok(json!({
            "context": batch.cluster,
            "targetNamespace": batch.target.namespace(),
            "targetName": batch.target.name,
            "path": path.map_err(io::Error::other)?,
            "envelope": envelope,
        }))
    }

    fn table(&self, batch: &Batch, out: &mut impl Write) -> io::Result<()> {
        let apart = self.settings.titles || (self.settings.look.headers && !batch.rows.is_empty());
        if apart && self.state.batches > 0 {
            writeln!(out)?;
        }
        if self.settings.titles {
            let rows = batch.rows.len();
            let title = format!(
                "{} {} ({rows} row{})",
                visible(&batch.cluster),
                visible(&batch.target.to_string()),
                if rows == 1 { "" } else { "s" }
            );
            if self.settings.format == Format::Markdown {
                writeln!(out, "### {}\n", render::harmless(&title))?;
            } else {
                writeln!(out, "{title}")?;
            }
        }
        if batch.rows.is_empty() {
            return Ok(());
        }
        self.grid(batch)
            .write(self.settings.format, self.settings.look, out)
    }
}

fn names(columns: &[Column]) -> Vec<String> {
    columns
        .iter()
        .map(|column| column.name().to_owned())
        .collect()
}
