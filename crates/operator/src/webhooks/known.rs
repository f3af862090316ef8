//! What the configuration's watches know, for judgements.

use std::collections::BTreeMap;

use kollect_admission::{Found, Knowledge, NotKnown};
use kollect_api::{GroupVersionKind, KollectClusterScope, KollectProfile, KollectScope, SinkKey};

use crate::{
    configuration::Configuration,
    sink_objects::{Lookup, find},
};

/// The configuration as judgements ask about it.
pub struct Known<'k> {
    /// What users configured.
    pub configuration: &'k Configuration,
    /// Whether the kind exists that a profile names; discovery was asked before.
    pub kind: Found<()>,
}

impl Knowledge for Known<'_> {
    fn scopes_in(&self, namespace: &str) -> Result<Vec<KollectScope>, NotKnown> {
        let scopes = &self.configuration.scopes;
        if let Some(unknown) = scopes.unknown_in(namespace) {
            return Err(NotKnown(unknown.why));
        }
        if let Some(why) = self.configuration.unreadable_scopes().remove(namespace) {
            return Err(NotKnown(why));
        }
        let scopes = scopes.in_namespace(namespace).into_iter();
        Ok(scopes.map(|scope| KollectScope::clone(&scope)).collect())
    }

    fn cluster_scopes(&self) -> Result<Vec<KollectClusterScope>, NotKnown> {
        let scopes = &self.configuration.cluster_scopes;
        if let Some(why) = self.configuration.cluster_scopes_unknown() {
            return Err(NotKnown(why));
        }
        if !scopes.is_listed() {
            let why = "kollectclusterscopes.kollect.dev are being listed";
            return Err(NotKnown(why.to_owned()));
        }
        let scopes = scopes.all().into_iter();
        let scopes = scopes.map(|scope| KollectClusterScope::clone(&scope));
        Ok(scopes.collect())
    }

    fn profile(&self, namespace: &str, name: &str) -> Found<KollectProfile> {
        let profiles = &self.configuration.profiles;
        if let Some(profile) = profiles.get(namespace, name) {
            return Found::There(KollectProfile::clone(&profile));
        }
        if let Some(unknown) = profiles.unknown_in(namespace) {
            return Found::NotKnown(NotKnown(unknown.why));
        }
        if !profiles.looks_in(namespace) {
            return Found::NotKnown(elsewhere(namespace));
        }
        match profiles.why_unreadable(namespace, name) {
            Some(why) => Found::NotKnown(NotKnown(why)),
            None => Found::Missing,
        }
    }

    fn annotations_of(&self, namespace: &str) -> Option<BTreeMap<String, String>> {
        let namespace = self.configuration.namespace(namespace)?;
        Some(namespace.metadata.annotations.clone().unwrap_or_default())
    }

    fn sink(&self, sink: &SinkKey) -> Found<()> {
        match find(self.configuration, sink) {
            Lookup::Found(_) => Found::There(()),
            Lookup::Unreadable { why, .. } => Found::NotKnown(NotKnown(why)),
            // Sinks of all families are looked for in the same namespaces.
            Lookup::Missing if !self.configuration.profiles.looks_in(&sink.namespace) => {
                Found::NotKnown(elsewhere(&sink.namespace))
            }
            Lookup::Missing => Found::Missing,
        }
    }

    fn cluster_target(&self, name: &str) -> Found<()> {
        let targets = &self.configuration.cluster_targets;
        match (targets.get("", name), targets.is_listed()) {
            (Some(_), _) => Found::There(()),
            (None, false) => {
                let why = "kollectclustertargets.kollect.dev are not listed";
                Found::NotKnown(NotKnown(why.to_owned()))
            }
            (None, true) => match targets.why_unreadable("", name) {
                Some(why) => Found::NotKnown(NotKnown(why)),
                None => Found::Missing,
            },
        }
    }

    fn kind(&self, _: &GroupVersionKind) -> Found<()> {
        self.kind.clone()
    }
}

fn elsewhere(namespace: &str) -> NotKnown {
    NotKnown(format!(
        "this operator does not look at namespace {namespace:?} (--watch-namespaces)"
    ))
}
