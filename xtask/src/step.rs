//! Running named steps one after the other, so that a person sees what happens, how long it
//! takes and what came of it.

use std::fmt::Write as _;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use kollect_testkit::progress::human;

/// A step that can be asked for by its name.
pub(crate) trait Named: ValueEnum + PartialEq + Copy {
    /// What it is called where it is asked for.
    fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// What was asked for, in the order in which it is run; everything if nothing was.
    fn chosen(only: &[Self]) -> Vec<Self> {
        let all = Self::value_variants().iter().copied();
        all.filter(|step| only.is_empty() || only.contains(step))
            .collect()
    }
}

impl<T: ValueEnum + PartialEq + Copy> Named for T {}

/// A line at least this often, also from a step that prints nothing itself.
const HEARTBEAT: Duration = Duration::from_secs(30);

/// The steps that ran so far.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
}

struct Row {
    name: String,
    elapsed: Duration,
    failure: Option<String>,
}

impl Report {
    /// Runs one step. A failure is remembered, not returned: the other steps are still worth
    /// their result.
    pub(crate) fn step(&mut self, name: &str, what: &str, run: impl FnOnce() -> Result<()>) {
        println!("\n==> {name}: {what}");
        let started = Instant::now();
        let result = with_heartbeat(name, run);
        let elapsed = started.elapsed();
        let failure = result.err().map(|error| format!("{error:#}"));
        match &failure {
            None => println!("<== {name}: ok, {}", human(elapsed)),
            Some(message) => println!("<== {name}: FAILED, {}\n{message}", human(elapsed)),
        }
        self.rows.push(Row {
            name: name.to_owned(),
            elapsed,
            failure,
        });
    }

    /// Prints the table and fails if any step of `cargo xtask <command>` failed.
    pub(crate) fn finish(self, command: &str) -> Result<()> {
        println!("\n{}", self.table());
        let failed: Vec<&str> = self
            .rows
            .iter()
            .filter(|row| row.failure.is_some())
            .map(|row| row.name.as_str())
            .collect();
        if failed.is_empty() {
            return Ok(());
        }
        let again: Vec<String> = failed.iter().map(|name| format!("--only {name}")).collect();
        bail!(
            "{} failed; to repeat only that: cargo xtask {command} {}",
            failed.join(", "),
            again.join(" ")
        )
    }

    fn table(&self) -> String {
        let mut table = format!("{:<12} {:>8}  result\n", "step", "time");
        for row in &self.rows {
            let result = if row.failure.is_some() {
                "FAILED"
            } else {
                "ok"
            };
            let _ = writeln!(
                table,
                "{:<12} {:>8}  {result}",
                row.name,
                human(row.elapsed)
            );
        }
        let total: Duration = self.rows.iter().map(|row| row.elapsed).sum();
        let _ = write!(table, "{:<12} {:>8}", "total", human(total));
        table
    }
}

fn with_heartbeat<T>(name: &str, run: impl FnOnce() -> T) -> T {
    let (done, finished) = mpsc::channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let started = Instant::now();
            while let Err(RecvTimeoutError::Timeout) = finished.recv_timeout(HEARTBEAT) {
                println!(
                    "    {name}: still running after {}",
                    human(started.elapsed())
                );
            }
        });
        let result = run();
        // Closing the channel ends the heartbeat.
        drop(done);
        result
    })
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::Report;

    #[test]
    fn a_failure_does_not_stop_the_others_but_fails_the_whole() {
        let mut report = Report::default();
        let mut ran = Vec::new();
        report.step("one", "succeeds", || {
            ran.push(1);
            Ok(())
        });
        report.step("two", "fails", || bail!("broken"));
        report.step("three", "succeeds", || {
            ran.push(3);
            Ok(())
        });
        assert_eq!(ran, [1, 3]);
        let table = report.table();
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["one", "0.0s", "ok"]);
        assert_eq!(lines[2], ["two", "0.0s", "FAILED"]);
        let error = report.finish("test").unwrap_err().to_string();
        assert_eq!(
            error,
            "two failed; to repeat only that: cargo xtask test --only two"
        );
    }

    #[test]
    fn all_good_is_good() {
        let mut report = Report::default();
        report.step("one", "succeeds", || Ok(()));
        assert!(report.finish("test").is_ok());
    }
}
