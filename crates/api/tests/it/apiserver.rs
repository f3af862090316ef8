//! The CRDs on a real API server: what it accepts, what it fills in, what it refuses, and what
//! people see of it.

use std::{
    collections::BTreeSet,
    process::Output,
    sync::{LazyLock, Mutex},
};

use crate::vectors::{self, RefusedBy, Vector};
use kollect_api::{
    crd,
    rules::{Object, Settings, Verdict, review},
};
use kollect_testkit::Cluster;
use serde_json::{Value, json};

/// The shared control plane with our CRDs on it.
fn cluster() -> &'static Cluster {
    static INSTALLED: LazyLock<&'static Cluster> = LazyLock::new(|| {
        let cluster = Cluster::shared().expect("a control plane");
        cluster
            .define(crd::all_yaml().iter().map(|file| &file.yaml))
            .expect("the API server takes our CRDs");
        cluster
    });
    *INSTALLED
}

/// Sends a manifest for validation without storing it.
fn dry_run(cluster: &Cluster, manifest: &Value) -> Output {
    use std::io::Write as _;
    let mut child = cluster
        .kubectl_command()
        .args([
            "create",
            "--dry-run=server",
            "--validate=strict",
            "-o",
            "json",
            "-f",
            "-",
        ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("kubectl starts");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(manifest.to_string().as_bytes())
        .expect("kubectl reads");
    child.wait_with_output().expect("kubectl ends")
}

/// Runs a check for every vector on a few threads: kubectl spends its time waiting.
fn for_each(vectors: &[Vector], check: impl Fn(&Vector) -> Result<(), String> + Sync) {
    let next = Mutex::new(vectors.iter());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some(vector) = { next.lock().unwrap().next() } {
                    if let Err(failure) = check(vector) {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}: {failure}", vector.id));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn refusals_are_where_the_vectors_say() {
    let cluster = cluster();
    let namespace = cluster.create_namespace("refused").unwrap();
    let vectors = vectors::refused();
    for_each(&vectors, |vector| {
        let output = dry_run(cluster, &vector.manifest(&namespace));
        let refused = !output.status.success();
        if refused == (vector.refused_by == Some(RefusedBy::Schema)) {
            return Ok(());
        }
        Err(format!(
            "refused: {refused}: {}",
            String::from_utf8_lossy(&output.stderr)
        ))
    });
    assert!(vectors.iter().filter(|vector| vector.is_refused()).count() > 90);
}

#[test]
fn edges_are_accepted() {
    let cluster = cluster();
    let namespace = cluster.create_namespace("edges").unwrap();
    for_each(&vectors::edge(), |vector| {
        let output = dry_run(cluster, &vector.manifest(&namespace));
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    });
}

#[test]
fn accepted_manifests_come_back_with_their_defaults() {
    let cluster = cluster();
    let namespaces: BTreeSet<String> = vectors::accepted()
        .iter()
        .filter_map(|manifest| {
            manifest
                .pointer("/metadata/namespace")?
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    for namespace in namespaces {
        // The names are part of the manifests, so this test owns them.
        let made =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        cluster.apply(&made.to_string()).unwrap();
    }
    for manifest in vectors::accepted() {
        cluster
            .apply(&manifest.to_string())
            .unwrap_or_else(|error| panic!("{manifest}: {error:#}"));
        let kind = manifest["kind"].as_str().unwrap().to_lowercase();
        let name = manifest["metadata"]["name"].as_str().unwrap();
        let namespace = manifest["metadata"]["namespace"]
            .as_str()
            .unwrap_or("default");
        let stored = cluster
            .kubectl(&["get", &kind, name, "-n", namespace, "-o", "json"])
            .unwrap();
        let stored: Value = serde_json::from_str(&stored).unwrap();
        let mut expected = manifest["spec"].clone();
        for (pointer, default) in defaults_of(&kind) {
            fill_in(&mut expected, pointer, default);
        }
        assert_eq!(stored["spec"], expected, "{kind} {name}");
    }
}

/// What the API server fills in, by kind. A default applies where its parent is given.
fn defaults_of(kind: &str) -> Vec<(&'static str, Value)> {
    match kind {
        "kollectprofile" => vec![
            ("/export/mode", json!("Attributes")),
            ("/export/as", json!("resource")),
            ("/export/include", json!("SpecAndStatus")),
        ],
        "kollecttarget" => vec![("/watchMode", json!("All"))],
        "kollectinventory" => vec![("/exportMinInterval", json!("30s"))],
        "kollectclusterinventory" => vec![
            ("/exportMinInterval", json!("30s")),
            ("/sinkNamespace", json!("kollect-system")),
            ("/dedupe", json!("keepAll")),
        ],
        "kollectconnectiontest" => vec![("/ttlSecondsAfterFinished", json!(300))],
        _ => Vec::new(),
    }
}

fn fill_in(spec: &mut Value, pointer: &str, default: Value) {
    let (parent, member) = pointer.rsplit_once('/').unwrap();
    if let Some(Value::Object(parent)) = spec.pointer_mut(parent) {
        parent.entry(member).or_insert(default);
    }
}

#[test]
fn defaults_apply_where_the_parent_is_given() {
    let cluster = cluster();
    let namespace = cluster.create_namespace("defaults").unwrap();
    for (kind, spec, expected) in [
        (
            "KollectSnapshotSink",
            json!({"type": "git", "layout": {}}),
            json!({"type": "git", "layout": {}}),
        ),
        (
            "KollectConnectionTest",
            json!({"sinkRef": {"databaseSinkRef": "a"}}),
            json!({"sinkRef": {"databaseSinkRef": "a"}, "ttlSecondsAfterFinished": 300}),
        ),
        (
            "KollectInventory",
            json!({}),
            json!({"exportMinInterval": "30s"}),
        ),
        // An explicit null is as good as nothing where there is a default.
        (
            "KollectInventory",
            json!({"exportMinInterval": null}),
            json!({"exportMinInterval": "30s"}),
        ),
    ] {
        let manifest = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "x", "namespace": namespace}, "spec": spec,
        });
        let output = dry_run(cluster, &manifest);
        let stored: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!(stored["spec"], expected, "{kind} {spec}");
    }
}

#[test]
fn short_names_columns_and_the_category_work() {
    let cluster = cluster();
    let namespace = cluster.create_namespace("columns").unwrap();
    let inventory = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
        "metadata": {"name": "inv", "namespace": namespace}, "spec": {},
    });
    cluster.apply(&inventory.to_string()).unwrap();
    for (name, columns) in [
        (
            "kollectinventories",
            ["READY", "SYNCED", "REASON", "ITEMS", "LASTEXPORT", "AGE"],
        ),
        (
            "kinv",
            ["READY", "SYNCED", "REASON", "ITEMS", "LASTEXPORT", "AGE"],
        ),
        (
            "ktgt",
            ["PROFILE", "READY", "REASON", "COLLECTED", "UPDATED", "AGE"],
        ),
    ] {
        let made = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
            "metadata": {"name": "t", "namespace": namespace}, "spec": {"profileRef": "p"},
        });
        cluster.apply(&made.to_string()).unwrap();
        let table = cluster.kubectl(&["get", name, "-n", &namespace]).unwrap();
        let header: Vec<_> = table
            .lines()
            .next()
            .unwrap()
            .split_whitespace()
            .skip(1)
            .collect();
        assert_eq!(header, columns, "{name}");
    }
    for short in [
        "kprof",
        "kctgt",
        "kcinv",
        "ksnap",
        "kdb",
        "kevt",
        "kscope",
        "kcscope",
        "kconntest",
    ] {
        cluster.kubectl(&["get", short, "-n", &namespace]).unwrap();
    }
    let all = cluster
        .kubectl(&["get", "kollect", "-n", &namespace, "-o", "name"])
        .unwrap();
    assert!(all.contains("kollectinventory.kollect.dev/inv"), "{all}");
}

