//! From a delivery to files and the steps around them.

use std::{collections::BTreeSet, sync::Arc};

use kollect_api::sink::{
    common::{Compression, Format},
    snapshot::ColumnMode,
};
use kollect_inventory::Snapshot;

use super::{
    latest::{Latest, Listed},
    parquet::{ParquetFile, TableColumn, misfits, sorted},
    types::{TypedColumn, TypedColumns},
    view::View,
};
use crate::{
    error::SinkError,
    layout::{
        Body, FileOwner, Header, Held, Lake, Layout, LayoutError, RepoPath,
        csv::identity_columns,
        lake::{SetPlace, is_history},
        steps::{Steps, plan_steps},
    },
    sink::{Delivery, Skipped},
};

/// About how large a file of columns may be.
const LARGEST_FILE: u64 = 256 << 20;
/// How much smaller compressed columns are than the same rows as JSON, at the least.
const SHRINKS: u64 = 4;

/// What a delivery comes to, before anything is written.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) steps: Steps,
    pub(super) files: Vec<DraftFile>,
    /// The manifest of the set, where there is one.
    pub(super) latest: Option<DraftLatest>,
    pub(super) misfits: Option<Skipped>,
    pub(super) retyped: Vec<(String, String)>,
}

/// A file to be.
#[derive(Debug, Clone)]
pub(super) struct DraftFile {
    pub(super) path: RepoPath,
    pub(super) body: Body,
    /// What it holds, whenever it is written.
    pub(super) identity: String,
    pub(super) rows: u64,
}

/// What is listed of a file before it is written.
#[derive(Debug, Clone)]
pub(super) enum Earlier {
    /// There is no manifest to list it.
    Unlisted,
    /// The manifest does not know it.
    Unknown,
    /// This.
    Listed(Listed),
}

/// A manifest to be, and the one that is there.
#[derive(Debug)]
pub(super) struct DraftLatest {
    pub(super) path: RepoPath,
    before: Option<Latest>,
    next: Latest,
}

impl DraftLatest {
    /// What the manifest that is there says of a file.
    pub(super) fn earlier(&self, file: &DraftFile) -> Earlier {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let before = self.before.as_ref();
        match before.and_then(|before| before.file(name)) {
            Some(entry) => Earlier::Listed(entry.clone()),
            None => Earlier::Unknown,
        }
    }

    /// The text of the next manifest, unless the one that is there says the same.
    pub(super) fn text(mut self, files: Vec<Listed>) -> Option<Vec<u8>> {
        self.next.rows = files.iter().map(|file| file.rows).sum();
        self.next.files = files;
        let same = self.before.is_some_and(|before| before.agrees(&self.next));
        (!same).then(|| self.next.to_json())
    }
}

/// The columns of a set of Parquet files.
struct Table {
    columns: Vec<TableColumn>,
    typed: TypedColumns,
}

impl Draft {
    pub(super) fn new(
        layout: &Layout,
        owner: &FileOwner,
        delivery: &Delivery,
        rows: &Snapshot,
        view: &View<'_>,
    ) -> Result<Self, SinkError> {
        let header = Header::of(delivery);
        match layout.lake() {
            None => Self::of_documents(layout, owner, &header, rows, view),
            Some(lake) => Self::of_set(layout, lake, owner, &header, rows, view),
        }
    }

    fn of_documents(
        layout: &Layout,
        owner: &FileOwner,
        header: &Header<'_>,
        rows: &Snapshot,
        view: &View<'_>,
    ) -> Result<Self, SinkError> {
        let files = layout.document_files(header, rows, view)?;
        let total = rows.len() as u64;
        let files: Vec<DraftFile> = files
            .into_iter()
            .map(|file| DraftFile::new(file.path, file.body, total))
            .collect();
        let kept = |path: &RepoPath| layout.keeps_document(header, path) || is_history(path);
        Ok(Self {
            steps: plan_steps(owner, &paths(&files), &kept, view)?,
            files,
            latest: None,
            misfits: None,
            retyped: Vec::new(),
        })
    }

    fn of_set(
        layout: &Layout,
        lake: &Lake,
        owner: &FileOwner,
        header: &Header<'_>,
        rows: &Snapshot,
        view: &View<'_>,
    ) -> Result<Self, SinkError> {
        let place = SetPlace {
            cluster: layout.cluster(),
            inventory: header.inventory,
            generation: header.generation,
            at: header.at,
        };
        let manifest = lake.manifest(&place)?;
        let before = view.read(&manifest)?.as_deref().and_then(Latest::read);
        let checksum = rows.fingerprint().to_string();
        let mut next = Latest::new(
            layout.cluster(),
            header.inventory,
            header.generation,
            header.at,
            checksum.clone(),
        );
        let (bodies, table) = if layout.format() == Format::Parquet {
            let known = before.as_ref().map_or(&[][..], |before| &before.columns);
            let table = Table::new(layout, header, known);
            let bodies = columns(layout, header, rows, &table, &checksum, before.as_ref());
            (bodies, Some(table))
        } else {
            (documents(layout, header, rows)?, None)
        };
        let total = bodies.len();
        let mut files = Vec::with_capacity(total);
        for (at, (body, rows)) in bodies.into_iter().enumerate() {
            let path = lake.part(&place, at + 1, total)?;
            files.push(DraftFile::new(path, body, rows));
        }
        let mut all = paths(&files);
        all.insert(manifest.clone());
        let kept = |path: &RepoPath| lake.keeps(path, &place);
        let steps = plan_steps(owner, &all, &kept, view)?;
        let typed = table.map(|table| table.typed).unwrap_or_default();
        next.columns.clone_from(&typed.all);
        Ok(Self {
            steps,
            files,
            latest: Some(DraftLatest {
                path: manifest,
                before,
                next,
            }),
            misfits: misfits(rows, &typed.all),
            retyped: typed.retyped,
        })
    }
}

