//! What of a new version of our own objects concerns others. Pure.
//!
//! Most new versions are statuses that we wrote ourselves. They concern those who read them, and
//! nobody else: a write of ours must not be the reason for another look at everything.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kollect_api::{
    KollectClusterInventory, KollectClusterTarget, KollectDatabaseSink, KollectEventSink,
    KollectInventory, KollectSnapshotSink, KollectTarget,
    condition::{ConditionStatus, ConditionType},
    inventory::SinkExportStatus,
    sink::SinkStatus,
    target::TargetStatus,
};

use super::Change;
use crate::{sink_usability, statements};

/// Inventories read whether targets are ready, and what is wrong with them.
pub fn target(before: &KollectTarget, after: &KollectTarget) -> Change {
    let same_spec = before.spec == after.spec;
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let same_told =
        old.map(target_says).unwrap_or_default() == new.map(target_says).unwrap_or_default();
    judge(&before.metadata, &after.metadata, same_spec, same_told)
}

/// Cluster inventories read whether cluster targets are ready.
pub fn cluster_target(before: &KollectClusterTarget, after: &KollectClusterTarget) -> Change {
    let same_spec = before.spec == after.spec;
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let same_told =
        old.map(target_says).unwrap_or_default() == new.map(target_says).unwrap_or_default();
    judge(&before.metadata, &after.metadata, same_spec, same_told)
}

/// Plans of inventories read which sinks the status remembers.
pub fn inventory(before: &KollectInventory, after: &KollectInventory) -> Change {
    let same_spec = before.spec == after.spec;
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let same_told = remembered(old.map(|status| &status.sink_exports))
        == remembered(new.map(|status| &status.sink_exports));
    judge(&before.metadata, &after.metadata, same_spec, same_told)
}

/// Plans of inventories read which sinks the status remembers.
pub fn cluster_inventory(
    before: &KollectClusterInventory,
    after: &KollectClusterInventory,
) -> Change {
    let same_spec = before.spec == after.spec;
    let (old, new) = (before.status.as_ref(), after.status.as_ref());
    let same_told = remembered(old.map(|status| &status.sink_exports))
        == remembered(new.map(|status| &status.sink_exports));
    judge(&before.metadata, &after.metadata, same_spec, same_told)
}

macro_rules! sinks {
    ($($name:ident: $kind:ident),*) => {
        $(
            /// Whether the last probe succeeded concerns targets and inventories as much as the
            /// configuration does.
            pub fn $name(before: &$kind, after: &$kind) -> Change {
                let same = before.spec == after.spec
                    && sink_says(before.status.as_ref()) == sink_says(after.status.as_ref());
                judge(&before.metadata, &after.metadata, same, true)
            }
        )*
    };
}
sinks!(snapshot_sink: KollectSnapshotSink, database_sink: KollectDatabaseSink, event_sink: KollectEventSink);

fn judge(before: &ObjectMeta, after: &ObjectMeta, same_spec: bool, same_told: bool) -> Change {
    if !same_spec || !same_meta(before, after) {
        Change::Configured
    } else if same_told {
        Change::Nothing
    } else {
        Change::Told
    }
}

/// Whether metadata is the same, but for the bookkeeping of the API server.
fn same_meta(before: &ObjectMeta, after: &ObjectMeta) -> bool {
    before.uid == after.uid
        && before.generation == after.generation
        && before.deletion_timestamp == after.deletion_timestamp
        && before.finalizers == after.finalizers
        && before.labels == after.labels
        && before.annotations == after.annotations
        && before.owner_references == after.owner_references
}

type Said<'c> = Option<(ConditionStatus, &'c str)>;

fn target_says(status: &TargetStatus) -> [Said<'_>; 2] {
    [ConditionType::Ready, ConditionType::Degraded].map(|type_| {
        let said = statements::find(&status.conditions, type_);
        said.map(|said| (said.status, &*said.reason))
    })
}

fn remembered(entries: Option<&Vec<SinkExportStatus>>) -> Vec<(&str, Option<&str>)> {
    let entries = entries.into_iter().flatten();
    entries
        .map(|entry| (&*entry.name, entry.namespace.as_deref()))
        .collect()
}

