//! What a Secret keeps, and who may see it.
//!
//! A profile without permission sees a core Secret as if it had no data. This is decided on what
//! a compiled path can read, not on how it is written: `cel:object`, `$..password` and
//! `{['data']}` see the same guarded object, and `$.metadata.annotations.data` is just an
//! annotation.

use kollect_expr::ReadSet;
use kollect_expr::reads::ReadNode;
use serde_json::{Map, Value};

/// The members of a Secret that hold what it keeps.
pub(crate) const DATA: [&str; 2] = ["data", "stringData"];

/// The member of the data that holds a Helm release, chart sources and rendered Secrets included.
pub(crate) const HELM_RELEASE: &str = "release";

/// The annotation in which `kubectl apply` keeps the object as it was applied, data included.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The same as a pointer.
pub(crate) const LAST_APPLIED_POINTER: &str =
    "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// A copy of the object without what a Secret keeps.
pub(super) fn guarded(object: &Value) -> Value {
    let Value::Object(members) = object else {
        return object.clone();
    };
    let mut kept: Map<String, Value> = members
        .iter()
        .filter(|(name, _)| !DATA.contains(&name.as_str()))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    let annotations = kept
        .get_mut("metadata")
        .and_then(|metadata| metadata.get_mut("annotations"));
    if let Some(Value::Object(annotations)) = annotations {
        annotations.remove(LAST_APPLIED);
    }
    Value::Object(kept)
}

/// Whether an expression with these reads can tell an object from its guarded copy. Most cannot,
/// and need no copy.
pub(super) fn sees_through_guard(reads: &ReadSet) -> bool {
    let mut places = vec![reads.root()];
    for name in ["metadata", "annotations", LAST_APPLIED] {
        if places.iter().any(|node| node.whole() || node.shape()) {
            return true;
        }
        let below = places.iter().flat_map(|node| children(node, name));
        places = below.collect();
    }
    !places.is_empty() || DATA.iter().any(|name| reads.may_read_root_member(name))
}

fn children<'r>(node: &'r ReadNode, name: &str) -> impl Iterator<Item = &'r ReadNode> + use<'r> {
    let named = node.members().get(name);
    [named, node.any()].into_iter().flatten()
}
