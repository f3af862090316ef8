//! Reads the tables of test vectors: one case per line, columns between ` | `, paths in backticks.

use serde_json::Value;

/// What a case expects.
#[derive(Debug)]
pub(crate) enum Expected {
    Value(Value),
    Nothing,
    Refused(String),
    Error(String),
}

impl Expected {
    pub(crate) fn parse(column: &str) -> Self {
        if column == "nothing" {
            Self::Nothing
        } else if let Some(part) = column.strip_prefix("refused:") {
            Self::Refused(part.trim().to_owned())
        } else if let Some(part) = column.strip_prefix("error:") {
            Self::Error(part.trim().to_owned())
        } else {
            let value = serde_json::from_str(column);
            Self::Value(value.unwrap_or_else(|error| panic!("column {column:?}: {error}")))
        }
    }
}

/// The columns of each case; backticks around a column are taken off and keep its blanks.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let cases = table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    cases.map(|line| line.split(" | ").map(column).collect())
}

fn column(text: &'static str) -> &'static str {
    let text = text.trim();
    let quoted = text
        .strip_prefix('`')
        .and_then(|rest| rest.strip_suffix('`'));
    quoted.unwrap_or(text)
}
