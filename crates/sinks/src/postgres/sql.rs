//! The statements.
//!
//! Names of the sink's own objects are quoted into the text, everything else is a parameter. Every
//! statement is confined to one partition: the rows of one inventory of one cluster.
//!
//! Rows come from one of two places: from arrays that travel with the statement if they are few,
//! from a temporary table filled by COPY if they are many. Unchanged rows are compared and left
//! alone; a plain `ON CONFLICT DO UPDATE` would lock each of them, which writes to every page of
//! the table.

mod digest;
mod inventories;

pub(super) use self::inventories::KEY as INVENTORIES_KEY;
use super::names::Names;

/// Creates the table that COPY fills. A row without payload is one to delete.
pub(super) const CREATE_STAGING: &str = "CREATE TEMPORARY TABLE kollect_export_staging (\
     target_name TEXT NOT NULL, source_uid TEXT NOT NULL, resource_namespace TEXT NOT NULL, \
     payload JSONB, fresh BOOLEAN NOT NULL) ON COMMIT DROP";

/// Fills the staging table.
pub(super) const COPY_STAGING: &str = "COPY pg_temp.kollect_export_staging \
     (target_name, source_uid, resource_namespace, payload, fresh) FROM STDIN (FORMAT binary)";

/// Keeps the planner from comparing every row with every other one. It knows nothing yet of a table
/// that was filled a moment ago, takes the partition for a single row and would do just that.
pub(super) const COMPARE_AS_SETS: &str = "SET LOCAL enable_nestloop = off";

/// Waits for the sole right to write a partition, until the transaction ends.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";

/// The columns of a row, in the order in which statements give them.
const COLUMNS: &str = "inventory_namespace, inventory_name, cluster, target_name, source_uid, \
     resource_namespace, payload, exported_at";

/// Which columns are unique together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyShape {
    /// With the cluster.
    WithCluster,
    /// Without it, as tables of earlier versions are.
    WithoutCluster,
}

impl KeyShape {
    /// The columns. The partition comes first, so that one range of the index is one partition.
    pub(super) fn columns(self) -> &'static [&'static str] {
        match self {
            KeyShape::WithCluster => &[
                "inventory_namespace",
                "inventory_name",
                "cluster",
                "target_name",
                "source_uid",
            ],
            KeyShape::WithoutCluster => &[
                "inventory_namespace",
                "inventory_name",
                "target_name",
                "source_uid",
            ],
        }
    }
}

/// Where the rows of a statement are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// In arrays: target names, uids, resource namespaces, payloads, fresh.
    Arrays,
    /// In the staging table.
    Staging,
}

/// All statements for one table.
#[derive(Debug)]
pub(super) struct Statements {
    table: String,
    literal: String,
    history: Option<String>,
    conflict: String,
    /// Rewrite rows that are the same, so that `exported_at` is the time of the last full pass.
    refresh: bool,
    /// Whether the server can say what it holds without showing it.
    digests: bool,
    /// The table that says how old inventories are, if there is one.
    inventories: Option<String>,
    /// The name of the table in that one.
    name: String,
}

/// The condition for the rows of the partition, `$1` to `$3`.
fn partition(alias: &str) -> String {
    format!(
        "{alias}.inventory_namespace = $1 AND {alias}.inventory_name = $2 AND {alias}.cluster = $3"
    )
}

const SAME_ROW: &str = "t.target_name = i.target_name AND t.source_uid = i.source_uid";

const DIFFERS: &str = "(old.payload IS DISTINCT FROM i.payload \
     OR old.resource_namespace IS DISTINCT FROM i.resource_namespace)";

impl Statements {
    pub(super) fn new(names: &Names, key: KeyShape, refresh: bool) -> Self {
        Self {
            table: names.table(),
            literal: literal(&names.table()),
            history: names.history(),
            conflict: key.columns().join(", "),
            refresh,
            digests: false,
            inventories: None,
            name: literal(names.own()),
        }
    }

