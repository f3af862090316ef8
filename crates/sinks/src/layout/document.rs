//! Documents: all rows in one file, or in several of bounded size.

use std::sync::Arc;

use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    sink::common::{Compression, Format, LayoutMode},
};
use kollect_inventory::{Document, Pass, Snapshot, Splitter, parts_digest};

use super::area;
use super::body::{Body, Encoding, File, Lines};
use super::csv::Table;
use super::error::LayoutError;
use super::held::Held;
use super::lake::SetPlace;
use super::path::{RepoPath, UnsafePath};
use super::plan::is_earlier_generation;
use super::set::SetManifest;
use super::{Header, Layout, extension, template};

/// The documents of one delivery, each with its place, and what lists them if there are several.
pub(super) fn files(
    layout: &Layout,
    header: &Header<'_>,
    rows: &Snapshot,
    held: &dyn Held,
) -> Result<Vec<File>, LayoutError> {
    if layout.format == Format::Parquet {
        return Err(LayoutError::Columnar);
    }
    if layout.format == Format::Ndjson && rows.is_empty() {
        // No rows are no lines, and a file without bytes says less than no file.
        return Ok(Vec::new());
    }
    let placed = placed(layout, header, rows, held)?;
    let encoding = encoding(layout, header);
    let manifest = set_manifest(layout, header, &placed, held)?;
    let mut files: Vec<File> = placed
        .into_iter()
        .map(|(path, document)| File {
            path,
            body: Body::of_document(document, encoding.clone()),
        })
        .collect();
    if let Some(manifest) = manifest {
        if files.iter().any(|file| file.path == manifest.path) {
            return Err(LayoutError::Collision {
                path: manifest.path,
                first: "a part".to_owned(),
                second: "the manifest of all parts".to_owned(),
            });
        }
        files.push(manifest);
    }
    Ok(files)
}

/// The documents and their places.
fn placed(
    layout: &Layout,
    header: &Header<'_>,
    rows: &Snapshot,
    held: &dyn Held,
) -> Result<Vec<(RepoPath, Document)>, LayoutError> {
    let whole = layout.plain_path(header.inventory, header.generation)?;
    let splitter = Splitter::new(rows.clone());
    let ceiling = header.documents.max_bytes;
    let at = |exported_at: Timestamp| -> Result<Vec<(RepoPath, Document)>, LayoutError> {
        let pass = Arc::new(Pass {
            generation: header.generation,
            exported_at,
            cluster: layout.cluster.clone(),
            export_id: None,
        });
        let documents = splitter.split(&pass, ceiling)?;
        let placed = documents.into_iter().map(|document| {
            let path = match document.part() {
                None => whole.to_string(),
                Some(part) => part.path(&whole),
            };
            let path = RepoPath::clean(&format!("{path}{}", layout.suffix()));
            let path = path.map_err(|fault| unsafe_document(header.inventory, fault))?;
            Ok((path, document))
        });
        placed.collect()
    };
    if layout.format == Format::Json
        && let Some((path, _)) = at(header.at)?.first()
        && let Some(earlier) = held.beginning(path)?.as_deref().and_then(exported_at)
    {
        // Nothing but the time would change: then the time does not either.
        let unchanged = at(earlier)?;
        let mut same = true;
        for (path, document) in &unchanged {
            let held = held.beginning(path)?;
            same &= held.is_some_and(|held| held.starts_with(&head(document)));
        }
        if same {
            return Ok(unchanged);
        }
    }
    at(header.at)
}

/// Everything that a document says before its rows, which includes their checksum.
fn head(document: &Document) -> Vec<u8> {
    let mut head = document.chunks(1).next().unwrap_or_default();
    let rows = b",\"items\":";
    let end = head.windows(rows.len()).position(|window| window == rows);
    head.truncate(end.unwrap_or(head.len()));
    head
}

/// The time that stands in the beginning of a file, in JSON or YAML.
pub(super) fn exported_at(file: &[u8]) -> Option<Timestamp> {
    let beginning = &file[..file.len().min(4096)];
    let text = String::from_utf8_lossy(beginning);
    let (_, rest) = text.split_once("exportedAt")?;
    let rest = rest.strip_prefix('"').unwrap_or(rest).strip_prefix(':')?;
    let (time, _) = rest.trim_start().strip_prefix('"')?.split_once('"')?;
    time.parse().ok()
}

