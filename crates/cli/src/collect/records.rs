//! Records on standard output: one per target, in one of several forms.

use std::{
    collections::BTreeSet,
    io::{self, Write},
    sync::Arc,
};

use jiff::Timestamp;
use kollect_api::{InventoryId, visible::visible};
use kollect_inventory::{Document, Pass, Row, Snapshot};
use serde_json::{Value, json};

use super::table::Table;

/// How records are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One compact JSON object per line.
    Ndjson,
    /// One YAML document per record.
    Yaml,
    /// One JSON array.
    Json,
    /// Rows in columns, for people; standard output only.
    Table,
}

/// What is known of one target in one cluster.
#[derive(Debug, Clone)]
pub(crate) struct Record {
    pub(crate) context: String,
    pub(crate) target: InventoryId,
    /// The path a file would have.
    pub(crate) path: String,
    pub(crate) document: Document,
}

impl Record {
    /// A record of these rows.
    pub(crate) fn new(
        context: &str,
        target: &InventoryId,
        path: String,
        rows: Snapshot,
        at: Timestamp,
    ) -> Self {
        let pass = Pass {
            cluster: context.to_owned(),
            ..Pass::at(at)
        };
        Self {
            context: context.to_owned(),
            target: target.clone(),
            path,
            document: Document::whole(Arc::new(pass), rows),
        }
    }

    /// Everything but the document, which is large and written piece by piece.
    fn head(&self) -> Value {
        json!({
            "context": self.context,
            "targetNamespace": self.target.namespace(),
            "targetName": self.target.name,
            "path": self.path,
        })
    }

    fn value(&self) -> io::Result<Value> {
        let mut text = Vec::new();
        self.document.write(&mut text);
        let mut value = self.head();
        value["envelope"] = serde_json::from_slice(&text)?;
        Ok(value)
    }
}

/// Writes all records.
pub(crate) fn write(records: &[Record], format: Format, out: &mut impl Write) -> io::Result<()> {
    match format {
        Format::Ndjson => {
            for record in records {
                let head = record.head().to_string();
                let open = head.strip_suffix('}').unwrap_or(&head);
                write!(out, "{open},\"envelope\":")?;
                for chunk in record.document.chunks(64 * 1024) {
                    out.write_all(&chunk)?;
                }
                out.write_all(b"}\n")?;
            }
        }
        Format::Yaml => {
            for record in records {
                let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
                let text = serde_saphyr::to_string_with_options(&record.value()?, options);
                let text = text.map_err(io::Error::other)?;
                write!(out, "---\n{text}")?;
            }
        }
        Format::Json => {
            let values: io::Result<Vec<Value>> = records.iter().map(Record::value).collect();
            serde_json::to_writer_pretty(&mut *out, &values?)?;
            out.write_all(b"\n")?;
        }
        Format::Table => write_tables(records, out)?,
    }
    out.flush()
}

fn write_tables(records: &[Record], out: &mut impl Write) -> io::Result<()> {
    for (index, record) in records.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let rows = record.document.rows();
        writeln!(
            out,
            "{} {} ({} row{})",
            visible(&record.context),
            visible(&record.target.to_string()),
            rows.len(),
            if rows.len() == 1 { "" } else { "s" }
        )?;
        if !rows.is_empty() {
            write!(out, "{}", table(rows.rows()))?;
        }
    }
    Ok(())
}

/// Rows as a table: identity first, then one column per attribute.
fn table(rows: &[Row]) -> Table {
    let names: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| row.attributes().iter())
        .map(|(name, _)| name.into_owned())
        .collect();
    let namespaced = rows.iter().any(|row| !row.origin().namespace().is_empty());
    let mut head: Vec<String> = Vec::new();
    if namespaced {
        head.push("NAMESPACE".to_owned());
    }
    head.push("NAME".to_owned());
    head.extend(names.iter().map(|name| name.to_uppercase()));
    let mut table = Table::new(head);
    for row in rows {
        let mut cells = Vec::new();
        if namespaced {
            cells.push(row.origin().namespace().to_owned());
        }
        cells.push(row.name().to_owned());
        for name in &names {
            let value = row.attributes().get(name);
            cells.push(value.map_or_else(|| "-".to_owned(), |value| cell(value.as_str())));
        }
        table.row(cells);
    }
    table
}

/// A value in a cell: texts without quotes, lists of plain things with commas, all else as JSON.
fn cell(json: &str) -> String {
    const LONGEST: usize = 60;
    let plain = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    };
    let value: Value = serde_json::from_str(json).unwrap_or_default();
    let text = match &value {
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(plain).collect();
            items.map(|items| items.join(","))
        }
        other => plain(other),
    };
    let text = text.unwrap_or_else(|| value.to_string());
    let text = visible(&text);
    if text.chars().count() <= LONGEST {
        return text.into_owned();
    }
    let short: String = text.chars().take(LONGEST - 1).collect();
    format!("{short}…")
}
