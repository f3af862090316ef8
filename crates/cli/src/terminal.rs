//! What people see on standard error.

use kollect_api::visible::visible;

/// Prints a text of one or several lines. What a terminal would obey is shown as escapes, wherever
/// in a message it came from.
pub(crate) fn say(text: &str) {
    eprintln!("{}", shown(text));
}

fn shown(text: &str) -> String {
    let lines: Vec<_> = text.split('\n').map(visible).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a18_messages_do_not_move_the_cursor() {
        assert_eq!(
            shown("target \u{1b}[2Ja:\n  object\tb\r"),
            "target \\u{1b}[2Ja:\n  object\\tb\\r"
        );
        assert_eq!(shown(""), "");
    }
}
