//! The table of rights as the chart and people read it.

use kollect_api::crd;
use kollect_api::rights::{
    COLLECTED, Feature, Named, Place, RIGHTS, Tier, collected, common, merged, named_rules, yaml,
};

/// Named templates with the rules of every feature. Which of them go into which role is written in
/// the chart.
pub(super) fn template() -> String {
    let mut text = String::from(
        "{{/* Made from crates/api/src/rights by `cargo xtask codegen`; not edited by hand. */}}\n",
    );
    let mut define = |name: &str, content: &str| {
        let content = content.trim_end();
        text.push_str(&format!(
            "\n{{{{- define \"kollect.{name}\" -}}}}\n{content}\n{{{{- end }}}}\n"
        ));
    };
    let mut kinds: Vec<String> = crd::all()
        .into_iter()
        .map(|crd| {
            let names = crd.spec.names;
            format!("{}: {}", names.kind.to_lowercase(), names.plural)
        })
        .collect();
    kinds.sort();
    define("kinds", &kinds.join("\n"));
    for feature in Feature::ALL {
        let rules = named_rules(|one| one == feature, |named| Some(placeholder(named)));
        define(&format!("rights.{}", feature.name()), &yaml(&rules));
    }
    define("rights.commonNamespaced", &yaml(&common(true)));
    define("rights.commonCluster", &yaml(&common(false)));
    define("rights.everything", &yaml(&[collected("*", &["*"])]));
    define(
        "rights.metricsReader",
        "- nonResourceURLs: [\"/metrics\"]\n  verbs: [\"get\"]",
    );
    for tier in Tier::ALL {
        let rules = merged(tier.rules());
        define(&format!("rights.{}", tier.name()), &yaml(&rules));
    }
    text
}

/// What a release calls it.
fn placeholder(named: Named) -> String {
    let template = match named {
        Named::Lease => "kollect.lease",
        Named::WebhookSecret => "kollect.webhookSecret",
        Named::WebhookConfiguration => "kollect.webhookConfiguration",
    };
    format!("{{{{ include \"{template}\" . | quote }}}}")
}

fn place(place: Place) -> &'static str {
    match place {
        Place::Served => "everywhere, or in each of `watchNamespaces`",
        Place::Home => "in the operator's own namespace",
        Place::Cluster => "in the whole cluster",
    }
}

fn group(group: &str) -> &str {
    if group.is_empty() { "core" } else { group }
}

/// `docs/rbac.md`.
pub(super) fn document() -> String {
    let mut text = String::from(HEAD);
    text.push_str(
        "\n## What the operator itself needs\n\n| For | Group | Resources | Verbs | Why |\n\
         | --- | --- | --- | --- | --- |\n",
    );
    for right in RIGHTS {
        let only = match right.named {
            None => "",
            Some(Named::Lease) => " (its own lease)",
            Some(Named::WebhookSecret) => " (the one of its certificates)",
            Some(Named::WebhookConfiguration) => " (its own)",
        };
        text.push_str(&format!(
            "| {} | {} | {}{only} | {} | {} |\n",
            right.feature.name(),
            group(right.group),
            right.resources.join(", "),
            right.verbs.join(", "),
            right.reason
        ));
    }
    text.push_str("\n| For | Where | When the chart grants it |\n| --- | --- | --- |\n");
    for feature in Feature::ALL {
        text.push_str(&format!(
            "| {} | {} | {} |\n",
            feature.name(),
            place(feature.place()),
            feature.when()
        ));
    }
    text.push_str(COLLECTING);
    text.push_str("| Group | In namespaces | In none |\n| --- | --- | --- |\n");
    let mut groups: Vec<&str> = COLLECTED.iter().map(|one| one.group).collect();
    groups.dedup();
    for name in groups {
        let list = |namespaced: bool| {
            let all = COLLECTED
                .iter()
                .filter(|one| one.group == name && one.namespaced == namespaced && one.common);
            let names: Vec<&str> = all.map(|one| one.resource).collect();
            names.join(", ")
        };
        if !(list(true).is_empty() && list(false).is_empty()) {
            text.push_str(&format!(
                "| {} | {} | {} |\n",
                group(name),
                list(true),
                list(false)
            ));
        }
    }
    text.push_str(PEOPLE);
    for tier in Tier::ALL {
        for rule in merged(tier.rules()) {
            let list = |items: Option<Vec<String>>| items.unwrap_or_default().join(", ");
            text.push_str(&format!(
                "| `{}` | {} | {} |\n",
                tier.name(),
                list(rule.resources),
                rule.verbs.join(", ")
            ));
        }
    }
    text.push_str(TAIL);
    text
}

const HEAD: &str = "\
# Rights

This page is made from the table in `crates/api/src/rights` by `cargo xtask codegen`, as are the roles of the chart,
`deploy/install.yaml` and what `kollect rbac` prints. None of them is written by hand.

Discovery and reviews of its own access are open to every account of a cluster (`system:discovery`, `system:basic-user`), so they
need no rule of ours.
";

const COLLECTING: &str = "
## What it collects

A profile names a kind; the operator has to be allowed to `list` and `watch` it where targets look. RBAC has no way to say
\"all but Secrets\", so the chart has three tiers (`rbac.collect`), and `rbac.extraRules` for what comes on top:

| `rbac.collect` | May collect |
| --- | --- |
| `common` (default) | the resources below: what Kubernetes itself brings, by name, without Secrets, events and leases |
| `everything` | all there is and will be, Secrets too |
| `none` | what `rbac.extraRules` or the output of `kollect rbac` grant |

Custom resources are never in `common`: an Argo CD Application needs
`--set-json 'rbac.extraRules=[{\"apiGroups\":[\"argoproj.io\"],\"resources\":[\"applications\"],\"verbs\":[\"list\",\"watch\"]}]'`.
A target whose kind may not be read says so in its status (`Forbidden`), and starts by itself once it may.

";

const PEOPLE: &str = "
## What people need

The chart and `deploy/install-crds.yaml` add our kinds to the roles that every cluster has, so that whoever may edit a namespace
may also say what is collected for it. Ceilings (`KollectScope`) are for the admins of a namespace; cluster kinds are for
administrators of the cluster.

| Added to | Resources | Verbs |
| --- | --- | --- |
";

const TAIL: &str = "
Admins may write statuses because nobody can grant what they do not hold: without it a team could not install an operator of its
own.

Whoever scrapes metrics over HTTPS needs `get` on the non-resource URL `/metrics`; `metrics.readerRole.extraSubjects` gives it.

## Exactly what a configuration needs

```console
$ kollect rbac --config deploy/samples/10-team.yaml --service-account kollect-system/kollect-controller-manager
```

prints the operator's own roles and, for exactly the kinds and namespaces that the given targets collect and the Secrets that
the given sinks use, the roles to do so, with bindings to that account. Applied alone it is enough, so it goes with
`rbac.create: false`, or with `rbac.collect: none` for those who take the operator's own roles from the chart (`--only-collected`).

| Flag | For |
| --- | --- |
| `--config PATH` | manifests: files, directories or `-` |
| `--service-account NAMESPACE/NAME` | bindings for this account; without it, roles alone |
| `--tenant-mode`, `--watch-namespaces` | as for the operator: Roles in these namespaces instead of a ClusterRole |
| `--only-collected` | without the operator's own rights |
| `--name NAME` | how the roles are called (`kollect`) |

The plural of a custom kind is taken from a CustomResourceDefinition among the manifests, otherwise guessed; what was guessed is
said on standard error. A target without `includedNamespaces` collects from every namespace, so it leads to a ClusterRole.
";
