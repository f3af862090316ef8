//! What was chosen, and the manifests that follow from it. Pure.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use kollect_api::{
    GroupVersionKind, meta,
    names::is_dns_subdomain,
    selector::{is_label_key, is_label_value},
};
use serde_json::{Value, json};

/// Where `kollect schema --output-dir` puts schemas, seen from a manifest.
const SCHEMAS: &str = "./schemas/";

/// What was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Blueprint {
    /// Name of profile and target.
    pub(crate) name: String,
    pub(crate) kind: GroupVersionKind,
    pub(crate) namespaces: Namespaces,
    pub(crate) filter: Filter,
    pub(crate) attributes: Vec<Attribute>,
    /// Whether the profile may read Secret data.
    pub(crate) reads_secrets: bool,
    /// The object that was looked at, for the review.
    pub(crate) sampled: Option<String>,
    /// What the review should say.
    pub(crate) warning: Option<String>,
}

/// Where to collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Namespaces {
    All,
    Named(Vec<String>),
    Labelled(BTreeMap<String, String>),
}

/// Which objects to collect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Filter {
    Nothing,
    Labels(BTreeMap<String, String>),
    Names(Vec<String>),
}

/// A value to extract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attribute {
    pub(crate) name: String,
    pub(crate) path: String,
    pub(crate) type_: Option<&'static str>,
    /// Objects without it are collected all the same.
    pub(crate) optional: bool,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    pub(crate) name: &'static str,
    pub(crate) content: String,
}

/// The metadata that is offered for every kind. Namespace and name are columns of every row already.
pub(crate) fn metadata_attributes() -> Vec<Attribute> {
    let attribute = |name: &str, type_| Attribute {
        name: name.to_owned(),
        path: format!("$.metadata.{name}"),
        type_: Some(type_),
        optional: true,
    };
    vec![
        attribute("creationTimestamp", "string"),
        attribute("labels", "map"),
    ]
}

/// Reads `key=value[,key=value]`; blanks separate too.
pub(crate) fn labels(text: &str) -> Result<BTreeMap<String, String>> {
    let mut labels = BTreeMap::new();
    for pair in text.split([',', ' ']).filter(|pair| !pair.is_empty()) {
        let (key, value) = pair
            .split_once('=')
            .ok_or_else(|| anyhow!("{pair:?} is no label; write key=value[,key=value]"))?;
        if !is_label_key(key) || !is_label_value(value) {
            bail!("{pair:?} is no label that an object can have");
        }
        labels.insert(key.to_owned(), value.to_owned());
    }
    if labels.is_empty() {
        bail!("no labels were given; write key=value[,key=value]");
    }
    Ok(labels)
}

/// Whether a name does for an object.
pub(crate) fn check_name(name: &str) -> Result<()> {
    if !is_dns_subdomain(name) || name.contains('.') || name.len() > 63 {
        bail!(
            "{name:?} is no name: use lower-case letters, digits and '-', begin and end with a letter or digit, at most 63 characters"
        );
    }
    Ok(())
}

impl Blueprint {
    /// The manifests.
    pub(crate) fn files(&self) -> Result<[File; 2]> {
        check_name(&self.name)?;
        if self.attributes.is_empty() {
            bail!("no attributes were chosen");
        }
        if matches!(&self.namespaces, Namespaces::Named(names) if names.is_empty()) {
            bail!("no namespaces were chosen, which would mean all of them");
        }
        let file = |name, manifest: &Value| {
            let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
            let content = serde_saphyr::to_string_with_options(manifest, options)?;
            let kind = manifest["kind"].as_str().unwrap_or_default().to_lowercase();
            // Editors check and complete what they have a schema for.
            let content =
                format!("# yaml-language-server: $schema={SCHEMAS}{kind}.json\n{content}");
            anyhow::Ok(File { name, content })
        };
        Ok([
            file("profile.yaml", &self.profile())?,
            file("target.yaml", &self.target())?,
        ])
    }

