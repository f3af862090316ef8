//! The document in which the API server describes one group and version.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use super::Served;
use crate::resource::Resource;

/// The resources of one group and version by kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document(HashMap<String, Arc<Served>>);

#[derive(Deserialize)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default)]
    verbs: Vec<String>,
}

impl Document {
    pub(super) fn parse(
        group: &str,
        version: &str,
        json: &[u8],
    ) -> Result<Self, serde_json::Error> {
        let list: ResourceList = serde_json::from_slice(json)?;
        let mut kinds: HashMap<String, Arc<Served>> = HashMap::new();
        // `deployments/scale` is a part of a resource and has a kind of another group.
        for entry in list
            .resources
            .into_iter()
            .filter(|entry| !entry.name.contains('/'))
        {
            let resource = Resource {
                group: group.to_owned(),
                version: version.to_owned(),
                plural: entry.name,
                namespaced: entry.namespaced,
            };
            let served = Served {
                resource: Arc::new(resource),
                verbs: entry.verbs,
            };
            // One kind can be the answer of several resources; the one that can be watched is
            // the one that holds objects.
            let better = kinds
                .get(&entry.kind)
                .is_none_or(|known| !known.is_watchable() && served.is_watchable());
            if better {
                kinds.insert(entry.kind, Arc::new(served));
            }
        }
        Ok(Self(kinds))
    }

    pub(super) fn get(&self, kind: &str) -> Option<&Arc<Served>> {
        self.0.get(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_found_with_plural_scope_and_verbs() {
        let json = br#"{"kind":"APIResourceList","groupVersion":"gateway.networking.k8s.io/v1","resources":[
            {"name":"gateways","singularName":"gateway","namespaced":true,"kind":"Gateway","verbs":["list","watch","get"]},
            {"name":"gateways/status","singularName":"","namespaced":true,"kind":"Gateway","verbs":["get"]},
            {"name":"gatewayclasses","singularName":"","namespaced":false,"kind":"GatewayClass","verbs":["list"]},
            {"name":"gatewayreviews","singularName":"","namespaced":false,"kind":"Index","verbs":["create"]},
            {"name":"indices","singularName":"","namespaced":true,"kind":"Index","verbs":["watch","list"]},
            {"name":"indexlogs","singularName":"","namespaced":true,"kind":"Index","verbs":["watch","list"]}]}"#;
        let document = Document::parse("gateway.networking.k8s.io", "v1", json).unwrap();
        let cases = [
            ("Gateway", Some(("gateways", true, true))),
            ("GatewayClass", Some(("gatewayclasses", false, false))),
            ("Index", Some(("indices", true, true))),
            ("gateway", None),
            ("Scale", None),
        ];
        for (kind, expected) in cases {
            let found = document.get(kind).map(|served| {
                let resource = &served.resource;
                assert_eq!(resource.group, "gateway.networking.k8s.io");
                let watchable = served.is_watchable();
                (resource.plural.as_str(), resource.namespaced, watchable)
            });
            assert_eq!(found, expected, "{kind}");
        }
    }
}
