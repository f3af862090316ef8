//! The examples of `docs/cel.md`.

use kollect_expr::cel::Program;
use serde_json::Value;

const PAGE: &str = include_str!("../../../../docs/cel.md");

/// The cells of a table row. A pipe in code is written `\|`.
fn cells(row: &str) -> Vec<String> {
    row.replace("\\|", "\u{0}")
        .trim_matches('|')
        .split('|')
        .map(|cell| cell.trim().replace('\u{0}', "|"))
        .collect()
}

/// The text of a cell that is one piece of code.
fn code(cell: &str) -> Option<&str> {
    let fence = if cell.starts_with("``") { "``" } else { "`" };
    let inner = cell.strip_prefix(fence)?.strip_suffix(fence)?;
    (fence == "``" || !inner.contains('`')).then_some(inner.trim())
}

fn object() -> Value {
    let (_, json) = PAGE.split_once("```json\n").unwrap();
    serde_json::from_str(json.split_once("```").unwrap().0).unwrap()
}

#[test]
fn every_example_holds() {
    let object = object();
    let mut count = 0;
    for row in PAGE.lines().filter(|line| line.starts_with("| ")) {
        let cells = cells(row);
        let [_, example, result] = cells.as_slice() else {
            continue;
        };
        let (Some(example), Some(result)) = (code(example), code(result)) else {
            continue;
        };
        let program =
            Program::compile(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        let found = program
            .evaluate(&object)
            .unwrap_or_else(|error| panic!("{example}: {error}"));
        let expected: Value = serde_json::from_str(result).unwrap();
        assert_eq!(found.to_value(), expected, "{example}");
        count += 1;
    }
    assert!(count > 100, "{count} examples");
}
