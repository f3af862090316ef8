//! What goes wrong with the objects of a target.

use std::collections::VecDeque;

use kollect_watch::ObjectIdentity;

/// How many failures are kept with their text. The number of failing objects is exact anyway.
const KEPT: usize = 16;

/// One object that cannot be extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Its namespace, empty for cluster-scoped objects.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// What stands against it; holds nothing of the object.
    pub message: Box<str>,
}

/// The last failures of a target.
#[derive(Debug, Default)]
pub(super) struct Failures {
    recent: VecDeque<Failure>,
    last: Option<Box<str>>,
}

impl Failures {
    /// An object fails. Returns whether the last message is another one now.
    pub(super) fn add(&mut self, object: ObjectIdentity<&str>, message: &str) -> bool {
        self.forget(object.namespace, object.name);
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        self.recent.push_back(Failure {
            namespace: object.namespace.into(),
            name: object.name.into(),
            message: message.into(),
        });
        let new = self.last.as_deref() != Some(message);
        self.last = Some(message.into());
        new
    }

    /// An object does not fail any more.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        self.recent
            .retain(|failure| *failure.name != *name || *failure.namespace != *namespace);
    }

    /// The most recent message; it stays until no object fails.
    pub(super) fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The most recent failures, newest last.
    pub(super) fn recent(&self) -> impl Iterator<Item = &Failure> {
        self.recent.iter()
    }
}