    fn object(&self, kind: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": meta::API_VERSION,
            "kind": kind,
            "metadata": {"name": self.name, "namespace": meta::SYSTEM_NAMESPACE},
            "spec": spec,
        })
    }

    fn profile(&self) -> Value {
        let attributes: Vec<Value> = self.attributes.iter().map(Attribute::value).collect();
        let mut kind = json!({"version": self.kind.version, "kind": self.kind.kind});
        if !self.kind.group.is_empty() {
            kind["group"] = self.kind.group.clone().into();
        }
        let spec = json!({"targetGVK": kind, "attributes": attributes});
        let mut profile = self.object("KollectProfile", &spec);
        if self.reads_secrets {
            profile["metadata"]["annotations"] =
                json!({meta::ALLOW_SECRET_EXTRACTION_ANNOTATION: "true"});
        }
        profile
    }

    fn target(&self) -> Value {
        let mut spec = json!({"profileRef": self.name});
        match &self.namespaces {
            Namespaces::All => {}
            Namespaces::Named(names) => spec["includedNamespaces"] = json!(names),
            Namespaces::Labelled(labels) => {
                spec["namespaceSelector"] = json!({"matchLabels": labels});
            }
        }
        match &self.filter {
            Filter::Nothing => {}
            Filter::Labels(labels) => spec["labelSelector"] = json!({"matchLabels": labels}),
            Filter::Names(names) => spec["names"] = json!(names),
        }
        self.object("KollectTarget", &spec)
    }

    /// What will be written, in words.
    pub(crate) fn review(&self) -> String {
        let pairs = |labels: &BTreeMap<String, String>| {
            let pairs: Vec<String> = labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
            pairs.join(",")
        };
        let names: Vec<&str> = self.attributes.iter().map(|a| a.name.as_str()).collect();
        let mut lines = vec![
            format!("name:       {}", self.name),
            format!("kind:       {}", label(&self.kind)),
            format!(
                "namespaces: {}",
                match &self.namespaces {
                    Namespaces::All => "all that may be read".to_owned(),
                    Namespaces::Named(names) => names.join(", "),
                    Namespaces::Labelled(labels) => format!("labelled {}", pairs(labels)),
                }
            ),
            format!(
                "objects:    {}",
                match &self.filter {
                    Filter::Nothing => "all".to_owned(),
                    Filter::Labels(labels) => format!("labelled {}", pairs(labels)),
                    Filter::Names(names) => names.join(", "),
                }
            ),
            format!("attributes: {}", names.join(", ")),
        ];
        if let Some(sampled) = &self.sampled {
            lines.push(format!("sampled:    {sampled}"));
        }
        if self.reads_secrets {
            lines.push(
                "the profile carries the annotation that lets it read Secret data".to_owned(),
            );
        }
        if let Some(warning) = &self.warning {
            lines.push(format!("warning: {warning}"));
        }
        lines.join("\n")
    }
}

impl Attribute {
    fn value(&self) -> Value {
        let mut value = json!({"name": self.name, "path": self.path});
        if let Some(type_) = self.type_ {
            value["type"] = type_.into();
        }
        if self.optional {
            value["optional"] = true.into();
        }
        value
    }
}

/// A kind as lists show it.
pub(crate) fn label(kind: &GroupVersionKind) -> String {
    if kind.group.is_empty() {
        format!("{} ({})", kind.kind, kind.version)
    } else {
        format!("{} ({}/{})", kind.kind, kind.group, kind.version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_written_as_expected() {
        let blueprint = Blueprint {
            name: "deployment-images".to_owned(),
            kind: GroupVersionKind::new("apps", "v1", "Deployment"),
            namespaces: Namespaces::Named(vec!["team-a".to_owned(), "team-b".to_owned()]),
            filter: Filter::Nothing,
            attributes: metadata_attributes(),
            reads_secrets: false,
            sampled: None,
            warning: None,
        };
        let [_, target] = blueprint.files().unwrap();
        let expected = "# yaml-language-server: $schema=./schemas/kollecttarget.json
apiVersion: kollect.dev/v1alpha1
kind: KollectTarget
metadata:
  name: deployment-images
  namespace: kollect-system
spec:
  includedNamespaces:
  - team-a
  - team-b
  profileRef: deployment-images
";
        assert_eq!(target.content, expected);
    }

    #[test]
    fn labels_in_words() {
        let read = |text| labels(text).map(|labels| labels.into_iter().collect::<Vec<_>>());
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(read("a=b").unwrap(), [pair("a", "b")]);
        assert_eq!(
            read("x.y/z=1, a=").unwrap(),
            [pair("a", ""), pair("x.y/z", "1")]
        );
        for wrong in ["", " ", "a", "a=b c", "=b", "a=?"] {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_of_objects() {
        for (name, fine) in [
            ("deployment-images", true),
            ("a", true),
            ("", false),
            ("-a", false),
            ("a-", false),
            ("A", false),
            ("a.b", false),
        ] {
            assert_eq!(check_name(name).is_ok(), fine, "{name:?}");
        }
        assert!(check_name(&"a".repeat(64)).is_err());
    }
}
