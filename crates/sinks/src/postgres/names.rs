//! What a sink's objects in the database are called.

use kollect_api::sink::database::Postgres;

use super::sql::identifier;

const DEFAULT_SCHEMA: &str = "public";
/// One for all tables of a schema.
const INVENTORIES: &str = "kollect_inventories";

/// Schema, table, and the table of the history if there is one. As written, not quoted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Names {
    schema: String,
    table: String,
    history: Option<String>,
}

impl Names {
    /// The names of a sink, without blanks around them; none if there is no table.
    pub(super) fn of(postgres: &Postgres) -> Option<Self> {
        Some(Self {
            schema: given(postgres.schema.as_deref()).unwrap_or_else(|| DEFAULT_SCHEMA.to_owned()),
            table: given(Some(&postgres.table))?,
            history: postgres
                .history
                .as_ref()
                .and_then(|history| given(Some(&history.table))),
        })
    }

    /// The table, quoted, with its schema.
    pub(super) fn table(&self) -> String {
        self.qualified(&self.table)
    }

    /// The name of the table alone, as written.
    pub(super) fn own(&self) -> &str {
        &self.table
    }

    /// The table that says how old inventories are, quoted, with its schema.
    pub(super) fn inventories(&self) -> String {
        self.qualified(INVENTORIES)
    }

    /// The table of the history, quoted, with its schema.
    pub(super) fn history(&self) -> Option<String> {
        self.history.as_deref().map(|name| self.qualified(name))
    }

    /// The name of the table of the history alone, as written.
    pub(super) fn history_name(&self) -> Option<&str> {
        self.history.as_deref()
    }

    /// The name of the index of the history by time, which is in the schema of its table.
    pub(super) fn history_index(&self) -> Option<String> {
        let history = self.history.as_deref()?;
        Some(format!("{history}_valid_from_idx"))
    }

    /// A name that follows from that of the history, for what cannot have its usual one.
    pub(super) fn of_history(&self, what: &str) -> Option<String> {
        let history = self.history.as_deref()?;
        Some(self.qualified(&format!("{history}_{what}")))
    }

    /// Any name in the same schema, quoted.
    pub(super) fn qualified(&self, name: &str) -> String {
        format!("{}.{}", identifier(&self.schema), identifier(name))
    }
}

fn given(text: Option<&str>) -> Option<String> {
    text.map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}
