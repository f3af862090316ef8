//! What holds for any object and any profile.

use std::collections::BTreeMap;

use kollect_api::KollectProfile;
use kollect_collect::extract::Settings;
use kollect_collect::{Extractor, ObjectType, Projection};
use kollect_inventory::{AttributesBuffer, CanonicalJson};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

use crate::support::{extract, extract_projected, profile};

/// Few names, so that paths meet what they look for, and many that redaction cares about.
const NAMES: [&str; 24] = [
    "a",
    "b",
    "c",
    "name",
    "value",
    "spec",
    "status",
    "metadata",
    "labels",
    "annotations",
    "data",
    "stringData",
    "release",
    "kubectl.kubernetes.io/last-applied-configuration",
    "password",
    "API_KEYS",
    "client-secret",
    "token",
    "tls",
    "key",
    "valueFrom",
    "secretKeyRef",
    "secretRef",
    "ourOwn",
];

const TEXTS: [&str; 9] = [
    "",
    "x",
    "DB_PASSWORD",
    "token",
    "5",
    "ü<&>\u{2028}\"\\",
    // {"name":"shop"}, and the same compressed.
    "eyJuYW1lIjoic2hvcCJ9",
    "H4sIAAAAAAAAA6tWykvMTVWyUirOyC9QqgUAzq4SLA8AAAA=",
    "H4sIAA==",
];

fn name() -> impl Strategy<Value = &'static str> {
    select(&NAMES[..])
}

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..4).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-2.0..2.0_f64).prop_map(Value::from),
        select(&TEXTS[..]).prop_map(Value::from),
    ];
    scalar.prop_recursive(4, 48, 5, |inner| {
        let entry = (select(&TEXTS[..]), inner.clone());
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            members(inner).prop_map(Value::Object),
            entry.prop_map(|(name, value)| json!({"name": name, "value": value})),
        ]
    })
}

fn members(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Map<String, Value>> {
    prop::collection::vec((name().prop_map(str::to_owned), value), 0..5)
        .prop_map(|members| members.into_iter().collect())
}

fn object() -> impl Strategy<Value = Value> {
    let parts = prop::collection::vec((select(&["spec", "status", "data"][..]), value()), 0..4);
    (members(value()), members(value()), parts).prop_map(|(mut object, mut metadata, parts)| {
        object.extend(
            parts
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value)),
        );
        metadata.insert("name".into(), "n".into());
        object.insert("metadata".into(), metadata.into());
        object.insert("apiVersion".into(), "v1".into());
        object.insert("kind".into(), "Secret".into());
        object.into()
    })
}

fn json_path() -> impl Strategy<Value = String> {
    let step = (0..13, name(), name(), select(&["x", "5", "token"][..])).prop_map(
        |(form, first, second, text)| match form {
            0..4 => format!("['{first}']"),
            4 => "[*]".into(),
            5 => "[0]".into(),
            6 => "[-1]".into(),
            7 => "[0:2]".into(),
            8 => ".*".into(),
            9 => format!("..['{first}']"),
            10 => format!("[?(@['{first}'])]"),
            11 => format!("[?(@['{first}']==\"{text}\")]"),
            _ => format!("['{first}','{second}']"),
        },
    );
    prop::collection::vec(step, 0..5).prop_map(|steps| format!("${}", steps.concat()))
}

fn cel() -> impl Strategy<Value = String> {
    (0..20, name(), name()).prop_map(|(form, a, b)| match form {
        0 => "object".to_owned(),
        1 => format!("object['{a}']"),
        2 => format!("object['{a}']['{b}']"),
        3 => "has(object.spec) && has(object.spec.a)".to_owned(),
        4 => format!("size(object['{a}'])"),
        5 => format!("object['{a}'].map(x, x['{b}'])"),
        6 => format!("object['{a}'].filter(x, '{b}' in x)"),
        7 => format!("object['{a}'] == object['{b}']"),
        8 => format!("type(object['{a}'])"),
        9 => format!("'{b}' in object['{a}']"),
        10 => format!("object['{a}'].exists(x, x == 'x')"),
        11 => format!("object.metadata.name + object['{a}']"),
        12 => format!("{{'{a}': object['{b}'], 'n': [object['{a}']]}}"),
        13 => format!("object['{a}'][0]"),
        14 => format!("object['{a}'].all(x, x > 1)"),
        15 => format!("object['{a}'].map(k, object['{a}'][k])"),
        16 => format!("'{a}' in object ? object['{a}'] : object['{b}']"),
        17 => "object.map(k, k)".to_owned(),
        18 => format!("object['{a}'] + object['{b}']"),
        _ => format!("string(object['{a}'])"),
    })
}

