//! Rows as Parquet.
//!
//! Columns stand in the order of their names, rows in that of namespace and name. A row group is
//! written as soon as it is full, so that much is in memory and no more.

use std::{collections::BTreeMap, sync::Arc};

use arrow_array::{
    ArrayRef, RecordBatch,
    builder::{
        BooleanBuilder, Float64Builder, Int64Builder, ListBuilder, MapBuilder, StringBuilder,
        TimestampMicrosecondBuilder,
    },
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use jiff::Timestamp;
use kollect_api::{InventoryId, sink::common::Compression};
use kollect_inventory::{CanonicalRef, Row, Snapshot, canonical::View};
use parquet::{
    arrow::{ArrowWriter, arrow_writer::ArrowWriterOptions},
    basic::{Compression as Codec, GzipLevel, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::{KeyValue, SortingColumn},
        properties::WriterProperties,
    },
    schema::types::ColumnPath,
};
use sha2::{Digest, Sha256};

use super::types::{ColumnType, TypedColumn, boolean, float, int, text_or_json};
use crate::{
    layout::{
        body::Making,
        csv::{Column, attribute_text},
    },
    sink::{Skipped, Why},
};

/// Rows of a row group; the vectors of DuckDB fit into it without a rest.
const GROUP_ROWS: usize = 122_880;
/// Bytes in memory at which a row group ends early, however few rows it has.
const GROUP_BYTES: usize = 32 << 20;
/// Rows that are turned into columns at once.
const BATCH: usize = 2048;

/// One file to be.
#[derive(Debug, Clone)]
pub(super) struct ParquetFile {
    pub(super) columns: Arc<Vec<TableColumn>>,
    /// All rows of the inventory.
    pub(super) rows: Snapshot,
    /// Which of them, in the order of the file.
    pub(super) order: Arc<[u32]>,
    pub(super) cluster: String,
    pub(super) inventory: InventoryId,
    pub(super) checksum: String,
    pub(super) at: Timestamp,
    pub(super) compression: Compression,
}

/// A column of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TableColumn {
    /// One that every file has, or an attribute as text.
    Plain(Column),
    /// An attribute with a type.
    Typed(TypedColumn),
}

impl TableColumn {
    pub(super) fn name(&self) -> &str {
        match self {
            TableColumn::Plain(column) => column.name(),
            TableColumn::Typed(column) => &column.name,
        }
    }

    fn field(&self) -> Field {
        let (type_, optional) = match self {
            TableColumn::Plain(Column::ExportedAt) => (
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
                false,
            ),
            TableColumn::Plain(Column::Group | Column::Attribute { .. }) => (DataType::Utf8, true),
            TableColumn::Plain(_) => (DataType::Utf8, false),
            TableColumn::Typed(column) => (data_type(column.type_), true),
        };
        Field::new(self.name(), type_, optional)
    }
}

fn data_type(type_: ColumnType) -> DataType {
    let list = |element| DataType::new_list(element, true);
    match type_ {
        ColumnType::Text | ColumnType::Json => DataType::Utf8,
        ColumnType::Int => DataType::Int64,
        ColumnType::Float => DataType::Float64,
        ColumnType::Bool => DataType::Boolean,
        ColumnType::List => list(DataType::Utf8),
        ColumnType::IntList => list(DataType::Int64),
        ColumnType::FloatList => list(DataType::Float64),
        ColumnType::BoolList => list(DataType::Boolean),
        ColumnType::Map => {
            let entries = DataType::Struct(
                vec![
                    Field::new("key", DataType::Utf8, false),
                    Field::new("value", DataType::Utf8, true),
                ]
                .into(),
            );
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        }
    }
}

/// The rows of a snapshot by namespace and name.
pub(super) fn sorted(rows: &Snapshot) -> Vec<u32> {
    let all = rows.rows();
    let mut order: Vec<u32> = (0..u32::try_from(all.len()).unwrap_or(u32::MAX)).collect();
    let key = |at: &u32| {
        let row = &all[*at as usize];
        (row.origin().namespace(), row.name())
    };
    order.sort_by(|a, b| key(a).cmp(&key(b)));
    order
}

