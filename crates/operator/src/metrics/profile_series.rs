//! The series that profiles define, computed from the rows of each target.
//!
//! Looking through all rows of a large target takes a while, so a result is used again for some
//! time. It is thrown away at once when the profile changes or the target goes.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use kollect_collect::{
    plan::{Extraction, Plan, TargetKey},
    series::{self, Sample, Series},
    store::Store,
};

use super::{catalogue as names, page::Page};

/// The series of all targets.
#[derive(Debug)]
pub(super) struct ProfileSeries {
    interval: Duration,
    targets: BTreeMap<TargetKey, Sampled>,
}

/// The series of one target as they were at one moment.
#[derive(Debug)]
struct Sampled {
    extraction: Arc<Extraction>,
    series: Series,
    at: Instant,
    samples: Vec<Sample>,
    /// What was left out so far, by labels.
    capped: BTreeMap<Vec<(Cow<'static, str>, String)>, u64>,
}

impl ProfileSeries {
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            targets: BTreeMap::new(),
        }
    }

    /// Writes the series of all targets that collect.
    pub(super) fn write(&mut self, store: &Store, plan: &Plan, now: Instant, page: &mut Page) {
        let mut before = std::mem::take(&mut self.targets);
        for target in plan.targets() {
            let Some(collection) = target.collection() else {
                continue;
            };
            let extraction = &collection.extraction;
            let known = before
                .remove(&target.key)
                .filter(|known| Arc::ptr_eq(&known.extraction, extraction));
            let sampled = match known {
                Some(known) if now.duration_since(known.at) < self.interval => known,
                Some(known) => known.again(store, &target.key, now),
                None => Sampled::new(extraction, now).again(store, &target.key, now),
            };
            self.targets.insert(target.key.clone(), sampled);
        }
        self.show(page);
    }

    fn show(&self, page: &mut Page) {
        for (family, metric) in [
            (series::Family::Plain, &names::CUSTOM_SERIES),
            (series::Family::Labeled, &names::CUSTOM_LABELED_SERIES),
        ] {
            let shown = page.family(metric);
            for sample in self.targets.values().flat_map(|sampled| &sampled.samples) {
                if sample.family == family {
                    shown.sample(sample.labels.clone(), sample.value);
                }
            }
        }
        let shown = page.family(&names::CUSTOM_CAPPED);
        for (labels, count) in self.targets.values().flat_map(|sampled| &sampled.capped) {
            shown.count(labels.clone(), *count);
        }
    }
}

impl Sampled {
    fn new(extraction: &Arc<Extraction>, now: Instant) -> Self {
        Self {
            series: Series::new(&extraction.profile),
            extraction: Arc::clone(extraction),
            at: now,
            samples: Vec::new(),
            capped: BTreeMap::new(),
        }
    }

    fn again(mut self, store: &Store, key: &TargetKey, now: Instant) -> Self {
        let profile = &self.extraction.profile;
        let subject = series::Subject {
            profile: profile.metadata.name.as_deref().unwrap_or_default(),
            gvk: self.extraction.gvk(),
            target_namespace: &key.namespace,
            target_name: &key.name,
        };
        let rows = store.rows(key);
        let attributes = rows.iter().map(|row| row.attributes());
        self.samples = self.series.samples(subject, attributes);
        self.at = now;
        for sample in &self.samples {
            if sample.family == series::Family::Capped {
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a number of combinations"
                )]
                let dropped = sample.value as u64;
                *self.capped.entry(sample.labels.clone()).or_default() += dropped;
            }
        }
        self
    }
}
