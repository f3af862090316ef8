//! The laws of snapshots and deltas.

use kollect_inventory::{Delta, Row, Snapshot};
use proptest::prelude::*;

use crate::any::{row, rows, with_attributes};

proptest! {
    #[test]
    fn a_snapshot_does_not_depend_on_input_order(rows in rows(), seed in any::<prop::sample::Index>()) {
        let snapshot = Snapshot::new(rows);
        let mut shuffled = snapshot.rows().to_vec();
        if !shuffled.is_empty() {
            let at = seed.index(shuffled.len());
            shuffled.rotate_left(at);
            shuffled.reverse();
        }
        let again = Snapshot::new(shuffled);
        prop_assert_eq!(again.fingerprint(), snapshot.fingerprint());
        prop_assert_eq!(&again, &snapshot);
        prop_assert!(snapshot.rows().is_sorted_by(|a, b| a.identity() < b.identity()));
        for row in snapshot.rows() {
            prop_assert!(snapshot.get(row.identity()).is_some_and(|found| found.is_same(row)));
        }
    }

    #[test]
    fn the_last_row_of_an_identity_stays(rows in rows()) {
        let snapshot = Snapshot::new(rows.clone());
        for row in snapshot.rows() {
            let last = rows.iter().rfind(|other| other.identity() == row.identity());
            prop_assert!(last.is_some_and(|last| last.is_same(row)));
        }
        for row in &rows {
            prop_assert!(snapshot.get(row.identity()).is_some());
        }
    }

    #[test]
    fn a_difference_applied_to_the_old_state_gives_the_new_one(a in rows(), b in rows()) {
        let (a, b) = (Snapshot::new(a), Snapshot::new(b));
        let delta = Delta::between(&a, &b);
        prop_assert_eq!(a.apply(&delta), b.clone());
        for row in delta.deletes() {
            prop_assert!(a.get(row.identity()).is_some() && b.get(row.identity()).is_none());
        }
        for row in delta.upserts() {
            prop_assert!(a.get(row.identity()) != Some(row) && b.get(row.identity()) == Some(row));
        }
        prop_assert_eq!(delta.deletes().count() + delta.upserts().count(), delta.len());
    }

    #[test]
    fn equal_states_have_no_difference(rows in rows()) {
        let a = Snapshot::new(rows);
        // Equal content in other memory.
        let copies = a.rows().iter().map(|row| with_attributes(row, row.attributes()));
        let b = Snapshot::new(copies);
        prop_assert!(a.rows().iter().zip(b.rows()).all(|(a, b)| !a.is_same(b)));
        prop_assert!(Delta::between(&a, &b).is_empty());
        prop_assert!(Delta::between(&a, &a).is_empty());
    }

    #[test]
    fn differences_compose(a in rows(), b in rows(), c in rows()) {
        let (a, b, c) = (Snapshot::new(a), Snapshot::new(b), Snapshot::new(c));
        let piled = Delta::between(&a, &b).then(Delta::between(&b, &c));
        prop_assert_eq!(&piled, &Delta::between(&a, &c));
        prop_assert_eq!(a.apply(&piled), c);
    }

    #[test]
    fn single_steps_pile_up_to_the_difference(
        start in rows(),
        steps in prop::collection::vec((row(), any::<bool>()), 0..60),
    ) {
        let start = Snapshot::new(start);
        let mut now: Vec<Row> = start.rows().to_vec();
        let mut piled = Delta::new();
        for (row, keep) in steps {
            let at = now.iter().position(|other| other.identity() == row.identity());
            let before = at.map(|at| now.swap_remove(at));
            let after = keep.then_some(row);
            now.extend(after.clone());
            piled.record(before, after);
        }
        let end = Snapshot::new(now);
        prop_assert_eq!(&piled, &Delta::between(&start, &end));
        prop_assert_eq!(start.apply(&piled), end);
    }

    #[test]
    fn a_replacement_under_another_identity_is_two_changes(a in row(), b in row()) {
        let mut delta = Delta::new();
        delta.record(Some(a.clone()), Some(b.clone()));
        let expected = Delta::between(&Snapshot::new([a]), &Snapshot::new([b]));
        prop_assert_eq!(delta, expected);
    }
}
