//! Tables for issues and pull requests.

use std::fmt::Write as _;

use super::{Grid, cell, plain};
use serde_json::Value;

/// A table. What is collected may be anything, so nothing in it means anything to a renderer.
pub(super) fn table(grid: &Grid, headers: bool) -> String {
    let mut text = String::new();
    let mut line = |cells: Vec<String>| {
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    };
    if headers {
        line(grid.columns.iter().map(|name| harmless(name)).collect());
        line(grid.columns.iter().map(|_| "---".to_owned()).collect());
    }
    for row in &grid.rows {
        line(row.iter().map(value).collect());
    }
    text
}

fn value(value: &Value) -> String {
    if value.is_null() {
        return cell(value);
    }
    harmless(&plain(value))
}

/// A text without any meaning to Markdown or HTML.
pub(crate) fn harmless(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '|' | '`' | '*' | '_' | '[' | ']' | '#' | '~' => {
                out.push('\\');
                out.push(c);
            }
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            // Nobody is called.
            '@' => out.push_str("&#64;"),
            '\n' => out.push_str("<br>"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_means_anything() {
        assert_eq!(
            harmless("a|b <script> @team `x` [l](u)\r\n*"),
            "a\\|b &lt;script&gt; &#64;team \\`x\\` \\[l\\](u) <br>\\*"
        );
    }
}
