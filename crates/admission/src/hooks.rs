//! Which webhooks there are.
//!
//! One per kind, each with a path of its own. Charts, manifests and tests take them from here, so
//! that a kind cannot be served and not registered, or the other way round.

use k8s_openapi::{
    api::admissionregistration::v1::{
        RuleWithOperations, ValidatingWebhook, ValidatingWebhookConfiguration, WebhookClientConfig,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kollect_api::meta;

/// The webhook of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hook {
    /// The kind, as in `kind:`.
    pub kind: &'static str,
    /// The resource, as in paths.
    pub plural: &'static str,
    /// Whether objects of the kind live in namespaces.
    pub namespaced: bool,
}

const fn hook(kind: &'static str, plural: &'static str, namespaced: bool) -> Hook {
    Hook {
        kind,
        plural,
        namespaced,
    }
}

/// All webhooks, by kind.
pub const HOOKS: [Hook; 11] = [
    hook(
        "KollectClusterInventory",
        "kollectclusterinventories",
        false,
    ),
    hook("KollectClusterScope", "kollectclusterscopes", false),
    hook("KollectClusterTarget", "kollectclustertargets", false),
    hook("KollectConnectionTest", "kollectconnectiontests", true),
    hook("KollectDatabaseSink", "kollectdatabasesinks", true),
    hook("KollectEventSink", "kollecteventsinks", true),
    hook("KollectInventory", "kollectinventories", true),
    hook("KollectProfile", "kollectprofiles", true),
    hook("KollectScope", "kollectscopes", true),
    hook("KollectSnapshotSink", "kollectsnapshotsinks", true),
    hook("KollectTarget", "kollecttargets", true),
];

impl Hook {
    /// Where the API server sends requests.
    pub fn path(&self) -> String {
        let group = meta::GROUP.replace('.', "-");
        let kind = self.kind.to_lowercase();
        format!("/validate-{group}-{}-{kind}", meta::VERSION)
    }

    /// What refusals call it.
    pub fn name(&self) -> String {
        format!("v{}.kb.io", self.kind.to_lowercase())
    }

    /// The webhook that answers at a path.
    pub fn at(path: &str) -> Option<&'static Self> {
        HOOKS.iter().find(|hook| hook.path() == path)
    }
}

/// The object that registers all webhooks. `client` says for a path how the API server reaches it.
pub fn configuration(
    name: &str,
    client: impl Fn(&str) -> WebhookClientConfig,
) -> ValidatingWebhookConfiguration {
    let list = |text: &str| Some(vec![text.to_owned()]);
    let webhooks = HOOKS.iter().map(|hook| ValidatingWebhook {
        name: hook.name(),
        client_config: client(&hook.path()),
        rules: Some(vec![RuleWithOperations {
            api_groups: list(meta::GROUP),
            api_versions: list(meta::VERSION),
            operations: Some(vec!["CREATE".to_owned(), "UPDATE".to_owned()]),
            resources: list(hook.plural),
            scope: None,
        }]),
        failure_policy: Some("Fail".to_owned()),
        side_effects: "None".to_owned(),
        admission_review_versions: vec!["v1".to_owned()],
        ..ValidatingWebhook::default()
    });
    ValidatingWebhookConfiguration {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        },
        webhooks: Some(webhooks.collect()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_webhook_with_the_names_of_its_definition() {
        let mut defined: Vec<(String, String, bool)> = kollect_api::crd::all()
            .into_iter()
            .map(|definition| {
                let names = definition.spec.names;
                let namespaced = definition.spec.scope == "Namespaced";
                (names.kind, names.plural, namespaced)
            })
            .collect();
        defined.sort();
        let hooks = HOOKS.map(|hook| {
            (
                hook.kind.to_owned(),
                hook.plural.to_owned(),
                hook.namespaced,
            )
        });
        assert_eq!(hooks.to_vec(), defined);
    }

    #[test]
    fn paths_and_names_are_those_of_the_contract() {
        let hook = Hook::at("/validate-kollect-dev-v1alpha1-kollectsnapshotsink").expect("a path");
        assert_eq!(hook.kind, "KollectSnapshotSink");
        assert_eq!(hook.name(), "vkollectsnapshotsink.kb.io");
        for path in [
            "",
            "/",
            "/validate-kollect-dev-v1alpha1-kollectsink",
            "/metrics",
        ] {
            assert_eq!(Hook::at(path), None, "{path}");
        }
        let made = configuration("all", |path| WebhookClientConfig {
            url: Some(format!("https://localhost{path}")),
            ..WebhookClientConfig::default()
        });
        let webhooks = made.webhooks.expect("webhooks");
        assert_eq!(webhooks.len(), HOOKS.len());
        for webhook in &webhooks {
            assert_eq!(webhook.failure_policy.as_deref(), Some("Fail"));
            assert_eq!(webhook.timeout_seconds, None, "the API server's own");
        }
    }
}
