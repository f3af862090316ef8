//! How all commands show rows: tables for people, and forms for programs.
//!
//! A [`Grid`] is columns and rows of JSON values; whoever has something to show makes one, and [`Grid::write`] writes it in any
//! format. What is larger than memory should hold is written line by line with [`csv_line`].

mod markdown;
mod table;

use std::io::{self, IsTerminal as _, Write};

use kollect_api::visible::visible;
use serde_json::{Map, Value};

pub(crate) use markdown::harmless;
pub(crate) use table::Table;

/// How rows are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// One row per line, as compact JSON.
    Ndjson,
    /// A list of rows.
    Yaml,
    /// One document per target, with checksum and time.
    Json,
    /// One row per line, as comma-separated values.
    Csv,
    /// Columns for people, as wide as the terminal.
    Table,
    /// The same with more columns, and nothing cut.
    Wide,
    /// A table for issues and pull requests.
    Markdown,
}

impl Format {
    /// What a file is called.
    pub(crate) fn extension(self) -> &'static str {
        match self {
            Format::Ndjson => "ndjson",
            Format::Yaml => "yaml",
            Format::Json => "json",
            Format::Csv => "csv",
            Format::Table | Format::Wide => "txt",
            Format::Markdown => "md",
        }
    }

    /// The format of a file with this extension.
    pub(crate) fn of_extension(extension: &str) -> Option<Self> {
        Some(match extension {
            "ndjson" | "jsonl" => Format::Ndjson,
            "yaml" | "yml" => Format::Yaml,
            "json" => Format::Json,
            "csv" => Format::Csv,
            "txt" => Format::Table,
            "md" | "markdown" => Format::Markdown,
            _ => return None,
        })
    }
}

/// How a table looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// How wide lines may be; nothing is cut without a limit.
    pub(crate) width: Option<usize>,
    pub(crate) headers: bool,
    pub(crate) colour: bool,
}

impl Look {
    /// For standard output: as wide as the terminal, and in colour, if it is one.
    pub(crate) fn of_standard_output(headers: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        Self {
            width: if terminal { width } else { None },
            headers,
            colour: terminal && !plain,
        }
    }

    /// For a file.
    pub(crate) fn of_file(headers: bool) -> Self {
        Self {
            width: None,
            headers,
            colour: false,
        }
    }
}

/// Columns and rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Grid {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<Value>>,
}

impl Grid {
    pub(crate) fn new(columns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            columns: columns.into_iter().map(Into::into).collect(),
            rows: Vec::new(),
        }
    }

    /// Writes all of it.
    pub(crate) fn write(&self, format: Format, look: Look, out: &mut impl Write) -> io::Result<()> {
        match format {
            Format::Table | Format::Wide => {
                let look = Look {
                    width: look.width.filter(|_| format == Format::Table),
                    ..look
                };
                out.write_all(self.table().render(look).as_bytes())
            }
            Format::Markdown => out.write_all(markdown::table(self, look.headers).as_bytes()),
            Format::Csv => {
                if look.headers {
                    out.write_all(csv_head(&self.columns).as_bytes())?;
                }
                for row in &self.rows {
                    out.write_all(csv_line(row).as_bytes())?;
                }
                Ok(())
            }
            Format::Ndjson => {
                for row in &self.rows {
                    serde_json::to_writer(&mut *out, &self.object(row))?;
                    out.write_all(b"\n")?;
                }
                Ok(())
            }
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.objects())?;
                out.write_all(b"\n")
            }
            Format::Yaml => out.write_all(yaml(&self.objects())?.as_bytes()),
        }
    }

    fn table(&self) -> Table {
        let head = self.columns.iter().map(|name| name.to_uppercase());
        let mut table = Table::new(head);
        for row in &self.rows {
            table.row(row.iter().map(cell));
        }
        table
    }

    fn object(&self, row: &[Value]) -> Value {
        let members = self.columns.iter().cloned().zip(row.iter().cloned());
        Value::Object(members.collect::<Map<_, _>>())
    }

    fn objects(&self) -> Value {
        self.rows.iter().map(|row| self.object(row)).collect()
    }
}

/// A value as YAML.
pub(crate) fn yaml(value: &Value) -> io::Result<String> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    serde_saphyr::to_string_with_options(value, options).map_err(io::Error::other)
}