fn attribute() -> impl Strategy<Value = Value> {
    let helm = select(&["name", "config", "chart", "name.x", "manifest"][..]);
    let path = prop_oneof![
        4 => json_path(),
        4 => cel().prop_map(|expression| format!("cel:{expression}")),
        1 => helm.prop_map(|field| format!("helm:release.{field}")),
        1 => select(&["", "cel:", "cel:1 +", "metadata", "$["][..]).prop_map(str::to_owned),
    ];
    // Most are optional: a profile of required ones fails on nearly every object.
    (name(), path, prop::bool::weighted(0.8), any::<bool>()).prop_map(
        |(name, path, optional, list)| {
            let kind = if list { "list" } else { "string" };
            json!({"name": name, "path": path, "optional": optional, "type": kind})
        },
    )
}

fn export() -> impl Strategy<Value = Value> {
    const INCLUDES: [&str; 5] = [
        "MetadataOnly",
        "SpecOnly",
        "StatusOnly",
        "SpecAndStatus",
        "All",
    ];
    let pointer = prop::collection::vec(prop_oneof![name(), select(&["0", "1"][..])], 1..4)
        .prop_map(|tokens| {
            let escaped: Vec<_> = tokens
                .iter()
                .map(|token| token.replace('/', "~1"))
                .collect();
            format!("/{}", escaped.join("/"))
        });
    let program = select(
        &[
            "has(object.data) ? ['/status'] : ['/spec', '/metadata/labels']",
            "has(object.a) ? '/spec' : null",
            "'/spec/a'",
            "object.spec.a",
            "1",
        ][..],
    );
    (
        select(&INCLUDES[..]),
        any::<(bool, bool)>(),
        prop::collection::vec(pointer, 0..3),
        prop::collection::vec(json_path(), 0..2),
        prop::option::of(program),
        prop::option::of(select(&["GitOps", "ArgoCD", "Flux"][..])),
    )
        .prop_map(
            |(include, (dedupe, defaults), pointers, paths, program, preset)| {
                let programs: Vec<_> = program.into_iter().collect();
                json!({
                    "mode": "Resource", "include": include, "dedupeIdentity": dedupe,
                    "prune": {
                        "defaults": defaults, "jsonPointers": pointers, "jsonPaths": paths,
                        "cel": programs, "scrubKeys": ["ourOwn"], "preset": preset,
                    },
                })
            },
        )
}

fn any_profile() -> impl Strategy<Value = KollectProfile> {
    let annotations = prop::collection::btree_map(
        select(
            &[
                "kollect.dev/allow-secret-extraction",
                "kollect.dev/allow-full-resource-export",
            ][..],
        )
        .prop_map(str::to_owned),
        Just("true".to_owned()),
        0..3,
    );
    let group = select(&["", "example.com"][..]);
    let attributes = prop::collection::vec(attribute(), 0..6);
    (annotations, group, attributes, prop::option::of(export())).prop_map(
        |(annotations, group, attributes, export)| {
            let mut spec = json!({
                "targetGVK": {"group": group, "version": "v1", "kind": "Secret"},
                "attributes": attributes,
            });
            if let Some(export) = export {
                spec["export"] = export;
            }
            profile(&annotations, spec)
        },
    )
}

/// What the rules of redaction say, in other words than the code.
fn is_sensitive(key: &str, with: &[&str]) -> bool {
    let folded: String = key
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| !"-_.".contains(*c))
        .collect();
    let built_in = [
        "password",
        "passwd",
        "secret",
        "token",
        "apikey",
        "privatekey",
        "credential",
        "auth",
        "clientsecret",
        "connectionstring",
    ];
    let ends = |text: &str| {
        let mut keys = built_in.iter().chain(with);
        keys.any(|key| text.ends_with(&key.to_lowercase()))
    };
    ends(&folded) || ends(folded.strip_suffix('s').unwrap_or(&folded))
}

