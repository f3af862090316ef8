//! What the plan says about one target.

use std::collections::BTreeSet;
use std::sync::Arc;

use kollect_api::{condition::Reason, rules};

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
        let before = before.and_then(|plan| Some((plan, plan.collection()?)));
        let state = TargetState::Degraded(Degradation::new(
            Reason::InvalidSpec,
            format!("the object cannot be understood by this operator: {why}"),
        ));
        match before {
            Some((before, collection)) => Self {
                key: key.clone(),
                state,
                course: Course::Collect(collection.regardless_of_access()),
                namespaces: before.namespaces.regardless_of_access(),
                active_rules: before.active_rules,
                awaiting: BTreeSet::new(),
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
    /// Neither is empty: what was read there before stays, and what was not is not known.
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
        let reach = &mut Arc::make_mut(collection).reach;
        Arc::make_mut(reach).retain(|name, _| width.serves(name));
        if let (TargetState::Collecting, Some(trouble)) = (&self.state, self.unread_trouble(width))
        {
            self.state = TargetState::Degraded(trouble);
        }
    }

    /// What is wrong with a target of which something cannot be read.
    fn unread_trouble(&self, width: &Width) -> Option<Degradation> {
        let collection = self.collection()?;
        let beyond = self.namespaces.beyond.len();
        let (reason, message) = match &width.failure {
            Some(error) if !self.awaiting.is_empty() => (
                Reason::AccessCheckFailed,
                format!(
                    "RBAC access review API failed; collection paused until access checks succeed: {error}"
                ),
            ),
            _ if beyond > 0 => (
                Reason::InformerRegistrationFailed,
                format!(
                    "{} cannot be listed cluster-wide and {beyond} namespace(s) are more than can be watched one by one; grant list and watch cluster-wide, or select fewer namespaces",
                    collection.resource,
                ),
            ),
            // Where something may be read, collection goes on there.
            _ if collection.reach.is_empty() && self.awaiting.is_empty() => {
                (Reason::ScopeForbidden, self.forbidden_message()?)
            }
            _ => return None,
        };
        Some(Degradation::new(reason, message))
    }

    /// Namespaces that may not be read, while others are: nobody waits for them.
    pub fn refused(&self) -> impl Iterator<Item = &Arc<str>> {
        let namespaces = &self.namespaces;
        let refused = namespaces.forbidden.iter().chain(&namespaces.beyond);
        let something = self
            .collection()
            .is_some_and(|collection| !collection.reach.is_empty());
        refused.filter(move |_| something)
    }

    /// What is wrong, if anything.
    pub fn degradation(&self) -> Option<&Degradation> {
        match &self.state {
            TargetState::Degraded(degradation) => Some(degradation),
            TargetState::Collecting | TargetState::Undecided(_) => None,
        }
    }

    /// What is said about namespaces whose sensitive objects no administrator allowed to collect.
    pub fn unpermitted_message(&self) -> Option<String> {
        let unpermitted = &self.namespaces.unpermitted;
        let names = unpermitted.iter().map(|name| &**name);
        let advice = || rules::sensitive_advice(&self.key.namespace, names);
        (!unpermitted.is_empty()).then(advice)
    }

    /// What is said where access is denied somewhere: where, to what, and what becomes of the rows.
    pub fn forbidden_message(&self) -> Option<String> {
        /// How many namespaces a message names.
        const NAMED: usize = 20;
        let forbidden = &self.namespaces.forbidden;
        let collection = self.collection().filter(|_| !forbidden.is_empty())?;
        let resource = &collection.resource;
        let ask = format!(
            "grant the operator list and watch on {}; rows collected before stay as they are, and it is asked again every half minute",
            resource.rbac_name()
        );
        if !resource.namespaced {
            return Some(format!(
                "RBAC denied list or watch access to the cluster-scoped resource {}; {ask}",
                resource.rbac_name()
            ));
        }
        let named = forbidden[..forbidden.len().min(NAMED)].join(" ");
        let more = match forbidden.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let extent = if collection.reach.is_empty() {
            "all scoped namespaces; nothing can be collected"
        } else {
            "one or more scoped namespaces; partial collection continues for allowed namespaces"
        };
        Some(format!(
            "RBAC denied list or watch access to {} for {extent}; denied: [{named}]{more}; {ask} there",
            resource.rbac_name()
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
    /// Those within scopes whose sensitive objects no administrator allowed to collect.
    pub unpermitted: Names,
    /// Those named in `includedNamespaces` that this operator does not serve (`--watch-namespaces`).
    pub unserved: Names,
    /// Those effective that the operator may not list or watch. The empty name stands for a
    /// cluster-scoped resource.
    pub forbidden: Vec<Arc<str>>,
    /// Those effective that are left out because too many would have to be watched one by one.
    pub beyond: Vec<Arc<str>>,
}

impl TargetNamespaces {
    /// The same as far as it goes before access is looked at.
    pub(super) fn regardless_of_access(&self) -> Self {
        Self {
            forbidden: Vec::new(),
            beyond: Vec::new(),
            ..self.clone()
        }
    }
}
