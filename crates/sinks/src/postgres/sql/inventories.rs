//! The record of inventories: how old what a reader sees is.

use super::Statements;

/// What wrote the rows.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What identifies an entry.
pub(in crate::postgres) const KEY: &str =
    "table_name, cluster, inventory_namespace, inventory_name";

const COLUMNS: &str = "table_name, cluster, inventory_namespace, inventory_name, rows, \
     last_export_at, last_change_at, seen_at, lag, healthy, operator_version";

const LAG: &str = "greatest(clock_timestamp() - $4::timestamptz, interval '0')";

impl Statements {
    /// Records a look at all rows or a delivery of them. `$4` is when it began, `$5` the number of
    /// rows, `$6` whether any of them changed, `$7` whether all of them are known. Gives nothing.
    pub(in crate::postgres) fn sign(&self) -> String {
        let Self {
            name, inventories, ..
        } = self;
        let table = inventories.as_deref().unwrap_or_default();
        format!(
            "INSERT INTO {table} AS k ({COLUMNS}) \
             SELECT {name}, $3, $1, $2, $5::int8, $4::timestamptz, $4::timestamptz, \
             clock_timestamp(), {LAG}, $7::bool, '{VERSION}' \
             ON CONFLICT ({KEY}) DO UPDATE SET rows = excluded.rows, \
             last_export_at = excluded.last_export_at, \
             last_change_at = CASE WHEN $6::bool OR k.rows <> excluded.rows \
             THEN excluded.last_change_at ELSE k.last_change_at END, \
             seen_at = excluded.seen_at, lag = excluded.lag, healthy = excluded.healthy, \
             operator_version = excluded.operator_version"
        )
    }

    /// Takes an inventory off the record.
    pub(in crate::postgres) fn unsign(&self) -> String {
        let Self {
            name, inventories, ..
        } = self;
        let table = inventories.as_deref().unwrap_or_default();
        format!(
            "DELETE FROM {table} WHERE table_name = {name} AND cluster = $3 \
             AND inventory_namespace = $1 AND inventory_name = $2"
        )
    }

    /// Another part of the statement for changes, which records them; an inventory that is not on
    /// record yet waits for its first look at all rows.
    pub(super) fn sign_changes(&self) -> String {
        let Self {
            name, inventories, ..
        } = self;
        let Some(table) = inventories else {
            return String::new();
        };
        format!(
            ", signed AS (UPDATE {table} AS k SET \
             rows = greatest(0, k.rows + (SELECT count(*) FROM compared WHERE differs AND NOT held) \
             - (SELECT count(*) FROM gone)), \
             last_change_at = $4::timestamptz, seen_at = clock_timestamp(), lag = {LAG}, \
             operator_version = '{VERSION}' FROM verdict v \
             WHERE v.same AND v.undisputed AND k.table_name = {name} AND k.cluster = $3 \
             AND k.inventory_namespace = $1 AND k.inventory_name = $2)"
        )
    }
}
