//! Requests and what is said of them.

use std::collections::BTreeMap;

use kollect_api::{
    GroupVersionKind, KollectClusterScope, KollectScope, reference::SinkFamily, rules::Class,
};
use serde_json::json;

use super::*;

/// A cluster as the tests want it.
#[derive(Default)]
struct Cluster {
    scopes: Vec<KollectScope>,
    scopes_unknown: bool,
    profiles: BTreeMap<(String, String), KollectProfile>,
    unknown: bool,
}

impl Knowledge for Cluster {
    fn scopes_in(&self, _: &str) -> Result<Vec<KollectScope>, NotKnown> {
        if self.scopes_unknown {
            return Err(NotKnown("kollectscopes cannot be listed: 403".to_owned()));
        }
        Ok(self.scopes.clone())
    }

    fn cluster_scopes(&self) -> Result<Vec<KollectClusterScope>, NotKnown> {
        Ok(Vec::new())
    }

    fn profile(&self, namespace: &str, name: &str) -> Found<KollectProfile> {
        let key = (namespace.to_owned(), name.to_owned());
        match self.profiles.get(&key) {
            Some(profile) => Found::There(profile.clone()),
            None => self.not_there(),
        }
    }

    fn annotations_of(&self, _: &str) -> Option<BTreeMap<String, String>> {
        None
    }

    fn sink(&self, sink: &SinkKey) -> Found<()> {
        if sink.name == "there" {
            return Found::There(());
        }
        assert_eq!(sink.family, SinkFamily::Database);
        self.not_there()
    }

    fn cluster_target(&self, _: &str) -> Found<()> {
        self.not_there()
    }

    fn kind(&self, kind: &GroupVersionKind) -> Found<()> {
        if kind.kind == "Pod" {
            return Found::There(());
        }
        self.not_there()
    }
}

impl Cluster {
    fn not_there<T>(&self) -> Found<T> {
        if self.unknown {
            Found::NotKnown(NotKnown("403".to_owned()))
        } else {
            Found::Missing
        }
    }
}

fn object(kind: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
        "metadata": {"name": "x", "namespace": "team-a"}, "spec": spec,
    })
}

fn request(operation: &str, object: Option<Value>, old_object: Option<Value>) -> Request {
    Request {
        operation: operation.to_owned(),
        name: "x".to_owned(),
        namespace: "team-a".to_owned(),
        object,
        old_object,
        ..Request::default()
    }
}

fn judged(request: &Request, cluster: &Cluster) -> Judgement {
    judge(request, &Settings::default(), cluster)
}

/// A profile that the rules refuse.
fn bad() -> Value {
    let attributes = json!([{"name": "a", "path": "cel:1 +"}]);
    object(
        "KollectProfile",
        &json!({"targetGVK": {"version": "v1", "kind": "Pod"}, "attributes": attributes}),
    )
}

fn good() -> Value {
    let attributes = json!([{"name": "a", "path": "$.a"}]);
    object(
        "KollectProfile",
        &json!({"targetGVK": {"version": "v1", "kind": "Pod"}, "attributes": attributes}),
    )
}

#[test]
fn operations_and_parts_of_objects() {
    let cluster = Cluster::default();
    let mut deleting = bad();
    deleting["metadata"]["deletionTimestamp"] = "2026-11-18T00:00:00Z".into();
    deleting["spec"] = "nobody understands this".into();
    let mut status = request("UPDATE", Some(bad()), Some(good()));
    status.sub_resource = "status".to_owned();
    for (what, request, code) in [
        ("create", request("CREATE", Some(good()), None), None),
        (
            "create of a bad one",
            request("CREATE", Some(bad()), None),
            Some(403),
        ),
        (
            "update to a bad one",
            request("UPDATE", Some(bad()), Some(good())),
            Some(403),
        ),
        ("delete", request("DELETE", None, Some(bad())), None),
        (
            "loses a finalizer",
            request("UPDATE", Some(deleting), Some(bad())),
            None,
        ),
        ("status", status, None),
        ("connect", request("CONNECT", Some(good()), None), Some(400)),
        ("no operation", request("", Some(good()), None), Some(400)),
        ("no object", request("CREATE", None, None), Some(400)),
        (
            "no map",
            request("CREATE", Some(json!([1])), None),
            Some(400),
        ),
        (
            "another kind",
            request("CREATE", Some(object("KollectSink", &json!({}))), None),
            Some(400),
        ),
        (
            "another shape",
            request(
                "CREATE",
                Some(object("KollectTarget", &json!({"profileRef": 7}))),
                None,
            ),
            Some(400),
        ),
    ] {
        let denied = judged(&request, &cluster).denied;
        assert_eq!(
            denied.as_ref().map(Denied::code),
            code,
            "{what}: {denied:?}"
        );
    }
}

