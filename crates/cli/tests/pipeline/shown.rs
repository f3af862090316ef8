//! Commands that a document shows, and what it shows of their output.

use anyhow::{Result, ensure};

/// One command and what is shown of its output.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) command: String,
    pub(crate) output: Vec<String>,
}

/// The commands of all `console` blocks.
pub(crate) fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            line => match line.strip_prefix("$ ") {
                Some(command) => found.push(Shown {
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                None => {
                    let Some(last) = found.last_mut() else {
                        continue;
                    };
                    // A command may go on on the next line.
                    if last.output.is_empty() && last.command.ends_with('\\') {
                        last.command.pop();
                        last.command.push_str(line.trim_start());
                    } else {
                        last.output.push(line.to_owned());
                    }
                }
            },
        }
    }
    for shown in &mut found {
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    found
}

/// Whether a line is as it is shown; `…` stands for anything, at the end of the output also for more lines.
fn is_shown(line: &str, shown: &str) -> bool {
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut open = false;
    for piece in pieces {
        open = true;
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (open && shown.ends_with('…'))
}

/// Whether a command printed what is shown.
pub(crate) fn expect(document: &str, command: &str, output: &[String], stdout: &str) -> Result<()> {
    let lines: Vec<&str> = stdout.lines().collect();
    for (number, shown) in output.iter().enumerate() {
        let line = lines.get(number).copied().unwrap_or("(nothing)");
        // Columns are as wide as what is in them.
        let same = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(
            is_shown(&same(line), &same(shown)),
            "{document}: {command}\nline {}: {shown:?} is shown, {line:?} is printed\n{stdout}",
            number + 1
        );
    }
    let more = output.last().is_some_and(|last| last.contains('…'));
    ensure!(
        output.is_empty() || more || lines.len() == output.len(),
        "{document}: {command} prints more than is shown:\n{stdout}"
    );
    Ok(())
}

#[test]
fn shown_lines() {
    for (line, shown, expected) in [
        ("a b", "a b", true),
        ("a b", "a", false),
        ("a 123", "a …", true),
        ("a 123 c", "a … c", true),
        ("a 123 d", "a … c", false),
    ] {
        assert_eq!(is_shown(line, shown), expected, "{line} {shown}");
    }
}
