//! Whether a sink can be used, as far as its object tells. Pure, and the one answer for everybody:
//! inventories, which deliver to it, and targets, whose rows go there.

use std::collections::{BTreeMap, BTreeSet};

use kollect_api::{
    KollectInventory, SinkKey,
    condition::{Condition, ConditionStatus, ConditionType, Reason},
    effective,
};

use crate::{
    probes::status::NEXT_ATTEMPT,
    sink_objects::{Lookup, SinkObject},
    target_status::{Sinks, Trouble},
};

/// What stands against using a sink: it is missing, it cannot be read, or its last probe failed.
/// Nothing if it can be used.
pub fn objection(key: &SinkKey, found: &Lookup) -> Option<Trouble> {
    let kind = key.family.kind();
    let SinkKey {
        namespace, name, ..
    } = key;
    match found {
        Lookup::Missing => Some(Trouble {
            reason: Reason::SinkNotFound,
            message: format!(
                "get {kind} {name:?} in {namespace:?}: not found; create it or remove the reference"
            ),
        }),
        Lookup::Unreadable { forbidden, why } => Some(Trouble {
            reason: if *forbidden {
                Reason::SinkForbidden
            } else {
                Reason::SinkLookupFailed
            },
            message: format!("get {kind} {name:?} in {namespace:?}: {why}"),
        }),
        Lookup::Found(sink) if sink.over_quota.is_some() => Some(Trouble {
            reason: Reason::QuotaExceeded,
            message: format!(
                "{kind} {name:?}: {}",
                sink.over_quota.as_deref().unwrap_or_default()
            ),
        }),
        Lookup::Found(sink) => failed_probe(sink).map(|probe| Trouble {
            reason: Reason::SinkUnreachable,
            message: match cause(probe) {
                "" => format!("{kind} {name:?}: sink connection not verified"),
                message => format!("{kind} {name:?}: {message}"),
            },
        }),
    }
}

/// The last probe of the sink as it is configured now, if it failed. A probe of another
/// configuration says nothing, and one that is switched off even less.
fn failed_probe(sink: &SinkObject) -> Option<&Condition> {
    let conditions = &sink.status.as_ref()?.conditions;
    let verified = conditions
        .iter()
        .find(|condition| condition.type_ == ConditionType::ConnectionVerified.as_str())?;
    let is_current = verified.observed_generation.is_none()
        || verified.observed_generation == sink.meta.generation;
    let is_probed = effective::connection_test(sink.spec.common());
    (is_current && is_probed && verified.status == ConditionStatus::False).then_some(verified)
}

/// What a failed probe said, without what changes with every attempt.
pub fn cause(probe: &Condition) -> &str {
    let message = &probe.message;
    let end = message.find(NEXT_ATTEMPT).unwrap_or(message.len());
    message[..end].trim()
}

