//! A directory as a destination: one document per inventory, laid out like a Git sink does.

use std::{
    fs, io,
    io::{BufReader, Read, Write as _},
    path::{Path, PathBuf},
};

use kollect_api::{
    InventoryId,
    sink::{
        KollectSnapshotSinkSpec, SinkCommon,
        common::{self, LayoutMode, Serialization},
        snapshot::SnapshotSinkType,
    },
};
use kollect_inventory::Snapshot;
use kollect_sinks::{
    DocumentOptions, SinkError,
    layout::{self, Header, Held, Layout, LayoutError, RepoPath, render},
};

use crate::{interrupt, render::Format};

/// Documents of several clusters stand side by side.
const PER_CLUSTER: &str = "clusters/{cluster}/inventory/{namespace}/{name}{extension}";
/// In a directory that is called `inventory` itself nothing more needs to say so.
const BARE: &str = "{namespace}/{name}{extension}";
const BARE_PER_CLUSTER: &str = "clusters/{cluster}/{namespace}/{name}{extension}";

/// Where documents stand below the directory, and how they are written.
#[derive(Debug, Clone)]
pub(crate) struct Naming {
    layout: Layout,
    /// A format that no sink has, so that the files are written here.
    own: Option<Format>,
    cluster: String,
}

impl Naming {
    /// The layout for the documents of one cluster.
    pub(crate) fn new(
        cluster: &str,
        format: Format,
        per_cluster: bool,
        bare: bool,
    ) -> Result<Self, LayoutError> {
        let (own, format) = match format {
            Format::Yaml => (None, common::Format::Yaml),
            Format::Ndjson => (None, common::Format::Ndjson),
            Format::Json => (None, common::Format::Json),
            Format::Csv | Format::Table | Format::Wide | Format::Markdown => {
                (Some(format), common::Format::Json)
            }
        };
        let template = match (per_cluster, bare) {
            (false, false) => None,
            (false, true) => Some(BARE),
            (true, false) => Some(PER_CLUSTER),
            (true, true) => Some(BARE_PER_CLUSTER),
        };
        let spec = KollectSnapshotSinkSpec {
            type_: SnapshotSinkType::Git,
            common: SinkCommon {
                cluster: Some(cluster.to_owned()),
                path_template: template.map(str::to_owned),
                serialization: Some(Serialization {
                    format: Some(format),
                    compression: None,
                }),
                layout: Some(common::Layout {
                    mode: Some(LayoutMode::Document),
                    ..common::Layout::default()
                }),
                ..SinkCommon::default()
            },
            git: None,
            gitlab: None,
            object_store: None,
            azure_blob: None,
            http: None,
        };
        let layout = Layout::of_snapshot(&spec)?;
        Ok(Self {
            layout,
            own,
            cluster: cluster.to_owned(),
        })
    }

    /// The files of some rows. Of what is held already only the time is looked at.
    pub(crate) fn render<'a>(
        &'a self,
        id: &'a InventoryId,
        rows: &'a Snapshot,
        at: jiff::Timestamp,
        documents: &'a DocumentOptions,
        held: &dyn Held,
    ) -> Result<layout::Rendering<'a>, LayoutError> {
        let header = Header {
            inventory: id,
            generation: 0,
            at,
            documents,
        };
        render::render_all(&self.layout, &header, rows, held)
    }

    /// The path of a document.
    pub(crate) fn path(&self, id: &InventoryId) -> Result<String, LayoutError> {
        let path = self.layout.document_path(id, 0)?;
        Ok(match self.own {
            None => path.as_str().to_owned(),
            Some(format) => {
                let stem = path.as_str().strip_suffix(".json");
                format!("{}.{}", stem.unwrap_or(path.as_str()), format.extension())
            }
        })
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
    /// The document has no place.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// Somebody pressed Ctrl-C.
    #[error(transparent)]
    Interrupted(#[from] interrupt::Interrupted),
    /// The file system refuses.
    #[error("cannot write {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What it says.
        source: io::Error,
    },
}

