//! A schema, compiled.

use std::collections::{BTreeMap, BTreeSet};

use kollect_expr::cel::Program;
use regex::Regex;
use serde_json::Value;

/// What a value may be.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Only of use at the root.
    pub(super) namespaced: bool,
    pub(super) type_: Option<Type>,
    pub(super) properties: BTreeMap<String, Schema>,
    /// Entries of maps with free keys.
    pub(super) entries: Option<Box<Schema>>,
    pub(super) required: Vec<String>,
    pub(super) items: Option<Box<Schema>>,
    pub(super) words: Vec<Value>,
    pub(super) pattern: Option<Regex>,
    pub(super) length: Bounds,
    pub(super) count: Bounds,
    pub(super) minimum: Option<f64>,
    pub(super) maximum: Option<f64>,
    pub(super) distinct: Distinct,
    pub(super) format: Option<String>,
    pub(super) default: Option<Value>,
    pub(super) rules: Vec<Rule>,
}

/// The types of JSON as schemas name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
}

/// Least and most.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bounds {
    pub(super) least: Option<u64>,
    pub(super) most: Option<u64>,
}

/// Which elements of a list must differ.
#[derive(Debug, Default)]
pub(super) enum Distinct {
    #[default]
    Nothing,
    Elements,
    /// The fields that identify an element.
    Keys(Vec<String>),
}

/// A rule in CEL.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) program: Program,
    pub(super) message: String,
}

impl Type {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "object" => Type::Object,
            "array" => Type::Array,
            "string" => Type::String,
            "integer" => Type::Integer,
            "number" => Type::Number,
            "boolean" => Type::Boolean,
            _ => return None,
        })
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }
}

/// The fields of `metadata`. The API server knows them without our definitions.
const METADATA: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

impl Schema {
    /// The schema of whole objects of a kind.
    pub(super) fn of_kind(definition: &Value, namespaced: bool) -> Self {
        let mut schema = Self::read(definition);
        schema.namespaced = namespaced;
        let any_object = |fields: &[&str]| Schema {
            type_: Some(Type::Object),
            properties: fields
                .iter()
                .map(|field| ((*field).to_owned(), Schema::default()))
                .collect(),
            ..Schema::default()
        };
        let text = || Schema {
            type_: Some(Type::String),
            ..Schema::default()
        };
        let mut metadata = any_object(&METADATA);
        for map in ["labels", "annotations"] {
            let texts = Schema {
                type_: Some(Type::Object),
                entries: Some(Box::new(text())),
                ..Schema::default()
            };
            metadata.properties.insert(map.to_owned(), texts);
        }
        metadata.properties.insert("name".to_owned(), text());
        metadata.properties.insert("namespace".to_owned(), text());
        metadata.required = vec!["name".to_owned()];
        schema.properties.insert("metadata".to_owned(), metadata);
        for field in ["apiVersion", "kind"] {
            schema.properties.insert(field.to_owned(), text());
        }
        // The server writes it; a manifest that was fetched still has it.
        schema
            .properties
            .insert("status".to_owned(), Schema::default());
        schema.required.push("metadata".to_owned());
        schema
    }

    fn read(definition: &Value) -> Self {
        let text = |key: &str| definition.get(key).and_then(Value::as_str);
        let number = |key: &str| definition.get(key).and_then(Value::as_u64);
        let texts = |key: &str| -> Vec<String> {
            let list = definition.get(key).and_then(Value::as_array);
            let list = list.into_iter().flatten().filter_map(Value::as_str);
            list.map(str::to_owned).collect()
        };
        let properties = definition.get("properties").and_then(Value::as_object);
        let rules = definition.get("x-kubernetes-validations");
        let rules = rules.and_then(Value::as_array).into_iter().flatten();
        Self {
            namespaced: false,
            type_: text("type").and_then(Type::parse),
            properties: properties
                .into_iter()
                .flatten()
                .map(|(name, schema)| (name.clone(), Schema::read(schema)))
                .collect(),
            entries: definition
                .get("additionalProperties")
                .filter(|entries| entries.is_object())
                .map(|entries| Box::new(Schema::read(entries))),
            required: texts("required"),
            items: definition
                .get("items")
                .map(|items| Box::new(Schema::read(items))),
            words: definition
                .get("enum")
                .and_then(Value::as_array)
                .cloned()
                .unwrap_or_default(),
            // Both are written by us, and a test compiles them all.
            pattern: text("pattern").and_then(|pattern| Regex::new(pattern).ok()),
            rules: rules.filter_map(Rule::read).collect(),
            length: Bounds {
                least: number("minLength"),
                most: number("maxLength"),
            },
            count: Bounds {
                least: number("minItems"),
                most: number("maxItems"),
            },
            minimum: definition.get("minimum").and_then(Value::as_f64),
            maximum: definition.get("maximum").and_then(Value::as_f64),
            distinct: match text("x-kubernetes-list-type") {
                Some("set") => Distinct::Elements,
                Some("map") => Distinct::Keys(texts("x-kubernetes-list-map-keys")),
                _ => Distinct::Nothing,
            },
            format: text("format").map(str::to_owned),
            default: definition.get("default").cloned(),
        }
    }

