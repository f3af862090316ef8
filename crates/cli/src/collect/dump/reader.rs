//! Taking the text of a dump apart into objects.
//!
//! JSON is never parsed as a whole: objects are cut out of lists as text, and only what identifies
//! them is read. YAML has to be parsed and is turned into JSON, so that both go the same way as
//! the bytes of an API server.

use std::{borrow::Cow, collections::BTreeMap};

use anyhow::{Result, bail};
use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::duplicates;
use crate::manifest::{Text, is_nothing};

/// One object, or a list without objects.
#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// The object; nothing for an empty list, which only says that the kind was looked at.
    pub(super) json: Option<&'a [u8]>,
    /// A key that some map of the object has twice; the last one counts.
    pub(super) twice: Option<String>,
}

/// What identifies an object.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Peek<'a> {
    #[serde(borrow)]
    pub(super) api_version: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) kind: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) metadata: PeekMeta<'a>,
    #[serde(borrow)]
    items: Option<&'a RawValue>,
}

/// What of its metadata is looked at.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PeekMeta<'a> {
    #[serde(borrow)]
    pub(super) name: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) namespace: Cow<'a, str>,
    labels: Option<BTreeMap<String, String>>,
    annotations: Option<BTreeMap<String, String>>,
}

impl<'a> Peek<'a> {
    /// Reads what identifies an object.
    pub(super) fn read(json: &'a [u8]) -> Option<Self> {
        serde_json::from_slice(json).ok()
    }
}

