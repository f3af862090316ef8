//! How much a namespace may use. Pure: what is used, what is allowed and the time go in; what is
//! over comes out.
//!
//! The operator's flags give defaults, KollectScopes of a namespace override them (of several the
//! smallest number counts). Over quota, the newest objects give way and say so; whatever was there
//! before goes on as it did, and nothing that was collected is forgotten.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::jiff::Timestamp;
use kollect_api::{
    SinkKey,
    scope::{Ceiling, Quota},
};
use kollect_collect::plan::{Excess, TargetKey};
use tokio::time::Instant;

/// How long a target that was over quota rests before it is tried again: what it collects may have
/// become less.
const REST: Duration = Duration::from_mins(10);
/// How long it then has to show that it fits.
const TRIAL: Duration = Duration::from_secs(30);

/// Something of which a namespace has a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Good {
    /// Targets that are collected.
    Targets,
    /// Sinks that are used.
    Sinks,
    /// Rows.
    Rows,
    /// Memory of rows.
    RowBytes,
    /// Disk of Git mirrors.
    MirrorBytes,
}

impl Good {
    const ALL: [Self; 5] = [
        Self::Targets,
        Self::Sinks,
        Self::Rows,
        Self::RowBytes,
        Self::MirrorBytes,
    ];

    fn of(self, quota: &Quota) -> Option<u64> {
        match self {
            Self::Targets => quota.targets,
            Self::Sinks => quota.sinks,
            Self::Rows => quota.rows,
            Self::RowBytes => quota.row_bytes,
            Self::MirrorBytes => quota.mirror_bytes,
        }
    }

    /// The field of a scope, the flag, and what is counted.
    fn words(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Targets => ("targets", "--quota-targets", "targets"),
            Self::Sinks => ("sinks", "--quota-sinks", "sinks"),
            Self::Rows => ("rows", "--quota-rows", "rows"),
            Self::RowBytes => ("rowBytes", "--quota-row-bytes", "bytes of rows"),
            Self::MirrorBytes => (
                "mirrorBytes",
                "--quota-mirror-bytes",
                "bytes of Git mirrors",
            ),
        }
    }
}

/// How much of everything a namespace may use, and who says so.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits(BTreeMap<Good, (u64, Option<String>)>);

impl Limits {
    /// What holds for a namespace with these scopes.
    pub fn new<'s>(defaults: &Quota, scopes: &(impl Iterator<Item = Ceiling<'s>> + Clone)) -> Self {
        let limit = |good: Good| {
            let said = scopes.clone().filter_map(|scope| {
                let number = good.of(scope.quota?)?;
                Some((number, Some(scope.name.to_owned())))
            });
            let default = || good.of(defaults).map(|number| (number, None));
            said.min().or_else(default).map(|limit| (good, limit))
        };
        Self(Good::ALL.into_iter().filter_map(limit).collect())
    }

    /// Whether nothing is limited.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this is limited.
    pub fn has(&self, good: Good) -> bool {
        self.0.contains_key(&good)
    }

    fn number(&self, good: Good) -> u64 {
        self.0.get(&good).map_or(u64::MAX, |(number, _)| *number)
    }

    /// What is said of an object that is over.
    fn message(&self, good: Good, namespace: &str, what: &str) -> String {
        let (field, flag, counted) = good.words();
        let number = self.number(good);
        let ask = match self.0.get(&good) {
            Some((_, Some(scope))) => {
                format!("spec.quota.{field} raised in KollectScope {scope:?}")
            }
            _ => format!(
                "spec.quota.{field} set in a KollectScope of the namespace, or the operator's {flag} raised"
            ),
        };
        format!(
            "namespace {namespace:?} may have {number} {counted}, and older objects come first: {what}; use less there, or have {ask}"
        )
    }
}

/// What one target uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// Which target.
    pub key: TargetKey,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// What its spec is like.
    pub generation: Option<i64>,
    /// Rows it holds.
    pub rows: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// It was collected before, in this process or in another one.
    pub collected: bool,
    /// Everything it collects has been listed once in this process.
    pub listed: bool,
}

