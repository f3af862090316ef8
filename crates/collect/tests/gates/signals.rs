//! Opting in and out.

use std::collections::BTreeMap;

use kollect_api::meta;
use kollect_api::target::WatchMode;
use kollect_collect::gates::{Decision, NamespaceGate, ObjectView, Selection, SelectionSpec, Skip};
use serde::Deserialize;
use serde_json::json;

use crate::support::{data, gvk};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    kind: Option<String>,
    #[serde(default)]
    mode: WatchMode,
    object: Option<String>,
    label: Option<String>,
    annotation: Option<String>,
    skip: Option<String>,
}

#[test]
fn vectors() {
    let vectors: Vec<Vector> = data("signals.yaml");
    for vector in &vectors {
        let map = |key: &str, value: &Option<String>| -> BTreeMap<String, String> {
            let pair = value.clone().map(|value| (key.to_owned(), value));
            pair.into_iter().collect()
        };
        let spec = SelectionSpec {
            watch_mode: vector.mode,
            ..SelectionSpec::default()
        };
        let kind = vector.kind.as_deref().unwrap_or("Deployment");
        let selection = Selection::compile(spec, &gvk(kind)).expect("it is valid");
        let gate = if kind == "Node" {
            NamespaceGate::CLUSTER_SCOPED
        } else {
            selection.namespace_gate(
                &map(meta::WATCH_LABEL, &vector.label),
                &map(meta::NAMESPACE_WATCH_ANNOTATION, &vector.annotation),
            )
        };
        let labels = map(meta::WATCH_LABEL, &vector.object);
        let object = json!({"metadata": {"name": "web", "labels": labels}});
        let verdict = selection.decide(&gate, &ObjectView::new(&object));
        let skip = match verdict.decision {
            Decision::Collect => None,
            Decision::Skip(reason) => Some(reason.as_str()),
        };
        assert_eq!(skip, vector.skip.as_deref(), "{}", vector.id);
    }
    let from_spec = vectors.iter().filter(|vector| vector.id.starts_with("WM-"));
    assert_eq!(from_spec.count(), 13);
}

#[test]
fn every_reason_has_a_word_and_a_sentence_of_its_own() {
    let words: std::collections::BTreeSet<_> = Skip::ALL.iter().map(|skip| skip.as_str()).collect();
    let texts: std::collections::BTreeSet<_> = Skip::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(
        (words.len(), texts.len()),
        (Skip::ALL.len(), Skip::ALL.len())
    );
}