    /// The same for a server that can say what it holds without showing it.
    pub(super) fn with_digests(self) -> Self {
        Self {
            digests: true,
            ..self
        }
    }

    /// The same with a table that says how old inventories are.
    pub(super) fn with_inventories(self, table: String) -> Self {
        Self {
            inventories: Some(table),
            ..self
        }
    }

    /// Whether the server can say what it holds without showing it.
    pub(super) fn has_digests(&self) -> bool {
        self.digests
    }

    /// Whether it is on record how old inventories are.
    pub(super) fn has_inventories(&self) -> bool {
        self.inventories.is_some()
    }

    /// Whether statements log what they change, and so need the time of the delivery.
    pub(super) fn has_history(&self) -> bool {
        self.history.is_some()
    }

    /// Which table this is, beyond its name: the run of the server, the relation and the files it
    /// lives in, those of partitions included. Differs after TRUNCATE, DROP, a restore, a failover
    /// and a restart of the server.
    fn incarnation(&self) -> String {
        format!(
            "concat_ws('/', extract(epoch FROM pg_postmaster_start_time()), \
             (SELECT string_agg(concat(part.id, ':', pg_relation_filenode(part.id)), ',' ORDER BY part.id) \
             FROM (SELECT to_regclass({0})::oid AS id \
             UNION SELECT relid::oid FROM pg_partition_tree(to_regclass({0}))) AS part))",
            self.literal
        )
    }

    /// The [incarnation](Self::incarnation) of the table.
    pub(super) fn read_incarnation(&self) -> String {
        format!("SELECT {}", self.incarnation())
    }

    /// Whether the table is there.
    pub(super) fn exists(&self) -> String {
        format!("SELECT to_regclass({}) IS NOT NULL", self.literal)
    }

    /// Writes all rows that are new or different. `$4` is the time, `$5` to `$8` are the arrays.
    /// Gives the number of rows written.
    pub(super) fn merge(&self, source: Source) -> String {
        let Self { table, .. } = self;
        let incoming = match source {
            Source::Arrays => {
                "SELECT target_name, source_uid, resource_namespace, payload::jsonb AS payload \
                 FROM unnest($5::text[], $6::text[], $7::text[], $8::text[]) \
                 AS given(target_name, source_uid, resource_namespace, payload)"
            }
            Source::Staging => {
                "SELECT target_name, source_uid, resource_namespace, payload \
                 FROM pg_temp.kollect_export_staging"
            }
        };
        let wanted = if self.refresh { "TRUE" } else { DIFFERS };
        let written = self.insert("FROM compared c");
        let logged = self.log_writes("FROM compared c WHERE c.differs");
        format!(
            "WITH incoming AS ({incoming}), \
             compared AS (SELECT i.*, old.source_uid IS NOT NULL AS held, {DIFFERS} AS differs \
             FROM incoming i LEFT JOIN {table} old ON {} \
             AND old.target_name = i.target_name AND old.source_uid = i.source_uid WHERE {wanted}), \
             written AS ({written} RETURNING 1){logged} \
             SELECT count(*) FROM written",
            partition("old")
        )
    }

    /// Deletes the rows of the partition that were not given, but for those of held targets, whose
    /// names are `$4`, and of held pairs of target and namespace, which are `$5` and `$6`. From
    /// arrays, `$7` and `$8` are target names and uids; from the staging table, `$7` are the shards
    /// that were given, all if it is null. With history the time is the last parameter.
    pub(super) fn prune(&self, source: Source) -> String {
        let (given, at, shards) = match source {
            Source::Arrays => (
                "unnest($7::text[], $8::text[]) AS i(target_name, source_uid)",
                "$9",
                String::new(),
            ),
            Source::Staging => (
                "pg_temp.kollect_export_staging i",
                "$8",
                format!(
                    "AND ($7::int4[] IS NULL OR {} = ANY($7::int4[])) ",
                    digest::shard("t")
                ),
            ),
        };
        let condition = format!(
            "{shards}AND t.target_name <> ALL($4::text[]) \
             AND (t.target_name, t.resource_namespace) NOT IN \
             (SELECT target, namespace FROM unnest($5::text[], $6::text[]) AS held(target, namespace)) \
             AND NOT EXISTS (SELECT 1 FROM {given} WHERE {SAME_ROW})"
        );
        self.delete(&condition, &format!("{at}::timestamptz"))
    }

