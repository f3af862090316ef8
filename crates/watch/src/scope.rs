//! How wide a list or watch is.

use std::fmt;
use std::sync::Arc;

/// How wide a list or watch is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WatchScope {
    /// All namespaces, or all objects of a cluster-scoped resource.
    All,
    /// One namespace.
    Namespace(Arc<str>),
}

impl WatchScope {
    /// The scope of objects in this namespace; the empty name is that of cluster-scoped objects.
    pub fn of(namespace: &Arc<str>) -> Self {
        if namespace.is_empty() {
            WatchScope::All
        } else {
            WatchScope::Namespace(Arc::clone(namespace))
        }
    }

    /// The namespace, if it is only one.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            WatchScope::All => None,
            WatchScope::Namespace(name) => Some(name),
        }
    }

    /// Whether objects in this namespace are within the scope.
    pub fn contains(&self, namespace: &str) -> bool {
        self.namespace().is_none_or(|name| name == namespace)
    }

    /// Whether everything in `other` is within this scope.
    pub fn covers(&self, other: &WatchScope) -> bool {
        *self == WatchScope::All || self == other
    }
}

impl fmt::Display for WatchScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WatchScope::All => f.write_str("all namespaces"),
            WatchScope::Namespace(name) => write!(f, "namespace {name:?}"),
        }
    }
}
