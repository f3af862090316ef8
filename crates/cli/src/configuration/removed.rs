//! Kinds and fields that earlier versions had, and what takes their place.

/// What takes the place of a kind that is no more.
pub(super) fn kind(name: &str) -> Option<&'static str> {
    Some(match name {
        "KollectSink" => {
            "write a KollectSnapshotSink (git, gitlab, s3, gcs), a KollectDatabaseSink (postgres, mongodb, bigquery) or a KollectEventSink (kafka, nats)"
        }
        "KollectClusterSink" => {
            "write a KollectSnapshotSink, KollectDatabaseSink or KollectEventSink in a namespace, and name that in the reference"
        }
        "KollectClusterProfile" => {
            "write a KollectProfile in a namespace, and name that in spec.profileRef.namespace"
        }
        "KollectClusterSnapshotSink" => {
            "write a KollectSnapshotSink in a namespace, and name that in the reference"
        }
        "KollectClusterDatabaseSink" => {
            "write a KollectDatabaseSink in a namespace, and name that in the reference"
        }
        "KollectClusterEventSink" => {
            "write a KollectEventSink in a namespace, and name that in the reference"
        }
        _ => return None,
    })
}

/// What takes the place of a field that is no more, or is written in another form now.
pub(super) fn field(kind: &str, path: &str, problem: &str) -> Option<&'static str> {
    let inventory = matches!(kind, "KollectInventory" | "KollectClusterInventory");
    let wrong_type = problem.contains("must be of type object");
    Some(match path {
        "spec.sinkRefs" if inventory || kind.ends_with("Scope") => {
            "sinkRefs was split by family: write spec.snapshotSinkRefs, spec.databaseSinkRefs or spec.eventSinkRefs"
        }
        "spec.sinkRef" if inventory => {
            "write spec.snapshotSinkRefs, spec.databaseSinkRefs or spec.eventSinkRefs, each a list of {name: …}"
        }
        "spec.profileRef" if kind.starts_with("KollectCluster") && wrong_type => {
            "a text was enough once: write {name: …, namespace: …}"
        }
        _ if inventory && wrong_type && path.contains("SinkRefs[") => {
            "a text was enough once: write {name: …}"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_gone_has_a_successor() {
        for name in [
            "KollectSink",
            "KollectClusterSink",
            "KollectClusterProfile",
            "KollectClusterSnapshotSink",
            "KollectClusterDatabaseSink",
            "KollectClusterEventSink",
        ] {
            assert!(
                kind(name).is_some_and(|text| text.contains("write a Kollect")),
                "{name}"
            );
        }
        assert_eq!(kind("KollectProfile"), None);
        let unknown = "unknown field";
        let no_object = "Invalid value: must be of type object, not string";
        for (kind, path, problem, successor) in [
            (
                "KollectInventory",
                "spec.sinkRefs",
                unknown,
                Some("databaseSinkRefs"),
            ),
            (
                "KollectScope",
                "spec.sinkRefs",
                unknown,
                Some("databaseSinkRefs"),
            ),
            ("KollectTarget", "spec.sinkRefs", unknown, None),
            (
                "KollectClusterTarget",
                "spec.profileRef",
                no_object,
                Some("namespace"),
            ),
            ("KollectTarget", "spec.profileRef", no_object, None),
            (
                "KollectInventory",
                "spec.eventSinkRefs[0]",
                no_object,
                Some("{name: …}"),
            ),
            ("KollectInventory", "spec.suspend", no_object, None),
        ] {
            let found = field(kind, path, problem);
            assert_eq!(found.is_some(), successor.is_some(), "{kind} {path}");
            if let (Some(found), Some(successor)) = (found, successor) {
                assert!(found.contains(successor), "{found}");
            }
        }
    }
}
