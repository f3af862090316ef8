//! Which value is in force when several places may set it.

use std::{num::NonZeroU64, time::Duration as StdDuration};

use crate::{
    duration::Duration,
    inventory::{KollectClusterInventorySpec, KollectInventorySpec},
    meta,
    reference::{SinkFamily, SinkRef},
    scope::Ceiling,
    sink::{
        SinkCommon, SinkType,
        common::{Compression, Format, ProvisioningMode},
        snapshot::{ColumnMode, ObjectStore, ObjectStoreFormat, Partitioning},
    },
};

/// The interval when nobody sets one; also the schema default of inventories.
pub const DEFAULT_INTERVAL: StdDuration = StdDuration::from_secs(30);

/// The upper limit of every `maxExportBytes` when the operator is given no other.
pub const DEFAULT_MAX_EXPORT_BYTES: i64 = 1_572_864;

/// The interval of one reference: the first that is set of reference, sink and inventory, but
/// never below the floor of the scopes. A malformed text counts as not set; validation reports it.
///
/// Event sinks repeat nothing unless their reference or they themselves ask for it: what an
/// inventory says is meant for sinks that hold a state.
pub fn interval(
    family: SinkFamily,
    reference: Option<&Duration>,
    sink: Option<&Duration>,
    inventory: Option<&Duration>,
    floor: StdDuration,
) -> StdDuration {
    let set = |text: Option<&Duration>| text.and_then(|text| text.get().ok());
    let own = set(reference).or_else(|| set(sink));
    let otherwise = || match family {
        SinkFamily::Event => StdDuration::ZERO,
        SinkFamily::Snapshot | SinkFamily::Database => set(inventory).unwrap_or(DEFAULT_INTERVAL),
    };
    own.unwrap_or_else(otherwise).max(floor)
}

/// The least time between two exports of changed rows for one reference: the first that is set of
/// reference, sink and inventory, else none at all.
pub fn change_interval(
    reference: Option<&Duration>,
    sink: Option<&Duration>,
    inventory: Option<&Duration>,
) -> StdDuration {
    [reference, sink, inventory]
        .into_iter()
        .flatten()
        .find_map(|text| text.get().ok())
        .unwrap_or_default()
}

/// The floor that a set of scopes puts under intervals: the largest of theirs, or zero.
pub fn floor<'s>(ceilings: impl IntoIterator<Item = Ceiling<'s>>) -> StdDuration {
    ceilings
        .into_iter()
        .filter_map(|ceiling| ceiling.min_export_interval?.get().ok())
        .max()
        .unwrap_or_default()
}

/// The size above which the documents for one reference are split: its own, else the inventory's,
/// else the operator's. What is not positive counts as not given. Nothing means that documents are
/// never split: no size is assumed that nobody asked for.
pub fn max_export_bytes(
    reference: Option<i64>,
    inventory: Option<i64>,
    operator: Option<i64>,
) -> Option<NonZeroU64> {
    [reference, inventory, operator]
        .into_iter()
        .flatten()
        .find_map(|bytes| u64::try_from(bytes).ok().and_then(NonZeroU64::new))
}

/// The format of documents.
pub fn format(type_: SinkType, common: &SinkCommon, object_store: Option<&ObjectStore>) -> Format {
    common
        .serialization
        .as_ref()
        .and_then(|serialization| serialization.format)
        .or_else(|| {
            object_store?.format.map(|format| match format {
                ObjectStoreFormat::Json => Format::Json,
                ObjectStoreFormat::Parquet => Format::Parquet,
            })
        })
        .unwrap_or(type_.formats()[0])
}

