//! Sensitive objects of other namespaces are collected where an administrator allows it.

use std::sync::Arc;

use kollect_api::{
    KollectProfile,
    condition::Reason,
    rules::{self, SecretExtraction, SensitiveGrants},
};

use super::{Drafting, Ended, hold};
use crate::plan::ask::Ask;
use crate::plan::target::TargetNamespaces;
use crate::plan::world::Readable;

impl<'w> Drafting<'w> {
    /// Takes out namespaces whose sensitive objects no administrator allowed to collect. Returns
    /// whether there were any.
    pub(super) fn narrow_sensitive(
        &self,
        ask: &Ask<'w>,
        profile: &KollectProfile,
        namespaces: &mut TargetNamespaces,
    ) -> Result<bool, Ended> {
        let foreign = |name: &Arc<str>| **name != *ask.namespace;
        if !self.needs_grants(ask, profile) || !namespaces.effective.iter().any(foreign) {
            return Ok(false);
        }
        let grants = match self.grants(ask) {
            Ok(grants) => grants,
            Err(error) => {
                // What is permitted is not known: nothing may be opened.
                let why = format!("list KollectClusterScope: {error}");
                return hold(Reason::ScopeLookupFailed, why);
            }
        };
        let all = std::mem::take(&mut namespaces.effective);
        let (effective, unpermitted) = all
            .iter()
            .cloned()
            .partition::<Vec<_>, _>(|name| self.permits(&grants, name));
        namespaces.effective = effective.into();
        namespaces.unpermitted = unpermitted.into();
        Ok(!namespaces.unpermitted.is_empty())
    }

    /// Whether a target collects from other namespaces only what an administrator allows.
    pub(super) fn needs_grants(&self, ask: &Ask<'_>, profile: &KollectProfile) -> bool {
        !ask.is_cluster_target()
            && self.world.settings.secret_extraction == SecretExtraction::Granted
            && rules::shows_sensitive(profile)
    }

    /// What administrators allow the targets of a namespace, or why that is not known.
    pub(super) fn grants(&self, ask: &Ask<'w>) -> Result<SensitiveGrants<'w>, &'w str> {
        match &self.world.cluster_scopes {
            Readable::Read(scopes) => {
                let scopes = scopes.iter().map(AsRef::as_ref);
                Ok(SensitiveGrants::new(ask.namespace, scopes))
            }
            Readable::Failed(error) => Err(error),
        }
    }

    pub(super) fn permits(&self, grants: &SensitiveGrants<'_>, namespace: &str) -> bool {
        let facts = self.universe.get(namespace);
        facts.is_some_and(|facts| grants.permit(namespace, &facts.annotations))
    }
}