    /// Deletes the whole partition.
    pub(super) fn clear(&self) -> String {
        self.delete("", "now()")
    }

    fn delete(&self, condition: &str, at: &str) -> String {
        let Self { table, .. } = self;
        let logged = self.log_deletes(at);
        format!(
            "WITH gone AS (DELETE FROM {table} t WHERE {} {condition} \
             RETURNING t.target_name, t.source_uid, t.resource_namespace){logged} \
             SELECT count(*) FROM gone",
            partition("t")
        )
    }

    /// Applies changes, all or nothing. `$4` is the time, `$5` the incarnation that the table must
    /// still be; with arrays, `$6` to `$10` are the rows to write and `$11`, `$12` the keys to
    /// delete.
    ///
    /// Gives whether the table is the one, whether no fresh row met a different one, the numbers of
    /// rows written and deleted, and what that does to the digests of shards. Each row is looked up by its key, whatever the planner
    /// believes about sizes: LIMIT keeps the look-up from becoming a join.
    pub(super) fn apply(&self, source: Source) -> String {
        let Self { table, .. } = self;
        let (incoming, leaving) = match source {
            Source::Arrays => (
                "SELECT target_name, source_uid, resource_namespace, payload::jsonb AS payload, fresh \
                 FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::bool[]) \
                 AS given(target_name, source_uid, resource_namespace, payload, fresh)",
                "SELECT target_name, source_uid \
                 FROM unnest($11::text[], $12::text[]) AS given(target_name, source_uid)",
            ),
            Source::Staging => (
                "SELECT target_name, source_uid, resource_namespace, payload, fresh \
                 FROM pg_temp.kollect_export_staging WHERE payload IS NOT NULL",
                "SELECT target_name, source_uid \
                 FROM pg_temp.kollect_export_staging WHERE payload IS NULL",
            ),
        };
        let written =
            self.insert("FROM compared c, verdict v WHERE v.same AND v.undisputed AND c.differs");
        let logged = [
            self.log_writes(
                "FROM compared c, verdict v WHERE v.same AND v.undisputed AND c.differs",
            ),
            self.log_deletes("$4::timestamptz"),
        ]
        .concat();
        let (hashed, shards) = self.moved();
        let signed = self.sign_changes();
        format!(
            "WITH incoming AS ({incoming}), leaving AS ({leaving}), \
             compared AS MATERIALIZED (SELECT i.*, old.payload IS NOT NULL AS held, {DIFFERS} AS differs, \
             old.hash AS old_hash \
             FROM incoming i LEFT JOIN LATERAL (SELECT t.payload, t.resource_namespace, {hashed} AS hash \
             FROM {table} t WHERE {} AND {SAME_ROW} LIMIT 1) old ON TRUE), \
             verdict AS MATERIALIZED (SELECT {} = $5 AS same, \
             NOT EXISTS (SELECT 1 FROM compared WHERE fresh AND held AND differs) AS undisputed), \
             found AS (SELECT place.* FROM leaving i, verdict v, LATERAL \
             (SELECT t.tableoid AS part, t.ctid AS place FROM {table} t WHERE {} AND {SAME_ROW} LIMIT 1) place \
             WHERE v.same AND v.undisputed), \
             gone AS (DELETE FROM {table} t USING found WHERE t.ctid = found.place AND t.tableoid = found.part \
             RETURNING t.target_name, t.source_uid, t.resource_namespace, t.payload), \
             written AS ({written} RETURNING target_name, source_uid, resource_namespace, payload)\
             {logged}{signed} \
             SELECT v.same, v.undisputed, (SELECT count(*) FROM written), \
             (SELECT count(*) FROM gone), {shards} FROM verdict v",
            partition("t"),
            self.incarnation(),
            partition("t"),
        )
    }

