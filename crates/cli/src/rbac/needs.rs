//! What manifests lead to: which resources are read where, and which Secrets. Pure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, bail};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kollect_api::{
    GroupVersionKind,
    rights::{self, Feature, guess_plural, merged, resource_of},
    rules::Object,
    sink::SinkSpec,
};
use kollect_operator::secrets::WATCHED;
use kollect_sinks::credentials;
use serde_json::Value;

use super::{Extra, roles::Names};
use crate::manifest::Document;

/// How the operator runs.
#[derive(Debug, Default)]
pub(super) struct Mode {
    /// With namespaced rights only.
    pub(super) tenant: bool,
    /// In these namespaces only.
    pub(super) watched: Vec<String>,
    /// Where it lives.
    pub(super) home: String,
    /// What it does beside collecting.
    pub(super) with: Vec<Extra>,
    /// Without what it needs itself.
    pub(super) only_collected: bool,
}

/// Rules by where they have to hold.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Needs {
    /// The operator's own, in the whole cluster.
    pub(super) cluster: Vec<PolicyRule>,
    /// The operator's own, by namespace.
    pub(super) namespaced: BTreeMap<String, Vec<PolicyRule>>,
    /// The operator's own, where it lives.
    pub(super) home: (String, Vec<PolicyRule>),
    /// What is collected in the whole cluster.
    pub(super) collected: Vec<PolicyRule>,
    /// What is collected, and the Secrets of sinks, by namespace.
    pub(super) collected_in: BTreeMap<String, Vec<PolicyRule>>,
    /// What whoever applies it should know.
    pub(super) remarks: Vec<String>,
}

/// CustomResourceDefinitions among the manifests: names of kinds, and whether they are in namespaces.
#[derive(Debug, Default)]
pub(super) struct Definitions(BTreeMap<(String, String), (String, bool)>);

impl Definitions {
    pub(super) fn of(documents: impl IntoIterator<Item = Document>) -> Self {
        let definitions = documents
            .into_iter()
            .filter(|document| document.text("/kind") == "CustomResourceDefinition");
        let entry = |document: Document| {
            let text = |pointer: &str| {
                let value = document.value.pointer(pointer).and_then(Value::as_str);
                value.map(str::to_owned)
            };
            let kind = (text("/spec/group")?, text("/spec/names/kind")?);
            let namespaced = text("/spec/scope")? == "Namespaced";
            Some((kind, (text("/spec/names/plural")?, namespaced)))
        };
        Self(definitions.filter_map(entry).collect())
    }

    /// How a kind is called in roles, whether it is in namespaces, and whether that is certain.
    fn resource(&self, kind: &GroupVersionKind) -> (String, bool, bool) {
        if let Some(known) = resource_of(&kind.group, &kind.kind) {
            return (known.resource.to_owned(), known.namespaced, true);
        }
        match self.0.get(&(kind.group.clone(), kind.kind.clone())) {
            Some((plural, namespaced)) => (plural.clone(), *namespaced, true),
            None => (guess_plural(&kind.kind), true, false),
        }
    }
}

/// A right to read: group, resource.
type Readable = (String, String);

#[derive(Debug, Default)]
struct Reads {
    everywhere: BTreeSet<Readable>,
    within: BTreeMap<String, BTreeSet<Readable>>,
}

