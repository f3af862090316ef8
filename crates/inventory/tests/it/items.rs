//! Rows from the `items` of a document, as whoever reads an export takes them.

use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Row, TargetKind};
use serde_json::Value;

/// The rows of a JSON array. They do not say what kind of target they belong to, so the caller does.
pub(crate) fn rows_of(items: &Value, owner: TargetKind) -> Vec<Row> {
    let mut interner = Interner::new();
    let mut attributes = AttributesBuffer::new();
    let items = items.as_array().expect("an array of rows");
    let rows = items.iter().map(|item| {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let origin = interner.origin(OriginParts {
            owner,
            target_namespace: text("targetNamespace"),
            target_name: text("targetName"),
            namespace: text("namespace"),
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
        });
        match item["attributes"].as_object() {
            Some(object) => attributes.set(object),
            None => attributes.set_null(),
        }
        interner.row(&origin, text("name"), text("uid"), attributes.view())
    });
    rows.collect()
}
