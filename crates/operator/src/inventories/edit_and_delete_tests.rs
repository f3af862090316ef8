//! What follows from edits, re-creations and deletions of inventories and sinks.

use super::*;

/// Another configuration is what makes a sink get all rows at once: after an edit of the inventory
/// (S10), of the sink or its Secrets (S13), and for an inventory that was created again (S35).
#[test]
fn s10_s13_s35_everything_an_export_depends_on_changes_its_configuration() {
    let spec = json!({"snapshotSinkRefs": [{"name": "git"}], "databaseSinkRefs": [{"name": "pg"}]});
    let world = |version| Small {
        version,
        ..Small::default().sink("pg", json!({})).repository("git")
    };
    let of = |subject: &Subject, version: u128| {
        let orders = world(version).plan(subject).order.deliver;
        orders.iter().map(|o| o.configuration).collect::<Vec<_>>()
    };
    let plain = inventory(spec);
    let mut generation = plain.clone();
    generation.generation = 2;
    let mut asked = plain.clone();
    asked.requested_at = Some("now".to_owned());
    let mut recreated = plain.clone();
    recreated.uid = "other".to_owned();
    let before = of(&plain, 1);
    assert_eq!(before.len(), 2);
    assert_eq!(before, of(&plain.clone(), 1));
    for (other, version) in [(&generation, 1), (&asked, 1), (&recreated, 1), (&plain, 2)] {
        let now = of(other, version);
        let mut both = before.iter().zip(&now);
        assert!(both.all(|(before, now)| before != now), "{other:?}");
    }
    assert_eq!(world(1).plan(&generation).order.generation, 2);
}

/// All sinks are to be emptied and none is delivered to, also when exports are suspended. Which
/// files and rows go is said by the sinks.
#[test]
fn s33_a_deleted_inventory_is_taken_out_of_all_its_sinks() {
    let world = Small::default().sink("pg", json!({})).repository("git");
    for suspend in [false, true] {
        let mut subject = inventory(json!({
            "suspend": suspend,
            "snapshotSinkRefs": [{"name": "git"}], "databaseSinkRefs": [{"name": "pg"}],
        }));
        assert!(world.plan(&subject).order.retire.is_empty());
        subject.deleted_at = Some("2026-01-15T12:00:00Z".parse().expect("a time"));
        let plan = world.plan(&subject);
        assert!(plan.order.deliver.is_empty() && !plan.order.open);
        let retired = plan.order.retire.iter();
        let mut retired: Vec<_> = retired.map(|s| s.key.within_inventory()).collect();
        retired.sort();
        assert_eq!(retired, ["database/pg", "snapshot/git"], "{suspend}");
        assert!(plan.orphans.is_empty());
    }
}

/// A sink that is no more is told of and left out. The original waits for it for ever.
#[test]
fn s34_a_sink_that_is_gone_does_not_hold_a_deleted_inventory() {
    let world = Small::default().sink("pg", json!({}));
    let spec = json!({"databaseSinkRefs": [{"name": "pg"}, {"name": "gone"}]});
    let mut subject = inventory(spec);
    subject.deleted_at = Some("2026-01-15T12:00:00Z".parse().expect("a time"));
    let plan = world.plan(&subject);
    let retired: Vec<_> = plan.order.retire.iter().map(|s| &*s.key.name).collect();
    assert_eq!(retired, ["pg"]);
    let orphans: Vec<_> = plan.orphans.iter().map(|key| &*key.name).collect();
    assert_eq!(orphans, ["gone"]);
    // Not being able to look is no reason to leave rows behind.
    let unread = Small {
        forbidden: true,
        ..Small::default()
    };
    let plan = unread.plan(&subject);
    assert_eq!(plan.order.retire.len(), 2);
    assert!(plan.orphans.is_empty());
}
