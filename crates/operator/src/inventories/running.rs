//! The exporter of one inventory, and what is remembered of it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use kollect_api::SinkKey;
use kollect_collect::{gates::Version, store::Store};
use kollect_export::{
    Calls, Exporter, Order, Report,
    report::{LaneState, RetireState},
};
use kollect_sinks::SinkError;
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    task::JoinHandle,
    time::Instant,
};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    object::InventoryObject, plan::InventoryPlan, status::InventoryStatus, subject::Subject,
};
use crate::status_pace::{News, StatusPace};

/// An inventory and its plan.
pub(super) struct Planned {
    pub(super) subject: Subject,
    pub(super) object: InventoryObject,
    pub(super) plan: InventoryPlan,
}

/// What runs for one inventory.
pub(super) struct Running {
    orders: watch::Sender<Arc<Order>>,
    pub(super) reports: watch::Receiver<Report>,
    pub(super) stop: CancellationToken,
    /// Whatever becomes of the loop: an exporter that nobody listens to stops.
    _guard: DropGuard,
    pub(super) task: JoinHandle<()>,
    pub(super) uid: String,
    /// The status that was written last, and the version of the object that this made.
    written: Option<(Option<String>, InventoryStatus)>,
    pub(super) pace: StatusPace,
    /// When the exporter began.
    pub(super) started: Instant,
    /// What was last seen, and since when.
    seen: Option<(Report, bool)>,
    pub(super) since: Instant,
    /// Since when this process cleans up after the inventory, which was deleted.
    finalizing: Option<Instant>,
    /// The sinks that this process was told to deliver to, and that may hold rows therefore,
    /// whatever the status says.
    pub(super) served: BTreeSet<SinkKey>,
    /// The sinks that hold nothing of the inventory any more, as this process has seen.
    pub(super) emptied: BTreeSet<SinkKey>,
    /// The sinks that were told to be gone.
    pub(super) orphans: BTreeSet<SinkKey>,
    /// What was told last about a sink that keeps rows of a deleted inventory.
    pub(super) warned: &'static str,
    /// The inventory as it was planned last, so that a report costs a look at one inventory.
    pub(super) planned: Arc<Planned>,
    /// When to look again although nothing is reported.
    pub(super) wake: Option<Instant>,
}

impl Running {
    /// Starts the exporter of an inventory. It rings `news` when it has something to report.
    pub(super) fn start(
        planned: &Arc<Planned>,
        runtime: &Handle,
        store: Store,
        calls: Arc<Calls>,
        news: Arc<Notify>,
    ) -> Self {
        let (orders, follow) = watch::channel(Arc::new(planned.plan.order.clone()));
        let (tell, reports) = watch::channel(Report::default());
        let stop = CancellationToken::new();
        let exporter = Exporter::keep(store, calls, follow, tell, news, stop.clone());
        let task = runtime.spawn(exporter);
        Self {
            orders,
            reports,
            _guard: stop.clone().drop_guard(),
            stop,
            task,
            uid: planned.subject.uid.clone(),
            written: None,
            pace: StatusPace::default(),
            started: Instant::now(),
            seen: None,
            since: Instant::now(),
            finalizing: None,
            served: delivered_to(planned),
            emptied: BTreeSet::new(),
            orphans: BTreeSet::new(),
            warned: "",
            planned: Arc::clone(planned),
            wake: None,
        }
    }

    /// Gives the exporter its newest order.
    pub(super) fn instruct(&mut self, planned: &Arc<Planned>) {
        self.planned = Arc::clone(planned);
        let delivered_to = delivered_to(planned);
        self.emptied.retain(|key| !delivered_to.contains(key));
        self.served.extend(delivered_to);
        let mut order = planned.plan.order.clone();
        // Only an exporter that begins has to know what an earlier process did.
        for sink in &mut order.deliver {
            sink.resume = None;
        }
        self.orders.send_if_modified(|known| {
            let news = **known != order;
            if news {
                *known = Arc::new(order);
            }
            news
        });
    }

    /// A status was written, which made this version of the object.
    pub(super) fn wrote(&mut self, status: InventoryStatus, news: News, version: Option<String>) {
        self.written = Some((version, status));
        self.pace.wrote(news, Instant::now());
    }

    /// The status of the inventory and the version it belongs to, as far as they are known: what
    /// was written last, or what the watch shows if that is newer.
    pub(super) fn known(&self, shown: &InventoryObject) -> (Option<String>, InventoryStatus) {
        let version = |text: &Option<String>| Version::parse(text.as_deref().unwrap_or_default());
        let at = shown.version();
        match &self.written {
            Some((written, status)) if version(&at).is_before(version(written)) => {
                (written.clone(), status.clone())
            }
            _ => (at, shown.status()),
        }
    }

