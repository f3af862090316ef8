//! From one target to what it may collect, before access is looked at.
//!
//! The checks run in a fixed order and the first that fails gives the reason, so that a target
//! always shows the same one. There are three ways to fail:
//!
//! * **for good** ([`Course::Stop`]): the target is suspended, its profile does not exist, a scope
//!   forbids it, its kind is not installed. Collection ends and the rows go; that is the answer to
//!   the question which rows there are.
//! * **for the moment**: something could not be read. Nothing is decided, so nothing changes: what
//!   was collected goes on, within the scopes; what was not, waits ([`Course::Wait`]).
//! * **broken**: a selector or policy means nothing. Admission refuses such a target, so it got
//!   past it or became broken by an upgrade. Deleting everybody's rows for that would be worse
//!   than keeping the last selection that worked, so it is treated like a failure to read, but
//!   shown as degraded.

mod sensitive;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use kollect_api::{GroupVersionKind, KollectProfile, KollectScope, condition::Reason, meta};
use kollect_watch::Resource;

use super::ask::Ask;
use super::ceilings::Ceilings;
use super::checks;
use super::collection::{Collection, Extraction, Reach};
use super::degraded::Degradation;
use super::discovery::KindFact;
use super::namespaces::{NamespaceIntent, NamespaceListing, Universe, names};
use super::places::{Places, reach};
use super::target::{Course, Names, TargetNamespaces, TargetPlan, TargetState};
use super::world::{ProfileFact, Readable, World};
use crate::extract::Extractor;
use crate::gates::{NamespaceGate, Selection, SelectionError, Sight};

/// What all drafts of one plan share.
pub(super) struct Drafting<'w> {
    world: &'w World,
    universe: &'w Universe,
    places: Places<'w>,
    scopes: BTreeMap<&'w str, Vec<&'w KollectScope>>,
    /// One per profile, so that targets with the same profile share it.
    extractions: BTreeMap<(String, String), Arc<Extraction>>,
}

/// A target's plan as far as it goes without access, and the kind that has to be looked up.
pub(super) struct Draft {
    pub(super) plan: TargetPlan,
    pub(super) unknown_kind: Option<GroupVersionKind>,
    /// Nothing was missing, and nothing of the plan before counted: the same inputs give the same
    /// plan.
    pub(super) definite: bool,
}

/// What is said of a target whose plan could not be made in an unexpected way.
const PANICKED: &str = "planning it panicked; see the operator's log";

/// Why a draft ends before a collection is found.
pub(super) enum Ended {
    /// For good.
    Stop(Degradation),
    /// For the moment, or because the target is broken: what was collected goes on.
    Hold(TargetState),
    /// It may not go on, but what was collected stays.
    Freeze(Degradation),
    /// For the moment: discovery has not been asked about the kind.
    UnknownKind(GroupVersionKind),
}

pub(super) fn stop<T>(reason: Reason, message: impl Into<String>) -> Result<T, Ended> {
    Err(Ended::Stop(Degradation::new(reason, message)))
}

pub(super) fn hold<T>(reason: Reason, message: impl Into<String>) -> Result<T, Ended> {
    let degradation = Degradation::new(reason, message);
    Err(Ended::Hold(TargetState::Degraded(degradation)))
}

impl<'w> Drafting<'w> {
    pub(super) fn new(
        world: &'w World,
        universe: &'w Universe,
        known: impl Iterator<Item = Arc<Extraction>>,
    ) -> Self {
        let mut scopes: BTreeMap<&str, Vec<&KollectScope>> = BTreeMap::new();
        if let Readable::Read(all) = &world.scopes {
            for scope in all {
                let namespace = scope.metadata.namespace.as_deref().unwrap_or_default();
                scopes.entry(namespace).or_default().push(scope);
            }
        }
        Drafting {
            world,
            universe,
            places: Places::default(),
            scopes,
            extractions: known
                .map(|extraction| (profile_key(&extraction.profile), extraction))
                .collect(),
        }
    }