#[test]
fn refusals_name_the_object_the_field_and_the_value() {
    let denied = judged(&request("CREATE", Some(bad()), None), &Cluster::default()).denied;
    let Some(Denied::Rules(Denial::Invalid { findings, .. })) = &denied else {
        panic!("{denied:?}");
    };
    assert!(matches!(findings[0].class, Class::Invalid { .. }));
    let text = denied.expect("denied").to_string();
    for part in [
        "KollectProfile \"x\" is invalid: ",
        "spec.attributes[0].path",
        "cel:1 +",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn what_leaves_the_spec_alone_is_allowed_with_a_warning() {
    let mut labelled = bad();
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let judgement = judged(
        &request("UPDATE", Some(labelled.clone()), Some(bad())),
        &Cluster::default(),
    );
    assert_eq!(judgement.denied, None);
    assert!(
        judgement.warnings[0].contains("no longer valid"),
        "{judgement:?}"
    );
    labelled["metadata"]["annotations"] = json!({"kollect.dev/allow-secret-extraction": "true"});
    let judgement = judged(
        &request("UPDATE", Some(labelled), Some(bad())),
        &Cluster::default(),
    );
    assert_eq!(judgement.denied.map(|denied| denied.code()), Some(403));
}

#[test]
fn objects_that_get_their_name_later_are_named_by_its_beginning() {
    let mut unnamed = bad();
    unnamed["metadata"] = json!({"generateName": "profile-"});
    let mut asked = request("CREATE", Some(unnamed), None);
    asked.name.clear();
    let denied = judged(&asked, &Cluster::default()).denied.expect("denied");
    assert!(
        denied.to_string().contains("KollectProfile \"profile-\""),
        "{denied}"
    );
}

#[test]
fn scopes_that_are_not_known_refuse_and_can_be_tried_again() {
    let unknown = Cluster {
        scopes_unknown: true,
        ..Cluster::default()
    };
    let target = || Some(object("KollectTarget", &json!({"profileRef": "p"})));
    let denied = judged(&request("CREATE", target(), None), &unknown).denied;
    let denied = denied.expect("denied");
    assert_eq!(
        (denied.code(), denied.reason()),
        (503, "ServiceUnavailable")
    );
    for part in ["KollectTarget \"x\"", "403", "try again"] {
        assert!(denied.to_string().contains(part), "{denied}");
    }
    let same = judged(&request("UPDATE", target(), target()), &unknown);
    assert_eq!(same, Judgement::default(), "what is stored stays as it is");
    let profile = judged(&request("CREATE", Some(good()), None), &unknown);
    assert_eq!(profile.denied, None, "no scope is asked about it");
}

#[test]
fn references_pass_with_a_warning() {
    let inventory = json!({"databaseSinkRefs": [{"name": "there"}, {"name": "later"}]});
    let test = json!({"sinkRef": {"databaseSinkRef": "later"}});
    let deployments = json!({
        "targetGVK": {"group": "apps", "version": "v1", "kind": "Deployments"},
        "attributes": [{"name": "a", "path": "$.a"}],
    });
    for (kind, spec, names) in [
        (
            "KollectTarget",
            json!({"profileRef": "later"}),
            "KollectProfile \"later\" in namespace \"team-a\"",
        ),
        (
            "KollectInventory",
            inventory,
            "KollectDatabaseSink \"later\" in namespace \"team-a\"",
        ),
        (
            "KollectConnectionTest",
            test,
            "KollectDatabaseSink \"later\" in namespace \"team-a\"",
        ),
        ("KollectProfile", deployments, "kind apps/v1/Deployments"),
    ] {
        let asked = request("CREATE", Some(object(kind, &spec)), None);
        for (unknown, says) in [(false, "does not exist yet"), (true, "is not known: 403")] {
            let cluster = Cluster {
                unknown,
                ..Cluster::default()
            };
            let judgement = judged(&asked, &cluster);
            assert_eq!(judgement.denied, None, "{kind}");
            let [warning] = &*judgement.warnings else {
                panic!("{kind}: {judgement:?}");
            };
            assert!(
                warning.contains(names) && warning.contains(says),
                "{warning}"
            );
        }
    }
    assert_eq!(
        judged(&request("CREATE", Some(good()), None), &Cluster::default()),
        Judgement::default()
    );
}