/// Hands every object of a text to `take`. Messages name places, never content: a dump may hold
/// secrets.
pub(super) fn read(text: &Text, take: &mut impl FnMut(Entry<'_>)) -> Result<()> {
    if text.content.trim_start().starts_with(['{', '[']) {
        return read_json(text, take);
    }
    let options = serde_saphyr::options! {
        budget: None,
        with_snippet: false,
        legacy_octal_numbers: true,
        // Letters such as y and n are texts to every tool around Kubernetes.
        strict_booleans: true
    };
    let documents: Vec<Value> =
        match serde_saphyr::from_multiple_with_options(&text.content, options) {
            Ok(documents) => documents,
            Err(error) => {
                let line = error.location().map_or(1, |location| location.line());
                bail!("{}:{line}: this is neither YAML nor JSON", text.name);
            }
        };
    for document in documents {
        if !is_nothing(&document) {
            let json = serde_json::to_string(&document)?;
            open(&text.name, &json, None, take)?;
        }
    }
    Ok(())
}

fn read_json(text: &Text, take: &mut impl FnMut(Entry<'_>)) -> Result<()> {
    let stream = serde_json::Deserializer::from_str(&text.content).into_iter::<&RawValue>();
    for document in stream {
        match document {
            Ok(document) => open(&text.name, document.get(), None, take)?,
            Err(error) => bail!(
                "{}:{}: this JSON cannot be read, or ends too early",
                text.name,
                error.line()
            ),
        }
    }
    Ok(())
}

/// What the items of a list are, if the list says so.
#[derive(Clone, Copy)]
struct ItemType<'a> {
    api_version: &'a str,
    kind: &'a str,
}

/// Takes one object, or all of a list.
fn open(
    file: &str,
    json: &str,
    item_type: Option<ItemType<'_>>,
    take: &mut impl FnMut(Entry<'_>),
) -> Result<()> {
    if json.starts_with('[') {
        return open_items(file, json, item_type, take);
    }
    let Ok(peek) = serde_json::from_str::<Peek<'_>>(json) else {
        bail!("{file}: something in it is no Kubernetes object");
    };
    let (api_version, kind) = match item_type {
        // The API server leaves both out of the items of a list.
        Some(of) if peek.kind.is_empty() => (of.api_version, of.kind),
        _ => (&*peek.api_version, &*peek.kind),
    };
    let items = peek
        .items
        .map(RawValue::get)
        .filter(|items| items.starts_with('['));
    if let Some(items) = items
        && let Some(of) = kind.strip_suffix("List")
    {
        let item_type = (!of.is_empty()).then_some(ItemType {
            api_version,
            kind: of,
        });
        if let Some(of) = item_type {
            let (group, version) = split(of.api_version);
            take(Entry {
                group,
                version,
                kind: of.kind,
                namespace: "",
                name: "",
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
                json: None,
                twice: None,
            });
        }
        return open_items(file, items, item_type, take);
    }
    if kind.is_empty() || api_version.is_empty() {
        bail!(
            "{file}: an object named {:?} has no kind or no apiVersion; dump with kubectl get -o json or -o yaml",
            peek.metadata.name
        );
    }
    let (group, version) = split(api_version);
    let PeekMeta {
        name,
        namespace,
        labels,
        annotations,
    } = &peek.metadata;
    take(Entry {
        group,
        version,
        kind,
        namespace,
        name,
        labels: labels.clone().unwrap_or_default(),
        annotations: annotations.clone().unwrap_or_default(),
        json: Some(json.as_bytes()),
        twice: duplicates::first(json),
    });
    Ok(())
}

fn open_items(
    file: &str,
    json: &str,
    item_type: Option<ItemType<'_>>,
    take: &mut impl FnMut(Entry<'_>),
) -> Result<()> {
    let Ok(items) = serde_json::from_str::<Vec<&RawValue>>(json) else {
        bail!("{file}: a list in it cannot be read");
    };
    for item in items {
        open(file, item.get(), item_type, take)?;
    }
    Ok(())
}

/// Group and version of an `apiVersion`.
fn split(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(content: &str) -> Result<Vec<String>> {
        let text = Text {
            name: "dump".to_owned(),
            content: content.to_owned(),
        };
        let mut seen = Vec::new();
        read(&text, &mut |entry| {
            let Entry {
                group,
                version,
                kind,
                namespace,
                name,
                json,
                ..
            } = entry;
            let what = if json.is_some() { "" } else { " (kind only)" };
            seen.push(format!("{group}/{version}/{kind} {namespace}/{name}{what}"));
        })?;
        Ok(seen)
    }

    #[test]
    fn every_form_of_a_dump() {
        let object = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n"}}"#;
        let list = format!(r#"{{"apiVersion":"v1","kind":"List","items":[{object},{object}]}}"#);
        let pod = "/v1/Pod n/a";
        let typed = r#"{"kind":"DeploymentList","apiVersion":"apps/v1","metadata":{},
            "items":[{"metadata":{"name":"d","namespace":"n"}}]}"#;
        let yaml = "---\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: n}\n---\n";
        let cases = [
            (object.to_owned(), vec![pod]),
            (format!("{object}\n{object}"), vec![pod, pod]),
            (list.clone(), vec![pod, pod]),
            (format!("[{list}]"), vec![pod, pod]),
            (
                typed.to_owned(),
                vec!["apps/v1/Deployment / (kind only)", "apps/v1/Deployment n/d"],
            ),
            (yaml.to_owned(), vec![pod]),
            (
                "kind: List\napiVersion: v1\nitems:\n- {apiVersion: v1, kind: Pod, metadata: {name: a, namespace: n}}\n".to_owned(),
                vec![pod],
            ),
            (String::new(), vec![]),
        ];
        for (text, expected) in cases {
            let seen = seen(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
            assert_eq!(seen, expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_dump_is_refused_without_quoting_it() {
        for text in [
            "{\"a\": secret-value",
            "[1]",
            "{\"metadata\":{\"name\":\"a\"}}",
            "a: [secret-value",
            "secret-value",
            "{\"kind\":\"List\",\"items\":[1]}",
        ] {
            let error = seen(text).unwrap_err().to_string();
            assert!(
                error.starts_with("dump") && !error.contains("secret-value"),
                "{error}"
            );
        }
    }
}