/// Whether the rows of each namespace have somewhere to go: the sinks of all its inventories
/// together. Namespaces whose inventories refer to none are left out.
pub fn by_namespace<'i>(
    inventories: impl IntoIterator<Item = &'i KollectInventory>,
    find: impl Fn(&SinkKey) -> Lookup,
) -> BTreeMap<String, Sinks> {
    let mut referred: BTreeMap<&str, BTreeSet<SinkKey>> = BTreeMap::new();
    for inventory in inventories {
        let namespace = inventory.metadata.namespace.as_deref().unwrap_or_default();
        let sinks = inventory.spec.all_sink_refs();
        let keys = sinks.map(|(family, sink)| SinkKey::new(family, namespace, sink.name.trim()));
        referred.entry(namespace).or_default().extend(keys);
    }
    let judge = |keys: &BTreeSet<SinkKey>| {
        let trouble = keys.iter().find_map(|key| objection(key, &find(key)));
        trouble.map_or(Sinks::Reachable(keys.len()), Sinks::Unreachable)
    };
    referred
        .into_iter()
        .filter(|(_, keys)| !keys.is_empty())
        .map(|(namespace, keys)| (namespace.to_owned(), judge(&keys)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use kollect_api::reference::SinkFamily;
    use kollect_api::sink::SinkSpec;
    use kube::core::ObjectMeta;
    use serde_json::{Value, json};

    use super::*;

    const NEVER: Option<(&str, Option<i64>)> = None;

    /// A sink of generation 2 with the status and generation of its last probe.
    fn sink(probe: Option<(&str, Option<i64>)>, message: &str, more: &Value) -> Lookup {
        let mut spec = json!({
            "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
        });
        for (key, value) in more.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        let status = probe.map(|(status, generation)| {
            let mut condition = json!({
                "type": "ConnectionVerified", "status": status, "reason": "ConnectionTestFailed",
                "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            if let Some(generation) = generation {
                condition["observedGeneration"] = generation.into();
            }
            serde_json::from_value(json!({"conditions": [condition]})).expect("a status")
        });
        Lookup::Found(Box::new(SinkObject {
            key: key("pg"),
            meta: ObjectMeta {
                generation: Some(2),
                ..ObjectMeta::default()
            },
            spec: Arc::new(SinkSpec::Database(
                serde_json::from_value(spec).expect("a sink"),
            )),
            status,
            over_quota: None,
        }))
    }

    fn over_quota(found: Lookup) -> Lookup {
        match found {
            Lookup::Found(mut sink) => {
                sink.over_quota = Some("too many sinks".to_owned());
                Lookup::Found(sink)
            }
            other => other,
        }
    }

    fn key(name: &str) -> SinkKey {
        SinkKey::new(SinkFamily::Database, "team-a", name)
    }

    #[test]
    fn what_stands_against_a_sink() {
        let unreadable = |forbidden| Lookup::Unreadable {
            forbidden,
            why: "denied".to_owned(),
        };
        let (on, off) = (json!({}), json!({"connectionTest": false}));
        let refused = "connection refused";
        let unreachable = Some(Reason::SinkUnreachable);
        for (case, found, reason, text) in [
            (
                "missing",
                Lookup::Missing,
                Some(Reason::SinkNotFound),
                "in \"team-a\": not found",
            ),
            (
                "forbidden",
                unreadable(true),
                Some(Reason::SinkForbidden),
                "in \"team-a\": denied",
            ),
            (
                "undecodable",
                unreadable(false),
                Some(Reason::SinkLookupFailed),
                "in \"team-a\": denied",
            ),
            (
                "over quota",
                over_quota(sink(Some(("True", Some(2))), "ok", &on)),
                Some(Reason::QuotaExceeded),
                "\"pg\": too many sinks",
            ),
            ("never probed", sink(NEVER, "", &on), None, ""),
            ("good", sink(Some(("True", Some(2))), "ok", &on), None, ""),
            (
                "unknown",
                sink(Some(("Unknown", Some(2))), "?", &on),
                None,
                "",
            ),
            (
                "failed",
                sink(Some(("False", Some(2))), refused, &on),
                unreachable,
                refused,
            ),
            (
                "without a word",
                sink(Some(("False", Some(2))), " ", &on),
                unreachable,
                "not verified",
            ),
            (
                "without a generation",
                sink(Some(("False", None)), refused, &on),
                unreachable,
                refused,
            ),
            (
                "failed before it was changed",
                sink(Some(("False", Some(1))), refused, &on),
                None,
                "",
            ),
            (
                "probing is off",
                sink(Some(("False", Some(2))), refused, &off),
                None,
                "",
            ),
        ] {
            let trouble = objection(&key("pg"), &found);
            assert_eq!(
                trouble.as_ref().map(|trouble| trouble.reason),
                reason,
                "{case}"
            );
            if let Some(trouble) = trouble {
                let message = &trouble.message;
                assert!(
                    message.contains("KollectDatabaseSink \"pg\""),
                    "{case}: {message}"
                );
                assert!(message.contains(text), "{case}: {message}");
            }
        }
    }

    fn inventory(namespace: &str, sinks: &[&str]) -> KollectInventory {
        let sinks: Vec<Value> = sinks.iter().map(|name| json!({"name": name})).collect();
        serde_json::from_value(json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
            "metadata": {"name": "inv", "namespace": namespace},
            "spec": {"databaseSinkRefs": sinks},
        }))
        .expect("an inventory")
    }

    #[test]
    fn a_namespace_answers_for_the_sinks_of_its_own_inventories() {
        let all = [
            inventory("team-a", &["pg"]),
            inventory("team-a", &["pg", " other "]),
            inventory("team-b", &["missing"]),
            inventory("team-c", &[]),
        ];
        let find = |key: &SinkKey| match &*key.name {
            "pg" => sink(NEVER, "", &json!({})),
            // An old probe of a configuration that is gone is no reason to complain.
            "other" => sink(Some(("False", Some(1))), "refused", &json!({})),
            _ => Lookup::Missing,
        };
        let sinks = by_namespace(&all, find);
        assert_eq!(sinks.get("team-a"), Some(&Sinks::Reachable(2)));
        let Some(Sinks::Unreachable(trouble)) = sinks.get("team-b") else {
            panic!("a missing sink is reachable: {sinks:?}");
        };
        assert_eq!(trouble.reason, Reason::SinkNotFound);
        assert_eq!(sinks.get("team-c"), None);
    }
}