/// What people see where there is nothing.
pub(crate) const NOTHING: &str = "-";

/// A value for people: texts without quotes, lists of plain things with commas, all else as JSON. Nothing is one sign, whether it is
/// missing or null.
pub(crate) fn cell(value: &Value) -> String {
    match plain(value) {
        text if text.is_empty() && value.is_null() => NOTHING.to_owned(),
        text => visible(&text).into_owned(),
    }
}

/// A value as text; nothing is empty.
fn plain(value: &Value) -> String {
    let simple = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        Value::Array(_) | Value::Object(_) => None,
        other => Some(other.to_string()),
    };
    let text = match value {
        Value::Array(items) => {
            let items: Option<Vec<String>> = items.iter().map(simple).collect();
            items.map(|items| items.join(","))
        }
        other => simple(other),
    };
    text.unwrap_or_else(|| value.to_string())
}

/// The first line of comma-separated values.
pub(crate) fn csv_head(columns: &[String]) -> String {
    line(columns.iter().map(|name| quoted(name)))
}

/// A row as comma-separated values: texts as they are, lists and maps as JSON, nothing as nothing.
pub(crate) fn csv_line<'v>(cells: impl IntoIterator<Item = &'v Value>) -> String {
    line(cells.into_iter().map(|value| match value {
        Value::Null => String::new(),
        Value::String(text) => quoted(text),
        other => quoted(&other.to_string()),
    }))
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let mut line = cells.collect::<Vec<_>>().join(",");
    line.push('\n');
    line
}

fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) || text.is_empty() || text != text.trim() {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(format: Format, look: Look) -> String {
        let mut grid = Grid::new(["name", "images", "note"]);
        grid.rows = vec![
            vec![json!("web"), json!(["a:1", "b:2"]), json!(null)],
            vec![json!("x|y"), json!([]), json!("two\n\"lines\"")],
        ];
        let mut out = Vec::new();
        grid.write(format, look, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn e11_e12_one_grid_in_every_format() {
        let look = Look::of_file(true);
        for (format, expected) in [
            (
                Format::Table,
                "NAME  IMAGES   NOTE\nweb   a:1,b:2  -\nx|y            two\\n\"lines\"\n",
            ),
            (
                Format::Csv,
                "name,images,note\nweb,\"[\"\"a:1\"\",\"\"b:2\"\"]\",\nx|y,[],\"two\n\"\"lines\"\"\"\n",
            ),
            (
                Format::Ndjson,
                "{\"images\":[\"a:1\",\"b:2\"],\"name\":\"web\",\"note\":null}\n{\"images\":[],\"name\":\"x|y\",\"note\":\"two\\n\\\"lines\\\"\"}\n",
            ),
            (
                Format::Markdown,
                "| name | images | note |\n| --- | --- | --- |\n| web | a:1,b:2 | - |\n| x\\|y |  | two<br>\"lines\" |\n",
            ),
            (
                Format::Yaml,
                "- images:\n  - a:1\n  - b:2\n  name: web\n  note: null\n- images: []\n  name: x|y\n  note: \"two\\n\\\"lines\\\"\"\n",
            ),
        ] {
            assert_eq!(written(format, look), expected, "{format:?}");
        }
        let bare = Look {
            headers: false,
            ..look
        };
        assert!(written(Format::Table, bare).starts_with("web "));
        assert!(written(Format::Csv, bare).starts_with("web,"));
        assert!(written(Format::Json, look).starts_with("[\n  {\n    \"images\": ["));
    }

    #[test]
    fn e12_tables_fit_the_terminal_and_wide_ones_need_not() {
        let narrow = Look {
            width: Some(24),
            headers: true,
            colour: false,
        };
        for line in written(Format::Table, narrow).lines() {
            assert!(line.chars().count() <= 24, "{line}");
        }
        assert!(written(Format::Wide, narrow).contains("two\\n\"lines\""));
    }

    #[test]
    fn colours_are_for_terminals() {
        let look = Look {
            width: None,
            headers: true,
            colour: true,
        };
        assert!(written(Format::Table, look).starts_with("\u{1b}[1mNAME"));
        assert!(!written(Format::Table, Look::of_file(true)).contains('\u{1b}'));
    }
}