/// What lists the parts of a document that had to be cut; nothing for a whole one.
fn set_manifest(
    layout: &Layout,
    header: &Header<'_>,
    placed: &[(RepoPath, Document)],
    held: &dyn Held,
) -> Result<Option<File>, LayoutError> {
    if placed.len() < 2 {
        return Ok(None);
    }
    let documents: Vec<Document> = placed
        .iter()
        .map(|(_, document)| document.clone())
        .collect();
    let whole = layout.plain_path(header.inventory, header.generation)?;
    let ending = template::ending(&layout.documents, extension(layout.format));
    let stem = whole.strip_suffix(ending).unwrap_or(&whole);
    let path = RepoPath::clean(&format!("{stem}.manifest.json"))
        .map_err(|fault| unsafe_document(header.inventory, fault))?;
    let manifest = |at| SetManifest {
        cluster: layout.cluster().to_owned(),
        namespace: header.inventory.namespace().to_owned(),
        name: header.inventory.name.clone(),
        generation: header.generation,
        part_total: placed.len() as u64,
        exported_at: Some(at),
        checksum: parts_digest(&documents).to_string(),
        paths: placed.iter().map(|(path, _)| path.to_string()).collect(),
    };
    let bytes = keep_time(held, &path, header.at, |at| manifest(at).to_json())?;
    Ok(Some(File {
        path,
        body: Body::of_bytes(bytes),
    }))
}

/// The bytes of a small file with the time it was written at, or with the time it has already if
/// nothing else in it changes.
pub(super) fn keep_time(
    held: &dyn Held,
    path: &RepoPath,
    now: Timestamp,
    render: impl Fn(Timestamp) -> Vec<u8>,
) -> Result<Vec<u8>, LayoutError> {
    if let Some(held) = held.read(path)?
        && let Some(earlier) = exported_at(&held)
        && render(earlier) == held
    {
        return Ok(held);
    }
    Ok(render(now))
}

impl Layout {
    /// The path of an inventory's document; commits and previews name it in every mode.
    pub fn document_path(
        &self,
        inventory: &InventoryId,
        generation: i64,
    ) -> Result<RepoPath, LayoutError> {
        if let Some(lake) = &self.lake {
            let place = SetPlace {
                cluster: self.cluster(),
                inventory,
                generation,
                at: Timestamp::now(),
            };
            return lake.part(&place, 1, 1);
        }
        let plain = self.plain_path(inventory, generation)?;
        let whole = plain.marked(self.suffix(), "");
        whole.map_err(|fault| unsafe_document(inventory, fault))
    }

    /// The same before compression adds to it.
    fn plain_path(
        &self,
        inventory: &InventoryId,
        generation: i64,
    ) -> Result<RepoPath, LayoutError> {
        let path = self.fixed(inventory, generation).document(&self.documents);
        path.map_err(|fault| unsafe_document(inventory, fault))
    }

    /// What compression adds to a name. Parquet is compressed inside.
    pub(super) fn suffix(&self) -> &'static str {
        match self.compression {
            _ if self.format == Format::Parquet => "",
            Compression::Gzip => ".gz",
            Compression::Zstd => ".zst",
            Compression::None | Compression::Snappy => "",
        }
    }

    /// The files of a delivery into a bucket, at the places of its template.
    pub fn document_files(
        &self,
        header: &Header<'_>,
        rows: &Snapshot,
        held: &dyn Held,
    ) -> Result<Vec<File>, LayoutError> {
        area::check(self, header, LayoutMode::Document)?;
        files(self, header, rows, held)
    }

    /// Whether a file of an earlier delivery that is not part of this one stays.
    pub fn keeps_document(&self, header: &Header<'_>, path: &RepoPath) -> bool {
        is_earlier_generation(self, header, path)
    }

    /// The documents of a delivery in the order of their parts, for whoever places them elsewhere.
    pub fn bodies(
        &self,
        header: &Header<'_>,
        rows: &Snapshot,
    ) -> Result<Vec<(Body, Snapshot)>, LayoutError> {
        let pass = Arc::new(Pass {
            generation: header.generation,
            exported_at: header.at,
            cluster: self.cluster.clone(),
            export_id: None,
        });
        let documents = Splitter::new(rows.clone()).split(&pass, header.documents.max_bytes)?;
        let body = |document: Document| {
            let rows = document.rows().clone();
            (Body::of_document(document, encoding(self, header)), rows)
        };
        Ok(documents.into_iter().map(body).collect())
    }
}

/// How documents of a layout become bytes.
fn encoding(layout: &Layout, header: &Header<'_>) -> Encoding {
    let lines = match layout.format {
        Format::Yaml => Lines::Yaml,
        Format::Ndjson => Lines::Ndjson,
        Format::Csv => Lines::Csv(Arc::new(Table {
            columns: layout.columns.clone(),
            cluster: layout.cluster().to_owned(),
            inventory: header.inventory.clone(),
            exported_at: header.at,
        })),
        Format::Json | Format::Parquet => Lines::Envelope,
    };
    Encoding {
        lines,
        compression: layout.compression,
    }
}

fn unsafe_document(inventory: &InventoryId, fault: UnsafePath) -> LayoutError {
    LayoutError::Path {
        what: format!("the document of {inventory}"),
        fault,
    }
}
