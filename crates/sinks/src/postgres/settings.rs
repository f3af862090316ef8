//! What `spec.options` and the connection string set for every transaction.

use std::{collections::BTreeMap, time::Duration};

use super::{dsn::Dsn, sql::literal};
use crate::error::SinkError;

/// Session parameters that a sink may set. The others belong into the connection string, whose
/// author answers for the database.
const PARAMETERS: [&str; 8] = [
    "application_name",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "role",
    "statement_timeout",
    "synchronous_commit",
    "temp_tablespaces",
    "work_mem",
];

/// Rewrite every row in every full pass.
const REFRESH: &str = "refreshExportedAt";

/// Make a view for every target.
const TARGET_VIEWS: &str = "targetViews";

/// How many days of the history are kept.
const HISTORY_DAYS: &str = "historyDays";
/// A hundred years.
const MOST_DAYS: u32 = 36_525;

/// Ends a statement before the caller gives up on the delivery, which it does after two minutes.
const STATEMENT_TIMEOUT: &str = "110s";
/// Ends a transaction whose client is gone without a word, and with it the lock on the partition.
const IDLE_TIMEOUT: &str = "60s";

/// Nobody reads a server's notices, and a trigger may raise one for every row.
const NOTICES: &str = "error";

/// The options of a sink.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    parameters: BTreeMap<String, String>,
    /// Every full pass writes `exported_at` of every row.
    pub(super) refresh: bool,
    /// Every target gets a view.
    pub(super) target_views: bool,
    /// How long entries of the history are kept that were superseded; for ever if not given.
    pub(super) history: Option<Duration>,
}

impl Options {
    pub(super) fn of(options: &BTreeMap<String, String>) -> Result<Self, SinkError> {
        let mut result = Self::default();
        for (key, value) in options {
            if key == REFRESH {
                result.refresh = choice(key, value)?;
            } else if key == TARGET_VIEWS {
                result.target_views = choice(key, value)?;
            } else if key == HISTORY_DAYS {
                let days = value.trim().parse().ok();
                let days = days.filter(|days| (1..=MOST_DAYS).contains(days));
                let days = days.ok_or_else(|| {
                    SinkError::terminal(format!(
                        "spec.options[{HISTORY_DAYS}] must be a number of days, from 1 to {MOST_DAYS}"
                    ))
                })?;
                result.history = Some(Duration::from_hours(24 * u64::from(days)));
            } else if PARAMETERS.contains(&&**key) {
                result.parameters.insert(key.clone(), value.clone());
            } else {
                return Err(SinkError::terminal(format!(
                    "spec.options[{key}] is not known to postgres sinks; known are {REFRESH}, {TARGET_VIEWS}, {HISTORY_DAYS}, {}; \
                     other session parameters go into the connection string",
                    PARAMETERS.join(", ")
                )));
            }
        }
        Ok(result)
    }
}

/// A value that is true or false.
fn choice(key: &str, value: &str) -> Result<bool, SinkError> {
    match value.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(SinkError::terminal(format!(
            "spec.options[{key}] must be \"true\" or \"false\""
        ))),
    }
}

/// The statement that begins every transaction: it sets all parameters for the transaction alone,
/// so that they hold behind a connection pooler too and never leak to other clients of it.
pub(super) fn begin(dsn: &Dsn, options: &Options) -> String {
    let mut parameters = BTreeMap::new();
    for (name, value) in [
        ("statement_timeout", STATEMENT_TIMEOUT),
        ("idle_in_transaction_session_timeout", IDLE_TIMEOUT),
        ("client_min_messages", NOTICES),
    ] {
        let in_command_line = dsn.options.as_ref().is_some_and(|text| text.contains(name));
        if !in_command_line {
            parameters.insert(name, value);
        }
    }
    for (name, value) in dsn.parameters.iter().chain(&options.parameters) {
        parameters.insert(name, value);
    }
    let mut text = String::from("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
    for (name, value) in parameters {
        text += &format!(
            "; SELECT set_config({}, {}, true)",
            literal(name),
            literal(value)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> Result<Options, SinkError> {
        Options::of(
            &pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
        )
    }

    #[test]
    fn the_sink_wins_over_the_string_and_the_string_over_defaults() {
        let text = |dsn: &str, pairs: &[(&str, &str)]| {
            begin(&Dsn::parse(dsn).unwrap(), &options(pairs).unwrap())
        };
        let default = text("postgres://u@h/d", &[]);
        assert!(
            default.contains("set_config('statement_timeout', '110s', true)"),
            "{default}"
        );
        let string = text("postgres://u@h/d?statement_timeout=9s", &[]);
        assert!(
            string.contains("'statement_timeout', '9s'") && !string.contains("110s"),
            "{string}"
        );
        let sink = text(
            "postgres://u@h/d?statement_timeout=9s",
            &[("statement_timeout", "3s")],
        );
        assert!(
            sink.contains("'statement_timeout', '3s'") && !sink.contains("9s"),
            "{sink}"
        );
        let command_line = text("postgres://u@h/d?options=-c%20statement_timeout%3D9s", &[]);
        assert!(
            !command_line.contains("'statement_timeout'"),
            "{command_line}"
        );
        let injection = text(
            "postgres://u@h/d",
            &[("role", "x', true); DROP TABLE y; --")],
        );
        assert!(
            injection.contains("set_config('role', 'x'', true); DROP TABLE y; --', true)"),
            "{injection}"
        );
    }

    #[test]
    fn unknown_options_are_refused_by_name() {
        assert!(options(&[("refreshExportedAt", "true")]).unwrap().refresh);
        let history = options(&[("historyDays", " 30 ")]).unwrap().history;
        assert_eq!(history, Some(Duration::from_hours(720)));
        for (key, value, says) in [
            ("refreshExportedAt", "yes", "must be"),
            ("targetViews", "1", "must be"),
            ("historyDays", "0", "must be a number of days"),
            ("historyDays", "-1", "must be a number of days"),
            ("historyDays", "1.5", "must be a number of days"),
            ("historyDays", "99999999999", "must be a number of days"),
            ("search_path", "x", "spec.options[search_path] is not known"),
            (
                "Statement_Timeout",
                "5s",
                "spec.options[Statement_Timeout] is not known",
            ),
        ] {
            let error = options(&[(key, value)]).unwrap_err();
            assert!(
                matches!(&error, SinkError::Terminal(text) if text.contains(says)),
                "{error:?}"
            );
            assert!(!error.message().contains("5s"));
        }
    }
}