/// The compression of what is written. Text in object stores is compressed as a whole, Parquet
/// inside, batches of Kafka too; in Git, which compresses by itself, and elsewhere nothing is.
pub fn compression(type_: SinkType, common: &SinkCommon, format: Format) -> Compression {
    let asked = asked_compression(common);
    let silent = common
        .serialization
        .as_ref()
        .is_none_or(|serialization| serialization.compression.is_none());
    let possible = match format {
        _ if type_ == SinkType::Kafka => true,
        _ if !type_.is_object_store() => false,
        // Readers of Parquet know it, and files are a fraction of the size.
        Format::Parquet if silent => return Compression::Zstd,
        Format::Parquet => true,
        _ => asked != Compression::Snappy,
    };
    if possible { asked } else { Compression::None }
}

/// A compression that was asked for and has no effect.
pub fn ignored_compression(
    type_: SinkType,
    common: &SinkCommon,
    format: Format,
) -> Option<Compression> {
    let asked = asked_compression(common);
    let ignored = asked != Compression::None && compression(type_, common, format) != asked;
    ignored.then_some(asked)
}

/// The compression that a sink asks for, whether or not it has an effect.
pub fn asked_compression(common: &SinkCommon) -> Compression {
    common
        .serialization
        .as_ref()
        .and_then(|serialization| serialization.compression)
        .unwrap_or(Compression::None)
}

/// Where the files of an inventory stand in a bucket, if not where `pathTemplate` says.
pub fn partitioning(
    type_: SinkType,
    common: &SinkCommon,
    object_store: Option<&ObjectStore>,
) -> Option<Partitioning> {
    let asked = object_store.and_then(|store| store.partitioning);
    let template = non_blank(common.path_template.as_deref()).is_some();
    match format(type_, common, object_store) {
        _ if !type_.is_object_store() => None,
        Format::Parquet => Some(asked.unwrap_or(Partitioning::Current)),
        _ => asked.filter(|_| !template),
    }
}

/// The storage account that the host of an endpoint names, as in
/// `https://<account>.blob.core.windows.net/…`.
pub fn azure_account(endpoint: &str) -> Option<&str> {
    let (scheme, rest) = endpoint.trim().split_once("://")?;
    if !matches!(scheme.to_ascii_lowercase().as_str(), "https" | "http") {
        return None;
    }
    let host = rest.split(['/', ':', '?', '#']).next()?;
    let (account, service) = host.split_once('.')?;
    let named = service.to_ascii_lowercase().starts_with("blob.");
    (named && !account.is_empty()).then_some(account)
}

/// Which attributes are columns.
pub fn columns(object_store: Option<&ObjectStore>) -> ColumnMode {
    let partitioning = object_store.and_then(|store| store.partitioning);
    let asked = object_store.and_then(|store| store.columns);
    asked.unwrap_or(match partitioning {
        Some(Partitioning::Generation) => ColumnMode::Hot,
        _ => ColumnMode::Typed,
    })
}

/// Who creates destinations.
pub fn provisioning_mode(common: &SinkCommon) -> ProvisioningMode {
    common
        .provisioning
        .as_ref()
        .and_then(|provisioning| provisioning.mode)
        .unwrap_or_default()
}

/// Whether a sink is probed when it is created or changed.
pub fn connection_test(common: &SinkCommon) -> bool {
    common.connection_test.unwrap_or(true)
}

impl KollectClusterInventorySpec {
    /// The namespace of sinks whose reference names none.
    pub fn sink_namespace(&self) -> &str {
        non_blank(self.sink_namespace.as_deref()).unwrap_or(meta::SYSTEM_NAMESPACE)
    }

    /// The namespace of one referenced sink.
    pub fn namespace_of<'s>(&'s self, reference: &'s SinkRef) -> &'s str {
        non_blank(reference.namespace.as_deref()).unwrap_or_else(|| self.sink_namespace())
    }
}

impl KollectInventorySpec {
    /// The interval of this inventory when no reference and no sink says otherwise.
    pub fn interval(&self) -> StdDuration {
        interval(
            SinkFamily::Snapshot,
            None,
            None,
            self.export_min_interval.as_ref(),
            StdDuration::ZERO,
        )
    }
}

