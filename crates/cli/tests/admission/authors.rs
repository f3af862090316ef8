//! Authors and their rights, with real users and roles.

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{
    cluster::User,
    http::Response,
    rbac::{Rule, Scope, read},
    wait::eventually,
};
use serde_json::{Value, json};

use crate::stage::{Case, cluster};

const WRITE: &[Rule<'_>] = &[Rule {
    group: "kollect.dev",
    resources: &["kollecttargets", "kollectprofiles"],
    verbs: &["create", "update"],
}];

fn profile(case: &Case, name: &str, kind: &str) -> Value {
    let spec = json!({
        "targetGVK": {"version": "v1", "kind": kind},
        "attributes": [{"name": "name", "path": "$.metadata.name"}],
    });
    case.object("KollectProfile", name, &spec)
}

fn target(case: &Case, profile: &str, namespaces: &[&str]) -> Value {
    let mut spec = json!({"profileRef": profile});
    if !namespaces.is_empty() {
        spec["includedNamespaces"] = namespaces.into();
    }
    case.object("KollectTarget", "t", &spec)
}

fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

struct Stage {
    case: Case,
    other: String,
    jane: User,
}

impl Stage {
    fn new(name: &str) -> Result<Self> {
        let case = Case::new(name)?;
        let cluster = cluster();
        let other = cluster.create_namespace(name)?;
        let jane = cluster.create_service_account(&case.namespace, "jane")?;
        cluster.grant(Scope::Namespace(&case.namespace), &jane, WRITE)?;
        // May read ConfigMaps at home, and nothing elsewhere.
        let maps = [read("", &["configmaps"])];
        cluster.grant(Scope::Namespace(&case.namespace), &jane, &maps)?;
        for (name, kind) in [
            ("maps", "ConfigMap"),
            ("nodes", "Node"),
            ("secrets", "Secret"),
        ] {
            let stored = case.send("POST", &profile(&case, name, kind))?;
            ensure!(stored.is_success(), "{}", text(&stored));
        }
        Ok(Self { case, other, jane })
    }

    /// Waits until the operator knows the profiles, which it then finds nothing wrong with.
    fn until_known(&self) -> Result<()> {
        eventually("known profiles", || {
            let home = &*self.case.namespace;
            let asked = target(&self.case, "maps", &[home]);
            let answer = self.case.try_out("POST", &asked)?;
            let warnings = answer.warnings();
            ensure!(
                answer.is_success() && warnings.is_empty(),
                "{warnings:?} {}",
                text(&answer)
            );
            Ok(())
        })
    }
}

#[test]
fn authors_who_may_not_read_what_is_collected_are_refused_if_so_wished() -> Result<()> {
    let stage = Stage::new("enforce")?;
    let Stage { case, other, jane } = &stage;
    let operator = case.serve(&["--target-authorization=enforce"])?;
    let play = || -> Result<()> {
        stage.until_known()?;
        let home = &*case.namespace;
        for (profile, namespaces, right) in [
            ("maps", vec![home], None),
            (
                "maps",
                vec![home, other],
                Some(format!("list configmaps in namespace {other:?}")),
            ),
            (
                "maps",
                vec![],
                Some("list configmaps in the whole cluster".to_owned()),
            ),
            (
                "nodes",
                vec![home],
                Some("list nodes in the whole cluster".to_owned()),
            ),
            (
                "secrets",
                vec![home],
                Some(format!("list secrets in namespace {home:?}")),
            ),
            ("later", vec![], None),
        ] {
            let asked = target(case, profile, &namespaces);
            let answer = Case::try_out_as(jane, &asked)?;
            let said = text(&answer);
            match right {
                None => ensure!(answer.is_success(), "{profile} {namespaces:?}: {said}"),
                Some(right) => {
                    ensure!(answer.status == 403, "{profile} {namespaces:?}: {said}");
                    let right = right.replace('"', "\\\"").replace('\\', "");
                    let plain = said.replace('\\', "");
                    ensure!(plain.contains(&right) && plain.contains("jane"), "{said}");
                }
            }
            let admin = case.try_out("POST", &asked)?;
            ensure!(admin.is_success(), "administrators may: {}", text(&admin));
        }
        // A profile is asked about for the targets that use it: a harmless one must not turn into
        // one for Secrets under somebody's target.
        let mut used = target(case, "maps", &[home]);
        used["metadata"]["name"] = "used".into();
        let stored = case.send("POST", &used)?;
        ensure!(stored.is_success(), "{}", text(&stored));
        let mut changed = case.get(&profile(case, "maps", "ConfigMap"))?;
        changed["spec"]["targetGVK"]["kind"] = "Secret".into();
        eventually("a profile that is asked about", || {
            let api = cluster().api(jane)?;
            let path = format!(
                "/apis/kollect.dev/v1alpha1/namespaces/{home}/kollectprofiles/maps?dryRun=All"
            );
            let answer = api.request("PUT", &path, Some(&changed))?;
            let said = text(&answer);
            ensure!(
                answer.status == 403 && said.contains("list secrets"),
                "{said}"
            );
            Ok(())
        })?;
        // With the right everything is in order.
        let maps = [read("", &["configmaps"])];
        cluster().grant(Scope::Namespace(other), jane, &maps)?;
        let asked = target(case, "maps", &[home, other]);
        eventually("a right that counts", || {
            let answer = Case::try_out_as(jane, &asked)?;
            ensure!(answer.is_success(), "{}", text(&answer));
            Ok(())
        })
    };
    play().with_context(|| operator.log())
}

#[test]
fn authors_are_warned_by_default_and_left_alone_if_so_wished() -> Result<()> {
    let stage = Stage::new("warn")?;
    let Stage { case, jane, .. } = &stage;
    for (flags, told) in [
        (&[][..], true),
        (&["--target-authorization=off"][..], false),
    ] {
        let operator = case.serve(flags)?;
        let play = || -> Result<()> {
            stage.until_known()?;
            let answer = Case::try_out_as(jane, &target(case, "secrets", &[]))?;
            let warnings = answer.warnings();
            ensure!(answer.is_success(), "{}", text(&answer));
            let about = |warning: &String| warning.contains("list secrets in the whole cluster");
            ensure!(warnings.iter().any(about) == told, "{warnings:?}");
            Ok(())
        };
        play().with_context(|| operator.log())?;
    }
    Ok(())
}
