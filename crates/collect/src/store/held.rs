//! What nobody waits for although it is not known.

use std::collections::BTreeSet;
use std::sync::{Arc, RwLockReadGuard};

use super::locks::{lock, read, write};
use super::news::News;
use super::target::TargetRows;
use crate::plan::TargetKey;

/// A target of which something is not known, and that nobody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldTarget {
    /// Which target.
    pub key: TargetKey,
    /// The namespaces of which nothing is known; none if nothing is known of the target at all.
    pub namespaces: Option<BTreeSet<Arc<str>>>,
    /// Why.
    pub why: String,
}

impl HeldTarget {
    pub(super) fn of(target: &TargetRows, includes: impl Fn(&str) -> bool) -> Option<Self> {
        let key = target.key.clone();
        if let Some(why) = target.held() {
            return Some(Self {
                key,
                namespaces: None,
                why: why.into(),
            });
        }
        let mut dark = target.dark()?;
        dark.retain(|name| includes(name));
        (!dark.is_empty()).then_some(Self {
            key,
            namespaces: Some(dark),
            why: target.why_dark(),
        })
    }
}

impl TargetRows {
    /// The target is at fault itself, for this reason, or no longer: as long as it is and has not
    /// been listed, nobody waits for it, and nobody is told anything about its rows.
    pub(super) fn hold(&self, why: Option<&str>) -> News {
        let mut held = write(&self.held);
        let why = why.filter(|_| !self.is_complete());
        let changes = held.is_some() != why.is_some();
        if held.as_deref() != why {
            *held = why.map(Into::into);
        }
        drop(held);
        if !changes {
            return News::default();
        }
        self.start_over()
    }

    /// Why nobody waits for the target, if so.
    pub(super) fn held(&self) -> Option<Box<str>> {
        read(&self.held).clone()
    }

    /// Keeps it from becoming held, or known, for a look at one moment.
    pub(super) fn lock_held(&self) -> RwLockReadGuard<'_, Option<Box<str>>> {
        read(&self.held)
    }

    /// The namespaces of which nothing is known although nobody waits for them.
    pub(super) fn dark(&self) -> Option<BTreeSet<Arc<str>>> {
        lock(&self.sync).dark().cloned()
    }

    /// What cannot be read any more although it is known from before, as people are told.
    pub(super) fn stale(&self) -> Option<String> {
        let plan = lock(&self.expected).clone()?;
        plan.forbidden_message()
    }

    /// Why nothing is known of them.
    pub(super) fn why_dark(&self) -> String {
        let plan = lock(&self.expected);
        let why = plan.as_ref().and_then(|plan| {
            let degradation = || Some(plan.degradation()?.message.clone());
            plan.forbidden_message().or_else(degradation)
        });
        let listing = || "they are being listed".to_owned();
        why.unwrap_or_else(listing)
    }

    pub(super) fn is_held(&self) -> bool {
        read(&self.held).is_some()
    }
}
