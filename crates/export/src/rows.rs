//! From what the store hands out to what an inventory exports: one row per object if asked for.

use std::sync::Arc;

use kollect_api::inventory::Dedupe;
use kollect_collect::store::{RowSelection, Store, Taken};
use kollect_inventory::{Delta, Row, rollup};
use kollect_sinks::DeliveryRows;

/// The rows of a delivery.
pub(crate) fn of_delivery(
    store: &Store,
    scope: &RowSelection,
    dedupe: Dedupe,
    taken: Taken,
) -> Option<DeliveryRows> {
    match taken {
        Taken::Waiting(_) | Taken::Nothing => None,
        Taken::Everything(snapshot, _) if dedupe == Dedupe::KeepAll => {
            Some(DeliveryRows::All(snapshot))
        }
        Taken::Everything(snapshot, _) => {
            let rows = rollup::merged(snapshot.rows().iter().cloned(), dedupe);
            Some(DeliveryRows::All(rows.holding(snapshot.held().to_vec())))
        }
        Taken::Changes(delta, _) if dedupe == Dedupe::KeepAll => {
            Some(DeliveryRows::Changes(Arc::new(delta)))
        }
        Taken::Changes(delta, _) => {
            let find = |row: &Row| store.find(scope, row.origin().namespace(), row.name());
            Some(DeliveryRows::Changes(Arc::new(merged(
                &delta, dedupe, find,
            ))))
        }
    }
}

/// The change of a merged inventory. An object whose rows changed has one row afterwards, the one
/// that wins among what all targets know now, and the others have to go, whether the sink holds
/// them or not. A change that happens meanwhile comes with the next delta.
fn merged(delta: &Delta, dedupe: Dedupe, find: impl Fn(&Row) -> Vec<Row>) -> Delta {
    let mut merged = Delta::new();
    for change in delta.changes() {
        let seed = change.row();
        let known = find(seed);
        let known = known.into_iter().filter(|row| row.uid() == seed.uid());
        let mut losers: Vec<Row> = change.before().into_iter().cloned().collect();
        losers.extend(known.clone());
        let winner = rollup::merge(known, dedupe).pop();
        losers.retain(|row| {
            winner
                .as_ref()
                .is_none_or(|w| w.identity() != row.identity())
        });
        for loser in losers {
            merged.record(Some(loser), None);
        }
        if let Some(winner) = winner {
            merged.record(None, Some(winner));
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, Interner, OriginParts, TargetKind};

    use super::*;

    fn row(interner: &mut Interner, target: &str, replicas: i64) -> Row {
        let origin = interner.origin(OriginParts {
            owner: TargetKind::ClusterTarget,
            target_namespace: "team-a",
            target_name: target,
            namespace: "team-a",
            group: "apps",
            version: "v1",
            kind: "Deployment",
        });
        let mut attributes = AttributesBuffer::new();
        attributes.start().attribute("replicas").signed(replicas);
        interner.row(&origin, "api", "u1", attributes.view())
    }

    fn change(before: Option<&Row>, after: Option<&Row>) -> Delta {
        let mut delta = Delta::new();
        delta.record(before.cloned(), after.cloned());
        delta
    }

    #[test]
    fn the_later_target_wins_and_the_earlier_returns_when_it_goes() {
        let mut interner = Interner::new();
        let alpha = row(&mut interner, "alpha", 1);
        let beta = row(&mut interner, "beta", 3);
        let apply = |delta: &Delta, known: &[&Row]| {
            let known: Vec<Row> = known.iter().copied().cloned().collect();
            merged(delta, Dedupe::ByResourceUid, |_| known.clone())
        };

        let both = apply(&change(None, Some(&beta)), &[&alpha, &beta]);
        assert_eq!(both.upserts().collect::<Vec<_>>(), [&beta]);
        assert_eq!(both.deletes().collect::<Vec<_>>(), [&alpha]);

        let back = apply(&change(Some(&beta), None), &[&alpha]);
        assert_eq!(back.upserts().collect::<Vec<_>>(), [&alpha]);
        assert_eq!(back.deletes().collect::<Vec<_>>(), [&beta]);

        let gone = apply(&change(Some(&alpha), None), &[]);
        assert_eq!(gone.upserts().count(), 0);
        assert_eq!(gone.deletes().collect::<Vec<_>>(), [&alpha]);
    }
}