/// The targets of one namespace that are over its limits, and by what. `mirrors` is what its Git
/// mirrors take.
fn over(used: &[Used], limits: &Limits, mirrors: u64) -> BTreeMap<TargetKey, Good> {
    let mut order: Vec<&Used> = used.iter().collect();
    order.sort_by_key(|one| (one.created, one.key.name.clone()));
    let mut over = BTreeMap::new();
    let (mut rows, mut bytes) = (0_u64, 0_u64);
    for (before, one) in (0_u64..).zip(&order) {
        // After a restart the first list may end: half of what is at the sinks is of no use.
        let patience = if one.collected && !one.listed { 2 } else { 1 };
        let full = |good: Good, before: u64, own: u64| {
            let limit = limits.number(good).saturating_mul(patience);
            before >= limit || before.saturating_add(own) > limit
        };
        let good = if before >= limits.number(Good::Targets) {
            Some(Good::Targets)
        } else if full(Good::Rows, rows, one.rows) {
            Some(Good::Rows)
        } else if full(Good::RowBytes, bytes, one.bytes) {
            Some(Good::RowBytes)
        } else {
            None
        };
        over.extend(good.map(|good| (one.key.clone(), good)));
        rows = rows.saturating_add(one.rows);
        bytes = bytes.saturating_add(one.bytes);
    }
    let newest = order.last().map(|one| one.key.clone());
    if mirrors > limits.number(Good::MirrorBytes)
        && let Some(newest) = newest
    {
        over.entry(newest).or_insert(Good::MirrorBytes);
    }
    over
}

/// The sinks of one namespace that are over its limit, and what to say of each. The oldest come
/// first.
pub fn sinks_over(
    namespace: &str,
    sinks: &[(Option<Timestamp>, SinkKey)],
    limits: &Limits,
) -> BTreeMap<SinkKey, String> {
    let most = usize::try_from(limits.number(Good::Sinks)).unwrap_or(usize::MAX);
    let mut order: Vec<_> = sinks.iter().collect();
    order.sort();
    let message = || limits.message(Good::Sinks, namespace, "this sink is not used");
    let over = order.into_iter().skip(most);
    over.map(|(_, key)| (key.clone(), message())).collect()
}

/// What is remembered of targets that use up more than they may: without it, one that was stopped
/// could never show that it has become smaller.
#[derive(Debug, Default)]
pub struct QuotaBook {
    stopped: BTreeMap<TargetKey, Stopped>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stopped {
    generation: Option<i64>,
    /// What it held when it was stopped.
    rows: u64,
    bytes: u64,
    /// When it is tried again.
    again: Instant,
    /// Until when the trial lasts that is under way.
    trial: Option<Instant>,
}

impl QuotaBook {
    /// Judges the targets of one namespace.
    pub fn judge(
        &mut self,
        namespace: &str,
        used: &[Used],
        limits: &Limits,
        mirrors: u64,
        now: Instant,
    ) -> BTreeMap<TargetKey, Excess> {
        let used: Vec<Used> = used.iter().map(|one| self.as_stopped(one)).collect();
        let over = over(&used, limits, mirrors);
        let mut said = BTreeMap::new();
        for one in &used {
            let good = over.get(&one.key).copied();
            let stays = match good {
                None => {
                    self.stopped.remove(&one.key);
                    continue;
                }
                // How many there are is no matter of trying.
                Some(Good::Targets | Good::MirrorBytes) => true,
                Some(_) => self.stays_stopped(one, now),
            };
            if let Some(good) = good.filter(|_| stays) {
                let what = "this target is not collected; rows it had before stay as they are";
                let excess = Excess {
                    message: limits.message(good, namespace, what).into(),
                    keeps: one.collected,
                };
                said.insert(one.key.clone(), excess);
            }
        }
        said
    }

    /// What a target uses, or would use: what it held when it was stopped counts until it is tried
    /// again, though its rows may be gone.
    fn as_stopped(&self, one: &Used) -> Used {
        let mut used = one.clone();
        if let Some(known) = self
            .stopped
            .get(&one.key)
            .filter(|known| known.trial.is_none())
        {
            used.rows = used.rows.max(known.rows);
            used.bytes = used.bytes.max(known.bytes);
            used.listed = true;
        }
        used
    }

    /// Whether a target that is over is not to be collected at present.
    fn stays_stopped(&mut self, one: &Used, now: Instant) -> bool {
        let fresh = Stopped {
            generation: one.generation,
            rows: one.rows,
            bytes: one.bytes,
            again: now + REST,
            trial: None,
        };
        let Some(known) = self.stopped.get_mut(&one.key) else {
            self.stopped.insert(one.key.clone(), fresh);
            return true;
        };
        if let Some(until) = known.trial {
            let grows = one.rows > known.rows || one.bytes > known.bytes;
            if now < until && !grows {
                return false;
            }
            *known = fresh;
            return true;
        }
        if known.generation != one.generation || now >= known.again {
            known.generation = one.generation;
            known.trial = Some(now + TRIAL);
            return false;
        }
        true
    }

    /// Forgets targets that are gone.
    pub fn retain(&mut self, known: impl Fn(&TargetKey) -> bool) {
        self.stopped.retain(|key, _| known(key));
    }
}

#[cfg(test)]
#[path = "quota_tests.rs"]
mod tests;
