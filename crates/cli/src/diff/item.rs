//! What is compared: rows, by what they are about. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Which object a row is about. Versions and uids change although the object is the same to people.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) group: String,
    /// The target as `namespace/name`; empty where documents do not say it.
    pub(crate) target: String,
}

/// All rows of one side.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Items(pub(crate) BTreeMap<Key, Map<String, Value>>);

impl Items {
    /// Adds what a document says: a row, a list of rows, or an envelope around one. What it says of the object may come from the
    /// path of the file, for documents that hold the attributes of one object.
    pub(crate) fn add(&mut self, value: Value, path: &[&str]) {
        match value {
            Value::Array(items) => {
                for item in items {
                    self.add(item, path);
                }
            }
            Value::Object(mut members) => {
                let list = ["items", "envelope", "rows"].into_iter().find(|name| {
                    match members.get(*name) {
                        Some(Value::Array(_)) => {
                            members.contains_key("schemaVersion")
                                || members.contains_key("checksum")
                        }
                        Some(Value::Object(_)) => *name == "envelope",
                        _ => false,
                    }
                });
                if let Some(inner) = list.and_then(|name| members.remove(name)) {
                    return self.add(inner, path);
                }
                self.object(members, path);
            }
            _ => {}
        }
    }

    fn object(&mut self, mut members: Map<String, Value>, path: &[&str]) {
        let text = |name: &str| {
            let value = members.get(name).and_then(Value::as_str);
            value.unwrap_or_default().to_owned()
        };
        if members.contains_key("targetName") && members.contains_key("name") {
            let key = Key {
                kind: text("kind"),
                namespace: text("namespace"),
                name: text("name"),
                group: text("group"),
                target: format!("{}/{}", text("targetNamespace"), text("targetName")),
            };
            let attributes = match members.remove("attributes") {
                Some(Value::Object(attributes)) => attributes,
                _ => Map::new(),
            };
            self.0.insert(key, attributes);
            return;
        }
        if let Some(Value::Object(metadata)) = members.get("metadata")
            && members.contains_key("kind")
        {
            let of = |name: &str| {
                let value = metadata.get(name).and_then(Value::as_str);
                value.unwrap_or_default().to_owned()
            };
            let api_version = text("apiVersion");
            let key = Key {
                kind: text("kind"),
                namespace: of("namespace"),
                name: of("name"),
                group: match api_version.split_once('/') {
                    Some((group, _)) => group.to_owned(),
                    None => String::new(),
                },
                target: String::new(),
            };
            let labels = metadata.get("labels").cloned();
            members.retain(|name, _| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"));
            members.extend(labels.map(|labels| ("labels".to_owned(), labels)));
            self.0.insert(key, members);
            return;
        }
        // One file per object, with its attributes: …/<namespace>/<kind>/<name>.yaml
        if let [.., namespace, kind, file] = path {
            let name = file.rsplit_once('.').map_or(*file, |(stem, _)| stem);
            let key = Key {
                kind: (*kind).to_owned(),
                namespace: (*namespace).to_owned(),
                name: name.to_owned(),
                ..Key::default()
            };
            self.0.insert(key, members);
        }
    }

    /// Rows without targets, for a comparison with a side that does not know them.
    pub(crate) fn without_targets(self) -> Self {
        let rows = self.0.into_iter().map(|(key, attributes)| {
            let key = Key {
                // Paths have kinds in lower case, and no groups.
                kind: key.kind.to_lowercase(),
                group: String::new(),
                target: String::new(),
                ..key
            };
            (key, attributes)
        });
        Items(rows.collect())
    }

    /// Whether some rows do not say which target they are of.
    pub(crate) fn lacks_targets(&self) -> bool {
        self.0.keys().any(|key| key.target.is_empty())
    }

    /// A row as conditions see it.
    pub(crate) fn as_object(key: &Key, attributes: &Map<String, Value>) -> Value {
        let mut all = attributes.clone();
        all.retain(|_, value| !value.is_null());
        for (name, text) in [
            ("kind", &key.kind),
            ("namespace", &key.namespace),
            ("name", &key.name),
            ("group", &key.group),
        ] {
            all.insert(name.to_owned(), text.as_str().into());
        }
        all.insert("attributes".to_owned(), Value::Object(attributes.clone()));
        Value::Object(all)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_are_found_in_every_document() {
        let row = json!({
            "targetNamespace": "shop", "targetName": "t", "namespace": "n", "name": "a", "group": "apps",
            "version": "v1", "kind": "Deployment", "uid": "u", "attributes": {"x": 1},
        });
        let envelope =
            json!({"schemaVersion": "kollect.dev/v1alpha1", "checksum": "c", "items": [row]});
        let record = json!({"context": "c", "envelope": envelope});
        let mut expected = Items::default();
        expected.add(row.clone(), &[]);
        assert_eq!(expected.0.len(), 1);
        for document in [
            json!([row]),
            envelope.clone(),
            record.clone(),
            json!([record]),
        ] {
            let mut items = Items::default();
            items.add(document, &[]);
            assert_eq!(items, expected);
        }
        let mut items = Items::default();
        items.add(json!({"x": 1}), &["shop", "n", "deployment", "a.yaml"]);
        assert!(items.lacks_targets());
        assert_eq!(items.without_targets(), expected.without_targets());
    }
}
