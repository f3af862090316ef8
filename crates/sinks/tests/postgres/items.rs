//! Rows from item JSON, as the vectors write them.

use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, Snapshot, TargetKind};
use serde_json::{Value, json};

/// Makes rows of items.
#[derive(Default)]
pub(crate) struct Items {
    interner: Interner,
    attributes: AttributesBuffer,
}

impl Items {
    pub(crate) fn row(&mut self, item: &Value) -> Row {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let origin = self.interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: text("targetNamespace"),
            target_name: text("targetName"),
            namespace: text("namespace"),
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
        });
        match item["attributes"].as_object() {
            Some(object) => self.attributes.set(object),
            None => self.attributes.set_null(),
        }
        self.interner
            .row(&origin, text("name"), text("uid"), self.attributes.view())
    }

    pub(crate) fn snapshot<'v>(&mut self, items: impl IntoIterator<Item = &'v Value>) -> Snapshot {
        items.into_iter().map(|item| self.row(item)).collect()
    }
}

/// A Deployment of target `deployments` with this uid and attributes.
pub(crate) fn deployment(uid: &str, attributes: &Value) -> Value {
    json!({
        "targetNamespace": "team-a", "targetName": "deployments", "namespace": "team-a",
        "name": uid, "group": "apps", "version": "v1", "kind": "Deployment", "uid": uid,
        "attributes": attributes,
    })
}

/// Many Deployments.
pub(crate) fn deployments(count: usize, replicas: u64) -> Snapshot {
    let items: Vec<Value> = (0..count)
        .map(|number| deployment(&format!("uid-{number:06}"), &json!({"replicas": replicas})))
        .collect();
    Items::default().snapshot(&items)
}
