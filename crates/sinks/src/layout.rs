//! Rows as files: formats, paths, indexes.
//!
//! Snapshot sinks hold an inventory as files, in a repository or a bucket. This module decides
//! which files there are and what is in them; it is pure and looks at what is there already only
//! through [`Held`].
//!
//! ```text
//! spec ─> Layout ─┬─> render ─> files of all rows ────────┬─> plan ─> writes, removals
//!                 └─> Places + Delta ─> files that change ┘     ^
//!                                             what is there: Held, ownership
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`path`], [`segment`], `template` | safe paths, names in them, templates |
//! | `yaml`, `scalar`, `json`, [`csv`] | one text per value |
//! | [`manifest`], `content` | rows that carry their object; what one file holds |
//! | [`body`] | bytes, a piece at a time, compressed if asked for |
//! | `document`, `index`, [`set`] | files that hold or list all rows |
//! | [`places`] | which row stands where; who gives way |
//! | [`render`] | files of all rows, files of a change |
//! | [`owner`], [`ownership`], `area`, [`plan`] | whose files these are, and whose place; what to write and what to remove |
//! | [`lake`], [`steps`] | places that query engines read; files that cannot change all at once |
//! | [`preview`] | what a layout would look like |

mod area;
pub mod body;
mod content;
pub mod csv;
mod document;
mod error;
mod held;
mod index;
mod json;
pub mod lake;
mod leftovers;
pub mod manifest;
pub mod owner;
pub mod ownership;
pub mod path;
mod pattern;
pub mod places;
pub mod plan;
pub mod preview;
pub mod render;
mod scalar;
pub mod segment;
pub mod set;
pub mod steps;
mod template;
mod yaml;

use jiff::Timestamp;
use kollect_api::{
    InventoryId, effective,
    rules::template::{Placeholder, Template},
    sink::{
        KollectSnapshotSinkSpec, SinkSpec, SinkType,
        common::{Compression, Format, LayoutContent, LayoutMode},
        snapshot::ColumnMode,
    },
};
use kollect_inventory::Snapshot;

pub use body::{Body, File};
pub use csv::Column;
pub use error::LayoutError;
pub use held::{Held, Nothing};
pub use lake::Lake;
pub use manifest::Embedding;
pub use owner::FileOwner;
pub use path::RepoPath;
pub use places::Places;
pub use plan::{Plan, plan_changes, plan_everything, plan_release};
pub use render::{Changes, Rendering};

use crate::sink::{Delivery, DocumentOptions};
use content::Content;
use path::LONGEST_PATH;
use places::Rule;
use template::{Fixed, Naming};

/// Paths of documents and indexes.
const DOCUMENT_TEMPLATE: &str = "inventory/{namespace}/{name}{extension}";
/// Paths of rows.
const ROW_TEMPLATE: &str = "{cluster}/{sourceNamespace}/{kind}/{sourceName}{extension}";
/// The cluster's name where none is given.
const DEFAULT_CLUSTER: &str = "default";

/// How one sink turns rows into files: format, templates, mode and content, decided once.
#[derive(Debug, Clone, PartialEq)]
pub struct Layout {
    sink_type: SinkType,
    format: Format,
    compression: Compression,
    /// As it is given; may be empty.
    cluster: String,
    mode: Option<LayoutMode>,
    content: Option<LayoutContent>,
    documents: Template,
    rows: Template,
    index: Template,
    index_enabled: Option<bool>,
    naming: Naming,
    prune: bool,
    columns: Vec<Column>,
    lake: Option<Lake>,
    column_mode: ColumnMode,
}

/// What one delivery says about itself.
#[derive(Debug, Clone, Copy)]
pub struct Header<'a> {
    /// The inventory.
    pub inventory: &'a InventoryId,
    /// `metadata.generation` of the inventory.
    pub generation: i64,
    /// When the delivery began.
    pub at: Timestamp,
    /// How rows become documents.
    pub documents: &'a DocumentOptions,
}

impl<'a> Header<'a> {
    /// The header of a delivery.
    pub fn of(delivery: &'a Delivery) -> Self {
        Header {
            inventory: &delivery.inventory,
            generation: delivery.generation,
            at: delivery.at,
            documents: &delivery.documents,
        }
    }
}

impl Layout {
    /// Reads the layout of a sink.
    pub fn new(spec: &SinkSpec) -> Result<Self, LayoutError> {
        match spec {
            SinkSpec::Snapshot(spec) => Self::of_snapshot(spec),
            SinkSpec::Database(_) | SinkSpec::Event(_) => Err(LayoutError::NotFiles),
        }
    }