fn non_blank(text: Option<&str>) -> Option<&str> {
    text.map(str::trim).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_interval_wins_and_the_floor_holds() {
        let minute = StdDuration::from_mins(1);
        let [hour, five, thirty, zero] = ["1h", "5m", "30s", "0s"].map(Duration::new);
        let none = StdDuration::ZERO;
        let database = SinkFamily::Database;
        let event = SinkFamily::Event;
        for (family, reference, sink, inventory, floor, expected) in [
            (
                database,
                Some(&hour),
                Some(&five),
                Some(&thirty),
                minute,
                3_600,
            ),
            (database, None, Some(&five), Some(&thirty), minute, 300),
            (database, None, None, Some(&thirty), minute, 60),
            (database, Some(&zero), None, None, minute, 60),
            (database, Some(&zero), Some(&five), None, none, 0),
            (database, None, None, None, none, 30),
            (
                event,
                Some(&hour),
                Some(&five),
                Some(&thirty),
                minute,
                3_600,
            ),
            (event, None, Some(&five), Some(&thirty), minute, 300),
            (event, None, None, Some(&thirty), none, 0),
            (event, None, None, Some(&thirty), minute, 60),
            (event, None, None, None, none, 0),
        ] {
            assert_eq!(
                interval(family, reference, sink, inventory, floor),
                StdDuration::from_secs(expected)
            );
        }
    }

    #[test]
    fn b13_a_reference_replaces_the_size_ceiling() {
        for (reference, inventory, operator, effective) in [
            (Some(500), Some(1_000), Some(9), Some(500)),
            (Some(5_000), Some(1_000), Some(9), Some(5_000)),
            (Some(0), Some(1_000), Some(9), Some(1_000)),
            (Some(-1), None, Some(9), Some(9)),
            (None, None, Some(9), Some(9)),
            (None, None, Some(0), None),
            (None, Some(-5), Some(i64::MIN), None),
            (None, None, None, None),
        ] {
            let bytes = max_export_bytes(reference, inventory, operator);
            assert_eq!(
                bytes.map(NonZeroU64::get),
                effective,
                "{reference:?} {inventory:?} {operator:?}"
            );
        }
    }

    #[test]
    fn formats_have_a_default_per_backend() {
        let common = SinkCommon::default();
        assert_eq!(format(SinkType::Git, &common, None), Format::Yaml);
        assert_eq!(format(SinkType::S3, &common, None), Format::Json);
        let parquet = ObjectStore {
            format: Some(ObjectStoreFormat::Parquet),
            ..ObjectStore::default()
        };
        assert_eq!(
            format(SinkType::S3, &common, Some(&parquet)),
            Format::Parquet
        );
        let csv: SinkCommon =
            serde_json::from_value(serde_json::json!({"serialization": {"format": "csv"}}))
                .unwrap();
        assert_eq!(format(SinkType::S3, &csv, Some(&parquet)), Format::Csv);
    }

    #[test]
    fn compression_counts_where_it_can_be_applied() {
        use Compression::{Gzip, None as Nothing, Snappy, Zstd};
        let common = |compression: Compression| -> SinkCommon {
            serde_json::from_value(serde_json::json!({
                "serialization": {"compression": compression.as_str()},
            }))
            .unwrap()
        };
        for (type_, format, asked, effective) in [
            (SinkType::S3, Format::Json, Gzip, Gzip),
            (SinkType::Gcs, Format::Csv, Zstd, Zstd),
            (SinkType::S3, Format::Json, Snappy, Nothing),
            (SinkType::S3, Format::Parquet, Snappy, Snappy),
            (SinkType::Git, Format::Yaml, Gzip, Nothing),
            (SinkType::Kafka, Format::Json, Gzip, Gzip),
            (SinkType::S3, Format::Json, Nothing, Nothing),
        ] {
            let common = common(asked);
            assert_eq!(compression(type_, &common, format), effective);
            let ignored = (asked != effective).then_some(asked);
            assert_eq!(ignored_compression(type_, &common, format), ignored);
        }
    }
}
