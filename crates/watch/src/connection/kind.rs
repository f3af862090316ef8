//! What a request is about, as far as its turn is concerned.

use http::{Method, Uri};

/// Kinds of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Who leads.
    Lease,
    /// Who may do what.
    Review,
    /// Anything else that changes something.
    Write,
    /// Objects and lists.
    Read,
    /// A stream of changes.
    Watch,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Lease,
        Self::Review,
        Self::Write,
        Self::Read,
        Self::Watch,
    ];

    /// A word for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lease => "lease",
            Self::Review => "review",
            Self::Write => "write",
            Self::Read => "read",
            Self::Watch => "watch",
        }
    }

    /// The kind of a request. The path may have something in front, where a cluster is reached
    /// through somebody else's server.
    pub(super) fn of(method: &Method, uri: &Uri) -> Self {
        match group(uri.path()) {
            "coordination.k8s.io" => Self::Lease,
            "authorization.k8s.io" | "authentication.k8s.io" => Self::Review,
            _ if method != Method::GET => Self::Write,
            _ => {
                let query = uri.query().unwrap_or_default();
                let watches = |pair: &str| matches!(pair, "watch=true" | "watch=1" | "watch");
                if query.split('&').any(watches) {
                    Self::Watch
                } else {
                    Self::Read
                }
            }
        }
    }

    /// Whether it only reads.
    pub(super) fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Watch)
    }
}

/// The API group that a path belongs to; empty for the core group and for everything else.
pub(super) fn group(path: &str) -> &str {
    let Some((_, rest)) = path.split_once("/apis/") else {
        return "";
    };
    rest.split('/').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_told_apart() {
        for (method, uri, kind, of) in [
            ("GET", "/api/v1/secrets?watch=true", Kind::Watch, ""),
            ("GET", "/api/v1/pods?limit=500&watch=1", Kind::Watch, ""),
            ("GET", "/api/v1/namespaces?limit=500", Kind::Read, ""),
            ("GET", "/version", Kind::Read, ""),
            ("GET", "/apis", Kind::Read, ""),
            (
                "PATCH",
                "https://h/k8s/c-1/apis/kollect.dev/v1alpha1/namespaces/a/kollecttargets/t/status",
                Kind::Write,
                "kollect.dev",
            ),
            ("POST", "/api/v1/namespaces/a/events", Kind::Write, ""),
            (
                "POST",
                "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                Kind::Review,
                "authorization.k8s.io",
            ),
            (
                "GET",
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
                Kind::Lease,
                "coordination.k8s.io",
            ),
            (
                "PUT",
                "/apis/coordination.k8s.io/v1/namespaces/a/leases/l",
                Kind::Lease,
                "coordination.k8s.io",
            ),
        ] {
            let uri: Uri = uri.parse().unwrap();
            let method: Method = method.parse().unwrap();
            assert_eq!(Kind::of(&method, &uri), kind, "{method} {uri}");
            assert_eq!(group(uri.path()), of, "{uri}");
        }
    }
}
