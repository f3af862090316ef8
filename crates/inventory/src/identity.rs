//! Which row a row is, and where it stands among others.
//!
//! The identity is made of values: the target (with its kind), the object's namespace, name, uid,
//! group, version and kind. It is never spelled into a path or a key string and parsed back.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::iter;

use crate::origin::{Origin, TargetKind};
use crate::uid::Uid;

/// The identity of a row, borrowed from it.
///
/// Identities are ordered as rows are in every exported form: by the bytes of target namespace,
/// target name, namespace, name, uid, group, version and kind joined with zero bytes. The owner,
/// which is not exported, comes last.
#[derive(Debug, Clone, Copy)]
pub struct Identity<'a> {
    /// Target, namespace and kind of object.
    pub origin: &'a Origin,
    /// The object's name.
    pub name: &'a str,
    /// The object's uid.
    pub uid: Uid<'a>,
}

impl<'a> Identity<'a> {
    /// Compares field by field, in the order of the joined text.
    ///
    /// A zero byte sorts before all others, so the field that is exhausted first sorts first, with
    /// or without the separator. The one exception is a field that itself goes on with a zero byte
    /// where the other ends. Kubernetes names cannot contain it, but documents are read from
    /// anywhere, so that case falls back to the joined text itself.
    fn compare(self, other: Self) -> Ordering {
        let same_origin = std::ptr::eq(self.origin, other.origin);
        if !same_origin {
            for (a, b) in iter::zip(self.target_and_namespace(), other.target_and_namespace()) {
                if a != b {
                    return self.decide(a, b, other);
                }
            }
        }
        if self.name != other.name {
            return self.decide(self.name, other.name, other);
        }
        if self.uid != other.uid {
            return match (self.uid, other.uid) {
                (Uid::Packed(a), Uid::Packed(b)) => a.cmp(&b),
                (a, b) => self.decide(&a.text(), &b.text(), other),
            };
        }
        if !same_origin {
            for (a, b) in iter::zip(self.kind(), other.kind()) {
                if a != b {
                    return self.decide(a, b, other);
                }
            }
        }
        self.origin.owner().cmp(&other.origin.owner())
    }

    /// The verdict for the first field that differs.
    fn decide(self, a: &str, b: &str, other: Self) -> Ordering {
        let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
        if long.as_bytes().get(short.len()) == Some(&0) && long.starts_with(short) {
            self.joined()
                .cmp(&other.joined())
                .then_with(|| self.fields().cmp(&other.fields()))
                .then_with(|| self.origin.owner().cmp(&other.origin.owner()))
        } else {
            a.cmp(b)
        }
    }

    fn target_and_namespace(self) -> [&'a str; 3] {
        let origin = self.origin;
        [
            origin.target_namespace(),
            origin.target_name(),
            origin.namespace(),
        ]
    }

    fn kind(self) -> [&'a str; 3] {
        [
            self.origin.group(),
            self.origin.version(),
            self.origin.kind(),
        ]
    }

    fn fields(self) -> [String; 8] {
        let [target_namespace, target_name, namespace] = self.target_and_namespace();
        let [group, version, kind] = self.kind();
        let uid = self.uid.text();
        [
            target_namespace,
            target_name,
            namespace,
            self.name,
            &uid,
            group,
            version,
            kind,
        ]
        .map(str::to_owned)
    }

    fn joined(self) -> Vec<u8> {
        self.fields().join("\0").into_bytes()
    }
}

impl Ord for Identity<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compare(*other)
    }
}

impl PartialOrd for Identity<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Identity<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
            && self.uid == other.uid
            && (std::ptr::eq(self.origin, other.origin) || self.origin == other.origin)
    }
}

impl Eq for Identity<'_> {}

impl Hash for Identity<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.origin.parts().hash(state);
        self.name.hash(state);
        self.uid.hash(state);
    }
}

impl fmt::Display for Identity<'_> {
    /// Names the row in messages: what it is and which target saw it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let origin = self.origin;
        f.write_str(origin.kind())?;
        f.write_str(" ")?;
        if !origin.namespace().is_empty() {
            write!(f, "{}/", origin.namespace())?;
        }
        write!(f, "{} (uid {}) of ", self.name, self.uid)?;
        match origin.owner() {
            TargetKind::Target => f.write_str("target ")?,
            TargetKind::ClusterTarget => f.write_str("cluster target ")?,
        }
        if !origin.target_namespace().is_empty() {
            write!(f, "{}/", origin.target_namespace())?;
        }
        f.write_str(origin.target_name())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::origin::OriginParts;

    fn origin(owner: TargetKind, fields: &[String; 8]) -> Origin {
        Origin::new(OriginParts {
            owner,
            target_namespace: &fields[0],
            target_name: &fields[1],
            namespace: &fields[2],
            group: &fields[5],
            version: &fields[6],
            kind: &fields[7],
        })
    }

    /// Few letters, so that fields are often equal or prefixes of each other; zero bytes included.
    fn fields() -> impl Strategy<Value = [String; 8]> {
        proptest::array::uniform8("[a\0 -]{0,3}|0b7e3c1a-5d2f-4e60-9a8b-c0ffee12345[67]")
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_zero_joined_text(a in fields(), b in fields()) {
            let (origin_a, origin_b) = (origin(TargetKind::Target, &a), origin(TargetKind::Target, &b));
            let left = Identity { origin: &origin_a, name: &a[3], uid: Uid::new(&a[4]) };
            let right = Identity { origin: &origin_b, name: &b[3], uid: Uid::new(&b[4]) };
            let expected = a.join("\0").as_bytes().cmp(b.join("\0").as_bytes()).then(a.cmp(&b));
            prop_assert_eq!(left.cmp(&right), expected);
            prop_assert_eq!(left == right, a == b);
        }

        #[test]
        fn without_zero_bytes_it_is_that_of_the_fields(
            a in proptest::array::uniform8("[ab-]{0,2}"),
            b in proptest::array::uniform8("[ab-]{0,2}"),
        ) {
            let (origin_a, origin_b) = (origin(TargetKind::Target, &a), origin(TargetKind::Target, &b));
            let left = Identity { origin: &origin_a, name: &a[3], uid: Uid::new(&a[4]) };
            let right = Identity { origin: &origin_b, name: &b[3], uid: Uid::new(&b[4]) };
            prop_assert_eq!(left.cmp(&right), a.cmp(&b));
        }
    }

    #[test]
    fn owners_never_share_an_identity() {
        let fields = ["team-a", "web", "team-a", "api", "u1", "", "v1", "Pod"].map(str::to_owned);
        let target = origin(TargetKind::Target, &fields);
        let cluster = origin(TargetKind::ClusterTarget, &fields);
        let of = |origin| Identity {
            origin,
            name: "api",
            uid: Uid::new("u1"),
        };
        assert_ne!(of(&target), of(&cluster));
        assert!(of(&target) < of(&cluster));
        assert_eq!(
            of(&cluster).to_string(),
            "Pod team-a/api (uid u1) of cluster target team-a/web"
        );
    }
}
