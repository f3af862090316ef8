use kollect_api::InventoryId;
use kollect_inventory::{
    Delta, HeldRows, Interner, OriginParts, Row, Snapshot, TargetKind, attributes::AttributesBuffer,
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::{
    snapshots::{FirstAttempts, documents},
    *,
};
use crate::sink::Why;

#[derive(Deserialize)]
struct File {
    keys: Vec<KeyVector>,
    messages: Vec<MessageVector>,
    differences: Vec<DifferenceVector>,
}

#[derive(Deserialize)]
struct KeyVector {
    id: String,
    cluster: String,
    namespace: Option<String>,
    inventory: String,
    item: Item<'static>,
    key: String,
    source: String,
    subject: String,
}

#[derive(Deserialize)]
struct MessageVector {
    event: String,
    body: String,
}

#[derive(Deserialize)]
struct DifferenceVector {
    id: String,
    rows: Vec<String>,
    stream: Vec<String>,
    upserts: Vec<String>,
    gone: Vec<String>,
}

fn vectors() -> File {
    serde_saphyr::from_str(include_str!("vectors.yaml")).unwrap()
}

/// The Deployment of the vectors.
fn row(name: &str, uid: &str, replicas: u64) -> Row {
    let mut interner = Interner::new();
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: "team-a",
        target_name: "deployments",
        namespace: "team-a",
        group: "apps",
        version: "v1",
        kind: "Deployment",
    });
    let mut attributes = AttributesBuffer::new();
    attributes.start().attribute("replicas").unsigned(replicas);
    interner.row(&origin, name, uid, attributes.view())
}

fn web() -> Source {
    Source::new("prod-west", &InventoryId::namespaced("team-a", "web"))
}

fn at() -> jiff::Timestamp {
    "2026-01-15T12:00:00.25Z".parse().unwrap()
}

#[test]
fn keys_sources_and_subjects() {
    for vector in vectors().keys {
        let inventory = match &vector.namespace {
            Some(namespace) => InventoryId::namespaced(namespace, &vector.inventory),
            None => InventoryId::cluster(&vector.inventory),
        };
        let source = Source::new(&vector.cluster, &inventory);
        let key = source.key(&vector.item);
        assert_eq!(key, vector.key, "{}", vector.id);
        assert_eq!(&**source.uri(), vector.source, "{}", vector.id);
        assert_eq!(
            Source::subject(&vector.item),
            vector.subject,
            "{}",
            vector.id
        );
        assert_eq!(source.item_of_key(&key), Some(vector.item), "{}", vector.id);
    }
}

#[test]
fn bodies_hashes_and_ids() {
    let api = row("api", "uid-abc", 2);
    for vector in vectors().messages {
        let message = match &*vector.event {
            "upsert" => web().upsert(&api, at()),
            "delete" => web().delete(&Item::of(&api), at()),
            _ => web().synced(7, "2026-01-15T11:59:00Z".parse().unwrap(), at()),
        };
        assert_eq!(std::str::from_utf8(&message.body).unwrap(), vector.body);
        assert_eq!(message.event.as_str(), vector.event);
        let later = at() + jiff::SignedDuration::from_secs(1);
        if vector.event == "synced" {
            assert_eq!(message.key, "prod-west/team-a/web");
            assert_eq!(message.hash, None);
            continue;
        }
        // What anybody finds who hashes the bytes of the item.
        let start = vector.body.find("{\"targetNamespace\"").unwrap();
        let item = &vector.body[start..vector.body.len() - 1];
        let expected = &sha256_hex(item.as_bytes())[..16];
        assert_eq!(message.hash.unwrap().to_string(), expected);
        assert_eq!(expected.parse(), Ok(message.hash.unwrap()));
        assert_ne!(
            web().upsert(&api, later).id,
            message.id,
            "C9: time is in it"
        );
        assert_eq!(Item::of_body(&message.body).unwrap(), Item::of(&api));
    }
}

