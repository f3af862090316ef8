//! One attempt to get at what is somebody else's, as data.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// See `data/escapes.yaml` for what the members mean.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) tenant_mode: bool,
    #[serde(default)]
    pub(crate) serves_victim: bool,
    #[serde(default)]
    pub(crate) prepared: Vec<Value>,
    #[serde(default)]
    pub(crate) setup: Vec<Value>,
    #[serde(default)]
    pub(crate) attempt: Vec<Value>,
    #[serde(default)]
    pub(crate) after: Vec<Value>,
    pub(crate) refused: Option<String>,
    pub(crate) judged: Option<String>,
    #[serde(default)]
    pub(crate) says: Vec<Value>,
    pub(crate) rows: Option<Vec<String>>,
    pub(crate) keeps: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) holds: Vec<String>,
    #[serde(default)]
    pub(crate) never: Vec<String>,
    pub(crate) files: Option<Vec<String>>,
    #[serde(default)]
    pub(crate) finally: Vec<Value>,
}

impl Case {
    /// The cases of a file.
    pub(crate) fn read(yaml: &str) -> Result<Vec<Self>> {
        // The file is ours, and repeats itself by aliases.
        let options = serde_saphyr::options! { budget: None };
        let cases: Vec<Self> =
            serde_saphyr::from_str_with_options(yaml, options).context("escapes.yaml")?;
        for (at, case) in cases.iter().enumerate() {
            let twice = cases[..at].iter().any(|other| other.id == case.id);
            ensure!(!twice, "{:?} is there twice", case.id);
            let said = case.refused.is_some() || case.judged.is_some() || !case.says.is_empty();
            let proves = said || case.rows.is_some();
            ensure!(proves, "{:?} expects nothing", case.id);
        }
        Ok(cases)
    }
}

/// Replaces `%word%` in every text of a value.
pub(crate) fn filled(value: &Value, words: &[(&str, String)]) -> Value {
    match value {
        Value::String(text) => Value::String(filled_text(text, words)),
        Value::Array(items) => items.iter().map(|item| filled(item, words)).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| (filled_text(key, words), filled(value, words)))
            .collect::<Map<_, _>>()
            .into(),
        other => other.clone(),
    }
}

pub(crate) fn filled_text(text: &str, words: &[(&str, String)]) -> String {
    words.iter().fold(text.to_owned(), |text, (word, value)| {
        text.replace(&format!("%{word}%"), value)
    })
}

/// An object from its short form: `kind`, `name`, `in` (a namespace, or `cluster`), `labels`,
/// `annotations`, and what else it has.
pub(crate) fn object(short: &Value, own_namespace: &str) -> Result<Value> {
    let mut members = short.as_object().context("an object")?.clone();
    members.remove("do");
    let kind = members.remove("kind").context("a kind")?;
    let name = members.remove("name").context("a name")?;
    let kind_text = kind.as_str().unwrap_or_default();
    let version = match kind_text {
        "Deployment" => "apps/v1",
        kind if kind.starts_with("Kollect") => "kollect.dev/v1alpha1",
        _ => "v1",
    };
    let mut metadata = json!({"name": name});
    match members.remove("in") {
        Some(Value::String(place)) if place == "cluster" => {}
        Some(place) => metadata["namespace"] = place,
        None => metadata["namespace"] = json!(own_namespace),
    }
    for member in ["labels", "annotations", "finalizers"] {
        if let Some(value) = members.remove(member) {
            metadata[member] = value;
        }
    }
    let mut object = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
    for (key, value) in members {
        object[key] = value;
    }
    Ok(object)
}
