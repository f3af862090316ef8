//! A directory as a destination: one document per inventory.

use std::{
    fs, io,
    io::Write as _,
    path::{Component, Path, PathBuf},
    sync::Arc,
};

use jiff::Timestamp;
use kollect_inventory::{Document, Fingerprint, Pass, Snapshot};
use kollect_sinks::InventoryId;
use serde::Deserialize;

use super::records::Format;

/// Where a document stands below the directory.
#[derive(Debug, Clone)]
pub(crate) struct Naming {
    /// Whether documents of several clusters stand side by side.
    pub(crate) per_cluster: bool,
    pub(crate) format: Format,
}

impl Naming {
    /// The path of a document.
    pub(crate) fn path(&self, cluster: &str, id: &InventoryId) -> String {
        let clusters = if self.per_cluster {
            format!("clusters/{}/", segment(cluster))
        } else {
            String::new()
        };
        format!(
            "{clusters}inventory/{}/{}{}",
            id.namespace(),
            id.name,
            self.format.extension()
        )
    }
}

/// Names of contexts may hold anything; a directory has no slashes in its name.
fn segment(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| match c {
            '/' | '\\' | ':' => '-',
            c if c.is_control() => '-',
            c => c,
        })
        .collect();
    match text.trim_matches('.') {
        "" => "default".to_owned(),
        text => text.to_owned(),
    }
}

/// A directory that documents are written into.
#[derive(Debug, Clone)]
pub(crate) struct Directory {
    root: PathBuf,
    naming: Naming,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{0:?} leads out of the output directory")]
    Outside(String),
    #[error("cannot write {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

/// What became of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    Changed,
    /// It said the same already and was not touched.
    Unchanged,
}

impl Directory {
    /// Writes below `root`, which is made when the first file is.
    pub(crate) fn new(root: impl Into<PathBuf>, naming: Naming) -> Self {
        Self {
            root: root.into(),
            naming,
        }
    }

    /// How messages name it.
    pub(crate) fn title(&self) -> String {
        self.root.display().to_string()
    }

    /// The path of a document as messages show it.
    pub(crate) fn path(&self, cluster: &str, id: &InventoryId) -> String {
        self.naming.path(cluster, id)
    }

    /// Writes the document of an inventory. When its rows are those of the document that is there
    /// already, that one stays: a run that changes nothing leaves no trace in a repository.
    pub(crate) fn write(
        &self,
        cluster: &str,
        id: &InventoryId,
        rows: Snapshot,
        at: Timestamp,
    ) -> Result<Written, WriteError> {
        let path = self.path(cluster, id);
        let target = self.place(&path)?;
        let failed = |source| WriteError::Io {
            path: target.clone(),
            source,
        };
        let text = match self.naming.format {
            Format::Yaml => yaml(&rows).map_err(failed)?,
            Format::Ndjson => ndjson(&rows),
            Format::Json | Format::Table => {
                if unchanged(&target, cluster, rows.fingerprint()) {
                    return Ok(Written::Unchanged);
                }
                let pass = Pass {
                    cluster: cluster.to_owned(),
                    ..Pass::at(at)
                };
                let document = Document::whole(Arc::new(pass), rows);
                replace(&target, document.chunks(256 * 1024)).map_err(failed)?;
                return Ok(Written::Changed);
            }
        };
        if fs::read(&target).is_ok_and(|old| old == text) {
            return Ok(Written::Unchanged);
        }
        replace(&target, std::iter::once(text)).map_err(failed)?;
        Ok(Written::Changed)
    }

    /// A path below the directory, and nowhere else.
    fn place(&self, path: &str) -> Result<PathBuf, WriteError> {
        let mut depth = 0_usize;
        for component in Path::new(path).components() {
            match component {
                Component::Normal(_) => depth += 1,
                Component::CurDir => {}
                Component::ParentDir if depth > 0 => depth -= 1,
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(WriteError::Outside(path.to_owned()));
                }
            }
        }
        Ok(self.root.join(path))
    }
}

fn yaml(rows: &Snapshot) -> io::Result<Vec<u8>> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(&rows.rows(), options);
    text.map(String::into_bytes).map_err(io::Error::other)
}

fn ndjson(rows: &Snapshot) -> Vec<u8> {
    let mut text = Vec::new();
    for row in rows.rows() {
        row.write_json(&mut text);
        text.push(b'\n');
    }
    text
}

/// Whether the file holds a document with these rows of this cluster.
fn unchanged(path: &Path, cluster: &str, rows: Fingerprint) -> bool {
    #[derive(Deserialize)]
    struct Head {
        checksum: String,
        #[serde(default)]
        cluster: String,
    }
    let Ok(content) = fs::read(path) else {
        return false;
    };
    serde_json::from_slice::<Head>(&content)
        .is_ok_and(|head| head.checksum == rows.to_string() && head.cluster == cluster)
}

/// Replaces a file in one step: a reader, or a run that is killed, never sees half of it.
fn replace(path: &Path, chunks: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&temporary)?;
        for chunk in chunks {
            file.write_all(&chunk)?;
        }
        file.sync_all()?;
        fs::rename(&temporary, path)
    })();
    if written.is_err() {
        // Nothing more can be done about it.
        let _ = fs::remove_file(&temporary);
    }
    written
}
