//! Plans of inventories, from small worlds.

use std::collections::BTreeMap;

use kollect_api::{
    KollectClusterInventory, KollectInventory, inventory::SinkExportStatus, sink::SinkSpec,
};
use kollect_collect::plan::NamespaceFacts;
use kollect_export::SinkSource;
use kollect_sinks::credentials::Materials;
use serde_json::{Value, json};

use super::*;

#[path = "edit_and_delete_tests.rs"]
mod edits_and_deletions;
#[path = "forged_status_tests.rs"]
mod forged_statuses;
#[path = "unread_tests.rs"]
mod unread;

/// A world that is written down as manifests.
#[derive(Default)]
struct Small {
    scopes: Vec<Arc<KollectScope>>,
    cluster_scopes: Vec<Arc<KollectClusterScope>>,
    namespaces: BTreeMap<String, NamespaceFacts>,
    targets: Vec<Arc<KollectClusterTarget>>,
    /// Name and spec; all are in `team-a` or `kollect-system`.
    sinks: BTreeMap<&'static str, Value>,
    /// Of every sink, with its Secrets.
    version: u128,
    unverified: Option<&'static str>,
    forbidden: bool,
    max_export_bytes: Option<i64>,
    gaps: Gaps,
    held: Held,
    /// Instead of the namespaces above.
    listing: Option<NamespaceListing>,
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "literals of JSON read best by value"
)]
fn object<T: serde::de::DeserializeOwned>(kind: &str, meta: Value, spec: Value) -> T {
    let object = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": kind, "metadata": meta, "spec": spec,
    });
    serde_json::from_value(object).unwrap_or_else(|error| panic!("{kind}: {error}"))
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "literals of JSON read best by value"
)]
fn postgres(extra: Value) -> Value {
    let mut spec = json!({
        "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
    });
    for (key, value) in extra.as_object().expect("an object") {
        spec[key] = value.clone();
    }
    spec
}

impl Small {
    fn sink(mut self, name: &'static str, extra: Value) -> Self {
        self.sinks.insert(name, postgres(extra));
        self
    }

    fn repository(mut self, name: &'static str) -> Self {
        let spec = json!({"type": "git", "endpoint": "https://git.example.com/inventory.git"});
        self.sinks.insert(name, spec);
        self
    }

    fn scope(mut self, spec: Value) -> Self {
        let meta = json!({"name": "s", "namespace": "team-a"});
        self.scopes
            .push(Arc::new(object("KollectScope", meta, spec)));
        self
    }

    fn cluster_scope(mut self, spec: Value) -> Self {
        let scope = object("KollectClusterScope", json!({"name": "s"}), spec);
        self.cluster_scopes.push(Arc::new(scope));
        self
    }

    fn namespace(mut self, name: &str, tier: &str) -> Self {
        let facts = NamespaceFacts {
            labels: BTreeMap::from([("tier".to_owned(), tier.to_owned())]),
            annotations: BTreeMap::new(),
        };
        self.namespaces.insert(name.to_owned(), facts);
        self
    }