    /// Drafts the plan of one target.
    pub(super) fn draft(&mut self, ask: &Ask<'w>, previous: Option<&TargetPlan>) -> Draft {
        let mut namespaces = TargetNamespaces::default();
        let ceilings = self.ceilings(ask);
        let found = match (&self.world.namespaces, &ceilings) {
            (NamespaceListing::Unread, _) => Err(Ended::Hold(TargetState::Undecided(
                "namespaces have not been listed yet".to_owned(),
            ))),
            // Suspension and a missing profile do not depend on namespaces or scopes.
            (NamespaceListing::Unreadable(why), _) => self.profile(ask).and_then(|_| {
                hold(
                    Reason::NamespaceLookupFailed,
                    format!("it is not known which namespaces there are: {why}"),
                )
            }),
            // One target that finds a flaw of ours must not keep all others from being planned.
            (_, Ok(ceilings)) => catch_unwind(AssertUnwindSafe(|| {
                self.collection(ask, ceilings, previous, &mut namespaces)
            }))
            .unwrap_or_else(|_| Err(Ended::Hold(TargetState::Undecided(PANICKED.to_owned())))),
            (_, Err(error)) => self
                .profile(ask)
                .and_then(|_| hold(Reason::ScopeLookupFailed, error)),
        };
        let mut unknown_kind = None;
        let definite = matches!(found, Ok(_) | Err(Ended::Stop(_)));
        let held =
            |namespaces: &mut _| self.hold(ask, ceilings.as_ref().ok(), previous, namespaces);
        let (state, course) = match found {
            Ok((collection, mismatch)) => {
                let state = mismatch.map_or(TargetState::Collecting, TargetState::Degraded);
                (state, Course::Collect(Arc::new(collection)))
            }
            Err(Ended::Stop(degradation)) => {
                namespaces.effective = Names::default();
                (TargetState::Degraded(degradation), Course::Stop)
            }
            Err(Ended::Hold(state)) => (state, held(&mut namespaces)),
            Err(Ended::Freeze(degradation)) => {
                let course = match held(&mut namespaces) {
                    Course::Collect(collection) => Course::Collect(Arc::new(collection.freeze())),
                    // One that never had a row has none to keep.
                    Course::Wait if !ask.has_collected => Course::Stop,
                    course => course,
                };
                (TargetState::Degraded(degradation), course)
            }
            Err(Ended::UnknownKind(gvk)) => {
                let state = TargetState::Undecided(format!("kind {gvk} is being looked up"));
                unknown_kind = Some(gvk);
                (state, held(&mut namespaces))
            }
        };
        Draft {
            plan: TargetPlan {
                key: ask.key.clone(),
                active_rules: match &course {
                    Course::Collect(collection) => collection.selection.rules(),
                    Course::Stop | Course::Wait => 0,
                },
                state,
                course,
                namespaces,
                awaiting: BTreeSet::new(),
            },
            unknown_kind,
            definite,
        }
    }