impl Needs {
    /// What these objects need.
    pub(super) fn of(
        objects: &[Object],
        definitions: &Definitions,
        mode: &Mode,
        names: &Names,
    ) -> Result<Self> {
        let mut needs = Self::default();
        let mut reads = needs.reads(objects, definitions, mode)?;
        if !mode.only_collected {
            needs.own(mode, names);
        }
        // Granted once is enough.
        let own = |rules: &[PolicyRule], (group, resource): &Readable| {
            rules.iter().any(|rule| {
                let has = |list: &Option<Vec<String>>, item: &String| {
                    list.iter().flatten().any(|one| one == item)
                };
                has(&rule.api_groups, group)
                    && has(&rule.resources, resource)
                    && ["list", "watch"]
                        .iter()
                        .all(|verb| rule.verbs.iter().any(|v| v == verb))
            })
        };
        reads.everywhere.retain(|one| !own(&needs.cluster, one));
        let everywhere = reads.everywhere.clone();
        for within in reads.within.values_mut() {
            within.retain(|one| !everywhere.contains(one) && !own(&needs.cluster, one));
        }
        let rules = |all: &BTreeSet<Readable>| {
            let rules = all
                .iter()
                .map(|(group, resource)| rights::collected(group, &[resource.as_str()]));
            merged(rules)
        };
        needs.collected = rules(&reads.everywhere);
        for (namespace, within) in &reads.within {
            if !within.is_empty() {
                needs.collected_in.insert(namespace.clone(), rules(within));
            }
        }
        needs.secrets(objects, &reads);
        Ok(needs)
    }

    /// Whether there is nothing to collect.
    pub(super) fn is_empty(&self) -> bool {
        self.collected.is_empty() && self.collected_in.is_empty()
    }

    /// What targets read.
    fn reads(
        &mut self,
        objects: &[Object],
        definitions: &Definitions,
        mode: &Mode,
    ) -> Result<Reads> {
        let mut reads = Reads::default();
        let mut guessed = BTreeSet::new();
        for object in objects {
            let (profile, included, excluded) = match object {
                Object::Target(target) => {
                    let spec = &target.spec;
                    let profile = (object.namespace().to_owned(), spec.profile_ref.clone());
                    (
                        profile,
                        &spec.included_namespaces,
                        &spec.excluded_namespaces,
                    )
                }
                Object::ClusterTarget(target) => {
                    if mode.tenant {
                        bail!(
                            "KollectClusterTarget {:?}: cluster kinds are not served with --tenant-mode; use a KollectTarget",
                            object.name()
                        );
                    }
                    let spec = &target.spec;
                    let reference = &spec.profile_ref;
                    let namespace = reference.namespace.clone().unwrap_or_default();
                    let profile = (namespace, reference.name.clone());
                    (
                        profile,
                        &spec.included_namespaces,
                        &spec.excluded_namespaces,
                    )
                }
                _ => continue,
            };
            let found = objects.iter().find_map(|one| match one {
                Object::Profile(found)
                    if (one.namespace(), one.name()) == (&*profile.0, &*profile.1) =>
                {
                    Some(found)
                }
                _ => None,
            });
            // Targets without their profile have been refused before.
            let Some(found) = found else { continue };
            let gvk = &found.spec.target_gvk;
            let (resource, namespaced, certain) = definitions.resource(gvk);
            let group = if gvk.group == "core" { "" } else { &gvk.group };
            if !certain {
                guessed.insert(format!("{resource}.{group} for {gvk}"));
            }
            let readable = (group.to_owned(), resource);
            if !namespaced {
                if mode.tenant {
                    bail!(
                        "{} {:?}: {gvk} is in no namespace, so an operator with --tenant-mode cannot collect it",
                        object.kind(),
                        object.name()
                    );
                }
                reads.everywhere.insert(readable);
                continue;
            }
            let named = included
                .iter()
                .map(|name| name.trim())
                .filter(|name| !name.is_empty());
            let mut places: BTreeSet<&str> = named.collect();
            let watched: BTreeSet<&str> = mode.watched.iter().map(String::as_str).collect();
            if places.is_empty() {
                places.clone_from(&watched);
            } else if !watched.is_empty() {
                places = places.intersection(&watched).copied().collect();
            }
            if places.is_empty() && watched.is_empty() {
                reads.everywhere.insert(readable);
                continue;
            }
            for place in places {
                if !excluded.iter().any(|name| name.trim() == place) {
                    let within = reads.within.entry(place.to_owned()).or_default();
                    within.insert(readable.clone());
                }
            }
        }
        for guess in guessed {
            self.remarks.push(format!(
                "{guess} is a guess; add its CustomResourceDefinition to the manifests to be sure"
            ));
        }
        Ok(reads)
    }

