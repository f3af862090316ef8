//! What an export would look like, for people who are about to point an inventory at a sink.
//!
//! Rendered from made-up rows; no backend is asked.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::sink::{SinkSpec, status::Preview};
use kollect_sinks::backend;

/// A preview, the same one again if nothing about it changed.
pub fn render(spec: &SinkSpec, sink: &str, previous: Option<&Preview>, now: &Time) -> Preview {
    // As of the last one, so that a time in a commit message is no change.
    let again = previous.and_then(|previous| {
        let at = previous.rendered_at.clone()?;
        let mut again = rendered(spec, sink, &at);
        again.rendered_at = Some(at);
        (again == *previous).then_some(again)
    });
    again.unwrap_or_else(|| Preview {
        rendered_at: Some(now.clone()),
        ..rendered(spec, sink, now)
    })
}

fn rendered(spec: &SinkSpec, sink: &str, at: &Time) -> Preview {
    backend::preview(spec, sink, at.0)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::{Value, json};

    use super::*;

    fn snapshot(spec: Value) -> SinkSpec {
        SinkSpec::Snapshot(serde_json::from_value(spec).expect("a sink"))
    }

    fn at(second: i64) -> Time {
        Time(Timestamp::from_second(second).expect("a time"))
    }

    #[test]
    fn git_shows_paths_and_commits_and_rests() {
        let plain = snapshot(json!({"type": "git", "endpoint": "https://git.example.com/r.git"}));
        let first = render(&plain, "audit", None, &at(1));
        assert_eq!(first.serialization_format.as_deref(), Some("yaml"));
        let layout = first.layout.as_ref().expect("a layout");
        assert_eq!(layout.mode.as_deref(), Some("document"));
        assert_eq!(layout.sample_paths, ["inventory/team-a/api.yaml"]);
        let commit = first.git.as_ref().expect("a commit");
        let subject = commit.sample_commit_subject.as_deref().unwrap_or_default();
        assert!(subject.contains("42 items"), "{subject}");
        assert_eq!(render(&plain, "audit", Some(&first), &at(99)), first);

        let many = snapshot(json!({
            "type": "git", "endpoint": "https://git.example.com/r.git", "cluster": "prod-west",
            "layout": {"mode": "perResource"}, "git": {"commitMessage": "{exportedAt} {sink}"},
        }));
        let second = render(&many, "audit", Some(&first), &at(99));
        let layout = second.layout.as_ref().expect("a layout");
        assert_eq!(layout.prune, Some(true));
        assert_eq!(layout.sample_paths.len(), 3);
        let below = |path: &String| path.starts_with("prod-west/team-a/deployment/");
        assert!(layout.sample_paths.iter().all(below), "{layout:?}");
        assert_eq!(render(&many, "audit", Some(&second), &at(200)), second);
    }

    #[test]
    fn tables_topics_and_warnings() {
        let database = |spec: Value| SinkSpec::Database(serde_json::from_value(spec).expect("one"));
        let postgres = database(json!({
            "type": "postgres", "provisioning": {"mode": "existing"},
            "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
        }));
        let preview = render(&postgres, "pg", None, &at(1));
        let ddl = preview.postgres.and_then(|postgres| postgres.expected_ddl);
        assert!(ddl.expect("a statement").contains("\"public\".\"items\""));
        assert!(preview.warnings[0].starts_with("provisioning.mode=existing"));
        let mongodb = database(json!({
            "type": "mongodb",
            "mongodb": {"databaseRef": {"name": "u"}, "database": "d", "collection": "c"},
        }));
        let preview = render(&mongodb, "m", None, &at(1));
        assert_eq!(preview.mongodb.expect("keys").expected_index_keys.len(), 5);
        assert_eq!(preview.warnings, ["mongodb: documents upserted into d.c"]);
        let bigquery = database(json!({
            "type": "bigquery", "bigquery": {"project": "p", "dataset": "d", "table": "t"},
        }));
        let preview = render(&bigquery, "b", None, &at(1));
        let ddl = preview.bigquery.and_then(|bigquery| bigquery.expected_ddl);
        assert!(ddl.expect("a statement").contains("`p.d.t`"));
    }
}