#[test]
fn headers_are_cloud_events_in_binary_mode() {
    let message = web().upsert(&row("api", "uid-abc", 2), at());
    for (names, prefix) in [(HeaderNames::KAFKA, "ce_"), (HeaderNames::NATS, "ce-")] {
        let headers = message.headers(&names);
        let find = |name: &str| {
            let found = headers.iter().find(|(header, _)| *header == name);
            found.map(|(_, value)| &**value)
        };
        let ce = |name: &str| find(&format!("{prefix}{name}"));
        assert_eq!(find("Kollect-Event"), Some("upsert"));
        assert_eq!(find("Kollect-Hash").map(str::len), Some(16));
        assert_eq!(find("content-type"), Some("application/json"));
        assert_eq!(ce("specversion"), Some("1.0"));
        assert_eq!(ce("id"), Some(&*message.id));
        assert_eq!(ce("source"), Some("/kollect/prod-west/team-a/web"));
        assert_eq!(ce("type"), Some("dev.kollect.row.upsert"));
        assert_eq!(ce("subject"), Some("apps/v1/Deployment/team-a/api"));
        assert_eq!(ce("time"), Some("2026-01-15T12:00:00.25Z"));
        assert_eq!(headers.len(), 9);
    }
    let synced = web().synced(0, at(), at());
    let names: Vec<_> = synced.headers(&HeaderNames::NATS);
    assert!(!names.iter().any(|(name, _)| *name == "ce-subject"));
}

fn rows(texts: &[String]) -> Snapshot {
    let rows = texts.iter().map(|text| {
        let (name, replicas) = text.split_once('=').unwrap();
        row(name, name, replicas.parse().unwrap())
    });
    rows.collect()
}

#[test]
fn differences_are_what_the_stream_lacks() {
    for vector in vectors().differences {
        let (rows, source) = (rows(&vector.rows), web());
        let mut comparison = Comparison::new(&rows, |row| source.key(&Item::of(row)));
        for message in &vector.stream {
            let name = |name: &str| source.key(&Item::of(&row(name, "any", 0)));
            if let Some((text, replicas)) = message.split_once('=') {
                let held = row(text, text, replicas.parse().unwrap());
                let hash = ItemHash::of_row(&held, &mut Vec::new());
                comparison.saw(&name(text), Some(hash));
            } else if let Some(text) = message.strip_suffix(" gone") {
                comparison.saw(&name(text), None);
            } else {
                let text = message.strip_suffix(" garbage").unwrap();
                comparison.saw(&name(text), Some(ItemHash(0)));
            }
        }
        let difference = comparison.finish();
        let upserts: Vec<String> = difference
            .upserts
            .iter()
            .map(|row| {
                let attributes: Value = serde_json::to_value(row.attributes()).unwrap();
                format!("{}={}", row.name(), attributes["replicas"])
            })
            .collect();
        assert_eq!(upserts, vector.upserts, "{}", vector.id);
        let gone: Vec<String> = difference
            .gone
            .iter()
            .map(|key| source.item_of_key(key).unwrap().name.into_owned())
            .collect();
        assert_eq!(gone, vector.gone, "{}", vector.id);
    }
}

/// C5: an object that was deleted and created again keeps its key and is there.
#[test]
fn one_message_per_key() {
    let (old, new) = (row("b", "uid-1", 1), row("b", "uid-2", 1));
    let delta = Delta::between(&Snapshot::new([old.clone()]), &Snapshot::new([new.clone()]));
    assert_eq!(delta.len(), 2);
    let changes = Changes::of(&web(), &delta);
    assert_eq!(changes.upserts, [&new]);
    assert_eq!(changes.deletes, []);
    let delta = Delta::between(&Snapshot::new([old.clone()]), &Snapshot::default());
    let changes = Changes::of(&web(), &delta);
    assert_eq!(changes.deletes, [Item::of(&old)]);
    // Two rows of one key can be there for a moment, when an object is seen before its predecessor
    // is known to be gone.
    let both = Snapshot::new([old, new.clone()]);
    let comparison = Comparison::new(&both, |row| web().key(&Item::of(row)));
    assert_eq!(comparison.finish().upserts, [&new]);
}