    /// The operator's own rights.
    fn own(&mut self, mode: &Mode, names: &Names) {
        let rules = |features: &[Feature]| {
            let rules = rights::named_rules(
                |feature| features.contains(&feature),
                |named| Some(names.of(named)),
            );
            merged(rules)
        };
        let mut served = vec![Feature::Teams, Feature::Events];
        let mut cluster = Vec::new();
        if mode.tenant {
            served.push(Feature::NamedNamespaces);
        } else {
            cluster.extend([
                Feature::Platform,
                Feature::AllNamespaces,
                Feature::Definitions,
            ]);
            // Events of cluster kinds are in a namespace that need not be watched.
            cluster.push(Feature::Events);
        }
        if mode.watched.is_empty() {
            cluster.append(&mut served);
        }
        for namespace in &mode.watched {
            self.namespaced.insert(namespace.clone(), rules(&served));
        }
        let mut home = Vec::new();
        if mode.with.contains(&Extra::LeaderElection) {
            home.push(Feature::Election);
        }
        if mode.with.contains(&Extra::Metrics) {
            cluster.push(Feature::SecureMetrics);
        }
        if mode.with.contains(&Extra::Webhook) {
            home.push(Feature::WebhookCertificates);
            cluster.extend([Feature::TargetAuthorization, Feature::WebhookConfiguration]);
        }
        if mode.tenant && !cluster.is_empty() {
            self.remarks.push(
                "secure metrics and webhooks take rights in the whole cluster, which an administrator has to grant"
                    .to_owned(),
            );
        }
        self.cluster = rules(&cluster);
        self.home = (mode.home.clone(), rules(&home));
    }

