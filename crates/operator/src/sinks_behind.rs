//! Whether the sinks that a namespace's rows go to can be used, as far as the objects tell.

use std::collections::{BTreeMap, BTreeSet};

use kollect_api::{
    KollectInventory,
    condition::{Condition, ConditionStatus, ConditionType, Reason},
    reference::SinkFamily,
};

use crate::target_status::{Sinks, Trouble};

/// A sink as far as its reachability is concerned: its last probe, if there was one.
pub type Probes = BTreeMap<(SinkFamily, String, String), Option<Condition>>;

/// Judges the sinks of all inventories of a namespace together.
pub fn sinks_behind<'i>(
    namespace: &str,
    inventories: impl IntoIterator<Item = &'i KollectInventory>,
    probes: &Probes,
) -> Sinks {
    let referred: BTreeSet<(SinkFamily, &str)> = inventories
        .into_iter()
        .filter(|inventory| inventory.metadata.namespace.as_deref() == Some(namespace))
        .flat_map(|inventory| inventory.spec.all_sink_refs())
        .map(|(family, sink)| (family, sink.name.as_str()))
        .collect();
    for (family, name) in &referred {
        let key = (*family, namespace.to_owned(), (*name).to_owned());
        match probes.get(&key) {
            None => {
                return Sinks::Unreachable(Trouble {
                    reason: Reason::SinkNotFound,
                    message: format!(
                        "{} {name:?} does not exist in namespace {namespace:?}; create it or remove the reference",
                        family.kind()
                    ),
                });
            }
            Some(Some(probe)) if probe.status == ConditionStatus::False => {
                return Sinks::Unreachable(Trouble {
                    reason: Reason::SinkUnreachable,
                    message: format!("{} {name:?}: {}", family.kind(), probe.message),
                });
            }
            Some(_) => {}
        }
    }
    match referred.len() {
        0 => Sinks::None,
        number => Sinks::Reachable(number),
    }
}

/// The last probe among the conditions of a sink.
pub fn probe(conditions: &[Condition]) -> Option<Condition> {
    let verified = ConditionType::ConnectionVerified.as_str();
    conditions
        .iter()
        .find(|condition| condition.type_ == verified)
        .cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    fn inventory(namespace: &str, sink: &str) -> KollectInventory {
        serde_json::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
            "metadata": {"name": "inv", "namespace": namespace},
            "spec": {"databaseSinkRefs": [{"name": sink}]},
        }))
        .unwrap()
    }

    fn key(name: &str) -> (SinkFamily, String, String) {
        (SinkFamily::Database, "team-a".to_owned(), name.to_owned())
    }

    #[test]
    fn only_the_sinks_of_the_own_namespace_count() {
        let all = [inventory("team-a", "pg"), inventory("team-b", "missing")];
        let probes = Probes::from([(key("pg"), None)]);
        assert_eq!(sinks_behind("team-a", &all, &probes), Sinks::Reachable(1));
        assert_eq!(sinks_behind("team-c", &all, &probes), Sinks::None);
    }

    #[test]
    fn missing_and_failing_sinks_are_named() {
        let all = [inventory("team-a", "pg")];
        let Sinks::Unreachable(trouble) = sinks_behind("team-a", &all, &Probes::new()) else {
            panic!("a missing sink is reachable");
        };
        assert_eq!(trouble.reason, Reason::SinkNotFound);
        assert!(
            trouble.message.contains("KollectDatabaseSink \"pg\""),
            "{}",
            trouble.message
        );

        let failed = Condition::new(
            ConditionType::ConnectionVerified,
            ConditionStatus::False,
            Reason::ConnectionTestFailed,
            "connection refused",
            None,
            Time(Timestamp::UNIX_EPOCH),
        );
        let probes = Probes::from([(key("pg"), probe(&[failed]))]);
        let Sinks::Unreachable(trouble) = sinks_behind("team-a", &all, &probes) else {
            panic!("a failing sink is reachable");
        };
        assert_eq!(trouble.reason, Reason::SinkUnreachable);
        assert!(
            trouble.message.contains("connection refused"),
            "{}",
            trouble.message
        );
    }
}