    fn target(mut self, name: &str, ready: bool) -> Self {
        let spec = json!({
            "profileRef": {"name": "p", "namespace": "team-a"},
            "namespaceSelector": {"matchLabels": {"tier": "shop"}},
        });
        let mut target: KollectClusterTarget =
            object("KollectClusterTarget", json!({"name": name}), spec);
        if ready {
            let status = json!({"conditions": [{
                "type": "Ready", "status": "True", "reason": "Collecting", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]});
            target.status = Some(serde_json::from_value(status).expect("a status"));
        }
        self.targets.push(Arc::new(target));
        self
    }

    fn find(&self, key: &SinkKey) -> Lookup {
        if self.forbidden {
            return Lookup::Unreadable {
                forbidden: true,
                why: "denied".to_owned(),
            };
        }
        let Some(spec) = self.sinks.get(&*key.name) else {
            return Lookup::Missing;
        };
        let mut meta = kube::core::ObjectMeta {
            uid: Some(format!("uid-{}", key.name)),
            generation: Some(1),
            ..Default::default()
        };
        meta.name = Some(key.name.clone());
        let conditions = self.unverified.map(|message| {
            json!({"conditions": [{
                "type": "ConnectionVerified", "status": "False", "observedGeneration": 1,
                "reason": "ConnectionTestFailed", "message": message,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]})
        });
        let spec = spec.clone();
        let spec = match key.family {
            SinkFamily::Snapshot => serde_json::from_value(spec).map(SinkSpec::Snapshot),
            _ => serde_json::from_value(spec).map(SinkSpec::Database),
        };
        Lookup::Found(Box::new(SinkObject {
            key: key.clone(),
            meta,
            spec: Arc::new(spec.expect("a sink")),
            status: conditions.map(|status| serde_json::from_value(status).expect("a status")),
            over_quota: None,
        }))
    }

    fn plan(&self, subject: &Subject) -> InventoryPlan {
        let listing = self
            .listing
            .clone()
            .unwrap_or_else(|| NamespaceListing::Complete(self.namespaces.clone()));
        let world = World {
            scopes: &self.scopes,
            cluster_scopes: &self.cluster_scopes,
            namespaces: &listing,
            cluster_targets: &self.targets,
            gaps: &self.gaps,
            held: &|_| self.held.clone(),
            find: &|key| self.find(key),
            embedding: &|_, _| Embedding::Unknown,
            types: &|_, _| Arc::default(),
            access: &|sink| {
                Access::Ready(Arc::new(SinkSource {
                    demand: kollect_sinks::backend::demand(&sink.spec),
                    key: sink.key.clone(),
                    uid: sink.meta.uid.clone().unwrap_or_default(),
                    version: self.version,
                    spec: Arc::clone(&sink.spec),
                    materials: Arc::new(Materials::default()),
                }))
            },
            max_export_bytes: self.max_export_bytes,
            now: "2026-01-15T12:00:00Z".parse().expect("a time"),
        };
        plan(subject, &world)
    }
}

fn inventory(spec: Value) -> Subject {
    let meta = json!({"name": "inv", "namespace": "team-a", "uid": "u", "generation": 1});
    let inventory: KollectInventory = object("KollectInventory", meta, spec);
    Subject::from(&inventory)
}

fn rollup(created: &str, spec: Value) -> Subject {
    let meta = json!({
        "name": "platform", "uid": "u", "generation": 1, "creationTimestamp": created,
    });
    let inventory: KollectClusterInventory = object("KollectClusterInventory", meta, spec);
    // What the rules say about selectors that are missing is another matter.
    Subject {
        invalid: None,
        ..Subject::from(&inventory)
    }
}

#[test]
fn what_the_rules_refuse_is_neither_delivered_nor_removed() {
    let refs = json!({"databaseSinkRefs": [{"name": "other-ns/sink"}]});
    let bad = inventory(refs);
    let plan = Small::default().plan(&bad);
    let (reason, message) = gate(&plan).expect("a gate");
    assert_eq!(reason, Reason::InvalidSpec);
    assert!(
        message.starts_with("KollectInventory \"inv\" is invalid: spec.databaseSinkRefs[0].name"),
        "{message}"
    );
    assert!(!plan.order.open && !plan.undecided);
    // A size above the operator's limit is cut to it.
    let large = inventory(json!({"maxExportBytes": 1_i64 << 40}));
    assert_eq!(large.invalid, None);
    let nothing = Small::default().plan(&inventory(json!({})));
    assert_eq!(gate(&nothing), None);
}

fn gate(plan: &InventoryPlan) -> Option<(Reason, &str)> {
    let trouble = plan.gate.as_ref();
    trouble.map(|trouble| (trouble.reason, &*trouble.message))
}

#[test]
fn intervals_come_from_the_nearest_and_never_fall_below_the_floor() {
    // Reference, sink, inventory, floor, effective seconds.
    let cases = [
        (Some("1h"), Some("5m"), Some("30s"), Some("1m"), 3_600),
        (None, Some("5m"), Some("30s"), Some("1m"), 300),
        (None, None, Some("30s"), Some("1m"), 60),
        (Some("0s"), None, Some("30s"), Some("1m"), 60),
        (Some("0s"), Some("5m"), Some("30s"), None, 0),
        (None, None, None, None, 30),
    ];
    for (reference, sink, own, floor, seconds) in cases {
        let mut world = Small::default().sink(
            "pg",
            sink.map_or(json!({}), |text| json!({"exportMinInterval": text})),
        );
        if let Some(floor) = floor {
            world = world.scope(json!({"minExportInterval": floor}));
        }
        let mut spec = json!({"databaseSinkRefs": [{"name": "pg"}]});
        if let Some(text) = reference {
            spec["databaseSinkRefs"][0]["exportMinInterval"] = text.into();
        }
        if let Some(text) = own {
            spec["exportMinInterval"] = text.into();
        }
        let plan = world.plan(&inventory(spec));
        let interval = plan.order.deliver[0].interval.as_secs();
        assert_eq!(
            interval, seconds,
            "{reference:?} {sink:?} {own:?} {floor:?}"
        );
    }
}

#[test]
fn s19_s20_s21_what_is_wrong_with_a_sink_concerns_that_sink() {
    let spec = json!({"databaseSinkRefs": [{"name": "pg"}, {"name": "missing"}]});
    let plan = Small::default()
        .sink("pg", json!({}))
        .plan(&inventory(spec.clone()));
    assert!(plan.gate.is_none() && plan.order.open);
    assert!(matches!(plan.order.deliver[0].source, Source::Ready(_)));
    assert!(matches!(plan.order.deliver[1].source, Source::Held(_)));
    let [finding] = plan.findings.as_slice() else {
        panic!("{:?}", plan.findings);
    };
    assert_eq!(finding.trouble.reason, Reason::SinkNotFound);
    let text = "get KollectDatabaseSink \"missing\" in \"team-a\"";
    assert!(finding.trouble.message.starts_with(text), "{finding:?}");

    let unverified = Small {
        unverified: Some("dial tcp: refused"),
        ..Small::default().sink("pg", json!({}))
    };
    let plan = unverified.plan(&inventory(json!({"databaseSinkRefs": [{"name": "pg"}]})));
    assert_eq!(plan.findings[0].trouble.reason, Reason::SinkUnreachable);
    assert!(
        plan.findings[0]
            .trouble
            .message
            .contains("dial tcp: refused")
    );
    assert!(matches!(plan.order.deliver[0].source, Source::Held(_)));

    // Probing is off: an old probe says nothing.
    let off = Small {
        unverified: Some("dial tcp: refused"),
        ..Small::default().sink("pg", json!({"connectionTest": false}))
    };
    let plan = off.plan(&inventory(json!({"databaseSinkRefs": [{"name": "pg"}]})));
    assert!(plan.findings.is_empty());

    let forbidden = Small {
        forbidden: true,
        ..Small::default()
    };
    let plan = forbidden.plan(&inventory(json!({"databaseSinkRefs": [{"name": "pg"}]})));
    assert_eq!(plan.findings[0].trouble.reason, Reason::SinkForbidden);
}

#[test]
fn scopes_close_the_whole_inventory_whatever_the_interval() {
    for interval in ["30s", "0s"] {
        let spec = json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": interval});
        let world = Small::default().sink("pg", json!({}));
        let plan = world
            .scope(json!({"databaseSinkRefs": ["other"]}))
            .plan(&inventory(spec));
        let (reason, message) = gate(&plan).expect("a gate");
        assert_eq!(reason, Reason::ScopeSinkDenied);
        assert!(
            message.contains("\"pg\"") && message.contains("KollectScope"),
            "{message}"
        );
        assert!(!plan.order.open);
    }
}

#[test]
fn s40_cluster_scopes_bind_rollups_and_say_their_name() {
    let spec = json!({
        "namespaceSelector": {"matchLabels": {"tier": "shop"}},
        "databaseSinkRefs": [{"name": "pg", "namespace": "team-b"}], "exportMinInterval": "0s",
    });
    let world = || {
        Small::default()
            .sink("pg", json!({}))
            .namespace("a", "shop")
            .target("alpha", true)
    };
    let subject = rollup("2026-01-15T11:59:00Z", spec);
    assert_eq!(gate(&world().plan(&subject)), None);
    let plan = world()
        .cluster_scope(json!({"databaseSinkRefs": ["other"]}))
        .plan(&subject);
    let (reason, message) = gate(&plan).expect("a gate");
    assert_eq!(reason, Reason::ScopeSinkDenied);
    assert!(message.contains("KollectClusterScope"), "{message}");
    let plan = world()
        .cluster_scope(json!({"allowedStaticRefNamespaces": ["kollect-system"]}))
        .plan(&subject);
    assert_eq!(gate(&plan).expect("a gate").0, Reason::SinkNamespaceDenied);
    // What a team's scope says about sinks binds the team.
    let plan = world()
        .scope(json!({"databaseSinkRefs": ["other"]}))
        .plan(&subject);
    assert_eq!(gate(&plan), None);
}

#[test]
fn s37_s38_rollups_select_targets_and_wait_for_them() {
    let spec = json!({"namespaceSelector": {"matchLabels": {"tier": "shop"}}});
    let world = || {
        Small::default()
            .namespace("a", "shop")
            .namespace("b", "bank")
    };
    let young = rollup("2026-01-15T11:58:00Z", spec.clone());
    let old = rollup("2026-01-15T11:50:00Z", spec.clone());

    let plan = world().plan(&young);
    assert!(
        plan.undecided && plan.gate.is_none(),
        "objects of one manifest arrive in turn"
    );
    // That there is none is known, so the rollup is empty.
    let plan = world().plan(&old);
    assert_eq!(gate(&plan), None);
    assert_eq!(
        plan.doubt.as_ref().expect("a doubt").reason,
        Reason::NoTargets
    );
    assert!(plan.order.open);

    let plan = world()
        .target("alpha", true)
        .target("beta", false)
        .plan(&old);
    let expected = (Reason::TargetDegraded, "1 target(s) not Ready: [beta]");
    assert_eq!(gate(&plan), Some(expected));
    assert!(!plan.order.open);

    let plan = world()
        .target("alpha", true)
        .target("beta", true)
        .plan(&old);
    let RowSelection::Cluster {
        targets,
        namespaces,
    } = &plan.order.scope
    else {
        panic!("{:?}", plan.order.scope);
    };
    assert_eq!(targets.iter().collect::<Vec<_>>(), ["alpha", "beta"]);
    assert_eq!(namespaces.iter().collect::<Vec<_>>(), ["a"]);

    // Named targets, and a namespace list beside the selector.
    let mut named = spec;
    named["targetRefs"] = json!(["alpha"]);
    named["namespaces"] = json!(["b"]);
    let subject = rollup("2026-01-15T11:50:00Z", named);
    let plan = world()
        .target("alpha", true)
        .target("beta", false)
        .plan(&subject);
    assert_eq!(
        gate(&plan),
        None,
        "targets that are not named do not matter"
    );
    assert!(
        plan.order.open && plan.targets.is_empty(),
        "nothing is left, and that is exported"
    );
}

#[test]
fn what_the_status_remembers_and_the_spec_does_not_is_cleaned_up() {
    let mut subject = inventory(json!({"databaseSinkRefs": [{"name": "pg"}]}));
    let entry = |name: &str| kollect_api::inventory::SinkExportStatus {
        name: name.to_owned(),
        ..Default::default()
    };
    subject.status.sink_exports = vec![
        entry("database/pg"),
        entry("database/old"),
        entry("database/gone"),
        entry("nonsense"),
    ];
    let world = Small::default()
        .sink("pg", json!({}))
        .sink("old", json!({}));
    let plan = world.plan(&subject);
    let retired: Vec<_> = plan
        .order
        .retire
        .iter()
        .map(|s| s.key.within_inventory())
        .collect();
    assert_eq!(retired, ["database/old"]);
    let orphans: Vec<_> = plan.orphans.iter().map(ToString::to_string).collect();
    assert_eq!(orphans, ["KollectDatabaseSink team-a/gone"]);

    subject.deleted_at = Some("2026-01-15T12:00:00Z".parse().expect("a time"));
    subject.suspend = true;
    let plan = world.plan(&subject);
    assert!(plan.order.deliver.is_empty() && !plan.order.open);
    let retired: Vec<_> = plan
        .order
        .retire
        .iter()
        .map(|s| s.key.within_inventory())
        .collect();
    assert_eq!(
        retired,
        ["database/old", "database/pg"],
        "also when suspended"
    );
}

#[test]
fn c18_what_was_served_and_is_no_longer_named_is_cleaned_up_whatever_the_status_says() {
    let mut subject = inventory(json!({"databaseSinkRefs": [{"name": "pg"}]}));
    let key = |name: &str| SinkKey {
        family: SinkFamily::Database,
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    };
    // The status could not be written.
    subject.served = [key("pg"), key("old")].into();
    let world = Small::default()
        .sink("pg", json!({}))
        .sink("old", json!({}));
    let plan = world.plan(&subject);
    let retired: Vec<_> = plan.order.retire.iter().map(|s| s.key.clone()).collect();
    assert_eq!(retired, [key("old")]);
    assert_eq!(plan.order.deliver.len(), 1);
}

#[test]
fn b13_documents_have_the_size_of_the_reference_the_inventory_or_the_operator() {
    // Reference, inventory, operator, effective.
    for (reference, own, operator, effective) in [
        (Some(500), Some(1_000), Some(9_000), Some(500)),
        (None, Some(1_000), Some(9_000), Some(1_000)),
        (None, None, Some(9_000), Some(9_000)),
        (None, None, None, None),
    ] {
        let world = Small {
            max_export_bytes: operator,
            ..Small::default().sink("pg", json!({}))
        };
        let spec = json!({
            "maxExportBytes": own,
            "databaseSinkRefs": [{"name": "pg", "maxExportBytes": reference}],
        });
        let plan = world.plan(&inventory(spec));
        let size = plan.order.deliver[0].documents.max_bytes;
        assert_eq!(
            size.map(std::num::NonZeroU64::get),
            effective,
            "{reference:?} {own:?} {operator:?}"
        );
    }
}

#[test]
fn a_selector_that_means_nothing_closes_the_inventory_and_empties_nothing() {
    let spec =
        json!({"namespaceSelector": {"matchExpressions": [{"key": "tier", "operator": "Is"}]}});
    let world = Small::default()
        .namespace("a", "shop")
        .target("alpha", true);
    let plan = world.plan(&rollup("2026-01-15T11:50:00Z", spec));
    let (reason, message) = gate(&plan).expect("a gate");
    assert_eq!(reason, Reason::InvalidSpec);
    assert!(
        message.starts_with("spec.namespaceSelector.matchExpressions[0]"),
        "{message}"
    );
    assert!(!plan.order.open);
}

#[test]
fn b5_whoever_has_exported_knows_at_once_that_its_last_target_went() {
    let spec = json!({"namespaceSelector": {"matchLabels": {"tier": "shop"}}});
    let world = Small::default().namespace("a", "shop");
    let mut young = rollup("2026-01-15T11:58:00Z", spec);
    assert!(world.plan(&young).undecided);
    young.status.sink_exports = vec![SinkExportStatus {
        name: "database/pg".to_owned(),
        namespace: Some("kollect-system".to_owned()),
        ..SinkExportStatus::default()
    }];
    let plan = world.plan(&young);
    assert!(plan.order.open && !plan.undecided);
    let nothing = RowSelection::Cluster {
        targets: BTreeSet::new(),
        namespaces: BTreeSet::new(),
    };
    assert_eq!(plan.order.scope, nothing);
}

#[test]
fn b2_b4_what_is_not_known_is_not_exported_and_is_said() {
    let rollup = rollup("2026-01-15T11:50:00Z", json!({"targetRefs": ["alpha"]}));
    let team = inventory(json!({}));
    let why = || Some("it is forbidden".to_owned());
    let broken = |name: &str| BTreeMap::from([(name.to_owned(), "newer".to_owned())]);
    let gaps = Gaps::default;
    for (gaps, expected) in [
        (gaps(), [None, None]),
        (
            Gaps {
                targets: why(),
                ..gaps()
            },
            [Some(Reason::TargetLookupFailed), None],
        ),
        (
            Gaps {
                cluster_targets: why(),
                ..gaps()
            },
            [None, Some(Reason::TargetLookupFailed)],
        ),
        (
            Gaps {
                scopes: why(),
                ..gaps()
            },
            [
                Some(Reason::ScopeLookupFailed),
                Some(Reason::ScopeLookupFailed),
            ],
        ),
        (
            Gaps {
                unreadable_scopes: broken("team-a"),
                ..gaps()
            },
            [Some(Reason::ScopeLookupFailed), None],
        ),
        (
            Gaps {
                cluster_scopes: why(),
                ..gaps()
            },
            [None, Some(Reason::ScopeLookupFailed)],
        ),
        (
            Gaps {
                unreadable_cluster_targets: broken("alpha"),
                ..gaps()
            },
            [None, Some(Reason::TargetLookupFailed)],
        ),
        (
            Gaps {
                unreadable_cluster_targets: broken("another"),
                ..gaps()
            },
            [None, None],
        ),
    ] {
        let world = Small {
            gaps: gaps.clone(),
            ..Small::default()
        }
        .namespace("a", "shop")
        .target("alpha", true);
        for (subject, expected) in [&team, &rollup].into_iter().zip(expected) {
            let plan = world.plan(subject);
            assert_eq!(gate(&plan).map(|gate| gate.0), expected, "{gaps:?}");
            assert_eq!(plan.order.open, expected.is_none(), "{gaps:?}");
        }
    }
}

#[test]
fn b2_a_rollup_of_namespaces_that_cannot_be_listed_says_so() {
    let rollup = rollup("2026-01-15T11:50:00Z", json!({}));
    for (listing, expected) in [
        (NamespaceListing::Unread, None),
        (
            NamespaceListing::Unreadable("no right".to_owned()),
            Some(Reason::NamespaceLookupFailed),
        ),
        (
            NamespaceListing::Partial(BTreeMap::new()),
            Some(Reason::NamespaceLookupFailed),
        ),
    ] {
        let world = Small {
            listing: Some(listing),
            ..Small::default()
        };
        let plan = world.target("alpha", true).plan(&rollup);
        assert_eq!(gate(&plan).map(|gate| gate.0), expected);
        assert!(!plan.order.open);
        assert_eq!(plan.undecided, expected.is_none());
    }
}

#[test]
fn b3_a_held_target_is_named_and_others_go_on() {
    let bad = || {
        vec![(
            "bad".to_owned(),
            "spec.namespaceSelector means nothing".to_owned(),
        )]
    };
    let team = inventory(json!({}));
    let held = Held {
        targets: bad(),
        others: true,
        ..Held::default()
    };
    let plan = Small {
        held,
        ..Small::default()
    }
    .plan(&team);
    assert!(plan.order.open);
    let doubt = plan.doubt.expect("a doubt");
    assert_eq!(doubt.reason, Reason::TargetDegraded);
    assert_eq!(
        doubt.message,
        "1 target(s) held, their rows stay as they are: [bad: spec.namespaceSelector means nothing]"
    );

    // Without others nothing can be exported at all.
    let held = Held {
        targets: bad(),
        others: false,
        ..Held::default()
    };
    let plan = Small {
        held,
        ..Small::default()
    }
    .plan(&team);
    assert_eq!(gate(&plan).expect("a gate").0, Reason::TargetDegraded);
    assert!(!plan.order.open);
}

#[test]
fn three_broken_targets_are_named_and_all_are_counted() {
    let team = inventory(json!({}));
    let names = |prefix: &str, count: usize| -> Vec<(String, String)> {
        let names = (0..count).map(|number| format!("{prefix}{number}"));
        names.map(|name| (name, "why".to_owned())).collect()
    };
    for (held, broken, expected) in [
        (0, 0, None),
        (
            0,
            2,
            Some("2 target(s) collect nothing: [b0: why; b1: why]"),
        ),
        (
            1,
            4,
            Some(
                "1 target(s) held, their rows stay as they are: [h0: why]; \
                 4 target(s) collect nothing: [b0: why; b1: why; b2: why; …]",
            ),
        ),
    ] {
        let plan = Small {
            held: Held {
                targets: names("h", held),
                broken: names("b", broken),
                others: true,
                ..Held::default()
            },
            ..Small::default()
        }
        .plan(&team);
        assert!(plan.order.open, "others go on");
        let doubt = plan.doubt.map(|doubt| doubt.message);
        assert_eq!(doubt.as_deref(), expected);
    }
    // One that has a lot to say leaves room for the others.
    let long = [
        ("a".to_owned(), "x".repeat(900)),
        ("b".to_owned(), "y".to_owned()),
    ];
    let text = explained("held", &long).expect("a text");
    assert!(text.ends_with("…; b: y]"), "{text}");
}