/// Values that are not of the type that their profile declares, over all rows; they are null in their
/// column and whole in `attributes`.
pub(super) fn misfits(rows: &Snapshot, columns: &[TypedColumn]) -> Option<Skipped> {
    let mut by_attribute: BTreeMap<&str, Vec<ColumnType>> = BTreeMap::new();
    for column in columns {
        by_attribute
            .entry(&column.attribute)
            .or_default()
            .push(column.type_);
    }
    let mut found: Option<Skipped> = None;
    for row in rows.rows() {
        for (name, value) in row.attributes().iter() {
            let types = by_attribute.get(&*name);
            let Some(types) = types.filter(|_| !value.is_null()) else {
                continue;
            };
            if types.iter().any(|type_| fits(*type_, value)) {
                continue;
            }
            let origin = row.origin();
            found
                .get_or_insert_with(|| Skipped {
                    rows: 0,
                    why: Why::OtherType,
                    first: format!(
                        "{}/{}/{} ({name})",
                        origin.kind(),
                        origin.namespace(),
                        row.name()
                    ),
                })
                .rows += 1;
        }
    }
    found
}

fn fits(type_: ColumnType, value: CanonicalRef<'_>) -> bool {
    let elements = |fits: fn(CanonicalRef<'_>) -> bool| match value.view() {
        View::List(mut items) => items.all(|item| item.is_null() || fits(item)),
        _ => false,
    };
    match type_ {
        ColumnType::Json => true,
        ColumnType::Text => matches!(value.view(), View::Text(_)),
        ColumnType::Int => int(value).is_some(),
        ColumnType::Float => float(value).is_some(),
        ColumnType::Bool => boolean(value).is_some(),
        ColumnType::List => matches!(value.view(), View::List(_)),
        ColumnType::IntList => elements(|item| int(item).is_some()),
        ColumnType::FloatList => elements(|item| float(item).is_some()),
        ColumnType::BoolList => elements(|item| boolean(item).is_some()),
        ColumnType::Map => matches!(value.view(), View::Object(_)),
    }
}

impl Making for ParquetFile {
    fn pieces(&self) -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
        match Pieces::new(self.clone()) {
            Ok(pieces) => Box::new(pieces),
            // Only a schema that contradicts itself fails here, and there is none.
            Err(error) => panic!("a Parquet file cannot be begun: {error}"),
        }
    }

    fn identity(&self, digest: &mut Sha256) {
        let ParquetFile {
            columns,
            cluster,
            inventory,
            compression,
            order,
            ..
        } = self;
        digest.update(format!(
            "parquet 1 {columns:?} {cluster:?} {inventory:?} {compression:?} {:?} {} ",
            order.first(),
            order.len()
        ));
        digest.update(&self.checksum);
    }
}

/// A file in the making.
struct Pieces {
    file: ParquetFile,
    schema: Arc<Schema>,
    writer: Option<ArrowWriter<Vec<u8>>>,
    next: usize,
}

impl Pieces {
    fn new(file: ParquetFile) -> Result<Self, ParquetError> {
        let fields: Vec<Field> = file.columns.iter().map(TableColumn::field).collect();
        let schema = Arc::new(Schema::new(fields));
        let options = ArrowWriterOptions::new()
            .with_properties(properties(&file))
            .with_schema_root("inventory".to_owned())
            // Readers in other languages have no use for it.
            .with_skip_arrow_metadata(true);
        let writer = ArrowWriter::try_new_with_options(Vec::new(), Arc::clone(&schema), options)?;
        Ok(Self {
            file,
            schema,
            writer: Some(writer),
            next: 0,
        })
    }

    fn batch(&self, rows: &[u32]) -> Result<RecordBatch, ParquetError> {
        let all = self.file.rows.rows();
        let columns = self.file.columns.iter().map(|column| {
            let rows = rows.iter().map(|at| &all[*at as usize]);
            match column {
                TableColumn::Plain(column) => self.file.plain(column, rows),
                TableColumn::Typed(column) => typed(column, rows),
            }
        });
        let columns: Vec<ArrayRef> = columns.collect();
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(ParquetError::from)
    }