#[test]
fn every_field_explains_itself() {
    let cluster = cluster();
    for kind in [
        "kollectprofile",
        "kollecttarget",
        "kollectsnapshotsink",
        "kollectinventory",
    ] {
        let text = cluster.kubectl(&["explain", kind, "--recursive"]).unwrap();
        assert!(text.contains("spec"), "{text}");
    }
    let text = cluster
        .kubectl(&["explain", "kollectprofile.spec.attributes.path"])
        .unwrap();
    assert!(
        text.contains("JSONPath") && text.contains("helm:release"),
        "{text}"
    );

    for definition in crd::all() {
        let definition = serde_json::to_value(&definition).unwrap();
        let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let mut bare = Vec::new();
        undescribed(schema, "", &mut bare);
        assert!(
            bare.is_empty(),
            "{}: {bare:?}",
            definition["metadata"]["name"]
        );
    }
}

/// Collects the properties without a description.
fn undescribed(schema: &Value, path: &str, bare: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        for (name, property) in properties {
            let path = format!("{path}.{name}");
            if property["description"]
                .as_str()
                .is_none_or(|text| text.len() < 5)
            {
                bare.push(path.clone());
            }
            undescribed(property, &path, bare);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            undescribed(&schema[inner], path, bare);
        }
    }
}

#[test]
fn the_samples_are_accepted_by_server_and_rules() {
    let cluster = cluster();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/samples");
    // By name: the team's namespace comes first, and the other samples live in it.
    let files = std::fs::read_dir(directory).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    let read = |file| std::fs::read_to_string(file).unwrap();
    let texts: Vec<String> = files.iter().map(read).collect();
    let manifests: Vec<Value> = texts
        .iter()
        .flat_map(|text| serde_saphyr::from_multiple::<Value>(text).unwrap())
        .collect();
    let world: Vec<Object> = manifests
        .iter()
        .filter_map(|value| Object::from_value(value.clone()).ok())
        .collect();
    for (file, text) in files.iter().zip(&texts) {
        cluster
            .apply(text)
            .unwrap_or_else(|error| panic!("{}: {error:#}", file.display()));
    }
    for object in &world {
        let around = vectors::surroundings(&world, object);
        let verdict = review(object, &Settings::default(), &around);
        assert!(
            matches!(verdict, Verdict::Allowed { .. }),
            "{}: {verdict:?}",
            object.name()
        );
    }
}
