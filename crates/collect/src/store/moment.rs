//! Some rows at one moment.

use std::sync::{MutexGuard, RwLockReadGuard};

use kollect_inventory::{HeldRows, Row};

use super::stripe::Stripe;
use super::{Directory, Revision, RowSelection};

/// Some targets at one moment: nobody can write to them while it lasts, and every change up to its
/// revision has reached all subscribers.
pub(super) struct Moment<'a> {
    /// Of each target.
    stripes: Vec<Vec<MutexGuard<'a, Stripe>>>,
    /// Whether nothing is known of the rows of each target.
    left_out: Vec<bool>,
    count: usize,
    pub(super) revision: Revision,
    /// What is not known of the rows.
    pub(super) held: Vec<HeldRows>,
    /// Nobody becomes known, or unknown, meanwhile.
    _guards: Vec<RwLockReadGuard<'a, Option<Box<str>>>>,
}

impl<'a> Moment<'a> {
    pub(super) fn of(directory: &'a Directory, scope: &RowSelection) -> Self {
        let targets: Vec<_> = directory.targets_in(scope).collect();
        let stripes = targets
            .iter()
            .map(|target| target.freeze().collect())
            .collect();
        // After the stripes, in this order everywhere.
        let guards: Vec<_> = targets.iter().map(|target| target.lock_held()).collect();
        let mut held = Vec::new();
        let mut count = 0;
        let mut left_out = Vec::new();
        for (target, guard) in targets.iter().zip(&guards) {
            left_out.push(guard.is_some());
            if guard.is_some() {
                held.push(HeldRows::of_target(&target.key.name));
            } else {
                count += target.rows();
                let dark = target.dark().unwrap_or_default();
                let dark = dark.iter().filter(|name| scope.includes_namespace(name));
                let name = &target.key.name;
                held.extend(dark.map(|dark| HeldRows::in_namespace(name, dark)));
            }
        }
        Moment {
            stripes,
            left_out,
            count,
            revision: directory.last_revision(scope),
            held,
            _guards: guards,
        }
    }

    pub(super) fn rows(&self, scope: &RowSelection) -> Vec<Row> {
        let mut rows = Vec::with_capacity(self.count);
        let known = self.stripes.iter().zip(&self.left_out);
        let known = known.filter(|(_, left_out)| !**left_out);
        let all = known.flat_map(|(stripes, _)| stripes.iter().flat_map(|stripe| stripe.rows()));
        rows.extend(all.filter(|row| scope.includes_row(row)).cloned());
        rows
    }
}
