//! Whether an author may read what he lets the operator collect.
//!
//! What a target collects is what its profile names, in the namespaces it asks for. A profile
//! collects nothing by itself; it is asked about for all targets that use it.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kollect_admission::{
    authorship::{Claim, Finding, Mode, Places, Right},
    review::User,
};
use kollect_api::{
    GroupVersionKind, KollectClusterTarget, KollectTarget,
    rules::{self, Object},
    selector::LabelSelector,
};
use kollect_collect::plan::{self, NamespaceIntent, NamespaceListing, Universe};
use kollect_watch::discovery;
use kube::{Api, Client, api::PostParams};
use sha2::{Digest as _, Sha256};

use super::kinds::Kinds;
use crate::{api_error::Sentence, configuration::Configuration, listeners::guard::Cache};

/// For how long an answer holds: whoever was just given a right is not told for long that he lacks
/// it, and a stream of changes by one author is one question.
const HOLDS: Duration = Duration::from_secs(10);
/// How many answers are kept.
const CAPACITY: usize = 4096;

/// Asks the API server about authors.
pub struct Authors {
    client: Client,
    mode: Mode,
    kinds: Arc<Kinds>,
    plan: plan::Settings,
    answers: Mutex<Cache<bool>>,
}

/// What is not known about a claim.
struct NotKnown(String);

impl Authors {
    /// Asks through `client`, which must be allowed to create access reviews.
    pub fn new(client: Client, mode: Mode, plan: plan::Settings) -> Self {
        Self {
            kinds: Arc::new(Kinds::new(client.clone())),
            client,
            mode,
            plan,
            answers: Mutex::new(Cache::new(CAPACITY)),
        }
    }

    /// What is done about what is found.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    pub(super) fn kinds(&self) -> &Arc<Kinds> {
        &self.kinds
    }

    /// Whether `user` may read what the object would have collected.
    pub async fn ask(
        &self,
        object: &Object,
        user: &User,
        configuration: &Configuration,
    ) -> Finding {
        let wanted = match wanted(object, configuration, &self.plan) {
            Ok(Some(wanted)) => wanted,
            Ok(None) => return Finding::Permitted,
            Err(NotKnown(why)) => return Finding::NotKnown(why),
        };
        let claim = match self.kinds.resolve(&wanted.0).await {
            discovery::Answer::Installed(served) => {
                let resource = &served.resource;
                Claim {
                    group: resource.group.clone(),
                    plural: resource.plural.clone(),
                    places: if resource.namespaced {
                        wanted.1
                    } else {
                        Places::Everywhere
                    },
                }
            }
            // Nothing is there to be read; when that changes, the plan asks what we may read.
            discovery::Answer::NotInstalled(_) => return Finding::Permitted,
            discovery::Answer::Unreachable(why) => return Finding::NotKnown(why),
        };
        self.review(&claim, user).await
    }

    async fn review(&self, claim: &Claim, user: &User) -> Finding {
        let whole = claim.whole();
        match self.allows(&whole, user).await {
            Ok(true) => return Finding::Permitted,
            Ok(false) => {}
            Err(why) => return Finding::NotKnown(why),
        }
        let Some(parts) = claim.parts() else {
            return Finding::Lacking(whole);
        };
        for part in parts {
            match self.allows(&part, user).await {
                Ok(true) => {}
                Ok(false) => return Finding::Lacking(part),
                Err(why) => return Finding::NotKnown(why),
            }
        }
        Finding::Permitted
    }

    async fn allows(&self, right: &Right, user: &User) -> Result<bool, String> {
        let spec = question(right, user);
        let bytes = serde_json::to_vec(&spec).unwrap_or_default();
        let key = Sha256::digest(bytes).into();
        let lock = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key, Instant::now()) {
            return Ok(known);
        }
        let review = SubjectAccessReview {
            spec,
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let answer = api.create(&PostParams::default(), &review).await;
        let answer = answer.map_err(|error| {
            format!(
                "a SubjectAccessReview failed: {}; grant the operator create on \
                 subjectaccessreviews.authorization.k8s.io, or choose --target-authorization=off",
                Sentence(&error)
            )
        })?;
        let allowed = answer.status.is_some_and(|status| status.allowed);
        lock().put(key, allowed, Instant::now(), HOLDS);
        Ok(allowed)
    }
}

fn question(right: &Right, user: &User) -> SubjectAccessReviewSpec {
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    SubjectAccessReviewSpec {
        user: given(&user.username),
        uid: given(&user.uid),
        groups: Some(user.groups.clone()),
        extra: Some(user.extra.clone()),
        resource_attributes: Some(ResourceAttributes {
            group: Some(right.group.clone()),
            resource: Some(right.plural.clone()),
            namespace: right.namespace.clone(),
            verb: Some("list".to_owned()),
            ..ResourceAttributes::default()
        }),
        ..SubjectAccessReviewSpec::default()
    }
}