/// Says where something is shown that must not be.
fn shown(value: &Value, keys: &[&str]) -> Option<String> {
    let hidden = json!({"redacted": true, "reason": "sensitive-key"});
    let secret = json!({"redacted": true, "reason": "secret-data"});
    match value {
        Value::Object(members) => members.iter().find_map(|(key, value)| {
            if value.is_boolean() || *value == hidden || *value == secret {
                return None;
            }
            let entry = members.get("name").and_then(Value::as_str);
            let carrier = match key.to_lowercase().as_str() {
                "secretkeyref" | "secretref" => value.is_object(),
                "valuefrom" => value.get("secretKeyRef").is_some(),
                "tls" => value.get("key").is_some(),
                "value" => entry.is_some_and(|name| is_sensitive(name, keys)),
                _ => false,
            };
            if carrier || is_sensitive(key, keys) {
                return Some(format!("{key}: {value}"));
            }
            shown(value, keys)
        }),
        Value::Array(items) => items.iter().find_map(|item| shown(item, keys)),
        _ => None,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn decoding_only_what_is_read_changes_nothing(
        object in object(),
        profiles in prop::collection::vec(any_profile(), 1..3),
    ) {
        let extractors: Vec<_> = profiles
            .iter()
            .map(|profile| Extractor::new(profile, &Settings::default()))
            .collect();
        let object_type = ObjectType { api_version: "v1".into(), kind: "Secret".into() };
        let reads = extractors.iter().map(Extractor::reads);
        let shared = Projection::new(object_type, reads);
        let decoded = shared.decode(object.to_string().as_bytes()).expect("an object");
        prop_assert_eq!(decoded.value(), &shared.reads().project(&object));
        for (profile, extractor) in profiles.iter().zip(&extractors) {
            let whole = extract(extractor, &object);
            prop_assert_eq!(&extract(extractor, decoded.value()), &whole);
            let own_type = &profile.spec.target_gvk;
            if own_type.group.is_empty() {
                prop_assert_eq!(&extract_projected(profile, extractor, &object), &whole);
            }
            if let Err(error) = whole {
                let message = error.to_string();
                prop_assert!(message.len() <= 256, "{}", message);
                prop_assert!(!message.contains(char::is_control), "{}", message);
            }
        }
    }

    #[test]
    fn no_listed_key_survives(object in object(), profile in any_profile()) {
        let settings = Settings { scrub_keys: vec!["key".into()], ..Settings::default() };
        let extractor = Extractor::new(&profile, &settings);
        let copies = profile.spec.export.is_some();
        let keys: &[&str] = if copies { &["key", "ourOwn"] } else { &["key"] };
        if let Ok(row) = extract(&extractor, &object) {
            let members = row.as_object().expect("attributes");
            let permitted = profile.metadata.annotations.as_ref().is_some_and(|annotations| {
                annotations.contains_key("kollect.dev/allow-secret-extraction")
            });
            for (name, value) in members {
                prop_assert_eq!(shown(value, keys), None);
                // The names of attributes count like keys, unless the profile may name secrets.
                if !permitted && !value.is_null() {
                    let named = json!({name.as_str(): value});
                    prop_assert_eq!(shown(&named, keys), None);
                }
            }
        }
    }

    #[test]
    fn what_a_secret_keeps_stays_there(mut object in object(), mut profile in any_profile()) {
        profile.spec.target_gvk.group.clear();
        if let Some(annotations) = &mut profile.metadata.annotations {
            annotations.remove("kollect.dev/allow-secret-extraction");
        }
        let keeps = json!({"a": "HIDDEN", "b": {"c": "HIDDEN"}});
        for member in ["data", "stringData"] {
            object[member] = keeps.clone();
        }
        let applied = "kubectl.kubernetes.io/last-applied-configuration";
        object["metadata"]["annotations"] = json!({applied: "HIDDEN", "a": "b"});
        match extract(&Extractor::new(&profile, &Settings::default()), &object) {
            Ok(row) => prop_assert!(!row.to_string().contains("HIDDEN"), "{}", row),
            Err(error) => prop_assert!(!error.to_string().contains("HIDDEN"), "{}", error),
        }
    }

    #[test]
    fn rows_are_canonical_whatever_was_in_the_buffer(
        object in object(),
        profile in any_profile(),
        before in members(value()),
    ) {
        let extractor = Extractor::new(&profile, &Settings::default());
        let mut buffer = AttributesBuffer::new();
        buffer.set(&before);
        if let Ok(attributes) = extractor.extract(&object, &mut buffer) {
            let text = attributes.to_json();
            let parsed: Value = serde_json::from_str(text.as_str()).expect("JSON");
            prop_assert_eq!(&text, &CanonicalJson::from(&parsed));
            prop_assert_eq!(Ok(parsed), extract(&extractor, &object));
        }
    }
}

/// An expression that hands out the object again and again is cut off, not written.
#[test]
fn a_small_expression_cannot_fill_the_memory() {
    let spec = json!({
        "targetGVK": {"version": "v1", "kind": "X"},
        "attributes": [{"name": "a", "path": "cel:object.list.map(x, object.list.map(y, object))"}],
    });
    let extractor = Extractor::new(&profile(&BTreeMap::new(), spec), &Settings::default());
    let list: Vec<Value> = (0..400).map(|at| json!(format!("element {at}"))).collect();
    let object = json!({"metadata": {"name": "n"}, "list": list});
    let started = std::time::Instant::now();
    assert!(extract(&extractor, &object).is_err());
    assert!(started.elapsed().as_secs() < 5);
}
