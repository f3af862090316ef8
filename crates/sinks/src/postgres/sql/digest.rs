//! What the server says of a partition without showing it.

use super::{Statements, literal, partition};
use crate::postgres::shards::{BASE, DIGITS};

/// The shard of a row, as `shards.rs` computes it.
pub(super) fn shard(row: &str) -> String {
    let digits = literal(DIGITS);
    let uid = format!("{row}.source_uid::text");
    format!(
        "({BASE} * strpos({digits}, left(right({uid}, 2), 1) COLLATE \"C\") \
         + strpos({digits}, right({uid}, 1) COLLATE \"C\"))"
    )
}

/// A hash of key and content of a row. Equal for values that the table takes for equal.
pub(super) fn hash(row: &str) -> String {
    format!(
        "jsonb_hash_extended({row}.payload, hashtextextended({row}.resource_namespace::text, \
         hashtextextended({row}.target_name::text, hashtextextended({row}.source_uid::text, 0))))"
    )
}

/// Which version of a row it is, and where. Differs after any write, also after one that changed
/// nothing; reads no content.
fn version(row: &str) -> String {
    format!("hashtextextended(concat({row}.tableoid, {row}.ctid, {row}.xmin), 0)")
}

/// Numbers of shards as one text: an array would be read with room for as many elements as the
/// server claims. `from` has columns `shard`, `rows` and `hash`.
pub(super) fn listed(from: &str) -> String {
    format!("(SELECT coalesce(string_agg(concat_ws(':', shard, rows, hash), ','), '') FROM {from})")
}

impl Statements {
    /// What tells whether anybody has touched the partition: the table, and which versions of rows
    /// it has where. Reads no content, so that it costs little; differs after any write, also after
    /// one that changed nothing. Not every server that speaks the language has such columns.
    pub(in crate::postgres) fn print(&self) -> String {
        format!(
            "SELECT concat({}, '#', count(*), '/', coalesce(sum({}), 0)) FROM {} AS t WHERE {}",
            self.incarnation(),
            version("t"),
            self.table,
            partition("t")
        )
    }

    /// The [print](Self::print), and the digests of all shards, in one pass.
    pub(in crate::postgres) fn digest(&self) -> String {
        format!(
            "WITH shards AS MATERIALIZED (SELECT {} AS shard, count(*) AS rows, sum({}) AS hash, \
             sum({}) AS versions FROM {} AS t WHERE {} GROUP BY 1) \
             SELECT concat({}, '#', coalesce(sum(rows), 0), '/', coalesce(sum(versions), 0)), {} \
             FROM shards",
            shard("t"),
            hash("t"),
            version("t"),
            self.table,
            partition("t"),
            self.incarnation(),
            listed("shards AS s")
        )
    }

    /// How the statement for changes says what it does to the digests: the hash of an old row `t`,
    /// and the text with the differences. Knows `compared`, `verdict`, `written` and `gone`.
    pub(super) fn moved(&self) -> (String, String) {
        if !self.digests {
            return ("NULL::int8".to_owned(), "''".to_owned());
        }
        let moved = format!(
            "(SELECT shard, sum(rows) AS rows, sum(hash) AS hash FROM (\
             SELECT {} AS shard, 1 AS rows, {}::numeric AS hash FROM written w \
             UNION ALL SELECT {}, -1, -{}::numeric FROM gone g \
             UNION ALL SELECT {}, -1, -c.old_hash::numeric FROM compared c, verdict v \
             WHERE v.same AND v.undisputed AND c.differs AND c.held) AS moves \
             GROUP BY shard) AS moved",
            shard("w"),
            hash("w"),
            shard("g"),
            hash("g"),
            shard("c"),
        );
        (hash("t"), listed(&moved))
    }
}
