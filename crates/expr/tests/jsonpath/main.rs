//! The JSONPath dialect, JSON Pointers and removal, case by case and by property.

mod generate;
mod hostile;
mod reads_law;
mod removal;
mod speed;
mod table;
mod vectors;

use std::sync::LazyLock;

use serde_json::Value;

/// The Deployment that most vectors are evaluated on.
static OBJECT_A: LazyLock<Value> = LazyLock::new(|| {
    serde_json::from_str(include_str!("../data/jsonpath/object-a.json")).expect("valid JSON")
});
