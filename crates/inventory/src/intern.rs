//! One copy of what many rows have in common.

use std::hash::BuildHasher;
use std::sync::Arc;

use hashbrown::{DefaultHashBuilder, HashTable};

use crate::attributes::Attributes;
use crate::origin::{Origin, OriginParts};
use crate::row::Row;

/// Gives rows their shared parts: equal origins and equal sets of attribute names are one value.
///
/// What is shared is reference counted by the rows that use it; [`Interner::sweep`] drops what no
/// row uses any more, so that namespaces, targets and profiles that come and go leave nothing
/// behind. Rows of different interners compare and sort like any others; they only share less.
#[derive(Debug, Default)]
pub struct Interner {
    origins: HashTable<Arc<Origin>>,
    names: HashTable<Arc<Box<str>>>,
    hasher: DefaultHashBuilder,
}

impl Interner {
    /// An interner that knows nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The origin with these parts.
    pub fn origin(&mut self, parts: OriginParts<'_>) -> Arc<Origin> {
        let hasher = &self.hasher;
        let entry = self.origins.entry(
            hasher.hash_one(parts),
            |origin| origin.parts() == parts,
            |origin| hasher.hash_one(origin.parts()),
        );
        let entry = entry.or_insert_with(|| Arc::new(Origin::new(parts)));
        Arc::clone(entry.get())
    }

    /// The row of an object.
    ///
    /// # Panics
    /// When name and uid are longer than 4 GiB together.
    pub fn row(
        &mut self,
        origin: &Arc<Origin>,
        name: &str,
        uid: &str,
        attributes: Attributes<'_>,
    ) -> Row {
        let names = self.names(attributes.names());
        Row::new(Arc::clone(origin), names, name, uid, attributes)
    }

    fn names(&mut self, names: &str) -> Arc<Box<str>> {
        let hasher = &self.hasher;
        let entry = self.names.entry(
            hasher.hash_one(names),
            |known| &***known == names,
            |known| hasher.hash_one(&***known),
        );
        let entry = entry.or_insert_with(|| Arc::new(names.into()));
        Arc::clone(entry.get())
    }

    /// Drops what no row uses any more.
    pub fn sweep(&mut self) {
        let hasher = &self.hasher;
        self.origins.retain(|origin| Arc::strong_count(origin) > 1);
        self.origins
            .shrink_to_fit(|origin| hasher.hash_one(origin.parts()));
        self.names.retain(|names| Arc::strong_count(names) > 1);
        self.names.shrink_to_fit(|names| hasher.hash_one(&***names));
    }

    /// How many origins and sets of attribute names are kept.
    pub fn len(&self) -> usize {
        self.origins.len() + self.names.len()
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::AttributesBuffer;
    use crate::origin::TargetKind;

    fn parts<'a>(owner: TargetKind, target: &'a str, namespace: &'a str) -> OriginParts<'a> {
        OriginParts {
            owner,
            target_namespace: "team-a",
            target_name: target,
            namespace,
            group: "",
            version: "v1",
            kind: "Pod",
        }
    }

    #[test]
    fn equal_parts_share_one_origin_and_owners_are_kept_apart() {
        let mut interner = Interner::new();
        let first = interner.origin(parts(TargetKind::Target, "web", "team-a"));
        let again = interner.origin(parts(TargetKind::Target, "web", "team-a"));
        let other_owner = interner.origin(parts(TargetKind::ClusterTarget, "web", "team-a"));
        // The same text cut at another place is another origin.
        let other_cut = interner.origin(parts(TargetKind::Target, "webteam-", "a"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_ne!(first, other_owner);
        assert_ne!(first, other_cut);
        assert_eq!(interner.len(), 3);
    }

    #[test]
    fn sweeping_drops_what_no_row_uses() {
        let mut interner = Interner::new();
        let mut attributes = AttributesBuffer::new();
        attributes.start().attribute("replicas").unsigned(3);
        let origin = interner.origin(parts(TargetKind::Target, "web", "team-a"));
        let kept = interner.row(&origin, "a", "u1", attributes.view());
        let gone = interner.row(&origin, "b", "u2", Attributes::NULL);
        drop(interner.origin(parts(TargetKind::Target, "web", "team-b")));
        drop(origin);
        assert_eq!(interner.len(), 4);
        drop(gone);
        interner.sweep();
        assert_eq!(interner.len(), 2);
        assert_eq!(kept.attributes(), attributes.view());
        drop(kept);
        interner.sweep();
        assert!(interner.is_empty());
    }
}