    fn step(&mut self) -> Result<Option<Vec<u8>>, ParquetError> {
        while let Some(writer) = &mut self.writer {
            let order = Arc::clone(&self.file.order);
            let rows = &order[self.next..];
            if rows.is_empty() {
                let rest = self.writer.take().map(ArrowWriter::into_inner);
                return rest.transpose();
            }
            let rows = &rows[..rows.len().min(BATCH)];
            self.next += rows.len();
            if writer.in_progress_size() > GROUP_BYTES {
                writer.flush()?;
            }
            let batch = self.batch(rows)?;
            let Some(writer) = &mut self.writer else {
                break;
            };
            writer.write(&batch)?;
            let written = std::mem::take(writer.inner_mut());
            if !written.is_empty() {
                return Ok(Some(written));
            }
        }
        Ok(None)
    }
}

impl Iterator for Pieces {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        // Memory takes everything, and the columns are those of the schema.
        self.step().expect("columns become Parquet")
    }
}

fn properties(file: &ParquetFile) -> WriterProperties {
    let said = [
        ("kollect.cluster", file.cluster.clone()),
        ("kollect.inventory", file.inventory.to_string()),
        ("kollect.checksum", file.checksum.clone()),
        ("kollect.exportedAt", file.at.to_string()),
    ];
    let said = said.map(|(key, value)| KeyValue::new(key.to_owned(), value));
    // Leaves, not columns: a list is one, a map two.
    let leaf = |name: &str| {
        let before = file
            .columns
            .iter()
            .take_while(|column| column.name() != name);
        let leaves = before.map(|column| match column {
            TableColumn::Typed(column) if column.type_ == ColumnType::Map => 2,
            _ => 1,
        });
        leaves.sum()
    };
    let sorting = ["namespace", "name"].map(|name| SortingColumn {
        column_idx: leaf(name),
        descending: false,
        nulls_first: false,
    });
    WriterProperties::builder()
        .set_created_by(concat!("kollect ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_compression(match file.compression {
            Compression::None => Codec::UNCOMPRESSED,
            Compression::Gzip => Codec::GZIP(GzipLevel::default()),
            Compression::Snappy => Codec::SNAPPY,
            Compression::Zstd => Codec::ZSTD(ZstdLevel::default()),
        })
        .set_key_value_metadata(Some(said.to_vec()))
        .set_sorting_columns(Some(sorting.to_vec()))
        .set_column_bloom_filter_enabled(ColumnPath::from("name"), true)
        .build()
}

impl ParquetFile {
    fn plain<'r>(&self, column: &Column, rows: impl Iterator<Item = &'r Row>) -> ArrayRef {
        if *column == Column::ExportedAt {
            let mut times = TimestampMicrosecondBuilder::new().with_timezone("UTC");
            for _ in rows {
                times.append_value(self.at.as_microsecond());
            }
            return Arc::new(times.finish());
        }
        let mut texts = StringBuilder::new();
        for row in rows {
            let origin = row.origin();
            match column {
                Column::ApiVersion => texts.append_value(origin.version()),
                Column::Attribute { attribute, .. } => {
                    let value = row.attributes().get(attribute);
                    texts.append_option(value.and_then(attribute_text));
                }
                Column::Attributes => texts.append_value(row.attributes().to_json().as_str()),
                Column::Cluster => texts.append_value(&self.cluster),
                Column::Group => {
                    let group = origin.group();
                    texts.append_option((!group.is_empty()).then_some(group));
                }
                Column::InventoryName => texts.append_value(&self.inventory.name),
                Column::InventoryNamespace => texts.append_value(self.inventory.namespace()),
                Column::Kind => texts.append_value(origin.kind()),
                Column::Name => texts.append_value(row.name()),
                Column::Namespace => texts.append_value(origin.namespace()),
                Column::TargetName => texts.append_value(origin.target_name()),
                Column::TargetNamespace => texts.append_value(origin.target_namespace()),
                Column::Uid => texts.append_value(row.uid().to_string()),
                Column::ExportedAt => {}
            }
        }
        Arc::new(texts.finish())
    }
}