#[test]
fn rows_of_which_nothing_is_known_stay() {
    let item = Item::of(&row("a", "a", 1)).into_owned();
    let namespace = item.namespace.to_string();
    for (held, stays) in [
        (HeldRows::of_target("deployments"), true),
        (HeldRows::of_target("pods"), false),
        (HeldRows::in_namespace("deployments", &namespace), true),
        (HeldRows::in_namespace("deployments", "elsewhere"), false),
    ] {
        assert_eq!(item.is_held(std::slice::from_ref(&held)), stays, "{held:?}");
    }
}

#[test]
fn rows_too_large_are_remembered_over_deliveries_of_changes() {
    let inventory = InventoryId::namespaced("team-a", "web");
    let (oversize, source) = (Oversize::default(), web());
    let item = |name| Item::of(&row(name, "u", 1)).into_owned();
    let mut sizes = Sizes::default();
    for name in ["b", "a"] {
        sizes.too_large(&source.key(&item(name)), &item(name));
    }
    let skipped = oversize.all(&inventory, sizes, 100).unwrap();
    assert_eq!((skipped.rows, &*skipped.first), (2, "Deployment/team-a/a"));
    assert_eq!(skipped.why, Why::TooLarge { limit: 100 });
    let skipped = oversize.changes(&inventory, Sizes::default(), 100);
    assert_eq!(skipped.unwrap().rows, 2, "nothing new is known");
    let mut sizes = Sizes::default();
    sizes.fits(&source.key(&item("a")));
    let skipped = oversize.changes(&inventory, sizes, 100).unwrap();
    assert_eq!((skipped.rows, &*skipped.first), (1, "Deployment/team-a/b"));
    assert_eq!(oversize.all(&inventory, Sizes::default(), 100), None);
    assert!(oversize.is_empty(&inventory));
}

/// The vectors of the specification of snapshots: envelope P1, its checksum, its parts.
#[test]
fn snapshots_are_documents_in_an_envelope() {
    let source = Source::new("prod-west", &InventoryId::namespaced("team-a", "web"));
    let exported: jiff::Timestamp = "2026-01-15T12:00:00Z".parse().unwrap();
    let api = Snapshot::new([row("api", "uid-abc", 2)]);
    let whole = documents(&api, 3, exported, None, None).unwrap();
    let message = source.snapshot(&whole[0], at());
    let checksum = "2f200886f0143234b5ca316d0afe302370a44c34549027d0d5dfe24a9acd7d62";
    let item = r#"{"targetNamespace":"team-a","targetName":"deployments","namespace":"team-a","name":"api","group":"apps","version":"v1","kind":"Deployment","uid":"uid-abc","attributes":{"replicas":2}}"#;
    let payload = format!(
        r#"{{"schemaVersion":"kollect.dev/v1alpha1","checksum":"{checksum}","generation":3,"itemCount":1,"exportedAt":"2026-01-15T12:00:00Z","items":[{item}]}}"#
    );
    let head = r#"{"schemaVersion":"kollect.dev/v1alpha1","timestamp":"2026-01-15T12:00:00.25Z","cluster":"prod-west","namespace":"team-a","inventory":"web","scope":"namespace","event":"snapshot","payload":"#;
    assert_eq!(
        String::from_utf8(message.body).unwrap(),
        format!("{head}{payload}}}")
    );
    let text = format!("prod-west/team-a/web/3/1-of-1/2026-01-15T12:00:00Z/{checksum}");
    assert_eq!(message.id, sha256_hex(text.as_bytes()));
    assert_eq!(message.key, "prod-west/team-a/web");
    assert_eq!(
        message.headers[3],
        ("Kollect-Checksum", checksum.to_owned())
    );
    assert_eq!(message.headers[2], ("Kollect-Inventory", "web".to_owned()));

    let deleted = source.deleted(3, at());
    let body: Value = serde_json::from_slice(&deleted.body).unwrap();
    assert_eq!(body["event"], "deleted");
    assert_eq!(body["payload"]["itemCount"], 0);
    assert_eq!(body["payload"]["generation"], 3);
    assert_eq!(body["payload"]["checksum"], sha256_hex(b"[]"));

    // Parts keep below the limit of the server, with what stands around them.
    let many: Snapshot = (0..40)
        .map(|n| row(&format!("api-{n}"), &n.to_string(), 1))
        .collect();
    let limit = 6 * 1024;
    let parts = documents(&many, 1, exported, None, Some(limit)).unwrap();
    assert!(parts.len() > 1);
    let ids: std::collections::BTreeSet<String> = parts
        .iter()
        .map(|part| {
            let message = source.snapshot(part, at());
            assert!(message.body.len() as u64 <= limit);
            message.id
        })
        .collect();
    assert_eq!(ids.len(), parts.len());
    assert!(documents(&many, 1, exported, None, Some(100)).is_err());
}

