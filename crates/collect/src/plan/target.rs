//! What the plan says about one target.

use std::collections::BTreeSet;
use std::sync::Arc;

use kollect_api::condition::Reason;

use super::collection::Collection;
use super::degraded::Degradation;
use super::key::TargetKey;
use super::watch::Width;

/// The plan of one target.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetPlan {
    /// Which target.
    pub key: TargetKey,
    /// What its conditions say.
    pub state: TargetState,
    /// What happens with its rows.
    pub course: Course,
    /// The namespaces for its status.
    pub namespaces: TargetNamespaces,
    /// `status.activeResourceRules`.
    pub active_rules: usize,
    /// Effective namespaces that are not collected from yet, because it is not known whether they
    /// may be. The target is not complete without them.
    pub awaiting: BTreeSet<Arc<str>>,
}

/// Whether a target does what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetState {
    /// It does.
    Collecting,
    /// It does not, or not all of it. Whether it collects anything says [`Course`].
    Degraded(Degradation),
    /// Something could not be read. Conditions stay as they are; try again.
    Undecided(String),
}

/// What happens with the rows of a target.
#[derive(Debug, Clone, PartialEq)]
pub enum Course {
    /// They are kept up to date.
    Collect(Arc<Collection>),
    /// There are none: the target is not allowed or not able to collect, for a definite reason.
    Stop,
    /// Nothing is known about them. Nothing is written, and inventories that would contain them
    /// wait, because exporting without them would delete them.
    Wait,
}

impl TargetPlan {
    /// The plan of a target that cannot be decoded: as before, if it collected.
    pub(super) fn unreadable(key: &TargetKey, why: &str, before: Option<&Arc<Self>>) -> Self {
        let before = before.filter(|plan| plan.collection().is_some());
        let state = TargetState::Degraded(Degradation::new(
            Reason::InvalidSpec,
            format!("the object cannot be understood by this operator: {why}"),
        ));
        match before {
            Some(before) => Self {
                state,
                ..Self::clone(before)
            },
            None => Self {
                key: key.clone(),
                state,
                course: Course::Wait,
                namespaces: TargetNamespaces::default(),
                active_rules: 0,
                awaiting: BTreeSet::new(),
            },
        }
    }

    /// What the target collects, if it does.
    pub fn collection(&self) -> Option<&Arc<Collection>> {
        match &self.course {
            Course::Collect(collection) => Some(collection),
            Course::Stop | Course::Wait => None,
        }
    }

    /// Takes out what the operator may not watch, and what it does not know yet whether it may.
    pub(super) fn narrow(&mut self, width: &Width) {
        let Course::Collect(collection) = &mut self.course else {
            return;
        };
        let unserved = |name: &&Arc<str>| !width.serves(name);
        if !collection.reach.keys().any(|name| !width.serves(name)) {
            return;
        }
        for name in collection.reach.keys().filter(unserved) {
            let namespaces = &mut self.namespaces;
            if width.forbidden.contains(name) {
                namespaces.forbidden.push(Arc::clone(name));
            } else if width.beyond.contains(name) {
                namespaces.beyond.push(Arc::clone(name));
            } else {
                self.awaiting.insert(Arc::clone(name));
            }
        }
        let trouble = match &width.failure {
            Some(error) if !self.awaiting.is_empty() => Some(Degradation::new(
                Reason::AccessCheckFailed,
                format!(
                    "RBAC access review API failed; collection paused until access checks succeed: {error}"
                ),
            )),
            _ if !self.namespaces.beyond.is_empty() => Some(Degradation::new(
                Reason::InformerRegistrationFailed,
                format!(
                    "{} cannot be listed cluster-wide and {} namespace(s) are more than can be watched one by one; grant list and watch cluster-wide, or select fewer namespaces",
                    collection.resource,
                    self.namespaces.beyond.len()
                ),
            )),
            _ => None,
        };
        if let (Some(trouble), TargetState::Collecting) = (trouble, &self.state) {
            self.state = TargetState::Degraded(trouble);
        }
        let reach = &mut Arc::make_mut(collection).reach;
        Arc::make_mut(reach).retain(|name, _| width.serves(name));
    }

    /// What is wrong, if anything.
    pub fn degradation(&self) -> Option<&Degradation> {
        match &self.state {
            TargetState::Degraded(degradation) => Some(degradation),
            TargetState::Collecting | TargetState::Undecided(_) => None,
        }
    }

    /// The message of `Synced` with reason `ScopeForbidden`, if access is denied somewhere.
    pub fn forbidden_message(&self) -> Option<String> {
        /// How many namespaces a message names.
        const NAMED: usize = 20;
        let forbidden = &self.namespaces.forbidden;
        if forbidden.is_empty() {
            return None;
        }
        if forbidden.iter().any(|namespace| namespace.is_empty()) {
            return Some("RBAC denied list access to this cluster-scoped resource; grant list and watch on it".to_owned());
        }
        let named = forbidden[..forbidden.len().min(NAMED)].join(" ");
        let more = match forbidden.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Some(format!(
            "RBAC denied list access for one or more scoped namespaces; partial collection continues for allowed namespaces; denied: [{named}]{more}"
        ))
    }
}

/// Names of namespaces, sorted and unique. Targets that mean the same ones share them.
pub type Names = Arc<[Arc<str>]>;

/// The namespaces of a target.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetNamespaces {
    /// Those the target asks for: `status.matchedNamespaces`.
    pub matched: Names,
    /// Those left after scopes: `status.effectiveNamespaces`.
    pub effective: Names,
    /// Those asked for that a scope took away.
    pub outside_scope: Names,
    /// Those effective that the operator may not list or watch. The empty name stands for a
    /// cluster-scoped resource.
    pub forbidden: Vec<Arc<str>>,
    /// Those effective that are left out because too many would have to be watched one by one.
    pub beyond: Vec<Arc<str>>,
}