    /// For how long this process has been cleaning up after the inventory. Not since it was deleted:
    /// that may have been while nobody was there to clean up.
    pub(super) fn finalizing_for(&mut self) -> Duration {
        self.finalizing.get_or_insert_with(Instant::now).elapsed()
    }

    /// Whether there is something to say about the inventory, or its time has come.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.reports.has_changed().unwrap_or(false) || self.wake.is_some_and(|wake| wake <= now)
    }

    /// How many rows the inventory selects, as far as they have been counted.
    pub(super) fn rows(&self) -> u64 {
        let report = self.reports.borrow();
        report
            .survey
            .as_ref()
            .map_or(0, |survey| survey.rows as u64)
    }

    /// How many of the sinks hold the current rows.
    pub(super) fn state(&self) -> &'static str {
        let report = self.reports.borrow();
        let good = report.lanes.iter();
        let good = good
            .filter(|lane| matches!(lane.state, LaneState::InStep | LaneState::Gathering))
            .count();
        match good {
            0 if !report.lanes.is_empty() => "none",
            good if good < report.lanes.len() => "some",
            _ => "all",
        }
    }

    /// Takes note of what is seen, and since when. Returns the sinks whose probes have to be doubted
    /// now.
    pub(super) fn observe(&mut self, report: &Report, gated: bool) -> Vec<SinkKey> {
        let seen = self.seen.as_ref();
        let doubtful = doubtful(seen.map(|(known, _)| known), report);
        let same = seen.is_some_and(|(known, gate)| {
            let states = |report: &Report| {
                let lanes = report.lanes.iter();
                lanes.map(|lane| lane.state.clone()).collect::<Vec<_>>()
            };
            *gate == gated
                && known.waiting_for.is_some() == report.waiting_for.is_some()
                && states(known) == states(report)
        });
        if !same {
            self.since = Instant::now();
        }
        let done = report.retiring.iter();
        for retired in done.filter(|retired| retired.state == RetireState::Done) {
            self.served.remove(&retired.key);
            self.emptied.insert(retired.key.clone());
        }
        self.seen = Some((report.clone(), gated));
        doubtful
    }
}

/// The sinks whose last export failed for good, unless that was seen before: the credentials may be
/// wrong although a probe was fine with them.
fn doubtful(before: Option<&Report>, now: &Report) -> Vec<SinkKey> {
    let failed = |report: &Report, key: &SinkKey| {
        let mut lanes = report.lanes.iter().filter(|lane| lane.key == *key);
        lanes.find_map(|lane| match &lane.state {
            LaneState::Failed {
                error: error @ (SinkError::Terminal(_) | SinkError::Forbidden(_)),
                // A good probe has the export tried again at once: without a bound the two could
                // go on causing each other.
                in_a_row: 1,
                ..
            } => Some(error.clone()),
            _ => None,
        })
    };
    let keys = now.lanes.iter().map(|lane| &lane.key);
    keys.filter(|key| {
        let failure = failed(now, key);
        failure.is_some() && before.and_then(|before| failed(before, key)) != failure
    })
    .cloned()
    .collect()
}

fn delivered_to(planned: &Planned) -> BTreeSet<SinkKey> {
    let sinks = planned.plan.order.deliver.iter();
    sinks.map(|sink| sink.key.clone()).collect()
}

#[cfg(test)]
mod tests {
    use kollect_api::reference::SinkFamily;
    use kollect_export::report::LaneReport;

    use super::*;

    fn report(state: LaneState) -> Report {
        let lane = LaneReport {
            key: SinkKey::new(SinkFamily::Database, "team-a", "pg"),
            state,
            last_export: None,
            confirmed_at: None,
            skipped: None,
            read_back: None,
            often: None,
        };
        Report {
            lanes: vec![lane],
            ..Report::default()
        }
    }

    #[test]
    fn c17_a_terminal_failure_casts_doubt_on_the_last_probe_once() {
        let failed = |error, in_a_row| {
            report(LaneState::Failed {
                error,
                in_a_row,
                next: None,
            })
        };
        let denied = || SinkError::terminal("authentication failed");
        for (case, before, now, doubted) in [
            ("fine", None, report(LaneState::InStep), 0),
            (
                "denied",
                Some(report(LaneState::InStep)),
                failed(denied(), 1),
                1,
            ),
            ("at the start", None, failed(denied(), 1), 1),
            ("still", Some(failed(denied(), 1)), failed(denied(), 1), 0),
            ("again", Some(failed(denied(), 1)), failed(denied(), 2), 0),
            ("away", None, failed(SinkError::transient("refused"), 1), 0),
        ] {
            assert_eq!(doubtful(before.as_ref(), &now).len(), doubted, "{case}");
        }
    }
}
