//! Cases as data: a profile, an object, and the row or the error that must come of them.

use std::collections::BTreeMap;
use std::path::Path;

use kollect_api::KollectProfile;
use kollect_collect::extract::Settings;
use kollect_collect::{ExtractError, Extractor, ObjectType, Projection};
use kollect_inventory::AttributesBuffer;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

/// One case of a data file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) struct Case {
    /// Which rule this is about; several cases may be about the same.
    pub(crate) id: String,
    /// `group/version/Kind` or `version/Kind` of the profile; by default that of the object.
    kind: Option<String>,
    /// Annotations of the profile.
    #[serde(default)]
    annotations: BTreeMap<String, String>,
    /// An object, or the name of one in `objects.yaml`.
    #[serde(default)]
    object: Value,
    /// Short for an object with this spec.
    spec: Option<Value>,
    attributes: Option<Value>,
    export: Option<Value>,
    #[serde(default)]
    scrub_keys: Vec<String>,
    max_row_bytes: Option<usize>,
    /// The expected attributes. The texts `R`, `V` and `D` stand for what replaces values under
    /// sensitive keys, values that are secrets by their form, and data of Secrets.
    row: Option<Value>,
    /// The expected copy of the object, if that is all there is in the row.
    resource: Option<Value>,
    /// How the expected error begins.
    error: Option<String>,
    /// What the error says further.
    error_contains: Option<String>,
    /// What the error must not say.
    #[serde(default)]
    error_lacks: Vec<String>,
    /// What must not be anywhere in the text of the row.
    #[serde(default)]
    lacks: Vec<String>,
}

/// Reads a file of test data.
pub(crate) fn read<T: DeserializeOwned>(name: &str) -> T {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data/extract")
        .join(name);
    let text = std::fs::read_to_string(&path).expect("the file is there");
    yaml(&text)
}

/// Reads YAML in which only `true` and `false` are booleans.
pub(crate) fn yaml<T: DeserializeOwned>(text: &str) -> T {
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
        .unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// A profile from its spec.
pub(crate) fn profile(annotations: &BTreeMap<String, String>, spec: Value) -> KollectProfile {
    let mut profile = json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectProfile",
        "metadata": {"name": "p", "namespace": "team-a", "annotations": annotations},
    });
    profile["spec"] = spec;
    serde_json::from_value(profile).expect("a profile")
}

/// A profile of `v1/X` with these attributes, name and path each.
pub(crate) fn simple_profile(attributes: &[(&str, &str)]) -> KollectProfile {
    let attributes: Vec<Value> = attributes
        .iter()
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    profile(
        &BTreeMap::new(),
        json!({"targetGVK": {"version": "v1", "kind": "X"}, "attributes": attributes}),
    )
}

/// Extracts into a tree.
pub(crate) fn extract(extractor: &Extractor, object: &Value) -> Result<Value, ExtractError> {
    let mut buffer = AttributesBuffer::new();
    let attributes = extractor.extract(object, &mut buffer)?;
    let text = attributes.to_json();
    let value: Value = serde_json::from_str(text.as_str()).expect("attributes are JSON");
    assert!(value.is_object());
    Ok(value)
}

/// Extracts from the bytes of the object, decoded as far as the extractor reads them.
pub(crate) fn extract_projected(
    profile: &KollectProfile,
    extractor: &Extractor,
    object: &Value,
) -> Result<Value, ExtractError> {
    let object_type = ObjectType::from(&profile.spec.target_gvk);
    let projection = Projection::new(object_type, [extractor.reads()]);
    let decoded = projection
        .decode(object.to_string().as_bytes())
        .expect("an object");
    extract(extractor, decoded.value())
}

impl Case {
    fn profile(&self, object: &Value) -> KollectProfile {
        let own_kind = || {
            let text = |name: &str| object[name].as_str().unwrap_or("v1");
            format!("{}/{}", text("apiVersion"), text("kind"))
        };
        let kind = self.kind.clone().unwrap_or_else(own_kind);
        let mut parts = kind.rsplit('/');
        let kind = parts.next().unwrap_or_default();
        let version = parts.next().unwrap_or_default();
        let group = parts.next().unwrap_or_default();
        let attributes = match (&self.attributes, &self.export) {
            (Some(attributes), _) => attributes.clone(),
            (None, Some(export)) if export["mode"] == "Resource" => json!([]),
            (None, _) => json!([{"name": "v", "path": "$.spec"}]),
        };
        let mut spec = json!({
            "targetGVK": {"group": group, "version": version, "kind": kind},
            "attributes": attributes,
        });
        if let Some(export) = &self.export {
            spec["export"] = export.clone();
        }
        profile(&self.annotations, spec)
    }

    fn object(&self, objects: &Map<String, Value>) -> Value {
        match (&self.spec, &self.object) {
            (Some(spec), _) => json!({
                "apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": spec,
            }),
            (None, Value::String(name)) => objects[name].clone(),
            (None, object) => object.clone(),
        }
    }

    /// Runs the case, on the object as it is and on what the decoder leaves of it.
    pub(crate) fn run(&self, objects: &Map<String, Value>) {
        let id = &self.id;
        let object = self.object(objects);
        let profile = self.profile(&object);
        let mut settings = Settings {
            scrub_keys: self.scrub_keys.clone(),
            ..Settings::default()
        };
        if let Some(bytes) = self.max_row_bytes {
            settings.max_row_bytes = bytes;
        }
        let extractor = Extractor::new(&profile, &settings);
        let before = object.to_string();
        let result = extract(&extractor, &object);
        assert_eq!(object.to_string(), before, "{id}: the object is changed");
        let projected = extract_projected(&profile, &extractor, &object);
        assert_eq!(projected, result, "{id}: decoding less makes a difference");

        let resource = self.resource.as_ref().map(|copy| json!({"resource": copy}));
        match (&result, self.row.as_ref().or(resource.as_ref())) {
            (Ok(row), Some(expected)) => {
                let expected = spelled_out(expected);
                assert_eq!(row, &expected, "{id}");
                for text in &self.lacks {
                    assert!(!row.to_string().contains(text), "{id}: {text} in {row}");
                }
            }
            (Ok(row), None) => panic!("{id}: should fail, but gives {row}"),
            (Err(error), Some(_)) => panic!("{id}: {error}"),
            (Err(error), None) => self.check_error(&error.to_string()),
        }
    }

    fn check_error(&self, message: &str) {
        let id = &self.id;
        let beginning = self.error.as_deref().expect("a case has a row or an error");
        assert!(message.starts_with(beginning), "{id}: {message}");
        assert!(
            message.len() <= 256 && !message.contains('\n'),
            "{id}: {message}"
        );
        let further = self.error_contains.as_deref().unwrap_or_default();
        assert!(message.contains(further), "{id}: {message}");
        for text in &self.error_lacks {
            assert!(!message.contains(text), "{id}: {text} in {message}");
        }
    }
}

/// An expected tree with the abbreviations for redacted values written out, and floats without a
/// fraction as the integers they are exported as.
pub(crate) fn spelled_out(value: &Value) -> Value {
    match value {
        Value::String(text) if text == "R" => json!({"redacted": true, "reason": "sensitive-key"}),
        Value::String(text) if text == "V" => {
            json!({"redacted": true, "reason": "sensitive-value"})
        }
        Value::String(text) if text == "D" => json!({"redacted": true, "reason": "secret-data"}),
        Value::Array(items) => items.iter().map(spelled_out).collect(),
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), spelled_out(value)))
            .collect(),
        other => other.clone(),
    }
}
