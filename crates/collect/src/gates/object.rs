//! What the gates look at in an object.

use kollect_watch::ObjectIdentity;
use serde_json::{Map, Value};

use super::selector::Labels;

/// A version of a resource, as the API server counts them.
///
/// Two versions of one resource (any object of it) can be compared if both are numbers, which they
/// are on every API server that stores its objects in etcd. A version that is no number is
/// [`Version::UNKNOWN`], and comparing with it decides nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Version(u64);

impl Version {
    /// Nothing is known about the order of events.
    pub const UNKNOWN: Version = Version(0);

    /// A version by its number.
    pub fn new(number: u64) -> Self {
        Version(number)
    }

    /// Reads `metadata.resourceVersion` of an object or a list.
    pub fn parse(text: &str) -> Self {
        Version(text.parse().unwrap_or(0))
    }

    /// Whether this is certainly before `other`.
    pub fn is_before(self, other: Version) -> bool {
        self.0 < other.0 && self.0 != 0
    }

    /// Whether this is certainly not after `other`.
    pub fn is_within(self, other: Version) -> bool {
        self.0 <= other.0 && self.0 != 0
    }

    /// Whether this is certainly after `other`.
    pub fn is_after(self, other: Version) -> bool {
        other.is_before(self)
    }
}

/// An object, decoded whole or projected, seen as the gates need it.
///
/// Reading is direct: nothing is copied out of the object.
#[derive(Debug, Clone, Copy)]
pub struct ObjectView<'a> {
    object: &'a Value,
    metadata: Option<&'a Map<String, Value>>,
    labels: Option<&'a Map<String, Value>>,
}

impl<'a> ObjectView<'a> {
    /// A view of any JSON; what is not there reads as empty.
    pub fn new(object: &'a Value) -> Self {
        let metadata = object.get("metadata").and_then(Value::as_object);
        let labels = metadata
            .and_then(|metadata| metadata.get("labels"))
            .and_then(Value::as_object);
        ObjectView {
            object,
            metadata,
            labels,
        }
    }

    fn text(&self, key: &str) -> &'a str {
        self.metadata
            .and_then(|metadata| metadata.get(key))
            .and_then(Value::as_str)
            .unwrap_or_default()
    }

    /// The object itself, for policies and extraction.
    pub fn object(&self) -> &'a Value {
        self.object
    }

    /// `metadata.namespace`, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &'a str {
        self.text("namespace")
    }

    /// `metadata.name`.
    pub fn name(&self) -> &'a str {
        self.text("name")
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &'a str {
        self.text("uid")
    }

    /// Which object it is.
    pub fn identity(&self) -> ObjectIdentity<&'a str> {
        ObjectIdentity {
            namespace: self.namespace(),
            name: self.name(),
            uid: self.uid(),
        }
    }

    /// `metadata.resourceVersion`.
    pub fn version(&self) -> Version {
        Version::parse(self.text("resourceVersion"))
    }
}

impl Labels for ObjectView<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.labels?.get(key)?.as_str()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_only_when_both_are_known() {
        let [five, six] = [5, 6].map(Version::new);
        assert!(five.is_before(six) && six.is_after(five));
        assert!(!five.is_before(five) && !five.is_after(five));
        assert!(five.is_within(five) && five.is_within(six) && !six.is_within(five));
        assert_eq!(Version::parse("6"), six);
        for opaque in ["", "0", "abc", "-1", "99999999999999999999"] {
            let unknown = Version::parse(opaque);
            assert_eq!(unknown, Version::UNKNOWN, "{opaque:?}");
            assert!(!unknown.is_before(six) && !unknown.is_after(six));
            assert!(!six.is_before(unknown) && !six.is_after(unknown));
            assert!(!six.is_within(unknown) && !unknown.is_within(six));
        }
    }

    #[test]
    fn what_is_not_there_reads_as_empty() {
        let nothing = serde_json::json!([1]);
        let view = ObjectView::new(&nothing);
        assert_eq!(
            (view.namespace(), view.name(), view.uid(), view.label("a")),
            ("", "", "", None)
        );
    }
}