/// What became of a document.
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
    pub(crate) fn path(&self, id: &InventoryId) -> Result<String, LayoutError> {
        self.naming.path(id)
    }

    /// Writes the document of an inventory, or says whether it would be written. When its rows are those of the document that is there
    /// already, that one stays: a run that changes nothing leaves no trace in a repository.
    pub(crate) fn write(
        &self,
        id: &InventoryId,
        rows: &Snapshot,
        at: jiff::Timestamp,
        documents: &DocumentOptions,
        dry_run: bool,
    ) -> Result<Written, WriteError> {
        let rendering = self.naming.render(id, rows, at, documents, self)?;
        let mut written = Written::Unchanged;
        let document = self.naming.layout.document_path(id, 0)?;
        let mut has_document = false;
        for file in rendering.files() {
            let layout::File { path, body } = file?;
            has_document |= path == document;
            let target = self.place(&path);
            interrupt::check()?;
            if !says(&target, body.pieces()) {
                written = Written::Changed;
                if !dry_run {
                    replace_at(&target, body.pieces())?;
                }
            }
        }
        // Some formats have no file for no rows; then what was there holds rows that are gone.
        if !has_document {
            let stale = self.place(&document);
            if dry_run {
                let there = stale.exists();
                return Ok(if there { Written::Changed } else { written });
            }
            match fs::remove_file(&stale) {
                Ok(()) => written = Written::Changed,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(source) => {
                    return Err(WriteError::Io {
                        path: stale,
                        source,
                    });
                }
            }
        }
        Ok(written)
    }

    /// The cluster that the documents are about.
    pub(crate) fn cluster(&self) -> &str {
        &self.naming.cluster
    }

    /// Whether documents are written here and not by the layout of a sink.
    pub(crate) fn own_format(&self) -> Option<Format> {
        self.naming.own
    }

    /// Writes a text as the document of an inventory.
    pub(crate) fn write_text(
        &self,
        id: &InventoryId,
        text: Vec<u8>,
        dry_run: bool,
    ) -> Result<Written, WriteError> {
        write_text(&self.root.join(self.path(id)?), text, dry_run)
    }

    /// A path below the directory. It cannot lead out: that is what makes it a [`RepoPath`].
    fn place(&self, path: &RepoPath) -> PathBuf {
        self.root.join(path.as_str())
    }
}

/// Writes a file, unless it says the same already.
pub(crate) fn write_text(path: &Path, text: Vec<u8>, dry_run: bool) -> Result<Written, WriteError> {
    if says(path, std::iter::once(text.clone())) {
        return Ok(Written::Unchanged);
    }
    if !dry_run {
        interrupt::check()?;
        replace_at(path, std::iter::once(text))?;
    }
    Ok(Written::Changed)
}

fn replace_at(path: &Path, pieces: impl Iterator<Item = Vec<u8>>) -> Result<(), WriteError> {
    replace(path, pieces).map_err(|source| WriteError::Io {
        path: path.to_owned(),
        source,
    })
}

/// The layout looks at what is there only to keep the time of a document that says the same.
impl Held for Directory {
    fn read(&self, path: &RepoPath) -> Result<Option<Vec<u8>>, SinkError> {
        Ok(fs::read(self.place(path)).ok())
    }

    fn contains(&self, path: &RepoPath) -> Result<bool, SinkError> {
        Ok(self.place(path).is_file())
    }

    fn is_directory(&self, directory: &str) -> Result<bool, SinkError> {
        Ok(self.root.join(directory).is_dir())
    }

    fn below(&self, directory: &str) -> Result<Vec<RepoPath>, SinkError> {
        let mut found = Vec::new();
        let mut open = vec![directory.to_owned()];
        while let Some(directory) = open.pop() {
            let Ok(entries) = fs::read_dir(self.root.join(&directory)) else {
                continue;
            };
            for entry in entries.flatten() {
                let path = format!("{directory}/{}", entry.file_name().to_string_lossy());
                if entry.path().is_dir() {
                    open.push(path);
                } else if let Ok(path) = RepoPath::clean(&path) {
                    found.push(path);
                }
            }
        }
        Ok(found)
    }
}

