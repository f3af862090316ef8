//! What our objects say of themselves, as numbers: whether targets are ready, whether inventories
//! are in step, and what is wrong with either.
//!
//! The numbers are the statuses as the API server has them, on every replica. An object whose status
//! says nothing is not called ready: whoever alerts on that waits for some minutes anyway.
//!
//! Each sort has at most [`MOST`] objects on the page. Those that something is wrong with come first,
//! so that no number of healthy ones can hide them, and what is left out is counted.

use std::{cmp::Reverse, collections::BTreeMap, sync::LazyLock};

use kollect_api::condition::{Condition, ConditionStatus, ConditionType, Reason};
use kube::{Resource, ResourceExt as _};

use super::{catalogue as names, page::Page};
use crate::{configuration::Configuration, statements};

/// How many objects of a sort are shown.
pub const MOST: usize = 1_000;

/// What objects say of themselves, and what waits to be written down about them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Targets of teams and of the platform.
    pub targets: Vec<Standing>,
    /// Inventories of both.
    pub inventories: Vec<Standing>,
    /// Writes to our objects that have not begun.
    pub waiting: u64,
}

/// What one object says of itself.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Standing {
    /// Its namespace; empty for cluster kinds.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The profile of a target.
    pub profile: String,
    /// Whether it says `Ready`.
    pub ready: bool,
    /// Whether it says `Synced`.
    pub synced: bool,
    /// Why it says `Degraded`, if it does.
    pub degraded: Option<&'static str>,
    /// The rows of an inventory.
    pub items: u64,
    /// When an inventory was exported last, in seconds since 1970.
    pub exported: Option<i64>,
}

impl Standing {
    /// What the conditions of an object say.
    pub fn of(object: &impl Resource, conditions: &[Condition]) -> Self {
        let says = |type_| {
            statements::find(conditions, type_).filter(|said| said.status == ConditionStatus::True)
        };
        Self {
            namespace: object.namespace().unwrap_or_default(),
            name: object.name_any(),
            ready: says(ConditionType::Ready).is_some(),
            synced: says(ConditionType::Synced).is_some(),
            degraded: says(ConditionType::Degraded).map(|said| known(&said.reason)),
            ..Self::default()
        }
    }

    /// Whether somebody would want to see it before the healthy ones.
    fn is_troubled(&self) -> bool {
        self.degraded.is_some() || !self.ready || !self.synced
    }
}

/// A reason that is one of ours. Statuses can be written by others too, and words of theirs must not
/// become series.
fn known(reason: &str) -> &'static str {
    static KNOWN: LazyLock<BTreeMap<&'static str, &'static str>> = LazyLock::new(|| {
        let words = Reason::ALL.iter().map(|reason| reason.as_str());
        words.map(|word| (word, word)).collect()
    });
    KNOWN.get(reason).copied().unwrap_or("Other")
}

/// What the statuses of a configuration say.
pub fn told(configuration: &Configuration, waiting: u64) -> Told {
    let mut told = Told {
        waiting,
        ..Told::default()
    };
    for target in configuration.targets.all() {
        let status = target.status.clone().unwrap_or_default();
        told.targets.push(Standing {
            profile: target.spec.profile_ref.clone(),
            ..Standing::of(&*target, &status.conditions)
        });
    }
    for target in configuration.cluster_targets.all() {
        let status = target.status.clone().unwrap_or_default();
        told.targets.push(Standing {
            profile: target.spec.profile_ref.name.clone(),
            ..Standing::of(&*target, &status.conditions)
        });
    }
    for inventory in configuration.inventories.all() {
        let status = inventory.status.clone().unwrap_or_default();
        told.inventories.push(Standing {
            items: u64::try_from(status.item_count).unwrap_or_default(),
            exported: status.last_export_time.map(|time| time.0.as_second()),
            ..Standing::of(&*inventory, &status.conditions)
        });
    }
    for inventory in configuration.cluster_inventories.all() {
        let status = inventory.status.clone().unwrap_or_default();
        told.inventories.push(Standing {
            items: u64::try_from(status.item_count).unwrap_or_default(),
            exported: status.last_export_time.map(|time| time.0.as_second()),
            ..Standing::of(&*inventory, &status.conditions)
        });
    }
    told
}