    fn ceilings(&self, ask: &Ask<'w>) -> Result<Ceilings<'w>, String> {
        if ask.is_cluster_target() {
            return match &self.world.cluster_scopes {
                Readable::Read(scopes) => Ok(Ceilings::new(scopes.iter().map(|s| s.ceiling()))),
                Readable::Failed(error) => Err(format!("list KollectClusterScope: {error}")),
            };
        }
        let namespace = &*ask.key.namespace;
        if let Some(why) = self.world.unreadable_scopes.get(namespace) {
            // What they forbid is not known: nothing may be opened.
            return Err(why.clone());
        }
        match &self.world.scopes {
            Readable::Read(_) => match self.scopes.get(namespace) {
                None if self.world.settings.require_scope => Ok(Ceilings::unscoped(ask.namespace)),
                scopes => {
                    let scopes = scopes.into_iter().flatten();
                    Ok(Ceilings::new(scopes.map(|scope| scope.ceiling())))
                }
            },
            Readable::Failed(error) => Err(format!(
                "list KollectScope in namespace {namespace:?}: {error}"
            )),
        }
    }

    fn profile(&self, ask: &Ask<'_>) -> Result<&'w Arc<KollectProfile>, Ended> {
        use Reason::{
            MissingProfileRef, ProfileForbidden, ProfileLookupFailed, ProfileNotFound, Suspended,
        };
        if ask.suspend {
            return stop(
                Suspended,
                "spec.suspend is true; rows removed from inventories",
            );
        }
        let (namespace, name) = (ask.profile_namespace, ask.profile_name);
        if name.is_empty() {
            return stop(MissingProfileRef, "spec.profileRef is required");
        }
        let key = (namespace.to_owned(), name.to_owned());
        match self.world.profiles.get(&key) {
            Some(ProfileFact::Found(profile)) => Ok(profile),
            Some(ProfileFact::Forbidden) => hold(
                ProfileForbidden,
                format!(
                    "KollectProfile {name:?} in namespace {namespace:?} may not be read by the operator; grant it get on kollectprofiles there"
                ),
            ),
            Some(ProfileFact::Failed(error)) => hold(
                ProfileLookupFailed,
                format!("read KollectProfile {name:?} in namespace {namespace:?}: {error}"),
            ),
            None => match self.world.unread_profiles(namespace) {
                // Whether it exists is not known.
                Some(error) => hold(
                    if self.world.forbidden_profiles(namespace) {
                        ProfileForbidden
                    } else {
                        ProfileLookupFailed
                    },
                    format!("read KollectProfile {name:?} in namespace {namespace:?}: {error}"),
                ),
                None => stop(
                    ProfileNotFound,
                    format!("KollectProfile {name:?} not found in namespace {namespace:?}"),
                ),
            },
        }
    }

    fn collection(
        &mut self,
        ask: &Ask<'w>,
        ceilings: &Ceilings<'_>,
        previous: Option<&TargetPlan>,
        namespaces: &mut TargetNamespaces,
    ) -> Result<(Collection, Option<Degradation>), Ended> {
        let profile = self.profile(ask)?;
        let gvk = &profile.spec.target_gvk;
        checks::scopes(ask, ceilings, profile)?;
        if let Some(excess) = self.world.over_quota.get(&ask.key) {
            let degradation = Degradation::new(Reason::QuotaExceeded, &*excess.message);
            return Err(if excess.keeps {
                Ended::Freeze(degradation)
            } else {
                Ended::Stop(degradation)
            });
        }
        let settings = &self.world.settings;
        let intent = NamespaceIntent::new(
            ask.included,
            ask.excluded,
            ask.selector,
            ask.exclude,
            settings,
        );
        let governed = self.scopes.contains_key(ask.namespace) || ceilings.is_unscoped();
        if let Ok(intent) = &intent {
            let places = &mut self.places;
            *namespaces = places.namespaces(ask, governed, intent, ceilings, self.universe);
            namespaces.unserved = checks::unserved(ask, settings);
        }
        let mismatch = checks::resource_rules(ask, gvk)?;
        let resource = self.resource(gvk)?;
        if !resource.namespaced {
            checks::served(gvk, settings)?;
            if let Some(message) = ceilings.refuses_cluster_scoped(gvk) {
                return stop(ceilings.cluster_scoped_reason(), message);
            }
            *namespaces = TargetNamespaces::default();
        }
        let broken = Reason::InformerRegistrationFailed;
        let intent = intent.or_else(|error| hold(broken, error.to_string()))?;
        if resource.namespaced
            && let Some(name) = intent.undecided(self.universe)
        {
            return hold(
                Reason::NamespaceLookupFailed,
                format!(
                    "the target selects namespaces by their labels, and those of namespace {name:?} cannot be read; grant the operator get, list and watch on namespaces, or name them in spec.includedNamespaces"
                ),
            );
        }
        if resource.namespaced
            && let Some(what) = checks::asks_of_namespaces(ask, settings)
            && let Some(name) = self.universe.first_unlabelled(&namespaces.effective)
        {
            return hold(
                Reason::NamespaceLookupFailed,
                format!(
                    "{what}, and those of namespace {name:?} cannot be read; grant the operator get, list and watch on namespaces"
                ),
            );
        }
        let narrowed = self.narrow_sensitive(ask, profile, namespaces)?;
        let mismatch = mismatch
            .or_else(|| checks::unpermitted(ask, namespaces))
            .or_else(|| checks::unscoped(ask, ceilings, namespaces));
        let extraction = self.extraction(profile);
        let sight = Sight {
            secrets_permitted: profile.permits(meta::ALLOW_SECRET_EXTRACTION_ANNOTATION),
            keys: Arc::clone(extraction.extractor.scrub_keys()),
        };
        let selection = selection(ask, gvk, sight, previous)
            .or_else(|error| hold(broken, error.to_string()))?;
        // Last of all: what is known by a better name above is called by it.
        if let Some(invalid) = ask.object.invalid() {
            return hold(Reason::InvalidSpec, invalid);
        }
        let reach = if narrowed {
            Arc::new(reach(&selection, &namespaces.effective, self.universe))
        } else if resource.namespaced {
            let places = &mut self.places;
            places.reach(ask, governed, &selection, namespaces, self.universe)
        } else {
            cluster_scoped()
        };
        let collection = Collection {
            resource,
            extraction,
            selection,
            wanted: Arc::clone(&reach),
            reach,
            frozen: false,
            requested_at: ask.requested_at.map(Into::into),
        };
        Ok((collection, mismatch))
    }

    fn resource(&self, gvk: &GroupVersionKind) -> Result<Arc<Resource>, Ended> {
        match self.world.kinds.get(gvk) {
            Some(KindFact::Served(resource)) => Ok(Arc::clone(resource)),
            Some(KindFact::NotInstalled) => stop(
                Reason::KindNotInstalled,
                format!(
                    "kind {gvk} is not installed in this cluster; collection starts by itself once it is"
                ),
            ),
            Some(KindFact::Failed(error)) => hold(
                Reason::InformerRegistrationFailed,
                format!("look up kind {gvk}: {error}"),
            ),
            None => Err(Ended::UnknownKind(gvk.clone())),
        }
    }

    fn extraction(&mut self, profile: &Arc<KollectProfile>) -> Arc<Extraction> {
        let key = profile_key(profile);
        if let Some(known) = self.extractions.get(&key)
            && known.is_of(profile)
        {
            return Arc::clone(known);
        }
        let extraction = Arc::new(Extraction {
            profile: Arc::clone(profile),
            extractor: Extractor::new(profile, &self.world.extraction),
        });
        self.extractions.insert(key, Arc::clone(&extraction));
        extraction
    }

    /// What was collected before, as far as scopes and exclusions still permit it.
    fn hold(
        &self,
        ask: &Ask<'w>,
        ceilings: Option<&Ceilings<'_>>,
        previous: Option<&TargetPlan>,
        namespaces: &mut TargetNamespaces,
    ) -> Course {
        let Some((plan, held)) = previous.and_then(|plan| Some((plan, plan.collection()?))) else {
            namespaces.effective = Names::default();
            return Course::Wait;
        };
        if !self.world.namespaces.is_known() {
            namespaces.clone_from(&plan.namespaces.regardless_of_access());
            return Course::Collect(held.regardless_of_access());
        }
        let gvk = held.extraction.gvk();
        let profile = &held.extraction.profile;
        let refused = ceilings.is_some_and(|ceilings| {
            ceilings.refuses_kind(gvk).is_some()
                || (!held.resource.namespaced && ceilings.refuses_cluster_scoped(gvk).is_some())
        });
        if refused {
            namespaces.effective = Names::default();
            return Course::Stop;
        }
        let excluded = |name: &str| {
            let default = &self.world.settings.default_excluded_namespaces;
            names(ask.excluded)
                .chain(names(default))
                .any(|excluded| excluded == name)
        };
        let grants = self.needs_grants(ask, profile).then(|| self.grants(ask));
        let unpermitted = |name: &str| match &grants {
            Some(Ok(grants)) => !self.permits(grants, name),
            Some(Err(_)) | None => false,
        };
        let mut collection = Collection::clone(held);
        if held.resource.namespaced {
            let effective = plan.namespaces.effective.iter().filter(|name| {
                self.universe.get(name).is_some()
                    && ceilings.is_none_or(|ceilings| ceilings.permits(name))
                    && !excluded(name)
                    && !unpermitted(name)
            });
            namespaces.effective = effective.cloned().collect();
            namespaces.matched.clone_from(&plan.namespaces.matched);
            let reach = reach(&held.selection, &namespaces.effective, self.universe);
            collection.wanted = Arc::new(reach);
        } else {
            collection.wanted = cluster_scoped();
        }
        collection.reach = Arc::clone(&collection.wanted);
        // Whole objects that may not leave do not leave because something else is not known.
        let whole = ceilings.and_then(|ceilings| ceilings.refuses_whole_objects(&profile.spec));
        if held.frozen || (whole.is_some() && !ask.is_cluster_target()) {
            collection = collection.freeze();
        }
        Course::Collect(Arc::new(collection))
    }
}

fn cluster_scoped() -> Arc<Reach> {
    Arc::new(Reach::from([("".into(), NamespaceGate::CLUSTER_SCOPED)]))
}

fn profile_key(profile: &KollectProfile) -> (String, String) {
    let metadata = &profile.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

/// The compiled selection; the one of the previous plan if nothing about it changed.
fn selection(
    ask: &Ask<'_>,
    gvk: &GroupVersionKind,
    sight: Sight,
    previous: Option<&TargetPlan>,
) -> Result<Arc<Selection>, SelectionError> {
    if let Some(known) = previous.and_then(TargetPlan::collection)
        && known.selection.is_of(&ask.selection, gvk, &sight)
    {
        return Ok(Arc::clone(&known.selection));
    }
    Selection::compile_with(ask.selection.clone(), gvk, sight).map(Arc::new)
}
