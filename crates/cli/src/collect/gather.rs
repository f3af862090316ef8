//! From objects to the rows of targets: the same gates and extraction as the operator's.

use std::collections::BTreeMap;

use kollect_collect::{
    DecodedObject,
    gates::ObjectView,
    plan::{Interest, ResourcePlan, TargetKey},
};
use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row};
use kollect_watch::WatchScope;

/// What the objects of a listing give to targets.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) rows: BTreeMap<TargetKey, Vec<Row>>,
    pub(crate) failures: BTreeMap<TargetKey, Vec<Failure>>,
    /// How many objects were looked at.
    pub(crate) objects: u64,
}

/// An object that could not be extracted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failure {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    /// Names paths and types, never values.
    pub(crate) reason: String,
}

/// Gathers the objects of one resource.
#[derive(Default)]
pub(crate) struct Gatherer {
    gathered: Gathered,
    interner: Interner,
    buffer: AttributesBuffer,
}

impl Gatherer {
    /// Shows an object to all targets of its resource.
    pub(crate) fn object(&mut self, plan: &ResourcePlan, object: &DecodedObject) {
        self.gathered.objects += 1;
        let view = ObjectView::new(object.value());
        for interest in plan.interests(view.namespace()) {
            if interest.decide(&view).collects() {
                self.extract(&interest, &view);
            }
        }
    }

    /// Notes that an object could not be read at all.
    pub(crate) fn unreadable(&mut self, plan: &ResourcePlan, failure: &Failure) {
        self.gathered.objects += 1;
        for interest in plan.interests(&failure.namespace) {
            self.fail(&interest, failure.clone());
        }
    }

    /// Notes that something in the list could not be read, whatever it was: it may have concerned
    /// any target.
    pub(crate) fn unidentified(&mut self, plan: &ResourcePlan, reason: &str) {
        self.gathered.objects += 1;
        for target in plan.targets_in(&WatchScope::All) {
            let failures = self.gathered.failures.entry(target.key.clone());
            failures.or_default().push(Failure {
                namespace: String::new(),
                name: "(unknown)".to_owned(),
                uid: String::new(),
                reason: reason.to_owned(),
            });
        }
    }

    fn extract(&mut self, interest: &Interest<'_>, view: &ObjectView<'_>) {
        let extraction = &interest.collection.extraction;
        let extracted = extraction
            .extractor
            .extract(view.object(), &mut self.buffer);
        let attributes = match extracted {
            Ok(attributes) => attributes,
            Err(error) => {
                let failure = Failure {
                    namespace: view.namespace().to_owned(),
                    name: view.name().to_owned(),
                    uid: view.uid().to_owned(),
                    reason: error.to_string(),
                };
                return self.fail(interest, failure);
            }
        };
        let (key, kind) = (interest.key, extraction.gvk());
        let origin = self.interner.origin(OriginParts {
            owner: key.owner,
            target_namespace: key.row_namespace(view.namespace()),
            target_name: &key.name,
            namespace: view.namespace(),
            group: &kind.group,
            version: &kind.version,
            kind: &kind.kind,
        });
        let row = self
            .interner
            .row(&origin, view.name(), view.uid(), attributes);
        let rows = self.gathered.rows.entry(key.clone());
        rows.or_default().push(row);
    }

    fn fail(&mut self, interest: &Interest<'_>, failure: Failure) {
        let failures = self.gathered.failures.entry(interest.key.clone());
        failures.or_default().push(failure);
    }

    /// Forgets everything: the listing begins again.
    pub(crate) fn restart(&mut self) {
        self.gathered = Gathered::default();
    }

    /// How many objects were looked at so far.
    pub(crate) fn objects(&self) -> u64 {
        self.gathered.objects
    }

    /// What came of it.
    pub(crate) fn finish(self) -> Gathered {
        self.gathered
    }
}

impl Gathered {
    /// Adds what another listing gave.
    pub(crate) fn add(&mut self, other: Gathered) {
        for (key, rows) in other.rows {
            self.rows.entry(key).or_default().extend(rows);
        }
        for (key, failures) in other.failures {
            self.failures.entry(key).or_default().extend(failures);
        }
        self.objects += other.objects;
    }
}
