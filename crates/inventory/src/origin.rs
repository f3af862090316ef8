//! What the rows of one target have in common.
//!
//! All rows that a target collects from one namespace share six of the eight texts that identify
//! a row. They are kept once, in an [`Origin`], and each row holds a pointer to it: that is most
//! of what makes a row small, and it makes comparing neighbours cheap.

/// The kind of object that asked for a row.
///
/// A namespaced target and a cluster target may have the same name and look at the same namespace;
/// on the wire their rows look alike. Here they never meet: the owner is part of the identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    /// A `KollectTarget`.
    Target,
    /// A `KollectClusterTarget`.
    ClusterTarget,
}

/// The parts of an [`Origin`], by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OriginParts<'a> {
    /// The kind of the target.
    pub owner: TargetKind,
    /// The target's namespace; for a cluster target the namespace it collected from.
    pub target_namespace: &'a str,
    /// The target's name.
    pub target_name: &'a str,
    /// The namespace of the objects, empty for cluster-scoped ones.
    pub namespace: &'a str,
    /// The objects' API group, empty for the core group.
    pub group: &'a str,
    /// The objects' API version.
    pub version: &'a str,
    /// The objects' kind.
    pub kind: &'a str,
}

/// What the rows of one target, one namespace and one kind of object have in common.
#[derive(Debug, PartialEq, Eq)]
pub struct Origin {
    owner: TargetKind,
    /// Where each of the six texts ends in `text`.
    ends: [u32; 6],
    text: Box<str>,
}

impl Origin {
    /// Keeps a copy of the parts.
    ///
    /// # Panics
    /// When the texts are longer than 4 GiB together.
    pub fn new(parts: OriginParts<'_>) -> Self {
        let fields = [
            parts.target_namespace,
            parts.target_name,
            parts.namespace,
            parts.group,
            parts.version,
            parts.kind,
        ];
        let text = fields.concat();
        let mut end = 0;
        let ends = fields.map(|field| {
            end += field.len();
            u32::try_from(end).expect("the texts of an origin stay below 4 GiB")
        });
        Origin {
            owner: parts.owner,
            ends,
            text: text.into_boxed_str(),
        }
    }

    fn field(&self, index: usize) -> &str {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[index] as usize]
    }

    /// All parts, by name.
    pub fn parts(&self) -> OriginParts<'_> {
        OriginParts {
            owner: self.owner,
            target_namespace: self.target_namespace(),
            target_name: self.target_name(),
            namespace: self.namespace(),
            group: self.group(),
            version: self.version(),
            kind: self.kind(),
        }
    }

    /// The kind of the target.
    pub fn owner(&self) -> TargetKind {
        self.owner
    }

    /// The target's namespace; for a cluster target the namespace it collected from.
    pub fn target_namespace(&self) -> &str {
        self.field(0)
    }

    /// The target's name.
    pub fn target_name(&self) -> &str {
        self.field(1)
    }

    /// The namespace of the objects, empty for cluster-scoped ones.
    pub fn namespace(&self) -> &str {
        self.field(2)
    }

    /// The objects' API group, empty for the core group.
    pub fn group(&self) -> &str {
        self.field(3)
    }

    /// The objects' API version.
    pub fn version(&self) -> &str {
        self.field(4)
    }

    /// The objects' kind.
    pub fn kind(&self) -> &str {
        self.field(5)
    }

    /// Bytes on the heap for one shared origin: the value with its two reference counts, and its text.
    pub fn heap_bytes(&self) -> usize {
        2 * size_of::<usize>() + size_of::<Origin>() + self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_as_they_were_given() {
        let given = OriginParts {
            owner: TargetKind::ClusterTarget,
            target_namespace: "team-a",
            target_name: "web",
            namespace: "",
            group: "",
            version: "v1",
            kind: "Pod",
        };
        assert_eq!(Origin::new(given).parts(), given);
    }
}
