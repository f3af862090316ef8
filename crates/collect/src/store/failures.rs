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
    last: Option<Failure>,
}

/// Whether a failure is that of another object.
fn is_not(namespace: &str, name: &str) -> impl Fn(&Failure) -> bool {
    move |failure| *failure.name != *name || *failure.namespace != *namespace
}

/// An object as messages name it.
pub(super) fn named(object: ObjectIdentity<&str>) -> String {
    let ObjectIdentity {
        namespace, name, ..
    } = object;
    match namespace {
        "" => name.to_owned(),
        _ => format!("{namespace}/{name}"),
    }
}

impl Failures {
    /// An object fails. Returns whether the last message is another one now.
    pub(super) fn add(&mut self, object: ObjectIdentity<&str>, message: &str) -> bool {
        self.recent.retain(is_not(object.namespace, object.name));
        if self.recent.len() == KEPT {
            self.recent.pop_front();
        }
        let failure = Failure {
            namespace: object.namespace.into(),
            name: object.name.into(),
            message: message.into(),
        };
        // Another object with the same problem is no news: a status is not written for each.
        let last = self.last.as_ref().map(|last| &*last.message);
        let new = last != Some(message);
        if new {
            self.last = Some(failure.clone());
        }
        self.recent.push_back(failure);
        new
    }

    /// An object does not fail any more.
    pub(super) fn forget(&mut self, namespace: &str, name: &str) {
        self.recent.retain(is_not(namespace, name));
        // Where others are known to fail, one of them is named instead.
        if !self.last.as_ref().is_none_or(is_not(namespace, name))
            && let Some(recent) = self.recent.back()
        {
            self.last = Some(recent.clone());
        }
    }

    /// The most recent failure and its object; it stays until no object fails.
    pub(super) fn last(&self) -> Option<Box<str>> {
        self.last.as_ref().map(|failure| {
            let object = ObjectIdentity {
                namespace: &*failure.namespace,
                name: &*failure.name,
                uid: "",
            };
            format!("{}: {}", named(object), failure.message).into()
        })
    }

    /// The most recent failures, newest last.
    pub(super) fn recent(&self) -> impl Iterator<Item = &Failure> {
        self.recent.iter()
    }
}
