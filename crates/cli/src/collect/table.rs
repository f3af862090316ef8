//! Columns of text.

use std::fmt;

use kollect_api::visible::visible;

/// A table that is as wide as its content.
#[derive(Debug)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(head: impl IntoIterator<Item = impl AsRef<str>>) -> Self {
        let mut table = Self { rows: Vec::new() };
        table.row(head);
        table
    }

    /// Adds a row. What a terminal would obey is shown as escapes.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = impl AsRef<str>>) {
        let shown = |cell: &str| visible(cell).into_owned();
        let cells = cells.into_iter().map(|cell| shown(cell.as_ref()));
        self.rows.push(cells.collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{cell:<width$}  "));
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_no_cell_moves_the_cursor() {
        let mut table = Table::new(["NAME\u{1b}[2J"]);
        table.row(["web\n\u{1b}[31m"]);
        assert_eq!(table.to_string(), "NAME\\u{1b}[2J\nweb\\n\\u{1b}[31m\n");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut table = Table::new(["NAME", "N"]);
        table.row(["a-long-name", "1"]);
        table.row(["ä", "22"]);
        assert_eq!(
            table.to_string(),
            "NAME         N\na-long-name  1\nä            22\n"
        );
    }
}
