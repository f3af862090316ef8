//! Which profiles put whole objects into the rows of an inventory. The layout of files follows them,
//! and not what some row happens to hold.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use kollect_api::{InventoryScope, KollectClusterTarget, KollectTarget, profile::ExportMode};
use kollect_collect::plan::ProfileFact;
use kollect_sinks::{AttributeTypes, layout::Embedding};

use crate::{configuration::Configuration, table::NamespacedName};

/// The attribute that holds the object when a profile does not say.
const DEFAULT_ATTRIBUTE: &str = "resource";

/// The profiles that targets use.
#[derive(Debug, Default)]
pub struct ProfilesInUse {
    /// Under which attribute each puts whole objects; nothing for one that does not.
    profiles: BTreeMap<NamespacedName, Option<String>>,
    /// The attributes of each, and the words by which it declares their types.
    attributes: BTreeMap<NamespacedName, Vec<(String, Option<String>)>>,
    /// The profiles of the targets of a namespace. Nothing stands for a target that cannot be read.
    targets: BTreeMap<String, Vec<Option<NamespacedName>>>,
    /// The profiles of cluster targets.
    cluster_targets: BTreeMap<String, NamespacedName>,
}

impl ProfilesInUse {
    /// As configured at this moment.
    pub(super) fn of(configuration: &Configuration) -> Self {
        let mut all = Self::new(
            &configuration.profile_facts(),
            &configuration.targets.all(),
            &configuration.cluster_targets.all(),
        );
        for ((namespace, _), _) in configuration.targets.unreadable() {
            all.targets.entry(namespace).or_default().push(None);
        }
        all
    }

    /// As these objects say.
    pub fn new(
        profiles: &BTreeMap<NamespacedName, ProfileFact>,
        targets: &[Arc<KollectTarget>],
        cluster_targets: &[Arc<KollectClusterTarget>],
    ) -> Self {
        let mut all = Self::default();
        for (key, fact) in profiles {
            if let ProfileFact::Found(profile) = fact {
                let export = profile.spec.export.as_ref();
                let whole = export.filter(|export| export.mode == ExportMode::Resource);
                let attribute = whole.map(|export| match export.as_.as_str() {
                    "" => DEFAULT_ATTRIBUTE.to_owned(),
                    name => name.to_owned(),
                });
                let attributes = profile.spec.attributes.iter().map(|attribute| {
                    let word = attribute.type_.as_deref().map(str::trim);
                    let word = word.filter(|word| !word.is_empty()).map(str::to_owned);
                    (attribute.name.clone(), word)
                });
                let whole = attribute.clone().map(|name| (name, None));
                let attributes = attributes.chain(whole).collect();
                all.attributes.insert(key.clone(), attributes);
                all.profiles.insert(key.clone(), attribute);
            }
        }
        for target in targets {
            let namespace = target.metadata.namespace.clone().unwrap_or_default();
            let profile = (namespace.clone(), target.spec.profile_ref.trim().to_owned());
            all.targets
                .entry(namespace)
                .or_default()
                .push(Some(profile));
        }
        for target in cluster_targets {
            let reference = &target.spec.profile_ref;
            let name = reference.name.trim().to_owned();
            let profile = (reference.namespace().to_owned(), name);
            let name = target.metadata.name.clone().unwrap_or_default();
            all.cluster_targets.insert(name, profile);
        }
        all
    }

    /// The profiles behind an inventory; nothing stands for one that cannot be told.
    fn used(
        &self,
        scope: &InventoryScope,
        targets: &BTreeSet<String>,
    ) -> Vec<Option<&NamespacedName>> {
        match scope {
            InventoryScope::Namespace(namespace) => {
                let targets = self.targets.get(namespace).into_iter().flatten();
                targets.map(Option::as_ref).collect()
            }
            InventoryScope::Cluster => {
                let profile = |name| self.cluster_targets.get(name);
                targets.iter().map(profile).collect()
            }
        }
    }

    /// The attributes of the profiles behind an inventory, and their declared types. Those of
    /// profiles that are not known are missing.
    pub fn types(&self, scope: &InventoryScope, targets: &BTreeSet<String>) -> AttributeTypes {
        let mut types = AttributeTypes::new();
        let used = self.used(scope, targets).into_iter().flatten();
        let attributes = used.filter_map(|key| self.attributes.get(key)).flatten();
        for (name, word) in attributes {
            types.entry(name.clone()).or_default().extend(word.clone());
        }
        types
    }

    /// What is known of the profiles behind an inventory: nothing, as long as one of them is not
    /// known, or there is none.
    pub fn embedding(&self, scope: &InventoryScope, targets: &BTreeSet<String>) -> Embedding {
        let used = self.used(scope, targets);
        let attributes: Option<Vec<&Option<String>>> = used
            .into_iter()
            .map(|key| self.profiles.get(key?))
            .collect();
        match attributes {
            Some(attributes) if !attributes.is_empty() => {
                Embedding::Known(attributes.into_iter().flatten().cloned().collect())
            }
            _ => Embedding::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> NamespacedName {
        ("team-a".to_owned(), name.to_owned())
    }

    #[test]
    fn b10_profiles_decide_and_what_is_not_known_decides_nothing() {
        let whole = (key("whole"), Some("object".to_owned()));
        let parts = (key("parts"), None);
        let known = |names: &[&str]| {
            Embedding::Known(names.iter().map(|name| (*name).to_owned()).collect())
        };
        let cases: [(&[Option<&str>], Embedding); 6] = [
            (&[], Embedding::Unknown),
            (&[Some("whole")], known(&["object"])),
            (&[Some("parts")], known(&[])),
            (&[Some("parts"), Some("whole")], known(&["object"])),
            (&[Some("whole"), Some("gone")], Embedding::Unknown),
            (&[Some("parts"), None], Embedding::Unknown),
        ];
        for (targets, expected) in cases {
            let used = targets.iter().map(|name| name.map(key)).collect();
            let names = (0..targets.len()).map(|n| format!("t{n}"));
            let all = ProfilesInUse {
                profiles: [whole.clone(), parts.clone()].into(),
                attributes: BTreeMap::new(),
                targets: BTreeMap::from([("team-a".to_owned(), used)]),
                cluster_targets: names
                    .clone()
                    .zip(targets.iter())
                    .filter_map(|(target, name)| Some((target, key((*name)?))))
                    .collect(),
            };
            let scope = InventoryScope::Namespace("team-a".to_owned());
            assert_eq!(
                all.embedding(&scope, &BTreeSet::new()),
                expected,
                "{targets:?}"
            );
            let rolled_up = all.embedding(&InventoryScope::Cluster, &names.collect());
            assert_eq!(rolled_up, expected, "{targets:?}");
        }
    }
}
