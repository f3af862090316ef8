//! Which object.

/// Which object, without anything of it. Names recur, the UID does not.
///
/// Owned where it travels, borrowed (`ObjectIdentity<&str>`) where it is only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectIdentity<Text = String> {
    /// Empty for objects of cluster-scoped kinds.
    pub namespace: Text,
    /// The name.
    pub name: Text,
    /// The UID.
    pub uid: Text,
}

impl ObjectIdentity {
    /// The same identity, borrowed.
    pub fn borrowed(&self) -> ObjectIdentity<&str> {
        ObjectIdentity {
            namespace: &self.namespace,
            name: &self.name,
            uid: &self.uid,
        }
    }
}

impl ObjectIdentity<&str> {
    /// The same identity, for good.
    pub fn to_owned(self) -> ObjectIdentity {
        ObjectIdentity {
            namespace: self.namespace.to_owned(),
            name: self.name.to_owned(),
            uid: self.uid.to_owned(),
        }
    }
}
