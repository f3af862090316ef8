//! The text of what is created: the table, the history, the views.

use kollect_api::sink::database::{Postgres, PostgresColumnType, PostgresView};

use super::{
    names::Names,
    sql::{INVENTORIES_KEY, KeyShape, identifier, literal},
};

/// What the function and the view of a history are called, if nothing else in the schema is.
pub(super) const AS_OF: &str = "kollect_as_of";
pub(super) const CHANGES: &str = "kollect_changes";

/// What a preview calls a table without a name.
const PREVIEW_TABLE: &str = "inventory_items";

/// The statements that a sink runs in `ensure` mode on an empty schema, for people to read.
pub fn expected_ddl(postgres: &Postgres) -> String {
    let mut postgres = postgres.clone();
    if postgres.table.trim().is_empty() {
        PREVIEW_TABLE.clone_into(&mut postgres.table);
    }
    let names = Names::of(&postgres).expect("the table has a name");
    let views = postgres
        .views
        .iter()
        .map(|view| create_view(&names, view, &names.qualified(view.name.trim())));
    [create_table(&names)]
        .into_iter()
        .chain(create_history(&names))
        .chain(create_history_index(&names))
        .chain(create_as_of(&names, &names.qualified(AS_OF)))
        .chain(create_changes(&names, &names.qualified(CHANGES)))
        .chain(views)
        .chain([create_inventories(&names)])
        .collect::<Vec<_>>()
        .join(";\n")
}

/// The table of the rows.
pub(super) fn create_table(names: &Names) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (
  inventory_namespace TEXT NOT NULL,
  inventory_name TEXT NOT NULL,
  target_name TEXT NOT NULL,
  source_uid TEXT NOT NULL,
  cluster TEXT NOT NULL DEFAULT '',
  resource_namespace TEXT NOT NULL DEFAULT '',
  payload JSONB NOT NULL,
  exported_at TIMESTAMPTZ NOT NULL,
  PRIMARY KEY ({})
)",
        names.table(),
        KeyShape::WithCluster.columns().join(", ")
    )
}

/// The table that says how old inventories are. One for all tables of the schema, and made by
/// whoever comes first.
pub(super) fn create_inventories(names: &Names) -> String {
    let table = names.inventories();
    format!(
        "CREATE TABLE IF NOT EXISTS {table} (
  table_name TEXT NOT NULL,
  cluster TEXT NOT NULL,
  inventory_namespace TEXT NOT NULL,
  inventory_name TEXT NOT NULL,
  rows BIGINT NOT NULL,
  last_export_at TIMESTAMPTZ NOT NULL,
  last_change_at TIMESTAMPTZ NOT NULL,
  seen_at TIMESTAMPTZ NOT NULL,
  lag INTERVAL NOT NULL,
  healthy BOOLEAN NOT NULL,
  operator_version TEXT NOT NULL,
  PRIMARY KEY ({INVENTORIES_KEY})
);
COMMENT ON TABLE {table} IS 'How old the rows of each inventory are: one entry per table, cluster and inventory, written by Kollect with every delivery and at least every five minutes';
COMMENT ON COLUMN {table}.rows IS 'rows of the inventory in the table';
COMMENT ON COLUMN {table}.last_export_at IS 'when all rows were last compared or written';
COMMENT ON COLUMN {table}.last_change_at IS 'when a row last came, changed or went';
COMMENT ON COLUMN {table}.seen_at IS 'the last sign of life, by the clock of this server; older than ten minutes: nobody is watching';
COMMENT ON COLUMN {table}.lag IS 'how long the last delivery took, from taking the rows until they were written';
COMMENT ON COLUMN {table}.healthy IS 'false while some targets of the inventory cannot be read, so that their rows may be old'"
    )
}

/// A statement that fails if that table is none that can be written.
pub(super) fn look_at_inventories(names: &Names) -> String {
    format!(
        "SELECT {INVENTORIES_KEY}, rows + 1, last_export_at, last_change_at, seen_at, \
         lag + interval '0', NOT healthy, operator_version FROM {} LIMIT 0",
        names.inventories()
    )
}

/// The table of the history and its index, if the sink keeps one. The name of the index is left to
/// the server, so it is made together with the table and not looked for later.
pub(super) fn create_history(names: &Names) -> Option<String> {
    let history = names.history()?;
    Some(format!(
        "CREATE TABLE IF NOT EXISTS {history} (
  inventory_namespace TEXT NOT NULL,
  inventory_name TEXT NOT NULL,
  cluster TEXT NOT NULL,
  target_name TEXT NOT NULL,
  source_uid TEXT NOT NULL,
  resource_namespace TEXT NOT NULL,
  valid_from TIMESTAMPTZ NOT NULL,
  operation TEXT NOT NULL CHECK (operation IN ('insert', 'update', 'delete')),
  payload JSONB,
  entry BIGINT GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (inventory_namespace, inventory_name, cluster, target_name, source_uid, entry)
)"
    ))
}

/// What identifies a row, in the history of its table too.
const ROW: &str = "inventory_namespace, inventory_name, cluster, target_name, source_uid";

/// Finds entries by their time.
pub(super) fn create_history_index(names: &Names) -> Option<String> {
    Some(format!(
        "CREATE INDEX IF NOT EXISTS {} ON {} (valid_from)",
        identifier(&names.history_index()?),
        names.history()?
    ))
}