/// Whether a file holds exactly this.
fn says(path: &Path, pieces: impl Iterator<Item = Vec<u8>>) -> bool {
    let Ok(file) = fs::File::open(path) else {
        return false;
    };
    let mut file = BufReader::new(file);
    let mut held = Vec::new();
    for piece in pieces {
        held.resize(piece.len(), 0);
        if file.read_exact(&mut held).is_err() || held != piece {
            return false;
        }
    }
    matches!(file.read(&mut [0]), Ok(0))
}

/// Replaces a file in one step: a reader, or a run that is killed, never sees half of it.
fn replace(path: &Path, pieces: impl Iterator<Item = Vec<u8>>) -> io::Result<()> {
    let directory = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let temporary = directory.join(format!(".{name}.{}", std::process::id()));
    let written = (|| {
        let mut file = fs::File::create(&temporary)?;
        for piece in pieces {
            file.write_all(&piece)?;
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

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, Interner, OriginParts, TargetKind};

    use super::*;

    fn rows(count: usize) -> Snapshot {
        let mut interner = Interner::new();
        let mut buffer = AttributesBuffer::default();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "web",
            namespace: "team-a",
            group: "",
            version: "v1",
            kind: "Pod",
        });
        let row = |number: usize| {
            buffer.start().attribute("a").signed(1);
            let name = format!("pod-{number}");
            interner.row(&origin, &name, &name, buffer.view())
        };
        (0..count).map(row).collect()
    }

    #[test]
    fn what_says_the_same_is_not_touched_in_any_format() {
        let place = tempfile::tempdir().unwrap();
        let id = InventoryId::namespaced("team-a", "web");
        for (format, extension) in [
            (Format::Yaml, "yaml"),
            (Format::Json, "json"),
            (Format::Ndjson, "ndjson"),
        ] {
            let naming = Naming::new("prod/eu:1", format, true, false).unwrap();
            let directory = Directory::new(place.path(), naming);
            let path = directory.path(&id).unwrap();
            assert!(
                path.ends_with(&format!("/inventory/team-a/web.{extension}")),
                "{path}"
            );
            let path = place.path().join(path);
            let write = |count, seconds| {
                let at = jiff::Timestamp::from_second(seconds).unwrap();
                let documents = DocumentOptions::default();
                let dry = directory.write(&id, &rows(count), at, &documents, true);
                let done = directory.write(&id, &rows(count), at, &documents, false);
                assert_eq!(
                    dry.unwrap(),
                    *done.as_ref().unwrap(),
                    "E10: a dry run tells"
                );
                done.unwrap()
            };
            assert_eq!(write(2, 1), Written::Changed, "{extension}");
            let content = fs::read_to_string(&path).unwrap();
            assert!(content.contains("pod-1"), "{content}");
            assert_eq!(write(2, 2), Written::Unchanged, "{extension}");
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
            // Rows that are gone must not stay, whether a format has a file for nothing or not.
            assert_eq!(write(0, 3), Written::Changed, "{extension}");
            let left = fs::read_to_string(&path).unwrap_or_default();
            assert!(!left.contains("pod-"), "{left}");
            assert_eq!(write(0, 4), Written::Unchanged, "{extension}");
        }
    }

    #[test]
    fn no_name_leads_out_of_the_directory() {
        let naming = Naming::new("..", Format::Yaml, false, false).unwrap();
        let directory = Directory::new("out", naming);
        for (namespace, name) in [("..", ".."), ("/etc", "passwd"), ("a", "../../../x")] {
            let id = InventoryId::namespaced(namespace, name);
            if let Ok(path) = directory.path(&id) {
                let safe = !path.starts_with('/') && path.split('/').all(|part| part != "..");
                assert!(safe, "{path}");
            }
        }
    }
}
