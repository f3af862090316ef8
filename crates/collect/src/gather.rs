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
    gates::{ObjectView, PolicyFailures},
    plan::{Interest, ResourcePlan, TargetKey},
};

/// What an object is to a target.
#[derive(Debug)]
pub enum Contribution<'b> {
    /// A row with these attributes.
    Row(Attributes<'b>),
    /// Nothing: a gate refuses it. A row it had is removed.
    Nothing,
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
    let contribution = if verdict.collects() {
        let extractor = &interest.collection.extraction.extractor;
        match extractor.extract_within(object.object(), buffer, allowance) {
            Ok(attributes) => Contribution::Row(attributes),
            Err(error) => Contribution::Failed(error),
        }
    } else {
        Contribution::Nothing
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
            match contribution(&interest, &view, &mut allowance, &mut self.buffer).0 {
                Contribution::Nothing => {}
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
        self.objects += other.objects;
    }
}