/// The rows as they were at a moment, as a function of it.
pub(super) fn create_as_of(names: &Names, name: &str) -> Option<String> {
    let history = names.history()?;
    Some(format!(
        "CREATE OR REPLACE FUNCTION {name}(moment TIMESTAMPTZ)
RETURNS TABLE (inventory_namespace TEXT, inventory_name TEXT, cluster TEXT, target_name TEXT,
  source_uid TEXT, resource_namespace TEXT, payload JSONB, exported_at TIMESTAMPTZ)
LANGUAGE sql STABLE AS $kollect$
SELECT l.inventory_namespace::text, l.inventory_name::text, l.cluster::text, l.target_name::text,
  l.source_uid::text, l.resource_namespace::text, l.payload, l.valid_from
FROM (SELECT DISTINCT ON ({ROW}) * FROM {history} AS h WHERE h.valid_from <= moment
  ORDER BY {ROW}, entry DESC) AS l
WHERE l.operation <> 'delete'
$kollect$"
    ))
}

/// Every change, with what was there before it and until when it held.
pub(super) fn create_changes(names: &Names, name: &str) -> Option<String> {
    let history = names.history()?;
    let same = "o.inventory_namespace = h.inventory_namespace AND o.inventory_name = h.inventory_name \
         AND o.cluster = h.cluster AND o.target_name = h.target_name AND o.source_uid = h.source_uid";
    Some(format!(
        "CREATE OR REPLACE VIEW {name} AS
SELECT
  h.cluster,
  h.inventory_namespace,
  h.inventory_name,
  h.target_name,
  coalesce(h.payload, before.payload)->>'kind' AS kind,
  coalesce(h.payload, before.payload)->>'namespace' AS namespace,
  coalesce(h.payload, before.payload)->>'name' AS name,
  h.source_uid AS uid,
  h.operation,
  h.valid_from,
  after.valid_from AS valid_to,
  h.operation = 'delete' AS deleted,
  before.payload->'attributes' AS attributes_before,
  h.payload->'attributes' AS attributes,
  h.entry
FROM {history} AS h
LEFT JOIN LATERAL (SELECT o.payload FROM {history} AS o WHERE {same} AND o.entry < h.entry
  ORDER BY o.entry DESC LIMIT 1) AS before ON TRUE
LEFT JOIN LATERAL (SELECT o.valid_from FROM {history} AS o WHERE {same} AND o.entry > h.entry
  ORDER BY o.entry LIMIT 1) AS after ON TRUE"
    ))
}

/// One view. The columns that were asked for come last: a view can grow at its end in place.
pub(super) fn create_view(names: &Names, view: &PostgresView, name: &str) -> String {
    let mut columns = String::new();
    for column in &view.columns {
        let attribute = literal(column.attribute.as_deref().unwrap_or(&column.name));
        let value = typed(&attribute, column.type_.unwrap_or_default());
        columns += &format!(",\n  {value} AS {}", identifier(column.name.trim()));
    }
    format!(
        "CREATE OR REPLACE VIEW {name} AS
SELECT
  inventory_namespace,
  inventory_name,
  cluster,
  payload->>'namespace' AS namespace,
  payload->>'name' AS name,
  source_uid AS uid,
  exported_at{columns}
FROM {}
WHERE target_name = {}",
        names.table(),
        literal(view.target.trim())
    )
}

/// A day of the calendar: the server refuses `2026-02-30` by failing the whole query.
const DAY: &str = "(?!0000)(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)\
     |02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|([2468][048]|[13579][26]|0[48])00)-02-29)";
const TIME: &str = "([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d(\\.\\d{1,9})?(Z|[+-](0\\d|1[0-4]):[0-5]\\d)";

/// An attribute as a column of a type. A value that is not of the type is NULL: one odd object must
/// not make the view fail for all others, so nothing is cast that was not looked at first.
fn typed(attribute: &str, type_: PostgresColumnType) -> String {
    let json = format!("payload->'attributes'->{attribute}");
    let text = format!("payload->'attributes'->>{attribute}");
    let guarded = |pattern: &str, value: &str| {
        format!("CASE WHEN {text} ~ {} THEN {value} END", literal(pattern))
    };
    match type_ {
        PostgresColumnType::Jsonb => format!("({json})"),
        PostgresColumnType::Text => format!("({text})"),
        PostgresColumnType::Boolean => {
            format!("CASE {text} WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END")
        }
        PostgresColumnType::Bigint => guarded(
            "^-?\\d{1,19}$",
            &format!(
                "CASE WHEN ({text})::numeric BETWEEN -9223372036854775808 AND 9223372036854775807 \
                 THEN ({text})::bigint END"
            ),
        ),
        PostgresColumnType::DoublePrecision => guarded(
            "^-?\\d{1,255}(\\.\\d{1,255})?$|^-?\\d{1,17}(\\.\\d{1,17})?[eE][+-]?\\d{1,2}$",
            &format!("({text})::double precision"),
        ),
        PostgresColumnType::Timestamptz => guarded(
            &format!("^{DAY}T{TIME}$"),
            &format!("({text})::timestamptz"),
        ),
    }
}