    /// Inserts rows of `compared c`; `$4` is the time.
    fn insert(&self, from: &str) -> String {
        let Self {
            table, conflict, ..
        } = self;
        format!(
            "INSERT INTO {table} ({COLUMNS}) \
             SELECT $1, $2, $3, c.target_name, c.source_uid, c.resource_namespace, c.payload, \
             $4::timestamptz {from} ON CONFLICT ({conflict}) DO UPDATE SET \
             payload = excluded.payload, exported_at = excluded.exported_at, \
             cluster = excluded.cluster, resource_namespace = excluded.resource_namespace"
        )
    }

    fn log_writes(&self, from: &str) -> String {
        self.log(
            "written",
            "CASE WHEN c.held THEN 'update' ELSE 'insert' END, c.payload, $4::timestamptz",
            "c",
            from,
        )
    }

    fn log_deletes(&self, at: &str) -> String {
        self.log("gone", &format!("'delete', NULL, {at}"), "g", "FROM gone g")
    }

    /// Removes entries of the history of the partition that were superseded before `$4`, the oldest
    /// first and at most `$5`. What was true then stays: the last entry of each row before that
    /// moment, unless it says that the row is gone. Gives the number of entries removed.
    pub(super) fn forget(&self) -> Option<String> {
        let history = self.history.as_deref()?;
        let same = "n.inventory_namespace = o.inventory_namespace \
             AND n.inventory_name = o.inventory_name AND n.cluster = o.cluster \
             AND n.target_name = o.target_name AND n.source_uid = o.source_uid";
        Some(format!(
            "WITH old AS MATERIALIZED (SELECT o.target_name, o.source_uid, o.entry FROM {history} o \
             WHERE {} AND o.valid_from < $4::timestamptz AND (o.operation = 'delete' OR EXISTS \
             (SELECT 1 FROM {history} n WHERE {same} AND n.entry > o.entry \
             AND n.valid_from < $4::timestamptz)) ORDER BY o.entry LIMIT $5::int8), \
             gone AS (DELETE FROM {history} t USING old WHERE {} AND t.target_name = old.target_name \
             AND t.source_uid = old.source_uid AND t.entry = old.entry RETURNING 1) \
             SELECT count(*) FROM gone",
            partition("o"),
            partition("t"),
        ))
    }

    /// Another part of the statement, which appends to the history.
    fn log(&self, what: &str, values: &str, alias: &str, from: &str) -> String {
        let Some(history) = &self.history else {
            return String::new();
        };
        format!(
            ", logged_{what} AS (INSERT INTO {history} (inventory_namespace, inventory_name, cluster, \
             target_name, source_uid, resource_namespace, operation, payload, valid_from) \
             SELECT $1, $2, $3, {alias}.target_name, {alias}.source_uid, {alias}.resource_namespace, \
             {values} {from})"
        )
    }
}

/// A name as SQL writes it.
pub(super) fn identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL writes it, whatever `standard_conforming_strings` says.
pub(super) fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if doubled.contains('\\') {
        format!(" E'{}'", doubled.replace('\\', "\\\\"))
    } else {
        format!("'{doubled}'")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting() {
        for (given, as_name, as_text) in [
            ("items", r#""items""#, "'items'"),
            (r#"we"ird"#, r#""we""ird""#, r#"'we"ird'"#),
            ("a.b", r#""a.b""#, "'a.b'"),
            ("it's", r#""it's""#, "'it''s'"),
            (r"a\'b", r#""a\'b""#, r" E'a\\''b'"),
        ] {
            assert_eq!(identifier(given), as_name);
            assert_eq!(literal(given), as_text);
        }
    }
}