    /// The value with everything filled in that the API server would fill in, and without fields
    /// that are null, which mean nothing.
    pub(super) fn complete(&self, value: &Value) -> Value {
        match value {
            Value::Object(members) => {
                let mut members: serde_json::Map<String, Value> = members
                    .iter()
                    .filter(|(_, value)| !value.is_null())
                    .map(|(name, value)| {
                        let value = match self.property(name) {
                            Some(schema) => schema.complete(value),
                            None => value.clone(),
                        };
                        (name.clone(), value)
                    })
                    .collect();
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default {
                        members
                            .entry(name.clone())
                            .or_insert_with(|| default.clone());
                    }
                }
                Value::Object(members)
            }
            Value::Array(elements) => match &self.items {
                Some(items) => elements.iter().map(|one| items.complete(one)).collect(),
                None => value.clone(),
            },
            _ => value.clone(),
        }
    }

    /// The schema of a member.
    pub(super) fn property(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or(self.entries.as_deref())
    }

    /// Whether any member is fine.
    pub(super) fn is_open(&self) -> bool {
        self.properties.is_empty()
    }

    /// The names of the fields, for messages.
    pub(super) fn fields(&self) -> BTreeSet<&str> {
        self.properties.keys().map(String::as_str).collect()
    }
}

impl Rule {
    fn read(rule: &Value) -> Option<Self> {
        let text = rule.get("rule")?.as_str()?;
        Some(Self {
            program: Program::compile_rule(text).ok()?,
            message: match rule.get("message").and_then(Value::as_str) {
                Some(message) => message.to_owned(),
                None => format!("failed rule: {text}"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::crd;

    use super::*;

    /// Everything that schemas of ours may say.
    const KNOWN: [&str; 22] = [
        "additionalProperties",
        "default",
        "description",
        "enum",
        "format",
        "items",
        "maxItems",
        "maxLength",
        "maximum",
        "minItems",
        "minLength",
        "minimum",
        "pattern",
        "properties",
        "required",
        "title",
        "type",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
        "example",
    ];

    fn walk(schema: &Value, at: &str) {
        let Some(members) = schema.as_object() else {
            return;
        };
        for (word, value) in members {
            assert!(KNOWN.contains(&word.as_str()), "{at}: {word}");
            match word.as_str() {
                "pattern" => drop(Regex::new(value.as_str().unwrap()).expect(at)),
                "type" => assert!(Type::parse(value.as_str().unwrap()).is_some(), "{at}"),
                "x-kubernetes-validations" => {
                    for rule in value.as_array().unwrap() {
                        let text = rule["rule"].as_str().unwrap();
                        Program::compile_rule(text).unwrap_or_else(|e| panic!("{at}: {text}: {e}"));
                    }
                }
                "properties" => {
                    for (name, schema) in value.as_object().unwrap() {
                        walk(schema, &format!("{at}.{name}"));
                    }
                }
                "items" | "additionalProperties" => walk(value, &format!("{at}[]")),
                _ => {}
            }
        }
    }

    #[test]
    fn everything_our_definitions_say_is_understood() {
        for definition in crd::all() {
            let name = definition.spec.names.kind.clone();
            let value = serde_json::to_value(&definition).unwrap();
            walk(
                &value["spec"]["versions"][0]["schema"]["openAPIV3Schema"],
                &name,
            );
        }
    }
}
