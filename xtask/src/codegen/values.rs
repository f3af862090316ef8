//! The values of the chart as a table, from the comments beside them.

use anyhow::{Result, bail};

/// One value.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    key: String,
    default: String,
    text: String,
}

/// `charts/kollect/README.md`.
pub(super) fn readme(values: &str) -> Result<String> {
    let mut text = String::from(HEAD);
    for row in rows(values)? {
        text.push_str(&format!(
            "| `{}` | {} | {} |\n",
            row.key, row.default, row.text
        ));
    }
    Ok(text)
}

/// The values that have a description, in the order of the file. Every leaf has to have one, or
/// something above it.
fn rows(values: &str) -> Result<Vec<Row>> {
    let mut rows: Vec<Row> = Vec::new();
    // Names and indents of the maps around the current line.
    let mut path: Vec<(usize, String)> = Vec::new();
    let mut comment: Option<String> = None;
    // The indent of a described map, whose content is its default.
    let mut described: Option<usize> = None;
    for (number, line) in values.lines().enumerate() {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        if let Some(text) = content.strip_prefix("# -- ") {
            comment = Some(text.to_owned());
            continue;
        }
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if described.is_some_and(|outer| indent > outer) {
            if let Some(row) = rows.last_mut() {
                "see `values.yaml`".clone_into(&mut row.default);
            }
            continue;
        }
        described = None;
        let Some((key, value)) = content.split_once(':') else {
            bail!("values.yaml:{}: no key", number + 1);
        };
        path.retain(|(outer, _)| *outer < indent);
        path.push((indent, key.to_owned()));
        let value = value.trim();
        if let Some(text) = comment.take() {
            let names: Vec<&str> = path.iter().map(|(_, name)| name.as_str()).collect();
            rows.push(Row {
                key: names.join("."),
                default: match value {
                    "null" | "\"\"" => String::new(),
                    value => format!("`{value}`"),
                },
                text: text.replace('|', "\\|"),
            });
            described = Some(indent);
        } else if !value.is_empty() {
            bail!("values.yaml:{}: {key} has no description", number + 1);
        }
    }
    Ok(rows)
}

const HEAD: &str = "\
# Chart of Kollect

<!-- Made from values.yaml by `cargo xtask codegen`; not edited by hand. -->

[Installing](../../docs/install.md) says how; [Rights](../../docs/rbac.md) says what it may do. Prepared value files:

| File | For |
| --- | --- |
| `values-minimal-rbac.yaml` | a team's own installation, with rights in its namespace and nowhere else |
| `values-platform.yaml` | one installation for all teams |

Unknown values are refused. `global` is open, and `enabled` is there for parent charts with `condition: kollect.enabled`.

| Value | Default | What it does |
| --- | --- | --- |
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_a_row() {
        let values = "\
# a heading
# -- First.
one: \"\"
two:
  # -- Second | third.
  three: [a]
  # -- Fourth.
  four:
    five: 1
    six: 2
# -- Seventh.
seven: null
";
        let row = |key: &str, default: &str, text: &str| Row {
            key: key.to_owned(),
            default: default.to_owned(),
            text: text.to_owned(),
        };
        assert_eq!(
            rows(values).unwrap(),
            [
                row("one", "", "First."),
                row("two.three", "`[a]`", "Second \\| third."),
                row("two.four", "see `values.yaml`", "Fourth."),
                row("seven", "", "Seventh."),
            ]
        );
    }

    #[test]
    fn a_value_without_description_is_refused() {
        let error = rows("one: 1\n").unwrap_err();
        assert!(error.to_string().contains("values.yaml:1"), "{error}");
    }
}
