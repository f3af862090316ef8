//! What a judgement may ask about the cluster.
//!
//! Not knowing is an answer of its own. What scopes forbid must be known: while it is not, a change
//! is refused and may be tried again. What references lead to may be unknown or missing: the change
//! passes with a warning, because objects may be applied in any order, and the status of the object
//! says what became of it.

use std::collections::BTreeMap;

use kollect_api::{GroupVersionKind, KollectClusterScope, KollectProfile, KollectScope, SinkKey};

/// Why something is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKnown(pub String);

/// What became of looking for something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found<T> {
    /// It is there.
    There(T),
    /// It is certain that it is not.
    Missing,
    /// Nobody knows.
    NotKnown(NotKnown),
}

/// What is known of the cluster, as of now. Answers come at once: nobody waits for a network here.
pub trait Knowledge {
    /// The KollectScopes of a namespace. All of them apply.
    fn scopes_in(&self, namespace: &str) -> Result<Vec<KollectScope>, NotKnown>;

    /// The KollectClusterScopes. All of them apply.
    fn cluster_scopes(&self) -> Result<Vec<KollectClusterScope>, NotKnown>;

    /// A profile.
    fn profile(&self, namespace: &str, name: &str) -> Found<KollectProfile>;

    /// The annotations of a namespace, if they are known.
    fn annotations_of(&self, namespace: &str) -> Option<BTreeMap<String, String>>;

    /// Whether a sink exists.
    fn sink(&self, sink: &SinkKey) -> Found<()>;

    /// Whether a cluster target exists.
    fn cluster_target(&self, name: &str) -> Found<()>;

    /// Whether the API server serves a kind.
    fn kind(&self, kind: &GroupVersionKind) -> Found<()>;
}
