//! Every request is one that the public description of BigQuery v2 has, field for field.

use kollect_inventory::Snapshot;
use kollect_sinks::Sink;
use serde_json::{Map, Value, json};

use super::{
    gate::{Seen, Trouble},
    items::deployments,
    stage::{Stage, T1, T2, T3, TABLE, changes, everything, inventory},
};

/// What is wrong with a value of this type, if anything.
fn mismatch(discovery: &Value, kind: &Value, value: &Value, place: &str) -> Option<String> {
    if let Some(name) = kind["$ref"].as_str() {
        return mismatch(discovery, &discovery["schemas"][name], value, place);
    }
    let wrong = || Some(format!("{place}: {value} is no {kind}"));
    match (kind["type"].as_str()?, value) {
        ("object", Value::Object(fields)) => fields.iter().find_map(|(name, value)| {
            let place = format!("{place}.{name}");
            let field = &kind["properties"][name];
            let field = if field.is_null() {
                &kind["additionalProperties"]
            } else {
                field
            };
            if field.is_null() {
                return Some(format!("{place} is not described"));
            }
            mismatch(discovery, field, value, &place)
        }),
        ("array", Value::Array(values)) => values
            .iter()
            .find_map(|value| mismatch(discovery, &kind["items"], value, &format!("{place}[]"))),
        // Whole numbers of 64 bits are texts.
        ("string", Value::String(text)) => match kind["format"].as_str() {
            Some("int64" | "uint64") if text.parse::<i64>().is_err() => wrong(),
            _ => None,
        },
        ("boolean", Value::Bool(_)) | ("integer" | "number", Value::Number(_)) | ("any", _) => None,
        _ => wrong(),
    }
}

fn methods(resource: &Value, into: &mut Vec<Value>) {
    let all = |key: &str| resource[key].as_object().cloned().unwrap_or_default();
    into.extend(all("methods").into_values());
    for inner in all("resources").values() {
        methods(inner, into);
    }
}

/// Whether a path has the form of a description, such as `projects/{+projectId}/jobs`.
fn has_form(path: &str, form: &str) -> bool {
    let (path, form): (Vec<_>, Vec<_>) = (path.split('/').collect(), form.split('/').collect());
    path.len() == form.len()
        && path
            .iter()
            .zip(&form)
            .all(|(part, form)| form.starts_with('{') || part == form)
}

fn check(discovery: &Value, methods: &[Value], seen: &Seen) {
    let path = seen
        .path
        .strip_prefix("/bigquery/v2/")
        .expect("a path of the service");
    let method = methods
        .iter()
        .find(|method| {
            let form = method["flatPath"].as_str().or(method["path"].as_str());
            method["httpMethod"] == seen.method.as_str()
                && form.is_some_and(|form| has_form(path, form))
        })
        .unwrap_or_else(|| panic!("{} {path} is not described", seen.method));
    let known = |parameters: &Value| parameters.as_object().cloned().unwrap_or_default();
    let known: Map<String, Value> = known(&method["parameters"])
        .into_iter()
        .chain(known(&discovery["parameters"]))
        .collect();
    for pair in seen.query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').expect("a value");
        let parameter = known.get(name);
        let parameter = parameter.unwrap_or_else(|| panic!("{} has no {name}", method["id"]));
        if let Some(words) = parameter["enum"].as_array() {
            assert!(words.iter().any(|word| word == value), "{name}={value}");
        }
        if parameter["type"] == "integer" {
            assert!(value.parse::<u32>().is_ok(), "{name}={value}");
        }
    }
    let request = &method["request"];
    assert_eq!(
        request.is_null(),
        seen.body.is_null(),
        "a body for {}",
        method["id"]
    );
    if !request.is_null() {
        let wrong = mismatch(
            discovery,
            request,
            &seen.body,
            method["id"].as_str().unwrap(),
        );
        assert_eq!(wrong, None);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_described() {
    let discovery = tokio::task::spawn_blocking(kollect_testkit::bigquery::discovery);
    let discovery = discovery.await.expect("a document").expect("a document");
    let mut described = Vec::new();
    methods(&discovery, &mut described);
    assert!(described.len() > 30, "that is no description");

    let stage = Stage::new().await;
    let sink = stage.sink(json!({"bigquery": {"location": "EU"}}));
    let (one, two) = (deployments(3, 1), deployments(4, 2));
    sink.probe().await.expect("a probe");
    everything(&sink, &inventory(), T1, &one)
        .await
        .expect("rows");
    changes(&sink, &inventory(), T2, &one, &two)
        .await
        .expect("changes");
    sink.retire(&inventory()).await.expect("retired");
    // One that is settled first, with a page more than there is.
    let mut first = true;
    stage.gate.rule(move |seen| {
        let insert = seen.change().is_some_and(|text| text.starts_with("INSERT"));
        (insert && std::mem::take(&mut first)).then_some(Trouble::refusal(500, "backendError"))
    });
    let mut page = true;
    stage.gate.rule(move |seen| {
        let reads = seen.query.contains("maxResults=20000") && std::mem::take(&mut page);
        reads.then(|| Trouble::Answer(200, json!({"jobComplete": true, "pageToken": "a/b+c"})))
    });
    everything(&sink, &inventory(), T3, &two)
        .await
        .expect("rows");
    everything(&sink, &inventory(), T3, &Snapshot::default())
        .await
        .expect("nothing");
    stage.gate.calm();
    // A table without the last column, and the statement of the service.
    let patched = Stage::new().await;
    let description = json!({"schema": {"fields": super::provisioning::original()}});
    let dataset = patched.dataset.clone();
    let made = tokio::task::spawn_blocking(move || dataset.create_table(TABLE, &description));
    made.await.expect("an answer").expect("a table");
    patched
        .gate
        .rule(|seen| (seen.method == "PATCH").then(|| Trouble::refusal(403, "accessDenied")));
    let spec = super::stage::spec(&patched.dataset, json!({}));
    let file = super::stage::key_file(super::gate::KEY, patched.port);
    let service = patched.service().with_merge();
    let merging = Stage::sink_of(&spec, &[("credentials.json", &file)], service);
    let _ = everything(&merging.expect("a sink"), &inventory(), T1, &one).await;

    let mut seen = stage.gate.seen();
    seen.extend(patched.gate.seen());
    for seen in &seen {
        check(&discovery, &described, seen);
    }
    let merges = seen.iter().filter_map(Seen::change);
    assert_eq!(merges.filter(|text| text.starts_with("MERGE")).count(), 1);
    let kinds = |word: &str| seen.iter().filter(|seen| seen.method == word).count();
    assert!(
        kinds("GET") > 5 && kinds("POST") > 5 && kinds("PATCH") == 1,
        "{seen:#?}"
    );
    // What is not described is found.
    let mut odd = seen
        .iter()
        .find(|seen| seen.change().is_some())
        .expect("a job")
        .clone();
    odd.body["configuration"]["query"]["useStandardSql"] = json!(true);
    let wrong = mismatch(&discovery, &json!({"$ref": "Job"}), &odd.body, "job");
    assert!(wrong.expect("a mismatch").contains("useStandardSql"));
}
