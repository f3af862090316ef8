//! A resource of the API server: what can be listed and watched.

use std::fmt;

/// A resource of the API server. Kinds are what people write, resources are what requests need;
/// [`discovery`](crate::discovery) knows the one from the other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    /// API group, empty for the core group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Plural name, in paths and roles, for example `gateways`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl Resource {
    /// The path of all objects, or of those in a namespace.
    pub(crate) fn collection_path(&self, namespace: Option<&str>) -> String {
        let root = group_path(&self.group, &self.version);
        let plural = &self.plural;
        match namespace {
            Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
            None => format!("{root}/{plural}"),
        }
    }
}

/// The path under which a group and version is served.
pub(crate) fn group_path(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    }
}

impl Resource {
    /// The name that rules of RBAC know it by, for example `deployments.apps`: versions mean nothing
    /// to them.
    pub fn rbac_name(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

impl fmt::Display for Resource {
    /// The customary form, for example `deployments.v1.apps`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.plural, self.version)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        let resource = |group: &str| Resource {
            group: group.to_owned(),
            version: "v1".to_owned(),
            plural: "xs".to_owned(),
            namespaced: true,
        };
        assert_eq!(resource("").collection_path(None), "/api/v1/xs");
        assert_eq!(
            resource("g.io").collection_path(Some("n")),
            "/apis/g.io/v1/namespaces/n/xs"
        );
        assert_eq!(resource("").to_string(), "xs.v1");
        assert_eq!(resource("g.io").to_string(), "xs.v1.g.io");
    }
}
