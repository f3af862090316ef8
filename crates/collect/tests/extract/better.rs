//! Behaviour that needs more than an object and a row to show.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use kollect_api::rules::{self, Object, Surroundings, Verdict};
use kollect_collect::extract::{Class, MAX_MESSAGE_BYTES, Settings};
use kollect_collect::{ExtractError, Extractor};
use kollect_inventory::AttributesBuffer;
use serde_json::{Map, Value, json};

use crate::support::{extract, profile, read, simple_profile};

fn extractor(attributes: &[(&str, &str)]) -> Extractor {
    Extractor::new(&simple_profile(attributes), &Settings::default())
}

/// One extractor and one decoder serve all workers.
#[test]
fn what_is_compiled_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Extractor>();
    shared::<kollect_collect::Projection>();
    shared::<kollect_collect::Series>();
}

/// A Secret with this release document, compressed.
fn release(document: &[u8]) -> Value {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(document).expect("memory");
    let payload = BASE64_STANDARD.encode(gzip.finish().expect("memory"));
    json!({"metadata": {"name": "r"}, "data": {"release": BASE64_STANDARD.encode(payload)}})
}

/// X-02: nothing is parsed or compiled per object. Compiling the expressions below takes hundreds
/// of allocations.
#[test]
fn expressions_are_compiled_once() {
    let objects: Map<String, Value> = read("objects.yaml");
    let extractor = extractor(&[
        ("name", "$.metadata.name"),
        ("image", "$.spec.containers[0].image"),
        ("count", "cel:size(object.spec.containers)"),
        (
            "both",
            "cel:has(object.spec.replicas) && object.spec.replicas > 2",
        ),
    ]);
    let mut buffer = AttributesBuffer::new();
    let mut run = || {
        extractor
            .extract(&objects["A"], &mut buffer)
            .map(|_| ())
            .expect("a row");
    };
    run();
    let used = allocation_counter::measure(run);
    assert_eq!(used.count_total, 0, "{used:?}");
}

/// X-18: a release is decoded once per object, however many attributes read it.
#[test]
fn a_release_is_decoded_once() {
    let document = json!({"name": "shop", "version": 3, "info": {"status": "x".repeat(10_000)}});
    let object = release(document.to_string().as_bytes());
    let fields: Vec<String> = (0..20).map(|at| format!("a{at}")).collect();
    let attributes: Vec<(&str, &str)> = fields
        .iter()
        .map(|name| (name.as_str(), "helm:release.revision"))
        .collect();
    let bytes = |count: usize| {
        let extractor = extractor(&attributes[..count]);
        let mut buffer = AttributesBuffer::new();
        let mut run = || {
            extractor
                .extract(&object, &mut buffer)
                .map(|_| ())
                .expect("a row");
        };
        run();
        allocation_counter::measure(run).bytes_total
    };
    assert!(
        bytes(20) < bytes(1) + 5_000,
        "{} against {}",
        bytes(20),
        bytes(1)
    );
}

/// X-17: a small payload cannot become any amount of memory.
#[test]
fn decompression_stops_at_eight_mebibytes() {
    let document = |filling: usize| {
        let mut text = b"{\"name\":\"shop\",\"manifest\":\"".to_vec();
        text.resize(text.len() + filling, b'x');
        text.extend(b"\"}");
        release(&text)
    };
    let extractor = extractor(&[("name", "helm:release.name")]);
    assert_eq!(
        extract(&extractor, &document(8_000_000)),
        Ok(json!({"name": "shop"}))
    );
    let error = extract(&extractor, &document(8_388_608)).expect_err("too large");
    let message = "attribute \"name\": read gzip release: the document is larger than 8 MiB";
    assert_eq!(error.to_string(), message);
    let bomb = document(64_000_000);
    let used = allocation_counter::measure(|| {
        extract(&extractor, &bomb).expect_err("too large");
    });
    assert!(used.bytes_max < 32 << 20, "{used:?}");
}

