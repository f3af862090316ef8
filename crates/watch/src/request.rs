//! The requests of a source.

use std::fmt::Write as _;
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::resource::Resource;
use crate::scope::WatchScope;

/// What one source watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSubject {
    /// The resource.
    pub resource: Arc<Resource>,
    /// Where its objects are looked for.
    pub scope: WatchScope,
    /// A label selector in the form of the API server, such as `app in (a,b),!legacy`.
    pub selector: Option<Arc<str>>,
    /// The only name of interest; the server then sends nothing else.
    pub name: Option<String>,
}

/// How much of each object is asked for; the more, the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectContent {
    /// Only its metadata, as `PartialObjectMetadata`. A server that cannot do that sends the whole
    /// object instead.
    Metadata,
    /// The whole object.
    Object,
}

/// One request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask<'a> {
    /// All objects and then their changes, in one stream.
    StreamedListing { seconds: u64 },
    /// Some or all objects.
    Page {
        limit: Option<u32>,
        token: Option<&'a str>,
    },
    /// Changes after a version.
    Changes { version: &'a str, seconds: u64 },
}

impl WatchSubject {
    /// All objects of `resource` in `scope`.
    pub fn new(resource: Arc<Resource>, scope: WatchScope) -> Self {
        Self {
            resource,
            scope,
            selector: None,
            name: None,
        }
    }

    /// Only the object of this name.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Path and query of a request.
    pub(super) fn uri(&self, ask: Ask<'_>) -> String {
        let mut uri = self.resource.collection_path(self.scope.namespace());
        let mut separator = '?';
        let mut add = |name: &str, value: &str| {
            let value = utf8_percent_encode(value, ESCAPED);
            // Writing to a string does not fail.
            let _ = write!(uri, "{separator}{name}={value}");
            separator = '&';
        };
        match ask {
            Ask::StreamedListing { seconds } => {
                add("watch", "true");
                add("sendInitialEvents", "true");
                // Without a version this means: not older than now. A server that does not know
                // streaming lists refuses the parameter instead of ignoring the request's intent.
                add("resourceVersionMatch", "NotOlderThan");
                add("allowWatchBookmarks", "true");
                add("timeoutSeconds", &seconds.to_string());
            }
            Ask::Page { limit, token } => {
                if let Some(limit) = limit {
                    add("limit", &limit.to_string());
                }
                if let Some(token) = token {
                    add("continue", token);
                }
            }
            Ask::Changes { version, seconds } => {
                add("watch", "true");
                add("resourceVersion", version);
                add("allowWatchBookmarks", "true");
                add("timeoutSeconds", &seconds.to_string());
            }
        }
        if let Some(selector) = &self.selector {
            add("labelSelector", selector);
        }
        if let Some(name) = &self.name {
            add("fieldSelector", &format!("metadata.name={name}"));
        }
        uri
    }
}

/// The `Accept` header of a request.
pub(super) fn accept(content: ObjectContent, ask: Ask<'_>) -> &'static str {
    match (content, ask) {
        (ObjectContent::Object, _) => "application/json",
        (ObjectContent::Metadata, Ask::Page { .. }) => {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        }
        (ObjectContent::Metadata, _) => {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        }
    }
}

/// What is escaped in a query value: everything that is not plainly harmless.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(
        group: &str,
        plural: &str,
        scope: WatchScope,
        selector: Option<&str>,
    ) -> WatchSubject {
        WatchSubject {
            resource: Arc::new(Resource {
                group: group.to_owned(),
                version: "v1".to_owned(),
                plural: plural.to_owned(),
                namespaced: true,
            }),
            scope,
            selector: selector.map(Arc::from),
            name: None,
        }
    }

    #[test]
    fn requests() {
        let cluster = subject("", "configmaps", WatchScope::All, None);
        let team = WatchScope::Namespace("team-a".into());
        let narrow = subject("apps", "deployments", team, Some("app in (a,b),!x/y"));
        let listing = Ask::StreamedListing { seconds: 9 };
        let first = Ask::Page {
            limit: Some(500),
            token: None,
        };
        let next = Ask::Page {
            limit: Some(500),
            token: Some("e=+/-._~%\u{e9}"),
        };
        let whole = Ask::Page {
            limit: None,
            token: None,
        };
        let changes = Ask::Changes {
            version: "42",
            seconds: 300,
        };
        let streamed = "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan\
                        &allowWatchBookmarks=true&timeoutSeconds=9";
        let deployments = "/apis/apps/v1/namespaces/team-a/deployments";
        let selector = "labelSelector=app%20in%20%28a%2Cb%29%2C%21x%2Fy";
        let cases = [
            (&cluster, listing, format!("/api/v1/configmaps?{streamed}")),
            (
                &narrow,
                listing,
                format!("{deployments}?{streamed}&{selector}"),
            ),
            (&cluster, first, "/api/v1/configmaps?limit=500".to_owned()),
            (
                &narrow,
                next,
                format!("{deployments}?limit=500&continue=e%3D%2B%2F-._~%25%C3%A9&{selector}"),
            ),
            (&cluster, whole, "/api/v1/configmaps".to_owned()),
            (&narrow, whole, format!("{deployments}?{selector}")),
            (
                &cluster,
                changes,
                "/api/v1/configmaps?watch=true&resourceVersion=42&allowWatchBookmarks=true\
                 &timeoutSeconds=300"
                    .to_owned(),
            ),
        ];
        for (subject, ask, expected) in cases {
            assert_eq!(subject.uri(ask), expected);
        }
    }
}