    /// Reads the layout of a snapshot sink.
    pub fn of_snapshot(spec: &KollectSnapshotSinkSpec) -> Result<Self, LayoutError> {
        let common = &spec.common;
        let sink_type = SinkType::from(spec.type_);
        let store = spec.object_store.as_ref();
        let format = effective::format(sink_type, common, store);
        // In buckets there are documents only.
        let layout = common.layout.as_ref().filter(|_| sink_type.is_git());
        let index = layout.and_then(|layout| layout.index.as_ref());
        let documents = |field, text: Option<&String>| {
            read(field, text, DOCUMENT_TEMPLATE, Template::of_documents)
        };
        let compression = effective::compression(sink_type, common, format);
        let mut resolved = Layout {
            sink_type,
            format,
            compression,
            cluster: common
                .cluster
                .as_deref()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            mode: layout.and_then(|layout| layout.mode),
            content: layout.and_then(|layout| layout.content),
            documents: documents("spec.pathTemplate", common.path_template.as_ref())?,
            rows: read(
                "spec.layout.pathTemplate",
                layout.and_then(|layout| layout.path_template.as_ref()),
                ROW_TEMPLATE,
                Template::of_rows,
            )?,
            index: documents(
                "spec.layout.index.pathTemplate",
                index.and_then(|index| index.path_template.as_ref()),
            )?,
            index_enabled: index.and_then(|index| index.enabled),
            naming: Naming::new(layout.and_then(|layout| layout.filename.as_ref())),
            prune: spec.git.as_ref().and_then(|git| git.prune).unwrap_or(false),
            columns: csv::columns(store.map_or(&[][..], |store| &store.hot_attributes))?,
            lake: None,
            column_mode: effective::columns(store),
        };
        let partitioning = effective::partitioning(sink_type, common, store);
        resolved.lake = partitioning.map(|partitioning| Lake {
            partitioning,
            keep_days: store
                .and_then(|store| store.keep_days)
                .and_then(|days| u32::try_from(days).ok()),
            extension: format!("{}{}", extension(format), resolved.suffix()),
        });
        Ok(resolved)
    }

    /// Where sets of files stand in a bucket, if a template does not say.
    pub fn lake(&self) -> Option<&Lake> {
        self.lake.as_ref()
    }

    /// Which attributes are columns.
    pub fn column_mode(&self) -> ColumnMode {
        self.column_mode
    }

    /// Whether the path of documents says the generation, so that there is one per generation.
    pub fn keeps_generations(&self) -> bool {
        self.documents.contains(Placeholder::Generation)
    }

    /// The format of all files.
    pub fn format(&self) -> Format {
        self.format
    }

    /// What the format calls itself where a backend wants to know.
    pub fn content_type(&self) -> &'static str {
        body::content_type(self.format)
    }

    /// The compression of documents.
    pub fn compression(&self) -> Compression {
        self.compression
    }

    /// The columns of formats that have them.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The cluster's name as files show it.
    pub fn cluster(&self) -> &str {
        match &*self.cluster {
            "" => DEFAULT_CLUSTER,
            cluster => cluster,
        }
    }

    /// The mode. Without one the profiles decide: as soon as one of them puts whole objects into its
    /// rows, the inventory is a tree. Rows are only looked at where the profiles are not known.
    pub fn mode(&self, embedding: &Embedding, rows: &Snapshot) -> LayoutMode {
        match self.mode {
            Some(mode) => mode,
            None if self.sink_type.is_git() && embedding.is_everywhere(rows) => {
                LayoutMode::PerResource
            }
            None => LayoutMode::Document,
        }
    }

    /// Whether this layout can only be written from all rows. A tree without an index can be
    /// written from changes: one changed row is one changed file.
    ///
    /// An index cannot, because it carries the checksum of all rows; nor can a document, nor rows
    /// whose paths carry a generation, nor a layout that looks at the rows to find its mode.
    pub fn needs_everything(&self) -> bool {
        match self.mode {
            None | Some(LayoutMode::Document) => true,
            Some(mode) => self.has_index(mode) || self.rows.contains(Placeholder::Generation),
        }
    }

    /// Whether files of an earlier export that are no longer produced are removed, whatever they
    /// are. Otherwise documents of earlier generations stay, if their path says the generation.
    pub fn prunes(&self, mode: LayoutMode) -> bool {
        mode != LayoutMode::Document || self.prune
    }

    fn has_index(&self, mode: LayoutMode) -> bool {
        match mode {
            LayoutMode::Document => false,
            LayoutMode::PerResource => self.index_enabled.unwrap_or(false),
            LayoutMode::Split => self.index_enabled.unwrap_or(true),
        }
    }

    fn fixed<'a>(&'a self, inventory: &'a InventoryId, generation: i64) -> Fixed<'a> {
        Fixed {
            cluster: self.cluster(),
            inventory,
            generation,
            extension: extension(self.format),
            naming: self.naming,
        }
    }

    fn rule<'a>(&'a self, header: &Header<'a>) -> Rule<'a> {
        Rule {
            fixed: self.fixed(header.inventory, header.generation),
            template: &self.rows,
            ending: template::ending(&self.rows, extension(self.format)),
            content: Content {
                asked: self.content,
                format: self.format,
                embedding: &header.documents.embedding,
            },
        }
    }
}

/// A template as it is set, or the default.
fn read(
    field: &'static str,
    text: Option<&String>,
    default: &str,
    parse: fn(&str) -> Result<Template, String>,
) -> Result<Template, LayoutError> {
    if text.is_some_and(|text| text.len() > LONGEST_PATH) {
        let detail = format!("is longer than {LONGEST_PATH} characters");
        return Err(LayoutError::Template { field, detail });
    }
    let template = text
        .map_or(Ok(Template::default()), |text| parse(text))
        .map_err(|detail| LayoutError::Template { field, detail })?;
    if !template.is_empty() {
        return Ok(template);
    }
    parse(default).map_err(|detail| LayoutError::Template { field, detail })
}

/// What paths of a format end in.
fn extension(format: Format) -> &'static str {
    match format {
        Format::Json => ".json",
        Format::Yaml => ".yaml",
        Format::Ndjson => ".ndjson",
        Format::Csv => ".csv",
        Format::Parquet => ".parquet",
    }
}
