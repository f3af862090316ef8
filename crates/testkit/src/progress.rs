//! Telling a person what takes so long.

use std::io::{self, Write as _};
use std::time::Duration;

/// Prints one line about a step that the person waits for.
///
/// Written to standard error directly: the test harness swallows what the print macros print,
/// and a first run that compiles for minutes would look like a hang.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "    {line}");
}

/// A duration the way a person reads it: `0.4s`, `12s`, `3m05s`.
pub fn human(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..60 => format!("{seconds}s"),
        _ => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::human;

    #[test]
    fn durations_read_well() {
        for (millis, expected) in [
            (0, "0.0s"),
            (420, "0.4s"),
            (9_940, "9.9s"),
            (12_700, "12s"),
            (185_000, "3m05s"),
        ] {
            assert_eq!(
                human(Duration::from_millis(millis)),
                expected,
                "{millis} ms"
            );
        }
    }
}
