use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Snapshot, TargetKind};
use proptest::prelude::*;

use super::*;

/// A row of target `nodes` in one of a few namespaces, with one of a few uids.
fn row(interner: &mut Interner, namespace: u8, uid: u8, value: i64) -> Row {
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: &format!("team-{namespace}"),
        target_name: "nodes",
        namespace: "",
        group: "",
        version: "v1",
        kind: "Node",
    });
    let mut attributes = AttributesBuffer::new();
    attributes.start().attribute("value").signed(value);
    interner.row(&origin, "node", &format!("uid-{uid}"), attributes.view())
}

fn snapshot(rows: &[(u8, u8, i64)]) -> Snapshot {
    let mut interner = Interner::new();
    rows.iter()
        .map(|(namespace, uid, value)| row(&mut interner, *namespace, *uid, *value))
        .collect()
}

/// The table, as far as keys are concerned.
type Table = BTreeMap<Key, Row>;

fn full(snapshot: &Snapshot) -> (Table, SharedKeys) {
    let survey = Survey::of(snapshot.rows());
    let table: Table = survey
        .winners(snapshot.rows())
        .map(|row| (Key::of(row), row.clone()))
        .collect();
    assert_eq!(
        table.len(),
        survey.count(snapshot.rows()),
        "one row per key"
    );
    (table, survey.shared)
}

/// Applies work as the server does; false if a row has to be asked for.
fn write(table: &mut Table, work: Work) -> bool {
    let surprise = work.writes.iter().any(|write| {
        let held = table.get(&Key::of(&write.row));
        write.fresh && held.is_some_and(|held| *held != write.row)
    });
    if surprise {
        return false;
    }
    for key in work.deletes {
        table.remove(&key);
    }
    for write in work.writes {
        table.insert(Key::of(&write.row), write.row);
    }
    true
}

#[test]
fn the_row_behind_comes_back() {
    let both = snapshot(&[(1, 7, 10), (2, 7, 20), (1, 8, 1)]);
    let (mut table, mut shared) = full(&both);
    assert_eq!(table.len(), 2);
    assert_eq!(shared.0.len(), 1);

    let one = snapshot(&[(1, 7, 10), (1, 8, 1)]);
    let work = shared.apply(&Delta::between(&both, &one));
    assert!(write(&mut table, work));
    assert_eq!((table, shared), full(&one));
}

#[test]
fn an_object_under_another_version_is_one_write() {
    let before = snapshot(&[(1, 7, 10)]);
    let after = snapshot(&[(2, 7, 10)]);
    let work = SharedKeys::default().apply(&Delta::between(&before, &after));
    assert_eq!(work.deletes, []);
    assert_eq!(work.writes.len(), 1);
    assert!(!work.writes[0].fresh);
}

proptest! {
    /// Changes lead to the table and the memory that a full delivery of the result gives, except
    /// that a newly shared key asks for one.
    #[test]
    fn changes_and_full_deliveries_agree(
        states in prop::collection::vec(prop::collection::vec((0u8..3, 0u8..4, 0i64..3), 0..8), 1..6),
    ) {
        let mut states = states.iter().map(|rows| snapshot(rows));
        let mut before = states.next().unwrap();
        let (mut table, mut shared) = full(&before);
        for after in states {
            let work = shared.apply(&Delta::between(&before, &after));
            if !write(&mut table, work) {
                let count = |snapshot: &Snapshot, shared: &SharedKeys| snapshot.len() + shared.0.len();
                prop_assert!(count(&after, &full(&after).1) > full(&after).0.len(), "shared now");
                (table, shared) = full(&after);
            }
            let expected = full(&after);
            prop_assert_eq!(&table, &expected.0);
            prop_assert_eq!(&shared, &expected.1);
            before = after;
        }
    }
}
