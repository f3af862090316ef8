//! What the command says beside its data: events, progress and a summary, all on standard error.

use std::io::IsTerminal as _;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use jiff::Timestamp;
use kollect_api::visible::visible;
use kollect_inventory::Snapshot;
use serde_json::{Map, Value};

use crate::terminal;

use super::{
    export::{Exported, NotExported, STANDARD_OUTPUT},
    outcome::{self, Named, TargetOutcome, named_object, skip_counts},
};
use crate::render::Table;

/// How important an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Level {
    /// Everything.
    Debug,
    /// What was left out, and what would be written.
    Info,
    /// What deserves attention.
    Warn,
    /// What went wrong.
    Error,
}

impl Level {
    fn as_str(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// How events are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}

/// Says things.
pub(crate) struct Report {
    level: Level,
    format: LogFormat,
    bars: MultiProgress,
    quiet: bool,
}

impl Report {
    /// Speaks from `level` on. Without a format, to a terminal in words and elsewhere in JSON.
    pub(crate) fn new(level: Level, format: Option<LogFormat>) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Self {
            level,
            format: format.unwrap_or(if terminal {
                LogFormat::Text
            } else {
                LogFormat::Json
            }),
            bars: MultiProgress::with_draw_target(target),
            quiet: false,
        }
    }

    /// Tells errors and nothing else.
    pub(crate) fn quiet(mut self, quiet: bool) -> Self {
        if quiet {
            self.quiet = true;
            self.level = Level::Error;
            self.bars.set_draw_target(ProgressDrawTarget::hidden());
        }
        self
    }

    /// Tells of an event.
    pub(crate) fn event(&self, level: Level, message: &str, fields: &[(&str, Value)]) {
        if level >= self.level {
            let line = line(self.format, level, message, fields, Timestamp::now());
            self.say(&line);
        }
    }

    /// Prints a line, whatever the level.
    pub(crate) fn say(&self, text: &str) {
        self.bars.suspend(|| terminal::say(text));
    }

    /// Prints what a person may want to know, unless nobody does.
    pub(crate) fn tell(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A bar for a file of this size.
    pub(crate) fn reading(&self, title: &str, size: u64) -> ProgressBar {
        let style = ProgressStyle::with_template(
            "{spinner} {msg}: {bytes} of {total_bytes}, {binary_bytes_per_sec}",
        );
        let bar = self.bars.add(ProgressBar::new(size));
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(visible(title).into_owned());
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        bar
    }

    /// A bar for a listing.
    pub(crate) fn bar(&self, title: String) -> ProgressBar {
        let style = ProgressStyle::with_template("{spinner} {msg}: {pos} objects, {rate}");
        let rate = |state: &ProgressState, text: &mut dyn std::fmt::Write| {
            let _ = write!(text, "{:.0}/s", state.per_sec());
        };
        let style = style.map(|style| style.with_key("rate", rate));
        let bar = self.bars.add(ProgressBar::no_length());
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar.set_message(title);
        bar.enable_steady_tick(std::time::Duration::from_millis(120));
        bar
    }

    /// Tells what was left out and what failed in one context.
    pub(crate) fn outcomes(&self, context: &str, outcomes: &[TargetOutcome]) {
        for outcome in outcomes {
            let target = || ("target", Value::from(Named(&outcome.key).to_string()));
            let context = || ("context", Value::from(context));
            for skip in &outcome.skips {
                let fields = [
                    context(),
                    target(),
                    ("reason", skip.reason.as_str().into()),
                    ("namespace", skip.namespace.clone().into()),
                    ("detail", skip.message.clone().into()),
                ];
                self.event(Level::Info, "target skipped", &fields);
            }
            for failure in &outcome.failures {
                let fields = [
                    context(),
                    target(),
                    (
                        "object",
                        named_object(&failure.namespace, &failure.name).into(),
                    ),
                    ("uid", failure.uid.clone().into()),
                    ("reason", failure.reason.clone().into()),
                ];
                self.event(Level::Debug, "object extraction failed", &fields);
            }
        }
    }
}

fn line(
    format: LogFormat,
    level: Level,
    message: &str,
    fields: &[(&str, Value)],
    now: Timestamp,
) -> String {
    let fields = fields
        .iter()
        .filter(|(_, value)| value.as_str() != Some(""));
    match format {
        LogFormat::Json => {
            let mut object = Map::new();
            object.insert("level".to_owned(), level.as_str().into());
            object.insert("ts".to_owned(), now.to_string().into());
            object.insert("msg".to_owned(), message.into());
            for (name, value) in fields {
                object.insert((*name).to_owned(), value.clone());
            }
            Value::Object(object).to_string()
        }
        LogFormat::Text => {
            let mut text = format!("{}: {message}", level.as_str());
            for (name, value) in fields {
                let value = match value {
                    Value::String(text) => visible(text).into_owned(),
                    other => other.to_string(),
                };
                text.push_str(&format!("\n  {name}: {value}"));
            }
            text
        }
    }
}

/// The messages of one context, in the order in which they are printed: errors of the run, objects
/// that could not be extracted, errors of exports.
pub(crate) fn errors(outcomes: &[TargetOutcome], exported: &[Exported]) -> Vec<String> {
    let mut errors = Vec::new();
    for outcome in outcomes {
        let target = Named(&outcome.key);
        errors.extend(
            outcome
                .errors
                .iter()
                .map(|error| format!("target {target}: {error}")),
        );
    }
    for outcome in outcomes {
        errors.extend(failures(outcome));
    }
    for export in exported {
        if let Err(NotExported::Failed(error)) = &export.result {
            errors.push(format!("{}: export: {error}", export.title));
        }
    }
    errors
}

/// How many causes are told.
const CAUSES: usize = 5;

/// Objects that could not be extracted, by cause. Which ones they are tell the events of level debug.
fn failures(outcome: &TargetOutcome) -> Vec<String> {
    let target = Named(&outcome.key);
    let causes = outcome::causes(&outcome.failures);
    let mut lines: Vec<String> = causes
        .iter()
        .take(CAUSES)
        .map(|cause| {
            let objects = match cause.count {
                1 => "1 object".to_owned(),
                count => format!("{count} objects"),
            };
            let examples = visible(&cause.examples.join(", ")).into_owned();
            let more = if cause.count > cause.examples.len() {
                ", …"
            } else {
                ""
            };
            format!(
                "target {target}: extract {objects} ({examples}{more}): {}",
                cause.reason
            )
        })
        .collect();
    if causes.len() > CAUSES {
        let more: usize = causes[CAUSES..].iter().map(|cause| cause.count).sum();
        lines.push(format!(
            "target {target}: extract {more} more objects, for {} other reasons; --log-level debug names all",
            causes.len() - CAUSES
        ));
    }
    lines
}

/// What is worth a look although nothing went wrong.
fn hints(outcome: &TargetOutcome) -> Vec<String> {
    let target = Named(&outcome.key);
    let mut hints = Vec::new();
    let nulls = outcome.always_null();
    if !nulls.is_empty() {
        hints.push(format!(
            "target {target}: null in every row: {}; check the paths",
            nulls.join(", ")
        ));
    }
    if let Some(last) = &outcome.policy_failures.last {
        hints.push(format!(
            "target {target}: a policy failed {} time(s), which counts as no match: {last}",
            outcome.policy_failures.count
        ));
    }
    hints
}

/// Why objects are missing, target by target.
pub(crate) fn explanation(outcome: &TargetOutcome) -> String {
    let mut text = format!(
        "target {}: {} objects of its kind seen, {} rows\n",
        Named(&outcome.key),
        outcome.seen(),
        outcome.rows.as_ref().map_or(0, Snapshot::len)
    );
    for (why, count) in &outcome.left_out {
        text.push_str(&format!("  {count} left out: {why}\n"));
    }
    for skip in &outcome.skips {
        text.push_str(&format!(
            "  not read ({}): {}\n",
            skip.reason.as_str(),
            skip.message
        ));
    }
    for error in &outcome.errors {
        text.push_str(&format!("  {error}\n"));
    }
    for cause in outcome::causes(&outcome.failures) {
        text.push_str(&format!(
            "  {} failed: {} ({})\n",
            cause.count,
            cause.reason,
            visible(&cause.examples.join(", "))
        ));
    }
    for name in outcome.always_null() {
        text.push_str(&format!("  attribute {name} is null in every row\n"));
    }
    if let Some(last) = &outcome.policy_failures.last {
        text.push_str(&format!(
            "  a policy failed {} time(s): {last}\n",
            outcome.policy_failures.count
        ));
    }
    text
}

/// The summary of one context: what was collected, and where it went.
pub(crate) fn summary(context: &str, outcomes: &[TargetOutcome], exported: &[Exported]) -> String {
    let mut table = Table::new(["TARGET", "ROWS", "LEFT OUT", "FAILED", "STATE"]);
    for outcome in outcomes {
        let left_out: Vec<String> = skip_counts(outcome)
            .iter()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        let number = |count: usize| match count {
            0 => "-".to_owned(),
            count => count.to_string(),
        };
        let rows = outcome.rows.as_ref();
        table.row([
            Named(&outcome.key).to_string(),
            rows.map_or_else(|| "-".to_owned(), |rows| rows.len().to_string()),
            if left_out.is_empty() {
                "-".to_owned()
            } else {
                left_out.join(", ")
            },
            number(outcome.failures.len()),
            state(outcome).to_owned(),
        ]);
    }
    let mut text = format!("\ncontext {context}\n{table}");
    for Exported { title, to, result } in exported {
        match result {
            // The records themselves tell.
            Ok(_) if to == STANDARD_OUTPUT => {}
            Ok(what) => text.push_str(&format!("{title} -> {to}: {what}\n")),
            Err(error) => text.push_str(&format!("{title} -> {to}: not written: {error}\n")),
        }
    }
    for outcome in outcomes {
        for hint in hints(outcome) {
            text.push_str(&format!("hint: {hint}\n"));
        }
    }
    text
}

fn state(outcome: &TargetOutcome) -> &'static str {
    match &outcome.rows {
        _ if outcome.suspended => "suspended",
        Some(_) if outcome.is_degraded() => "partial",
        Some(_) => "complete",
        None => "not collected",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_for_people_and_machines() {
        let now = "2026-01-15T12:00:00Z".parse().unwrap();
        let fields = [
            ("target", Value::from("a/b")),
            ("namespace", "".into()),
            ("bytes", 7.into()),
        ];
        let line = |format| super::line(format, Level::Info, "target skipped", &fields, now);
        assert_eq!(
            line(LogFormat::Json),
            r#"{"bytes":7,"level":"info","msg":"target skipped","target":"a/b","ts":"2026-01-15T12:00:00Z"}"#
        );
        assert_eq!(
            line(LogFormat::Text),
            "info: target skipped\n  target: a/b\n  bytes: 7"
        );
    }
}
