//! What becomes of targets.

use std::collections::{BTreeMap, BTreeSet};

use kollect_api::GroupVersionKind;
use kollect_collect::plan::{
    Course, Excess, KindFact, NamespaceListing, Plan, ProfileFact, Readable, TargetPlan,
    TargetState, World,
};
use serde::Deserialize;
use serde_json::Value;

use crate::support::{add, data, empty_world, key, names, plan, remove};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    base: Vec<Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own in the data file"
)]
struct Case {
    id: String,
    /// The change comes after a plan of the base.
    #[serde(default)]
    after: bool,
    #[serde(default)]
    with: Vec<Value>,
    #[serde(default)]
    without: Vec<Value>,
    /// Profiles, by namespace and name, that are `forbidden` or fail with a message.
    #[serde(default)]
    profiles: BTreeMap<String, String>,
    /// Scopes fail with this message.
    scopes: Option<String>,
    /// Kinds that are `not installed` or fail with a message.
    #[serde(default)]
    kinds: BTreeMap<String, String>,
    #[serde(default)]
    default_included: Vec<String>,
    #[serde(default)]
    watch_namespaces: Vec<String>,
    #[serde(default)]
    tenant_mode: bool,
    #[serde(default)]
    require_scope: bool,
    /// `--secret-extraction`.
    secret_extraction: Option<String>,
    /// Cluster scopes fail with this message.
    cluster_scopes: Option<String>,
    /// Targets over quota, and what is said of them.
    #[serde(default)]
    over_quota: BTreeMap<String, String>,
    /// They were collected before.
    #[serde(default)]
    keeps_over_quota: bool,
    /// Profiles that are not known are not because a right is missing: of these namespaces, or of
    /// all, under the empty name.
    #[serde(default)]
    profiles_forbidden: BTreeSet<String>,
    /// Namespaces have not been read.
    #[serde(default)]
    namespaces_unread: bool,
    /// Namespaces could not be read, for this reason.
    namespaces_unreadable: Option<String>,
    /// Namespaces could not be listed, and nothing is known of those that are watched.
    #[serde(default)]
    namespaces_partial: bool,
    /// None of the profiles is known, for this reason.
    profiles_unread: Option<String>,
    /// The profiles of these namespaces are not known, for these reasons.
    #[serde(default)]
    profiles_unread_in: BTreeMap<String, String>,
    /// Targets that cannot be decoded, and why.
    #[serde(default)]
    unreadable_targets: BTreeMap<String, String>,
    /// Namespaces with scopes that cannot be decoded, and why.
    #[serde(default)]
    unreadable_scopes: BTreeMap<String, String>,
    /// Kinds that are asked about again and again.
    unsettled: Option<Vec<String>>,
    /// Kinds the plan asks about.
    #[serde(default)]
    unknown: Vec<String>,
    /// Targets the plan does not know.
    #[serde(default)]
    absent: Vec<String>,
    expect: BTreeMap<String, Expected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    course: String,
    reason: Option<String>,
    #[serde(default)]
    undecided: bool,
    says: Option<String>,
    matched: Option<Vec<String>>,
    effective: Option<Vec<String>>,
    outside: Option<Vec<String>>,
    /// Those whose sensitive objects nobody allowed to collect.
    unpermitted: Option<Vec<String>>,
    /// Nothing is looked at any more, and rows of these namespaces stay.
    keeps: Option<Vec<String>>,
    reach: Option<Vec<String>>,
    rules: Option<usize>,
}

fn kind(text: &str) -> GroupVersionKind {
    match text.split('/').collect::<Vec<_>>()[..] {
        [version, kind] => GroupVersionKind::new("", version, kind),
        [group, version, kind] => GroupVersionKind::new(group, version, kind),
        _ => panic!("{text:?} is no kind"),
    }
}