impl DraftFile {
    fn new(path: RepoPath, body: Body, rows: u64) -> Self {
        Self {
            path,
            identity: body.identity(),
            body,
            rows,
        }
    }
}

impl Table {
    fn new(layout: &Layout, header: &Header<'_>, known: &[TypedColumn]) -> Self {
        if layout.column_mode() == ColumnMode::Hot {
            let plain = layout.columns().iter().cloned();
            return Self {
                columns: plain.map(TableColumn::Plain).collect(),
                typed: TypedColumns::default(),
            };
        }
        let typed = TypedColumns::new(&header.documents.types, known);
        let plain = identity_columns().into_iter().map(TableColumn::Plain);
        let mut columns: Vec<TableColumn> = plain
            .chain(typed.all.iter().cloned().map(TableColumn::Typed))
            .collect();
        columns.sort_by(|a, b| a.name().cmp(b.name()));
        Self { columns, typed }
    }
}

/// Files of columns, each with its number of rows.
fn columns(
    layout: &Layout,
    header: &Header<'_>,
    rows: &Snapshot,
    table: &Table,
    checksum: &str,
    before: Option<&Latest>,
) -> Vec<(Body, u64)> {
    let expected = match before.filter(|before| before.rows > 0) {
        // What the rows took the last time.
        Some(before) => {
            let (bytes, rows_before) = (u128::from(size(before)), u128::from(before.rows));
            let bytes = bytes * rows.len() as u128 / rows_before;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        }
        None => match layout.compression() {
            Compression::None => rows.items_len(),
            _ => rows.items_len() / SHRINKS,
        },
    };
    let files = file_count(expected, before.map_or(1, |before| before.files.len()));
    let order = sorted(rows);
    let share = order.len().div_ceil(files).max(1);
    let columns = Arc::new(table.columns.clone());
    let mut parts: Vec<&[u32]> = order.chunks(share).collect();
    if parts.is_empty() {
        // No rows are a file with columns.
        parts.push(&[]);
    }
    parts
        .into_iter()
        .map(|part| {
            let file = ParquetFile {
                columns: Arc::clone(&columns),
                rows: rows.clone(),
                order: part.into(),
                cluster: layout.cluster().to_owned(),
                inventory: header.inventory.clone(),
                checksum: checksum.to_owned(),
                at: header.at,
                compression: layout.compression(),
            };
            (Body::made(file), part.len() as u64)
        })
        .collect()
}

/// Bytes of all files of a set.
fn size(set: &Latest) -> u64 {
    let sizes = set.files.iter().map(|file| file.bytes);
    sizes.fold(0, u64::saturating_add)
}

/// Among how many files so many bytes are shared out. Where there were more before, and they are not
/// small, it stays at that: what is near the border would otherwise be cut anew with every change.
fn file_count(bytes: u64, before: usize) -> usize {
    let needed = usize::try_from(bytes.div_ceil(LARGEST_FILE)).unwrap_or(usize::MAX);
    let needed = needed.max(1);
    let share = bytes / u64::try_from(before.max(1)).unwrap_or(u64::MAX);
    if before > needed && share > LARGEST_FILE / 4 {
        before
    } else {
        needed
    }
}

/// Files of rows, each with its number of rows.
fn documents(
    layout: &Layout,
    header: &Header<'_>,
    rows: &Snapshot,
) -> Result<Vec<(Body, u64)>, LayoutError> {
    let bodies = layout.bodies(header, rows)?;
    let counted = bodies
        .into_iter()
        .map(|(body, rows)| (body, rows.len() as u64));
    Ok(counted.collect())
}

fn paths(files: &[DraftFile]) -> BTreeSet<RepoPath> {
    files.iter().map(|file| file.path.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l2_files_are_cut_by_their_size() {
        const MIB: u64 = 1 << 20;
        for (bytes, before, expected) in [
            (0, 0, 1),
            (1, 1, 1),
            (256 * MIB, 1, 1),
            (257 * MIB, 1, 2),
            (1024 * MIB, 1, 4),
            // Near the border nothing moves.
            (250 * MIB, 2, 2),
            // What is far from it does.
            (100 * MIB, 2, 1),
            (700 * MIB, 4, 4),
            (200 * MIB, 4, 1),
            (2000 * MIB, 4, 8),
        ] {
            assert_eq!(file_count(bytes, before), expected, "{bytes} {before}");
        }
    }
}