fn sink_says(status: Option<&SinkStatus>) -> Option<(ConditionStatus, &str, Option<i64>)> {
    let verified = statements::find(&status?.conditions, ConditionType::ConnectionVerified)?;
    let cause = sink_usability::cause(verified);
    Some((verified.status, cause, verified.observed_generation))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object<K: serde::de::DeserializeOwned>(kind: &str, change: (&str, Value)) -> K {
        let spec = match kind {
            "KollectTarget" => json!({"profileRef": "p"}),
            "KollectInventory" => json!({"databaseSinkRefs": [{"name": "pg"}]}),
            _ => json!({
                "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": "t"},
            }),
        };
        let mut object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": "o", "namespace": "n", "uid": "u", "resourceVersion": "1"},
            "spec": spec,
        });
        let (pointer, value) = change;
        let mut place = &mut object;
        for part in pointer.split('/').filter(|part| !part.is_empty()) {
            place = &mut place[part];
        }
        if !pointer.is_empty() {
            *place = value;
        }
        serde_json::from_value(object).expect("an object")
    }

    fn says(type_: &str, status: &str, reason: &str, message: &str) -> Value {
        json!({"conditions": [{
            "type": type_, "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]})
    }

    #[test]
    fn f4_our_own_statuses_concern_those_who_read_them() {
        let nothing = || ("", Value::Null);
        let of_target = |change| {
            let after = object::<KollectTarget>("KollectTarget", change);
            target(&object("KollectTarget", nothing()), &after)
        };
        for (change, expected) in [
            (nothing(), Change::Nothing),
            (("metadata/resourceVersion", json!("2")), Change::Nothing),
            (("status", json!({"collectedCount": 7})), Change::Nothing),
            (
                ("status", says("Synced", "True", "Collecting", "m")),
                Change::Nothing,
            ),
            (
                ("status", says("Ready", "True", "Collecting", "m")),
                Change::Told,
            ),
            (
                ("status", says("Degraded", "True", "InvalidSpec", "m")),
                Change::Told,
            ),
            (
                ("metadata/annotations", json!({"a": "b"})),
                Change::Configured,
            ),
            (("metadata/labels", json!({"a": "b"})), Change::Configured),
            (("metadata/finalizers", json!(["f"])), Change::Configured),
            (
                ("metadata/deletionTimestamp", json!("2026-01-01T00:00:00Z")),
                Change::Configured,
            ),
            (("metadata/uid", json!("other")), Change::Configured),
            (("spec/profileRef", json!("other")), Change::Configured),
        ] {
            assert_eq!(of_target(change.clone()), expected, "{change:?}");
        }
        let of_inventory = |change| {
            let after = object::<KollectInventory>("KollectInventory", change);
            inventory(&object("KollectInventory", nothing()), &after)
        };
        let entry = json!({"itemCount": 0, "sinkExports": [{"name": "database/pg"}]});
        let counted = json!({"itemCount": 9});
        assert_eq!(of_inventory(("status", entry)), Change::Told);
        let first = object("KollectInventory", ("status", json!({"itemCount": 1})));
        let second = object("KollectInventory", ("status", counted));
        assert_eq!(inventory(&first, &second), Change::Nothing);
    }

    #[test]
    fn f4_a_probe_concerns_everybody_when_it_says_something_else() {
        let sink = |status: &str, message: &str| {
            let status = says(
                "ConnectionVerified",
                status,
                "ConnectionTestFailed",
                message,
            );
            object::<KollectDatabaseSink>("KollectDatabaseSink", ("status", status))
        };
        let before = sink("False", "refused; next attempt at 1");
        for (after, expected) in [
            (sink("False", "refused; next attempt at 2"), Change::Nothing),
            (
                sink("False", "denied; next attempt at 2"),
                Change::Configured,
            ),
            (sink("True", "refused"), Change::Configured),
        ] {
            assert_eq!(database_sink(&before, &after), expected, "{after:?}");
        }
    }
}
