//! From objects to the rows of targets.
//!
//! [`contribution`] is what an object is to one target, for everybody who reads objects: the
//! engine, which writes into the store, and [`Gatherer`], which keeps the rows of one listing.

use std::collections::BTreeMap;

use kollect_expr::Allowance;
use kollect_inventory::{Attributes, AttributesBuffer, Interner, OriginParts, Row};
use kollect_watch::WatchScope;

use crate::{
    DecodedObject, ExtractError,
    extract::OBJECT_LIMITS,
    gates::{Decision, ObjectView, PolicyFailures, Skip},
    plan::{Interest, ResourcePlan, TargetKey},
};

/// What an object is to a target.
#[derive(Debug)]
pub enum Contribution<'b> {
    /// A row with these attributes.
    Row(Attributes<'b>),
    /// Nothing: a gate refuses it, for this reason. A row it had is removed.
    Nothing(Skip),
    /// It should be a row and cannot be.
    Failed(ExtractError),
}

/// Decides what `object` is to the target of `interest`, and which policies failed on the way.
/// Attributes are written into `buffer`; all of it costs no more than is left of `allowance`.
pub fn contribution<'b>(
    interest: &Interest<'_>,
    object: &ObjectView<'_>,
    allowance: &mut Allowance,
    buffer: &'b mut AttributesBuffer,
) -> (Contribution<'b>, PolicyFailures) {
    let verdict = interest.decide_within(object, allowance);
    let contribution = match verdict.decision {
        Decision::Collect => {
            let extractor = &interest.collection.extraction.extractor;
            match extractor.extract_within(object.object(), buffer, allowance) {
                Ok(attributes) => Contribution::Row(attributes),
                Err(error) => Contribution::Failed(error),
            }
        }
        Decision::Skip(why) => Contribution::Nothing(why),
    };
    (contribution, verdict.policy_failures)
}

/// What the objects of a listing give to targets.
#[derive(Debug, Default)]
pub struct Gathered {
    /// The rows of each target.
    pub rows: BTreeMap<TargetKey, Vec<Row>>,
    /// What could not be made a row.
    pub failures: BTreeMap<TargetKey, Vec<Failure>>,
    /// How many objects of each target's kind were left out, and why.
    pub left_out: BTreeMap<TargetKey, BTreeMap<Skip, u64>>,
    /// Policies of rules that could not be evaluated, which counts as "no match".
    pub policy_failures: BTreeMap<TargetKey, PolicyFailures>,
    /// How many objects were looked at.
    pub objects: u64,
}

/// An object that could not be extracted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Failure {
    /// Its namespace; empty if it has none.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid, if it could be read.
    pub uid: String,
    /// Names paths and types, never values.
    pub reason: String,
}

/// Gathers the objects of one resource.
#[derive(Default)]
pub struct Gatherer {
    gathered: Gathered,
    interner: Interner,
    buffer: AttributesBuffer,
}

impl Gatherer {
    /// Shows an object to all targets of its resource.
    pub fn object(&mut self, plan: &ResourcePlan, object: &DecodedObject) {
        self.gathered.objects += 1;
        let view = ObjectView::new(object.value());
        for interest in plan.interests(view.namespace()) {
            let mut allowance = Allowance::new(OBJECT_LIMITS);
            let (contribution, failures) =
                contribution(&interest, &view, &mut allowance, &mut self.buffer);
            if failures.count > 0 {
                let failed = self.gathered.policy_failures.entry(interest.key.clone());
                let failed = failed.or_default();
                failed.count += failures.count;
                failed.last = failures.last;
            }
            match contribution {
                Contribution::Nothing(why) => leave_out(&mut self.gathered, interest.key, why),
                Contribution::Row(attributes) => {
                    let row = row(&mut self.interner, &interest, &view, attributes);
                    let rows = self.gathered.rows.entry(interest.key.clone());
                    rows.or_default().push(row);
                }
                Contribution::Failed(error) => {
                    let failure = Failure {
                        namespace: view.namespace().to_owned(),
                        name: view.name().to_owned(),
                        uid: view.uid().to_owned(),
                        reason: error.to_string(),
                    };
                    self.fail(interest.key, failure);
                }
            }
        }
        if plan.uninterested(view.namespace()) > 0 {
            for target in plan.targets_in(&WatchScope::All) {
                let collection = target.collection();
                if collection.is_some_and(|own| !own.reach.contains_key(view.namespace())) {
                    leave_out(&mut self.gathered, &target.key, Skip::Namespace);
                }
            }
        }
    }

    /// Notes that an object could not be read at all.
    pub fn unreadable(&mut self, plan: &ResourcePlan, failure: &Failure) {
        self.gathered.objects += 1;
        for interest in plan.interests(&failure.namespace) {
            self.fail(interest.key, failure.clone());
        }
    }

    /// Notes that something in the list could not be read, whatever it was: it may have concerned
    /// any target.
    pub fn unidentified(&mut self, plan: &ResourcePlan, reason: &str) {
        self.gathered.objects += 1;
        for target in plan.targets_in(&WatchScope::All) {
            let failure = Failure {
                namespace: String::new(),
                name: "(unknown)".to_owned(),
                uid: String::new(),
                reason: reason.to_owned(),
            };
            self.fail(&target.key, failure);
        }
    }

    fn fail(&mut self, target: &TargetKey, failure: Failure) {
        let failures = self.gathered.failures.entry(target.clone());
        failures.or_default().push(failure);
    }

    /// Forgets everything: the listing begins again.
    pub fn restart(&mut self) {
        self.gathered = Gathered::default();
    }

    /// How many objects were looked at so far.
    pub fn objects(&self) -> u64 {
        self.gathered.objects
    }

    /// What came of it.
    pub fn finish(self) -> Gathered {
        self.gathered
    }
}

fn leave_out(gathered: &mut Gathered, target: &TargetKey, why: Skip) {
    if !gathered.left_out.contains_key(target) {
        gathered.left_out.insert(target.clone(), BTreeMap::new());
    }
    if let Some(counts) = gathered.left_out.get_mut(target) {
        *counts.entry(why).or_default() += 1;
    }
}

fn row(
    interner: &mut Interner,
    interest: &Interest<'_>,
    object: &ObjectView<'_>,
    attributes: Attributes<'_>,
) -> Row {
    let key = interest.key;
    let kind = interest.collection.extraction.gvk();
    let origin = interner.origin(OriginParts {
        owner: key.owner,
        target_namespace: key.row_namespace(object.namespace()),
        target_name: &key.name,
        namespace: object.namespace(),
        group: &kind.group,
        version: &kind.version,
        kind: &kind.kind,
    });
    interner.row(&origin, object.name(), object.uid(), attributes)
}

impl Gathered {
    /// Adds what another listing gave.
    pub fn add(&mut self, other: Gathered) {
        for (key, rows) in other.rows {
            self.rows.entry(key).or_default().extend(rows);
        }
        for (key, failures) in other.failures {
            self.failures.entry(key).or_default().extend(failures);
        }
        for (key, counts) in other.left_out {
            let own = self.left_out.entry(key).or_default();
            for (why, count) in counts {
                *own.entry(why).or_default() += count;
            }
        }
        for (key, failures) in other.policy_failures {
            let own = self.policy_failures.entry(key).or_default();
            own.count += failures.count;
            own.last = failures.last.or(own.last.take());
        }
        self.objects += other.objects;
    }
}
