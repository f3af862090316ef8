//! Looking for what must not have left, wherever it could have gone: tables, repositories,
//! statuses, events, the log, metrics.

use anyhow::{Context as _, Result};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kollect_testkit::{git::Repository, http, postgres::Database};
use serde_json::Value;

/// A place and everything in it.
pub(crate) type Place = (String, String);

/// The content of all tables.
pub(crate) fn tables(database: &Database) -> Result<Vec<Place>> {
    let sql = "SELECT table_schema || '.' || table_name FROM information_schema.tables \
               WHERE table_schema NOT IN ('pg_catalog', 'information_schema') \
               AND table_type = 'BASE TABLE'";
    let names = database.psql(sql)?;
    let content = |name: &str| {
        let text = database.psql(&format!("SELECT row_to_json(t) FROM {name} t"))?;
        Ok((format!("table {name}"), text))
    };
    names.lines().map(content).collect()
}

/// Every version of every file, and the messages of commits.
pub(crate) fn repository(id: &str, repository: &Repository) -> Result<Vec<Place>> {
    let messages = repository.git(&["log", "--all", "--format=%an %ae %B", "-p", "--text"])?;
    Ok(vec![(format!("repository of {id}"), messages)])
}

/// What our objects' statuses and all events say.
pub(crate) fn statuses(admin: &http::Client) -> Result<Vec<Place>> {
    let kinds = [
        "kollectconnectiontests",
        "kollectdatabasesinks",
        "kollectinventories",
        "kollectsnapshotsinks",
        "kollecttargets",
        "kollectclusterinventories",
        "kollectclustertargets",
    ];
    let mut places = Vec::new();
    for kind in kinds {
        let list = admin.get(&format!("/apis/kollect.dev/v1alpha1/{kind}"))?;
        for item in items(&list)? {
            let meta = &item["metadata"];
            let name = format!("status of {kind} {}/{}", meta["namespace"], meta["name"]);
            places.push((name, item["status"].to_string()));
        }
    }
    let events = admin.get("/api/v1/events")?;
    for event in items(&events)? {
        let name = format!("event about {}", event["involvedObject"]["name"]);
        places.push((name, event["message"].to_string()));
    }
    Ok(places)
}

fn items(list: &Value) -> Result<&Vec<Value>> {
    list["items"].as_array().context("a list has items")
}

/// The places that hold a text, as it is or encoded.
pub(crate) fn find(text: &str, places: &[Place]) -> Vec<String> {
    let forms = forms(text);
    let holds = |content: &str| forms.iter().any(|form| content.contains(form.as_str()));
    let found = places.iter().filter(|(_, content)| holds(content));
    found.map(|(place, _)| place.clone()).collect()
}

/// A text, and what is the same in its base64 wherever it stands in something larger.
fn forms(text: &str) -> Vec<String> {
    let mut forms = vec![text.to_owned()];
    for shift in 0..3 {
        let encoded = STANDARD.encode(format!("{}{text}", "x".repeat(shift)));
        // The first group and the last one depend on what stands beside.
        forms.push(encoded[4..encoded.len() - 4].to_owned());
    }
    forms
}

#[test]
fn encoded_texts_are_found() {
    let text = "leak7zqsomething";
    for around in ["", "a", "ab", "abc"] {
        let encoded = STANDARD.encode(format!("{around}{text}{around}"));
        let places = [("there".to_owned(), format!("{{\"x\":\"{encoded}\"}}"))];
        assert_eq!(find(text, &places), ["there"], "{around:?}");
    }
    assert!(find(text, &[("there".to_owned(), "leak7".to_owned())]).is_empty());
}