/// X-36: messages are short, on one line, and name the attribute.
#[test]
fn messages_are_bounded() {
    let long_name = "ü".repeat(200);
    let long_path = format!("cel:object.{}\n+\n", "a".repeat(1500));
    let long_member = format!("$.spec.{}[0]", "b".repeat(4000));
    let object = json!({"metadata": {"name": "n"}, "spec": {"b".repeat(4000): "s3cr3t"}});
    for (name, path) in [
        ("short", long_path.as_str()),
        (&long_name, &long_path),
        (&long_name, &long_member),
        ("line\nbreak", "cel:1 +"),
        ("a", "cel:object.metadata.name + object.spec"),
    ] {
        let error = extract(&extractor(&[(name, path)]), &object).expect_err("fails");
        let message = error.to_string();
        assert!(message.starts_with("attribute \""), "{message}");
        assert!(
            message.len() <= MAX_MESSAGE_BYTES,
            "{} bytes",
            message.len()
        );
        assert!(!message.contains(char::is_control), "{message}");
        assert!(!message.contains("s3cr3t"), "{message}");
    }
}

#[test]
fn errors_say_whose_hands_can_end_them() {
    let objects: Map<String, Value> = read("objects.yaml");
    let class = |name: &str, profile: &kollect_api::KollectProfile, max_row_bytes: usize| {
        let settings = Settings {
            max_row_bytes,
            ..Settings::default()
        };
        let extractor = Extractor::new(profile, &settings);
        extract(&extractor, &objects[name]).map_err(|error| error.class())
    };
    let of_path = |path: &str| class("A", &simple_profile(&[("a", path)]), 1000);
    assert_eq!(of_path("cel:1 +"), Err(Class::Profile));
    assert_eq!(of_path("cel:object.nope"), Err(Class::Object));
    assert_eq!(of_path("helm:release.name"), Err(Class::Object));
    assert_eq!(
        class("A", &simple_profile(&[("a", "$")]), 100),
        Err(Class::Size)
    );
    let secret = |spec: Value| {
        let mut spec = spec;
        spec["targetGVK"] = json!({"version": "v1", "kind": "Secret"});
        profile(&BTreeMap::new(), spec)
    };
    let config = json!({"attributes": [{"name": "a", "path": "helm:release.config"}]});
    assert_eq!(class("H", &secret(config), 1000), Err(Class::Forbidden));
    let whole = json!({"export": {"mode": "Resource"}});
    assert_eq!(class("H", &secret(whole), 1000), Err(Class::Forbidden));
    let error = ExtractError::TooLarge { limit: 5 };
    assert!(error.to_string().contains("5 bytes"));
}

/// X-29: whole Secrets leave a governed namespace only if its scope names the kind.
#[test]
fn whole_secrets_need_the_scope_as_well() {
    let permitted = BTreeMap::from([(
        "kollect.dev/allow-full-resource-export".to_owned(),
        "true".to_owned(),
    )]);
    let secrets = profile(
        &permitted,
        json!({"targetGVK": {"version": "v1", "kind": "Secret"}, "export": {"mode": "Resource"}}),
    );
    let object = |kind: &str, spec: Value| {
        Object::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "x", "namespace": "team-a"}, "spec": spec,
        }))
        .expect("an object")
    };
    let review = |scope: Option<Value>| {
        let scopes = scope.map(|spec| match object("KollectScope", spec) {
            Object::Scope(scope) => scope,
            _ => unreachable!("a scope"),
        });
        let surroundings = Surroundings {
            scopes: scopes.into_iter().collect(),
            profile: Some(secrets.clone()),
            ..Surroundings::default()
        };
        let target = object("KollectTarget", json!({"profileRef": "p"}));
        rules::review(&target, &rules::Settings::default(), &surroundings)
    };
    let gvk = |kind: &str| json!({"allowedGVKs": [{"version": "v1", "kind": kind}]});
    assert!(matches!(
        review(Some(gvk("Secret"))),
        Verdict::Allowed { .. }
    ));
    for scope in [gvk("ConfigMap"), json!({})] {
        assert!(matches!(review(Some(scope)), Verdict::Denied(_)));
    }
}

/// Each improvement over the behaviour that users may know has a case here or in the data.
#[test]
fn every_improvement_has_a_case() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let mut text = String::new();
    for directory in ["extract", "data/extract"] {
        for file in std::fs::read_dir(tests.join(directory)).expect("a directory") {
            let path = file.expect("a file").path();
            text += &std::fs::read_to_string(path).expect("text");
        }
    }
    // The numbers that are missing are about the languages of paths and about admission.
    let numbers = [1, 2, 9, 12].into_iter().chain(16..=33).chain([36]);
    for number in numbers {
        let id = format!("X-{number:02}");
        assert!(text.contains(&id), "{id}");
    }
}