/// What would be collected because of an object: nothing, or one kind in some places.
fn wanted(
    object: &Object,
    configuration: &Configuration,
    settings: &plan::Settings,
) -> Result<Option<(GroupVersionKind, Places)>, NotKnown> {
    let targets: Vec<Ask<'_>>;
    let (namespaced, cluster);
    let kind = match object {
        Object::Target(target) => {
            targets = vec![Ask::of_target(target)];
            kind_of(object, configuration)
        }
        Object::ClusterTarget(target) => {
            targets = vec![Ask::of_cluster_target(target)];
            kind_of(object, configuration)
        }
        Object::Profile(profile) => {
            let (namespace, name) = (object.namespace(), object.name());
            namespaced = configuration.targets.in_namespace(namespace);
            cluster = configuration.cluster_targets.all();
            let own = namespaced
                .iter()
                .filter(|target| target.spec.profile_ref.trim() == name)
                .map(|target| Ask::of_target(target));
            let platform = cluster.iter().filter(|target| {
                let reference = &target.spec.profile_ref;
                reference.name.trim() == name && reference.namespace() == namespace
            });
            let platform = platform.map(|target| Ask::of_cluster_target(target));
            targets = own.chain(platform).collect();
            Some(profile.spec.target_gvk.clone())
        }
        _ => return Ok(None),
    };
    let Some(kind) = kind.filter(|_| !targets.is_empty()) else {
        return Ok(None);
    };
    let listing = configuration.namespace_listing();
    let mut all = BTreeSet::new();
    for target in &targets {
        match target.places(&listing, settings, configuration)? {
            Places::Everywhere => return Ok(Some((kind, Places::Everywhere))),
            Places::In(namespaces) => all.extend(namespaces),
        }
    }
    Ok(Some((kind, Places::In(all.into_iter().collect()))))
}

/// The kind that a target collects. Without a profile it collects nothing; whoever writes that
/// later is asked.
fn kind_of(object: &Object, configuration: &Configuration) -> Option<GroupVersionKind> {
    let (namespace, name) = rules::needs(object).profile?;
    let profile = configuration.profiles.get(&namespace, &name)?;
    Some(profile.spec.target_gvk.clone())
}

/// The namespaces that a target of either kind asks for.
struct Ask<'t> {
    /// Empty for cluster targets.
    namespace: &'t str,
    included: &'t [String],
    excluded: &'t [String],
    selector: Option<&'t LabelSelector>,
    exclude: Option<&'t LabelSelector>,
}

impl<'t> Ask<'t> {
    fn of_target(target: &'t KollectTarget) -> Self {
        let spec = &target.spec;
        Self {
            namespace: target.metadata.namespace.as_deref().unwrap_or_default(),
            included: &spec.included_namespaces,
            excluded: &spec.excluded_namespaces,
            selector: spec.namespace_selector.as_ref(),
            exclude: spec.namespace_exclude_selector.as_ref(),
        }
    }

    fn of_cluster_target(target: &'t KollectClusterTarget) -> Self {
        let spec = &target.spec;
        Self {
            namespace: "",
            included: &spec.included_namespaces,
            excluded: &spec.excluded_namespaces,
            selector: spec.namespace_selector.as_ref(),
            exclude: spec.namespace_exclude_selector.as_ref(),
        }
    }

    fn places(
        &self,
        listing: &NamespaceListing,
        settings: &plan::Settings,
        configuration: &Configuration,
    ) -> Result<Places, NotKnown> {
        let named = || {
            let own = self.included.iter();
            let own = own.map(|name| name.trim()).filter(|name| !name.is_empty());
            own.map(str::to_owned)
        };
        let open = named().next().is_none() && self.selector.is_none();
        let scopes = match self.namespace {
            "" => Vec::new(),
            namespace => configuration.scopes.in_namespace(namespace),
        };
        let limited = !settings.default_included_namespaces.is_empty()
            || !settings.watch_namespaces.is_empty()
            || scopes
                .iter()
                .any(|scope| !scope.ceiling().allowed_namespaces.is_empty());
        // Whoever needs a scope and has none collects at home only.
        if settings.require_scope && scopes.is_empty() && !self.namespace.is_empty() {
            return Ok(Places::In(vec![self.namespace.to_owned()]));
        }
        if open && !limited {
            return Ok(Places::Everywhere);
        }
        if !listing.is_known() {
            return Err(NotKnown("namespaces are not listed yet".to_owned()));
        }
        let intent = NamespaceIntent::new(
            self.included,
            self.excluded,
            self.selector,
            self.exclude,
            settings,
        );
        let Ok(intent) = intent else {
            // The rules refuse it, or its status does; nothing is collected.
            return Ok(Places::In(Vec::new()));
        };
        let universe = Universe::new(listing, settings);
        let permitted = |name: &str| {
            let mut scopes = scopes.iter();
            scopes.all(|scope| rules::outside_namespaces(&scope.ceiling(), name).is_none())
        };
        let matching = universe
            .iter()
            .filter(|(name, facts)| intent.matches(name, facts) && permitted(name))
            .map(|(name, _)| name.to_string());
        // Those that are named and do not exist yet are collected from as soon as they do.
        let to_come = named().filter(|name| universe.get(name).is_none() && permitted(name));
        Ok(Places::In(matching.chain(to_come).collect()))
    }
}