fn change(world: &mut World, case: &Case) {
    for manifest in &case.without {
        remove(world, manifest);
    }
    for manifest in &case.with {
        add(world, manifest.clone());
    }
    for (name, fact) in &case.profiles {
        let (namespace, name) = name.split_once('/').expect("namespace and name");
        let fact = match fact.as_str() {
            "forbidden" => ProfileFact::Forbidden,
            error => ProfileFact::Failed(error.to_owned()),
        };
        world.profiles.insert((namespace.into(), name.into()), fact);
    }
    for (name, fact) in &case.kinds {
        let fact = match fact.as_str() {
            "not installed" => KindFact::NotInstalled,
            error => KindFact::Failed(error.to_owned()),
        };
        world.kinds.set(kind(name), fact);
    }
    if case.namespaces_unread {
        world.namespaces = NamespaceListing::Unread;
    }
    if let Some(why) = &case.namespaces_unreadable {
        world.namespaces = NamespaceListing::Unreadable(why.clone());
    }
    if case.namespaces_partial {
        world.namespaces = NamespaceListing::Partial(BTreeMap::new());
    }
    let unread = &case.profiles_unread_in;
    world.profiles_unread_in.clone_from(unread);
    world
        .profiles
        .retain(|(namespace, _), _| !unread.contains_key(namespace));
    if case.profiles_unread.is_some() {
        world.profiles.clear();
        world.profiles_unread.clone_from(&case.profiles_unread);
    }
    for (name, why) in &case.unreadable_targets {
        let unreadable = key(name);
        world.targets.retain(|target| {
            let meta = &target.metadata;
            (meta.namespace.as_deref(), meta.name.as_deref())
                != (Some(&*unreadable.namespace), Some(&*unreadable.name))
        });
        world.unreadable_targets.insert(unreadable, why.clone());
    }
    world.unreadable_scopes.clone_from(&case.unreadable_scopes);
    if let Some(error) = &case.scopes {
        world.scopes = Readable::Failed(error.clone());
        world.cluster_scopes = Readable::Failed(error.clone());
    }
    if let Some(error) = &case.cluster_scopes {
        world.cluster_scopes = Readable::Failed(error.clone());
    }
    world
        .profiles_forbidden
        .clone_from(&case.profiles_forbidden);
    let over_quota = case.over_quota.iter();
    world.over_quota = over_quota
        .map(|(name, why)| {
            let excess = Excess {
                message: why.as_str().into(),
                keeps: case.keeps_over_quota,
            };
            (key(name), excess)
        })
        .collect();
    let settings = &mut world.settings;
    settings.require_scope = case.require_scope;
    if let Some(word) = &case.secret_extraction {
        settings.secret_extraction = word.parse().expect("a word");
    }
    settings
        .default_included_namespaces
        .clone_from(&case.default_included);
    settings.watch_namespaces.clone_from(&case.watch_namespaces);
    settings.tenant_mode = case.tenant_mode;
}

fn check(context: &str, target: &TargetPlan, expected: &Expected) {
    let course = match &target.course {
        Course::Collect(_) => "collect",
        Course::Stop => "stop",
        Course::Wait => "wait",
    };
    assert_eq!(course, expected.course, "{context}: {:?}", target.state);
    let (reason, message) = match &target.state {
        TargetState::Collecting => (None, ""),
        TargetState::Degraded(degradation) => {
            (Some(degradation.reason.as_str()), &*degradation.message)
        }
        TargetState::Undecided(message) => (None, &**message),
    };
    assert_eq!(reason, expected.reason.as_deref(), "{context}: {message}");
    let undecided = matches!(target.state, TargetState::Undecided(_));
    assert_eq!(undecided, expected.undecided, "{context}");
    if let Some(says) = &expected.says {
        assert!(
            message.contains(says),
            "{context}: {message:?} lacks {says:?}"
        );
    }
    let namespaces = &target.namespaces;
    for (found, expected) in [
        (&namespaces.matched, &expected.matched),
        (&namespaces.effective, &expected.effective),
        (&namespaces.outside_scope, &expected.outside),
        (&namespaces.unpermitted, &expected.unpermitted),
    ] {
        if let Some(expected) = expected {
            assert_eq!(names(&**found), *expected, "{context}");
        }
    }
    let reach = target.collection().map(|c| names(c.reach.keys()));
    if let Some(expected) = &expected.reach {
        assert_eq!(reach.as_ref(), Some(expected), "{context}");
    }
    let frozen = target.collection().filter(|collection| collection.frozen);
    let keeps = frozen.map(|collection| names(collection.wanted.keys()));
    assert_eq!(keeps, expected.keeps, "{context}");
    if frozen.is_some() {
        assert_eq!(reach, Some(Vec::new()), "{context}");
    } else if !namespaces.effective.is_empty() {
        assert_eq!(reach, Some(names(&*namespaces.effective)), "{context}");
    }
    if let Some(rules) = expected.rules {
        assert_eq!(target.active_rules, rules, "{context}");
    }
}

#[test]
fn cases() {
    let table: Table = data("states.yaml");
    for case in &table.cases {
        let mut world = empty_world();
        for manifest in &table.base {
            add(&mut world, manifest.clone());
        }
        let before = if case.after {
            plan(&Plan::new(), &mut world)
        } else {
            Plan::new()
        };
        change(&mut world, case);
        let plan = plan(&before, &mut world);
        for (name, expected) in &case.expect {
            let context = format!("{}, {name}", case.id);
            let target = plan.target(&key(name));
            let target = target.unwrap_or_else(|| panic!("{context}: no such target"));
            check(&context, target, expected);
        }
        for name in &case.absent {
            assert!(plan.target(&key(name)).is_none(), "{}, {name}", case.id);
        }
        if let Some(expected) = &case.unsettled {
            let found = plan.unsettled_kinds.iter().map(ToString::to_string);
            assert_eq!(found.collect::<Vec<_>>(), *expected, "{}", case.id);
        }
        let unknown: Vec<String> = plan.unknown_kinds.iter().map(ToString::to_string).collect();
        assert_eq!(unknown, case.unknown, "{}", case.id);
    }
}
