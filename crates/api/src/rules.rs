//! The rule library: what makes an object valid.
//!
//! Rules are pure functions. [`review`] takes an object, the operator's [`Settings`] and the
//! [`Surroundings`] (scopes and profile) that [`needs`] asked for, and returns a [`Verdict`]. The
//! webhook fetches the surroundings and answers with the verdict; the command line runs the same
//! rules without surroundings; reconcilers repeat them for objects that were stored before a rule
//! or scope existed.
//!
//! What the CRD schema can express is expressed there and checked by the API server; the rules
//! repeat it where an object may not have passed a server.

mod ceilings;
mod connection_test;
pub mod endpoint;
mod expression;
mod finding;
mod inventory;
pub mod nats;
mod object;
mod profile;
mod reference;
mod scope;
mod sensitive;
mod sink;
mod target;
pub mod template;

pub use ceilings::{
    outside_cluster_scoped, outside_kinds, outside_namespaces, outside_own_namespace,
    outside_resource_export, outside_secret_export, outside_sinks, outside_static_refs,
    unscoped_cluster_kind,
};
pub use finding::{Class, Denial, Finding, Findings, Path, Verdict};
pub use object::{DecodeError, Object};
pub use reference::{ForeignSecret, secret_namespace};
pub use sensitive::{SecretExtraction, SensitiveGrants, sensitive_advice, shows_sensitive};
pub use template::branch;

use std::collections::BTreeMap;

use crate::{
    address::AddressPolicy, effective, meta, profile::KollectProfile, scope::KollectClusterScope,
    scope::KollectScope,
};

/// The most attributes of a profile, the most rules of a target, and the most entries of each list
/// in `spec.export.prune`. The schema says the same.
pub const MAX_EXPRESSIONS: usize = 256;

/// Settings of the operator that change what is valid. Never settable by an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Cluster targets and cluster inventories are refused, as where an operator serves one tenant.
    pub deny_cluster_kinds: bool,
    /// Which addresses sinks may have.
    pub addresses: AddressPolicy,
    /// Upper limit of every `maxExportBytes`.
    pub max_export_bytes: i64,
    /// Namespaces whose Secrets sinks of other namespaces may use.
    pub secret_namespaces: Vec<String>,
    /// Whether Git endpoints may be local (`file://` or a path), as in a pipeline run by a person.
    pub local_repositories: bool,
    /// Targets of a namespace without a KollectScope collect from that namespace alone.
    pub require_scope: bool,
    /// Whose word it takes to collect sensitive objects of other namespaces.
    pub secret_extraction: SecretExtraction,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            deny_cluster_kinds: false,
            addresses: AddressPolicy::default(),
            max_export_bytes: effective::DEFAULT_MAX_EXPORT_BYTES,
            secret_namespaces: Vec::new(),
            local_repositories: false,
            require_scope: false,
            secret_extraction: SecretExtraction::default(),
        }
    }
}

/// What has to be read before an object can be reviewed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    /// KollectScopes of this namespace.
    pub scopes_in: Option<String>,
    /// All KollectClusterScopes.
    pub cluster_scopes: bool,
    /// All KollectClusterScopes, if they can be had: they do not bind the object, and only a warning
    /// depends on what they permit.
    pub grants: bool,
    /// This profile, by namespace and name. It may not exist yet.
    pub profile: Option<(String, String)>,
    /// The annotations of these namespaces.
    pub namespaces: Vec<String>,
}

/// What was read.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The KollectScopes of the namespace that was asked for. All of them apply.
    pub scopes: Vec<KollectScope>,
    /// The KollectClusterScopes. All of them apply.
    pub cluster_scopes: Vec<KollectClusterScope>,
    /// The profile that was asked for, if it exists.
    pub profile: Option<KollectProfile>,
    /// The annotations of the namespaces that were asked for, as far as they are known.
    pub namespaces: BTreeMap<String, BTreeMap<String, String>>,
}

/// What has to be read before [`review`] can judge the object.
pub fn needs(object: &Object) -> Needs {
    let own_namespace = || Some(object.namespace().to_owned());
    match object {
        Object::Target(target) => Needs {
            scopes_in: own_namespace(),
            cluster_scopes: false,
            grants: true,
            profile: Some((
                object.namespace().to_owned(),
                target.spec.profile_ref.trim().to_owned(),
            )),
            namespaces: target.spec.included_namespaces.clone(),
        },
        Object::ClusterTarget(target) => Needs {
            scopes_in: None,
            cluster_scopes: true,
            profile: Some((
                target.spec.profile_ref.namespace().to_owned(),
                target.spec.profile_ref.name.trim().to_owned(),
            )),
            ..Needs::default()
        },
        Object::Inventory(_)
        | Object::SnapshotSink(_)
        | Object::DatabaseSink(_)
        | Object::EventSink(_)
        | Object::Scope(_) => Needs {
            scopes_in: own_namespace(),
            ..Needs::default()
        },
        // A scope says of profiles only whether whole objects may be exported.
        Object::Profile(profile) => Needs {
            scopes_in: own_namespace().filter(|_| profile.spec.exports_whole_objects()),
            ..Needs::default()
        },
        Object::ClusterInventory(inventory) => Needs {
            scopes_in: Some(inventory.spec.sink_namespace().to_owned()),
            cluster_scopes: true,
            ..Needs::default()
        },
        Object::ClusterScope(_) => Needs {
            cluster_scopes: true,
            ..Needs::default()
        },
        Object::ConnectionTest(_) => Needs::default(),
    }
}