/// Writes the page's part. Without a source, which is before the configuration is watched, only the
/// descriptions are there.
pub(super) fn write(told: Option<Told>, page: &mut Page) {
    let known = told.is_some();
    let Told {
        targets,
        inventories,
        waiting,
    } = told.unwrap_or_default();
    let (targets, targets_left) = shown(targets);
    let (inventories, inventories_left) = shown(inventories);

    let family = page.family(&names::TARGET_READY);
    for Standing {
        namespace,
        name,
        profile,
        ready,
        ..
    } in &targets
    {
        family.gauge(&[namespace, name, profile], u64::from(*ready));
    }
    let family = page.family(&names::TARGET_DEGRADED);
    for target in &targets {
        let labels = [&*target.namespace, &target.name, reason(target)];
        family.gauge(&labels, u64::from(target.degraded.is_some()));
    }
    let family = page.family(&names::INVENTORY_SYNCED);
    for inventory in &inventories {
        family.gauge(&place(inventory), u64::from(inventory.synced));
    }
    let family = page.family(&names::INVENTORY_DEGRADED);
    for inventory in &inventories {
        let labels = [&*inventory.namespace, &inventory.name, reason(inventory)];
        family.gauge(&labels, u64::from(inventory.degraded.is_some()));
    }
    let family = page.family(&names::INVENTORY_SNAPSHOT_ITEMS);
    for inventory in &inventories {
        family.gauge(&place(inventory), inventory.items);
    }
    let family = page.family(&names::INVENTORY_LAST_EXPORT);
    for inventory in &inventories {
        // A status may say any time; one before 1970 says nothing.
        let exported = inventory.exported.and_then(|at| u64::try_from(at).ok());
        if let Some(exported) = exported {
            family.gauge(&place(inventory), exported);
        }
    }
    let omitted = page.family(&names::CONDITIONS_OMITTED);
    if known {
        omitted.gauge(&["target"], targets_left);
        omitted.gauge(&["inventory"], inventories_left);
    }
    let family = page.family(&names::WRITES_WAITING);
    if known {
        family.gauge(&[], waiting);
    }
}

fn place(object: &Standing) -> [&str; 2] {
    [&object.namespace, &object.name]
}

fn reason(object: &Standing) -> &'static str {
    object.degraded.unwrap_or_default()
}

/// The objects that are shown, and how many are not.
fn shown(mut all: Vec<Standing>) -> (Vec<Standing>, u64) {
    let left = all.len().saturating_sub(MOST) as u64;
    if left > 0 {
        all.sort_by_cached_key(|object| {
            let troubled = Reverse(object.is_troubled());
            (troubled, object.namespace.clone(), object.name.clone())
        });
        all.truncate(MOST);
    }
    (all, left)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{
        api::core::v1::ConfigMap, apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp,
    };

    use super::*;

    fn condition(type_: &str, status: ConditionStatus, reason: &str) -> Condition {
        Condition {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: String::new(),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }
    }

    #[test]
    fn conditions_become_numbers_and_foreign_words_do_not_become_series() {
        use ConditionStatus::{False, True, Unknown};
        type Case<'c> = (
            &'c str,
            &'c [(&'c str, ConditionStatus, &'c str)],
            bool,
            bool,
            Option<&'static str>,
        );
        let cases: [Case<'_>; 6] = [
            ("nothing said", &[], false, false, None),
            (
                "healthy",
                &[
                    ("Ready", True, "Collecting"),
                    ("Synced", True, "Collecting"),
                ],
                true,
                true,
                None,
            ),
            (
                "unknown is not ready",
                &[("Ready", Unknown, "Progressing")],
                false,
                false,
                None,
            ),
            (
                "in trouble",
                &[
                    ("Ready", False, "ProfileNotFound"),
                    ("Degraded", True, "ProfileNotFound"),
                ],
                false,
                false,
                Some("ProfileNotFound"),
            ),
            (
                "it was",
                &[("Ready", True, "Collecting"), ("Degraded", False, "x")],
                true,
                false,
                None,
            ),
            (
                "somebody else's word",
                &[("Degraded", True, "a\nb")],
                false,
                false,
                Some("Other"),
            ),
        ];
        for (case, said, ready, synced, degraded) in cases {
            let said: Vec<Condition> = said
                .iter()
                .map(|(type_, status, reason)| condition(type_, *status, reason))
                .collect();
            let standing = Standing::of(&ConfigMap::default(), &said);
            assert_eq!(
                (standing.ready, standing.synced, standing.degraded),
                (ready, synced, degraded),
                "{case}"
            );
        }
    }

    #[test]
    fn no_number_of_healthy_objects_hides_one_in_trouble() {
        let healthy = |number: usize| Standing {
            namespace: "a".to_owned(),
            name: format!("{number:05}"),
            ready: true,
            synced: true,
            ..Standing::default()
        };
        let mut all: Vec<Standing> = (0..MOST).map(healthy).collect();
        assert_eq!(shown(all.clone()), (all.clone(), 0));
        all.push(Standing {
            namespace: "z".to_owned(),
            name: "bad".to_owned(),
            degraded: Some("InvalidSpec"),
            ..healthy(0)
        });
        let (shown, left) = shown(all);
        assert_eq!((shown.len(), left), (MOST, 1));
        assert_eq!(shown[0].name, "bad");
    }
}
