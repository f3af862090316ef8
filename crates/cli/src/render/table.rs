//! Columns of text.

use std::fmt;

use kollect_api::visible::visible;
use unicode_width::UnicodeWidthStr as _;

use super::Look;

/// What lies between columns.
const GAP: usize = 2;
/// No column is made narrower than this.
const NARROWEST: usize = 8;

/// A table that is as wide as its content, or as it may be.
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

    /// The text of the table.
    pub(crate) fn render(&self, look: Look) -> String {
        let rows = &self.rows[usize::from(!look.headers)..];
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.width()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..columns).map(width).collect();
        if let Some(most) = look.width {
            narrow(&mut widths, most);
        }
        let mut text = String::new();
        for (index, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                let cell = cut(cell, *width);
                let blanks = width.saturating_sub(cell.width()) + GAP;
                line.push_str(&cell);
                line.extend(std::iter::repeat_n(' ', blanks));
            }
            let line = line.trim_end();
            if look.colour && look.headers && index == 0 {
                text.push_str(&format!("\u{1b}[1m{line}\u{1b}[0m\n"));
            } else {
                text.push_str(line);
                text.push('\n');
            }
        }
        text
    }
}

/// Makes the widest columns narrower until lines fit.
fn narrow(widths: &mut [usize], most: usize) {
    let line = |widths: &[usize]| widths.iter().map(|width| width + GAP).sum::<usize>();
    while line(widths).saturating_sub(GAP) > most {
        let Some(widest) = widths.iter_mut().max() else {
            return;
        };
        if *widest <= NARROWEST {
            // Better a long line than nothing to read.
            return;
        }
        *widest -= 1;
    }
}

/// As much of a text as fits.
fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut short = String::new();
    for c in text.chars() {
        let mut longer = short.clone();
        longer.push(c);
        if longer.width() + 1 > width {
            break;
        }
        short = longer;
    }
    short.push('…');
    short
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.render(Look::of_file(true)))
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

    #[test]
    fn the_widest_columns_give_way() {
        let mut table = Table::new(["NAME", "TEXT", "N"]);
        table.row(["a-name", "a text that is much longer than all others", "1"]);
        let look = Look {
            width: Some(30),
            headers: true,
            colour: false,
        };
        assert_eq!(
            table.render(look),
            "NAME    TEXT                 N\na-name  a text that is muc…  1\n"
        );
    }
}
