//! What is promised, and the figures beside it.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Result, bail};
use kollect_testkit::usage::Usage;

use crate::{
    delays::{Delays, percentile},
    stage::LEASE,
    vigil::{Seen, Watched},
};

/// From a change to its committed row, 99 of 100 times, in milliseconds.
const DELAY: i64 = 1_000;
/// The most memory ever, in MiB.
const MEMORY: f64 = 256.0;
/// What a kubelet waits for a probe.
const PROBE: Duration = Duration::from_secs(1);
/// From SIGTERM to the end.
const STOP: Duration = Duration::from_secs(20);

/// Everything that was seen.
pub(crate) struct Figures {
    pub(crate) measured: Result<Measured>,
    pub(crate) usage: Usage,
    pub(crate) watched: Watched,
    pub(crate) log: String,
    /// How long the operator took to stop in good order.
    pub(crate) stopped: Result<Duration>,
}

/// What can be said if objects could be changed at all.
pub(crate) struct Measured {
    pub(crate) delays: Delays,
    /// Hostile objects whose status does not name their trouble.
    pub(crate) untold: Vec<String>,
}

/// The lines that are printed, and what is not as promised.
#[derive(Default)]
struct Judgement {
    table: String,
    broken: Vec<String>,
}

impl Judgement {
    fn bar(&mut self, name: &str, figure: &str, most: &str, holds: bool) {
        let verdict = if holds { "holds" } else { "BROKEN" };
        let _ = writeln!(self.table, "{name:<44} {figure:>12}  {most:>10}  {verdict}");
        if !holds {
            self.broken.push(format!("{name}: {figure}, not {most}"));
        }
    }

    /// For what may not be at all.
    fn none(&mut self, name: &str, count: usize) {
        self.bar(name, &count.to_string(), "0", count == 0);
    }

    fn seen(&mut self, name: &str, seen: &Seen, most: Duration) {
        let holds = seen.looks > 0 && seen.longest < most;
        self.bar(name, &seconds(seen.longest), &seconds(most), holds);
        self.none(
            &format!("  of {} looks not good", seen.looks),
            seen.failures,
        );
        self.broken.extend(seen.wrong.iter().cloned());
    }

    fn measured(&mut self, measured: &Measured) {
        let Delays {
            since_sent,
            since_answered,
            lost,
        } = &measured.delays;
        let p99 = percentile(since_sent, 99);
        let ms = |value: i64| format!("{value} ms");
        self.bar("change to row, p99", &ms(p99), &ms(DELAY), p99 < DELAY);
        self.none("changes lost", lost.len());
        self.none("hostile objects that do not say why", measured.untold.len());
        self.broken.extend(measured.untold.iter().cloned());
        let of = |sorted: &[i64]| {
            let at = |percent| percentile(sorted, percent);
            format!(
                "p50 {} ms, p99 {} ms, slowest {} ms",
                at(50),
                at(99),
                at(100)
            )
        };
        let _ = writeln!(
            self.table,
            "  {} changes; from the request: {}\n  from the answer of the API server: {}",
            since_sent.len() + lost.len(),
            of(since_sent),
            of(since_answered),
        );
    }
}

impl Figures {
    /// Prints the figures; fails with everything that is not as promised.
    pub(crate) fn judge(&self) -> Result<()> {
        let mut judgement = Judgement::default();
        match &self.measured {
            Ok(measured) => judgement.measured(measured),
            Err(error) => judgement.broken.push(format!("{error:#}")),
        }
        let peak = self.usage.peak;
        let mib = |value: f64| format!("{value:.0} MiB");
        let within = peak > 0.0 && peak < MEMORY;
        judgement.bar("peak memory", &mib(peak), &mib(MEMORY), within);
        let [healthz, readyz] = &self.watched.probes;
        judgement.seen("/healthz, slowest", healthz, PROBE);
        judgement.seen("/readyz, slowest", readyz, PROBE);
        judgement.seen("lease, oldest renewal", &self.watched.lease, LEASE);
        judgement.seen("good inventory", &self.watched.inventory, LEASE);
        for words in ["no longer the leader", "panicked at"] {
            let lines = self.log.lines().filter(|line| line.contains(words));
            judgement.none(&format!("log lines with {words:?}"), lines.count());
        }
        match &self.stopped {
            Ok(took) => {
                judgement.bar(
                    "SIGTERM to the end",
                    &seconds(*took),
                    &seconds(STOP),
                    *took < STOP,
                );
            }
            Err(error) => judgement.broken.push(format!("the operator: {error:#}")),
        }
        println!(
            "\n{}  memory at the end {}, {:.0} CPU seconds, {} lines of log ({} KiB)",
            judgement.table,
            mib(self.usage.resident),
            self.usage.cpu,
            self.log.lines().count(),
            self.log.len() / 1024,
        );
        if judgement.broken.is_empty() {
            return Ok(());
        }
        let lines: Vec<&str> = self.log.lines().collect();
        let end = lines[lines.len().saturating_sub(30)..].join("\n");
        let broken = judgement.broken.join("\n");
        bail!("{broken}\n--- end of the log ---\n{end}")
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.3} s", duration.as_secs_f64())
}
