//! What a request to an API server is about, as its authoriser would see it.

use super::DISCOVERY;

/// A request, without what makes two of a kind differ.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// API group; empty for the core group.
    pub group: String,
    /// Plural, with the subresource behind a slash; [`DISCOVERY`] for what is asked to learn what
    /// is served.
    pub resource: String,
    /// Namespace; empty for cluster-scoped resources and for all namespaces.
    pub namespace: String,
    /// The object; empty for all of them. The path in case of discovery.
    pub name: String,
}

impl Request {
    /// From the method and target of a request line.
    pub(super) fn parse(method: &str, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let (group, rest) = match parts.as_slice() {
            ["api", _, rest @ ..] => ("", rest),
            ["apis", group, _, rest @ ..] => (*group, rest),
            rest => ("", &rest[rest.len()..]),
        };
        let (namespace, rest) = match rest {
            // A namespace is an object too, with subresources of its own.
            ["namespaces", namespace, resource, rest @ ..]
                if !matches!(*resource, "status" | "finalize") =>
            {
                (*namespace, [&[*resource], rest].concat())
            }
            rest => ("", rest.to_vec()),
        };
        let Some((resource, rest)) = rest.split_first() else {
            return Self {
                verb: "get".to_owned(),
                group: group.to_owned(),
                resource: DISCOVERY.to_owned(),
                namespace: String::new(),
                name: path.to_owned(),
            };
        };
        let name = rest.first().copied().map(str::to_owned);
        let name = name.or_else(|| selected(query)).unwrap_or_default();
        let resource = match rest.get(1) {
            Some(sub) => format!("{resource}/{sub}"),
            None => (*resource).to_owned(),
        };
        Self {
            verb: verb(method, query, !rest.is_empty()).to_owned(),
            group: group.to_owned(),
            resource,
            namespace: namespace.to_owned(),
            name,
        }
    }

    /// Whether it is about this resource, written with or without its group.
    pub(super) fn is_about(&self, resource: &str) -> bool {
        if self.resource == resource {
            return true;
        }
        let (plural, sub) = resource.split_once('/').unwrap_or((resource, ""));
        let Some((plural, group)) = plural.split_once('.') else {
            return false;
        };
        let own = self
            .resource
            .split_once('/')
            .unwrap_or((&self.resource, ""));
        group == self.group && (plural, sub) == own
    }

    /// Whether the answer is a stream without end.
    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }
}

fn verb(method: &str, query: &str, named: bool) -> &'static str {
    let watching = query
        .split('&')
        .any(|pair| matches!(pair, "watch=true" | "watch=1" | "watch"));
    match method {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if named => "delete",
        "DELETE" => "deletecollection",
        _ if watching => "watch",
        _ if named => "get",
        _ => "list",
    }
}

/// The one object that a field selector means, if so.
fn selected(query: &str) -> Option<String> {
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("fieldSelector="))?;
    let value = value.replace("%3D", "=").replace("%3d", "=");
    value.strip_prefix("metadata.name=").map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_seen_as_an_authoriser_sees_them() {
        for (line, expected) in [
            ("GET /api/v1/namespaces?limit=500", "list namespaces  "),
            (
                "GET /api/v1/namespaces?watch=true&x=1",
                "watch namespaces  ",
            ),
            ("GET /api/v1/namespaces/a", "get namespaces  a"),
            (
                "PUT /api/v1/namespaces/a/finalize",
                "update namespaces/finalize  a",
            ),
            ("GET /api/v1/namespaces/a/secrets/b", "get secrets a b"),
            (
                "GET /api/v1/namespaces/a/secrets?watch=1&fieldSelector=metadata.name%3Ddsn",
                "watch secrets a dsn",
            ),
            (
                "PATCH /apis/kollect.dev/v1alpha1/namespaces/a/kollecttargets/b/status?x",
                "patch kollecttargets/status a b",
            ),
            (
                "POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                "create selfsubjectaccessreviews  ",
            ),
            (
                "DELETE /api/v1/namespaces/a/pods",
                "deletecollection pods a ",
            ),
            ("GET /apis", "get discovery  /apis"),
            ("GET /apis/apps/v1", "get discovery  /apis/apps/v1"),
            ("GET /api/v1", "get discovery  /api/v1"),
            ("GET /version", "get discovery  /version"),
        ] {
            let (method, target) = line.split_once(' ').unwrap();
            let request = Request::parse(method, target);
            let seen = format!(
                "{} {} {} {}",
                request.verb, request.resource, request.namespace, request.name
            );
            assert_eq!(seen, expected, "{line}");
        }
    }

    #[test]
    fn a_group_may_be_named() {
        let path = "/apis/kollect.dev/v1alpha1/namespaces/a/kollecttargets/b/status";
        let request = Request::parse("PATCH", path);
        for (resource, about) in [
            ("kollecttargets/status", true),
            ("kollecttargets.kollect.dev/status", true),
            ("kollecttargets", false),
            ("kollecttargets.kollect.dev", false),
            ("kollecttargets.other/status", false),
        ] {
            assert_eq!(request.is_about(resource), about, "{resource}");
        }
    }
}