#[test]
fn a_repeat_says_the_time_of_the_first_attempt() {
    let (attempts, inventory) = (FirstAttempts::default(), InventoryId::cluster("web"));
    let second = |s| jiff::Timestamp::from_second(s).unwrap();
    let content = |n| Snapshot::new([row("a", "a", n)]).fingerprint();
    assert_eq!(attempts.generation(&inventory), 0);
    for (generation, replicas, now, expected, succeeds) in [
        (1, 1, 10, 10, false),
        (1, 1, 20, 10, false),
        (1, 2, 30, 30, false),
        (2, 2, 40, 40, false),
        (2, 2, 50, 40, true),
        (2, 2, 60, 60, false),
    ] {
        let at = attempts.begin(&inventory, generation, content(replicas), second(now));
        assert_eq!(at, second(expected));
        assert_eq!(attempts.generation(&inventory), generation);
        if succeeds {
            attempts.succeeded(&inventory);
        }
    }
}

/// What a row costs while a stream is compared.
#[test]
fn a_comparison_costs_little_per_row() {
    assert!(size_of::<difference::Known>() <= 64);
}

proptest! {
    /// C11, C12: different rows of different inventories have different keys, and keys tell which.
    #[test]
    fn keys_are_injective(
        a in prop::array::uniform10("[a%/._-]{0,3}"),
        b in prop::array::uniform10("[a%/._-]{0,3}"),
        scopes in any::<(bool, bool)>(),
    ) {
        let make = |parts: &[String; 10], cluster: bool| {
            let inventory = if cluster {
                InventoryId::cluster(&parts[2])
            } else {
                InventoryId::namespaced(&parts[1], &parts[2])
            };
            let [target_namespace, target_name, group, version, kind, namespace, name] =
                [3, 4, 5, 6, 7, 8, 9].map(|at| parts[at].clone().into());
            let item = Item {
                target_namespace, target_name, group, version, kind, namespace, name, uid: None,
            };
            (Source::new(&parts[0], &inventory), item)
        };
        let (left, right) = (make(&a, scopes.0), make(&b, scopes.1));
        let (left_key, right_key) = (left.0.key(&left.1), right.0.key(&right.1));
        prop_assert_eq!(left.0.item_of_key(&left_key), Some(left.1.clone()));
        prop_assert_eq!(left == right, left_key == right_key);
        prop_assert_eq!(left.0 == right.0, left.0.uri() == right.0.uri());
        if left.0 != right.0 {
            prop_assert_eq!(left.0.item_of_key(&right_key), None);
        }
    }
}
