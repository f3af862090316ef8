//! The text of what is created: the table, the history, the views.

use kollect_api::sink::database::{Postgres, PostgresColumnType, PostgresView};

use super::{
    names::Names,
    sql::{KeyShape, identifier, literal},
};

/// What a preview calls a table without a name.
const PREVIEW_TABLE: &str = "inventory_items";

/// The statements that a sink runs in `ensure` mode on an empty schema, for people to read.
pub fn expected_ddl(postgres: &Postgres) -> String {
    let mut postgres = postgres.clone();
    if postgres.table.trim().is_empty() {
        PREVIEW_TABLE.clone_into(&mut postgres.table);
    }
    let names = Names::of(&postgres).expect("the table has a name");
    let views = postgres.views.iter().map(|view| create_view(&names, view));
    [create_table(&names)]
        .into_iter()
        .chain(create_history(&names))
        .chain(views)
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

/// One view. The columns that were asked for come last: a view can grow at its end in place.
pub(super) fn create_view(names: &Names, view: &PostgresView) -> String {
    let mut columns = String::new();
    for column in &view.columns {
        let attribute = literal(column.attribute.as_deref().unwrap_or(&column.name));
        let value = typed(&attribute, column.type_.unwrap_or_default());
        columns += &format!(",\n  {value} AS {}", identifier(column.name.trim()));
    }
    format!(
        "CREATE OR REPLACE VIEW {} AS
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
        names.qualified(view.name.trim()),
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