    /// The Secrets of sinks, by name. Where Secrets are collected they are followed, and need not be
    /// asked for: as far as the operator follows them.
    fn secrets(&mut self, objects: &[Object], reads: &Reads) {
        let mut wanted: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for object in objects {
            let Some(spec) = SinkSpec::of(object) else {
                continue;
            };
            for one in credentials::wanted(&spec, object.namespace()) {
                wanted.entry(one.namespace).or_default().insert(one.name);
            }
        }
        let count: usize = wanted.values().map(BTreeSet::len).sum();
        let secrets = (String::new(), "secrets".to_owned());
        for (namespace, names) in wanted {
            let within = reads.within.get(&namespace);
            let followed = reads.everywhere.contains(&secrets)
                || within.is_some_and(|within| within.contains(&secrets));
            if followed && count <= WATCHED {
                continue;
            }
            let rules = rights::rules(|feature| feature == Feature::SinkSecrets);
            let named = rules.into_iter().map(|rule| PolicyRule {
                resource_names: Some(names.iter().cloned().collect()),
                ..rule
            });
            self.collected_in
                .entry(namespace)
                .or_default()
                .extend(named);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        configuration::{Configuration, Standard},
        manifest::{self, Text},
    };

    const MANIFESTS: &str = "
apiVersion: kollect.dev/v1alpha1
kind: KollectProfile
metadata: {name: deployments, namespace: team-a}
spec: {targetGVK: {group: apps, version: v1, kind: Deployment}, attributes: [{name: a, path: $.a}]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectProfile
metadata: {name: apps, namespace: team-a}
spec: {targetGVK: {group: argoproj.io, version: v1alpha1, kind: Application}, attributes: [{name: a, path: $.a}]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectProfile
metadata: {name: nodes, namespace: team-a}
spec: {targetGVK: {version: v1, kind: Node}, attributes: [{name: a, path: $.a}]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectTarget
metadata: {name: deployments, namespace: team-a}
spec: {profileRef: deployments, includedNamespaces: [team-a, team-b]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectTarget
metadata: {name: apps, namespace: team-a}
spec: {profileRef: apps}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectDatabaseSink
metadata: {name: pg, namespace: team-a}
spec: {type: postgres, cluster: c, postgres: {databaseRef: {name: dsn}, table: items}}
";

    const NODES: &str = "
---
apiVersion: kollect.dev/v1alpha1
kind: KollectTarget
metadata: {name: nodes, namespace: team-a}
spec: {profileRef: nodes}
";

    const DEFINITION: &str = "
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: applicationz.argoproj.io}
spec: {group: argoproj.io, scope: Namespaced, names: {kind: Application, plural: applicationz}}
";

    fn needs(content: &str, mode: &Mode) -> Result<Needs> {
        let text = Text {
            name: "t.yaml".to_owned(),
            content: content.to_owned(),
        };
        let definitions = Definitions::of(manifest::parse(&text).documents);
        let configuration = Configuration::load(&[text], &Standard::default());
        assert_eq!(configuration.failed(), 0, "{:?}", configuration.findings);
        Needs::of(
            &configuration.objects,
            &definitions,
            mode,
            &Names::of_release("kollect"),
        )
    }

    /// `verbs group/resources [names]` of rules.
    fn told(rules: &[PolicyRule]) -> Vec<String> {
        let list = |items: &Option<Vec<String>>| items.clone().unwrap_or_default().join(",");
        let line = |rule: &PolicyRule| {
            format!(
                "{} {}/{} [{}]",
                rule.verbs.join(","),
                list(&rule.api_groups),
                list(&rule.resources),
                list(&rule.resource_names)
            )
        };
        rules.iter().map(line).collect()
    }

    #[test]
    fn t10_each_kind_is_granted_where_it_is_collected() -> Result<()> {
        let mode = Mode {
            only_collected: true,
            ..Mode::default()
        };
        let needs = needs(&format!("{MANIFESTS}{NODES}"), &mode)?;
        assert_eq!(
            told(&needs.collected),
            [
                "list,watch /nodes []",
                "list,watch argoproj.io/applications []"
            ]
        );
        let deployments = "list,watch apps/deployments []".to_owned();
        assert_eq!(
            told(&needs.collected_in["team-a"]),
            [deployments.clone(), "get /secrets [dsn]".to_owned()]
        );
        assert_eq!(told(&needs.collected_in["team-b"]), [deployments]);
        assert!(needs.cluster.is_empty() && needs.namespaced.is_empty());
        assert_eq!(needs.remarks.len(), 1, "{:?}", needs.remarks);
        assert!(needs.remarks[0].contains("applications.argoproj.io"));
        Ok(())
    }

    #[test]
    fn a_definition_among_the_manifests_tells_the_name() -> Result<()> {
        let mode = Mode {
            only_collected: true,
            ..Mode::default()
        };
        let needs = needs(&format!("{MANIFESTS}{DEFINITION}"), &mode)?;
        assert_eq!(
            told(&needs.collected),
            ["list,watch argoproj.io/applicationz []"]
        );
        assert!(needs.remarks.is_empty(), "{:?}", needs.remarks);
        Ok(())
    }

    #[test]
    fn a_tenant_gets_roles_and_no_cluster_role() -> Result<()> {
        let mode = Mode {
            tenant: true,
            watched: vec!["team-a".to_owned()],
            home: "team-a".to_owned(),
            with: vec![Extra::LeaderElection],
            ..Mode::default()
        };
        let needs = needs(MANIFESTS, &mode)?;
        assert!(needs.cluster.is_empty() && needs.collected.is_empty());
        let places: Vec<&String> = needs.collected_in.keys().collect();
        assert_eq!(places, ["team-a"], "team-b is not watched");
        assert!(needs.namespaced.contains_key("team-a"));
        assert!(!needs.home.1.is_empty());
        Ok(())
    }

    #[test]
    fn what_a_tenant_cannot_have_is_refused() {
        let mode = Mode {
            tenant: true,
            watched: vec!["team-a".to_owned()],
            ..Mode::default()
        };
        let error = needs(&format!("{MANIFESTS}{NODES}"), &mode).unwrap_err();
        assert!(error.to_string().contains("v1/Node"), "{error}");
    }
}