/// Judges an object on its own: all violations, and what deserves attention.
pub fn check(object: &Object, settings: &Settings) -> Findings {
    match object {
        Object::Profile(profile) => profile::check(profile),
        Object::Target(target) => target::check(&target.spec),
        Object::ClusterTarget(target) => target::check_cluster(&target.spec),
        Object::Inventory(inventory) => inventory::check(&inventory.spec, settings),
        Object::ClusterInventory(inventory) => inventory::check_cluster(&inventory.spec, settings),
        Object::SnapshotSink(sink) => {
            sink::check_snapshot(&sink.spec, object.namespace(), settings)
        }
        Object::DatabaseSink(sink) => {
            sink::check_database(&sink.spec, object.namespace(), settings)
        }
        Object::EventSink(sink) => sink::check_event(&sink.spec, object.namespace(), settings),
        Object::Scope(scope) => scope::check(scope.ceiling()),
        Object::ClusterScope(scope) => scope::check_cluster(scope),
        Object::ConnectionTest(test) => connection_test::check(&test.spec),
    }
}

/// What stands against an object on its own, if anything does. For whoever reads objects that are
/// stored already: they may have come in without anybody looking, or before a rule existed.
pub fn objection(object: &Object, settings: &Settings) -> Option<Denial> {
    match check(object, settings).into_verdict(object.kind(), object.name()) {
        Verdict::Denied(denial) => Some(denial),
        Verdict::Allowed { .. } => None,
    }
}

/// Judges an object among its surroundings.
///
/// An object that is being deleted is always allowed: its finalizers must be able to go, whatever
/// a newer rule or scope says.
pub fn review(object: &Object, settings: &Settings, surroundings: &Surroundings) -> Verdict {
    if object.metadata().deletion_timestamp.is_some() {
        return Verdict::Allowed {
            warnings: Vec::new(),
        };
    }
    if settings.deny_cluster_kinds
        && matches!(
            object,
            Object::ClusterTarget(_) | Object::ClusterInventory(_)
        )
    {
        return Verdict::Denied(Denial::Refused(format!(
            "{} {:?} is refused: cluster kinds are denied here (tenantMode, --deny-cluster-kinds); use {} in a namespace",
            object.kind(),
            object.name(),
            object.kind().replace("Cluster", ""),
        )));
    }
    let mut findings = check(object, settings);
    if findings.errors.is_empty() {
        match object {
            Object::Target(target) => {
                target::check_scopes(target, settings, surroundings, &mut findings);
            }
            Object::ClusterTarget(target) => {
                target::check_cluster_scopes(target, surroundings, &mut findings);
            }
            Object::Inventory(inventory) => {
                inventory::check_scopes(&inventory.spec, surroundings, &mut findings);
            }
            Object::ClusterInventory(inventory) => {
                inventory::check_cluster_scopes(&inventory.spec, surroundings, &mut findings);
            }
            Object::SnapshotSink(sink) => {
                sink::check_floor(&sink.spec.common, surroundings, &mut findings);
            }
            Object::DatabaseSink(sink) => {
                sink::check_floor(&sink.spec.common, surroundings, &mut findings);
            }
            Object::EventSink(sink) => {
                sink::check_floor(&sink.spec.common, surroundings, &mut findings);
            }
            Object::Scope(_) | Object::ClusterScope(_) => {
                scope::check_siblings(object, surroundings, &mut findings);
            }
            Object::Profile(profile) => {
                profile::check_scopes(&profile.spec, surroundings, &mut findings);
            }
            Object::ConnectionTest(_) => {}
        }
    }
    findings.into_verdict(object.kind(), object.name())
}

/// Whether an update leaves alone everything the rules judge. Such an update is allowed even when
/// the object would no longer be: otherwise an object stored before a rule was tightened could not
/// even lose a label or a finalizer.
pub fn unchanged(old: &Object, new: &Object) -> bool {
    let annotation = |object: &Object, key: &str| {
        object
            .metadata()
            .annotations
            .as_ref()
            .and_then(|annotations| annotations.get(key))
            .cloned()
    };
    old.same_spec(new)
        && meta::SECURITY_ANNOTATIONS
            .iter()
            .all(|key| annotation(old, key) == annotation(new, key))
}

/// Judges an update: like [`review`], but an update that leaves alone what the rules judge is
/// allowed, with a warning that names what is wrong with the stored object.
pub fn review_update(
    old: &Object,
    new: &Object,
    settings: &Settings,
    surroundings: &Surroundings,
) -> Verdict {
    match review(new, settings, surroundings) {
        Verdict::Denied(denial) if unchanged(old, new) => Verdict::Allowed {
            warnings: vec![format!(
                "allowed because the spec is unchanged, but it is no longer valid: {denial}"
            )],
        },
        verdict => verdict,
    }
}