fn typed<'r>(column: &TypedColumn, rows: impl Iterator<Item = &'r Row>) -> ArrayRef {
    let values = rows.map(|row| {
        let value = row.attributes().get(&column.attribute);
        value.filter(|value| !value.is_null())
    });
    match column.type_ {
        ColumnType::Json => {
            let mut out = StringBuilder::new();
            for value in values {
                out.append_option(value.map(CanonicalRef::as_str));
            }
            Arc::new(out.finish())
        }
        ColumnType::Text => {
            let mut out = StringBuilder::new();
            for value in values {
                match value.map(CanonicalRef::view) {
                    Some(View::Text(text)) => out.append_value(text),
                    _ => out.append_null(),
                }
            }
            Arc::new(out.finish())
        }
        ColumnType::Int => {
            let mut out = Int64Builder::new();
            values.for_each(|value| out.append_option(value.and_then(int)));
            Arc::new(out.finish())
        }
        ColumnType::Float => {
            let mut out = Float64Builder::new();
            values.for_each(|value| out.append_option(value.and_then(float)));
            Arc::new(out.finish())
        }
        ColumnType::Bool => {
            let mut out = BooleanBuilder::new();
            values.for_each(|value| out.append_option(value.and_then(boolean)));
            Arc::new(out.finish())
        }
        ColumnType::List => {
            let mut out = ListBuilder::new(StringBuilder::new());
            for value in values {
                lists(&mut out, ColumnType::List, value, |out, item| {
                    out.append_option(item.map(text_or_json));
                });
            }
            Arc::new(out.finish())
        }
        ColumnType::IntList => {
            let mut out = ListBuilder::new(Int64Builder::new());
            for value in values {
                lists(&mut out, ColumnType::IntList, value, |out, item| {
                    out.append_option(item.and_then(int));
                });
            }
            Arc::new(out.finish())
        }
        ColumnType::FloatList => {
            let mut out = ListBuilder::new(Float64Builder::new());
            for value in values {
                lists(&mut out, ColumnType::FloatList, value, |out, item| {
                    out.append_option(item.and_then(float));
                });
            }
            Arc::new(out.finish())
        }
        ColumnType::BoolList => {
            let mut out = ListBuilder::new(BooleanBuilder::new());
            for value in values {
                lists(&mut out, ColumnType::BoolList, value, |out, item| {
                    out.append_option(item.and_then(boolean));
                });
            }
            Arc::new(out.finish())
        }
        ColumnType::Map => {
            let mut out = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
            for value in values {
                map(&mut out, value);
            }
            Arc::new(out.finish())
        }
    }
}

/// One list, or nothing where the value is none of that type.
fn lists<B: arrow_array::builder::ArrayBuilder>(
    out: &mut ListBuilder<B>,
    type_: ColumnType,
    value: Option<CanonicalRef<'_>>,
    mut append: impl FnMut(&mut B, Option<CanonicalRef<'_>>),
) {
    let value = value.filter(|value| fits(type_, *value));
    if let Some(View::List(items)) = value.map(CanonicalRef::view) {
        for item in items {
            append(out.values(), (!item.is_null()).then_some(item));
        }
        out.append(true);
    } else {
        out.append(false);
    }
}

fn map(out: &mut MapBuilder<StringBuilder, StringBuilder>, value: Option<CanonicalRef<'_>>) {
    let is_map = if let Some(View::Object(members)) = value.map(CanonicalRef::view) {
        for (key, value) in members {
            out.keys().append_value(key);
            let value = (!value.is_null()).then(|| text_or_json(value));
            out.values().append_option(value);
        }
        true
    } else {
        false
    };
    // It fails only if keys and values are not equally many.
    out.append(is_map).unwrap_or_default();
}
