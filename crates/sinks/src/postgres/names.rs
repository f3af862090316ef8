//! What a sink's objects in the database are called.

use kollect_api::sink::database::Postgres;

use super::sql::identifier;

const DEFAULT_SCHEMA: &str = "public";

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

    /// The table of the history, quoted, with its schema.
    pub(super) fn history(&self) -> Option<String> {
        self.history.as_deref().map(|name| self.qualified(name))
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
