//! The operator as the pod of a release would run it: with the arguments of its Deployment and the
//! rights of its ServiceAccount, down to rows in a database, without asking for anything in vain.
//!
//! Operators that look at a whole cluster take turns.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{
    audit::{AuditLog, Position, Request},
    cluster::User,
    ports,
    postgres::Database,
};
use serde_json::{Value, json};

use crate::{
    minimal,
    rendered::arguments,
    stage::{Operator, Stage, team},
};

/// How long a quiet operator is watched.
const QUIET: Duration = Duration::from_secs(8);

/// Values of an installation on this machine.
pub(crate) fn values(more: &Value) -> Result<Value> {
    let mut values = json!({
        "healthProbe": {"bindAddress": format!("127.0.0.1:{}", ports::free()?)},
        "metrics": {"bindAddress": format!("127.0.0.1:{}", ports::free()?)},
        "webhooks": {"enabled": false},
        "allowSinkNetworks": ["127.0.0.0/8"],
    });
    for (key, value) in more.as_object().context("values are a map")? {
        values[key] = value.clone();
    }
    Ok(values)
}

/// One installation.
struct Act<'s> {
    stage: &'s Stage,
    namespace: String,
    objects: Vec<Value>,
    database: Database,
}

impl<'s> Act<'s> {
    fn new(stage: &'s Stage, name: &str, objects: Vec<Value>) -> Result<Self> {
        Ok(Self {
            stage,
            namespace: name.to_owned(),
            objects,
            database: stage.postgres.create_database("chart")?,
        })
    }

    /// From a team's manifests to rows, a change included, and away again.
    fn play(&self, user: &User) -> Result<()> {
        let stage = self.stage;
        let audit = stage.audit()?;
        let begun = audit.now()?;
        let args = arguments(&self.objects)?;
        let mut operator = stage.operator(&self.namespace, user, &args)?;
        stage.apply(&team(&self.namespace, &self.database))?;
        operator.expect_rows(&self.database, 2)?;
        self.expect_ready(&mut operator)?;

        // From now on nothing is found out any more.
        let steady = audit.now()?;
        thread::sleep(QUIET);
        let database = &self.database;
        let change = [
            "label",
            "configmap",
            "seen",
            "changed=yes",
            "-n",
            &self.namespace,
        ];
        stage.cluster().kubectl(&change)?;
        operator.expect_rows(database, 2)?;
        refused(audit, user, begun, steady)?;

        // Finalizers let go only what the operator may write, and rows go with their inventory.
        for kinds in [
            "kollectinventories",
            "kollecttargets,kollectdatabasesinks,kollectprofiles",
        ] {
            let delete = [
                "delete",
                kinds,
                "--all",
                "--timeout=60s",
                "-n",
                &self.namespace,
            ];
            stage.cluster().kubectl(&delete)?;
        }
        operator.expect_rows(database, 0)?;
        operator.terminate()?;
        refused(audit, user, begun, steady)
    }

    fn expect_ready(&self, operator: &mut Operator) -> Result<()> {
        let path = format!(
            "/apis/kollect.dev/v1alpha1/namespaces/{}/kollectinventories/inv",
            self.namespace
        );
        let cluster = self.stage.cluster();
        operator.eventually("an inventory that says so", || {
            let object = cluster.api(cluster.admin())?.get(&path)?;
            let conditions = object["status"]["conditions"].as_array().cloned();
            let conditions = conditions.unwrap_or_default();
            let ready = conditions.iter().find(|one| one["type"] == "Ready");
            ensure!(
                ready.is_some_and(|one| one["status"] == "True"),
                "{conditions:?}"
            );
            Ok(())
        })
    }
}

/// Writes are never refused; reads only while it is found out what may be read.
fn refused(audit: &AuditLog, user: &User, begun: Position, steady: Position) -> Result<()> {
    let denied = |request: &&Request| request.code == 403 || request.code == 401;
    let later = audit.of(&user.name, steady)?;
    let later: Vec<&Request> = later.iter().filter(denied).collect();
    ensure!(later.is_empty(), "asked for in vain: {later:#?}");
    let all = audit.of(&user.name, begun)?;
    ensure!(!all.is_empty(), "nothing was asked for at all");
    let writes: Vec<&Request> = all
        .iter()
        .filter(denied)
        .filter(|request| !matches!(&*request.verb, "get" | "list" | "watch"))
        .collect();
    ensure!(writes.is_empty(), "written in vain: {writes:#?}");
    Ok(())
}

/// The default: the whole cluster, common kinds.
fn whole_cluster(stage: &Stage) -> Result<()> {
    let namespace = stage.cluster().create_namespace("whole")?;
    let webhooks = json!({
        "bindAddress": format!("127.0.0.1:{}", ports::free()?),
        // The API server has no way to the pod of this release, so nothing is sent to it.
        "objectSelector": {"matchLabels": {"never": "asked"}},
    });
    let objects = stage.render(
        &namespace,
        "whole",
        &values(&json!({"webhooks": webhooks}))?,
    )?;
    let user = stage.grant(&namespace, &objects)?;
    stage.await_right(&user, None, ("list", "kollect.dev", "kollecttargets"))?;
    Act::new(stage, &namespace, objects)?.play(&user)?;
    let name = "whole-kollect-validating-webhook-configuration";
    let bundle = "-o=jsonpath={.webhooks[*].clientConfig.caBundle}";
    let get = ["get", "validatingwebhookconfiguration", name, bundle];
    let bundles = stage.cluster().kubectl(&get)?;
    ensure!(bundles.split_whitespace().count() == 11, "{bundles}");
    Ok(())
}

/// Nothing may be collected but what `kollect rbac` says.
fn printed_roles(stage: &Stage) -> Result<()> {
    let namespace = stage.cluster().create_namespace("printed")?;
    let objects = stage.render(
        &namespace,
        "printed",
        &values(&json!({"rbac": {"collect": "none"}}))?,
    )?;
    let user = stage.grant(&namespace, &objects)?;
    let act = Act::new(stage, &namespace, objects)?;
    let manifests = team(&namespace, &act.database);
    let account = user
        .name
        .trim_start_matches("system:serviceaccount:")
        .replace(':', "/");
    let roles = minimal::print(
        stage,
        &manifests,
        &[
            "--only-collected",
            "--service-account",
            &account,
            "--allow-sink-networks=127.0.0.0/8",
        ],
    )?;
    stage.cluster().apply(&roles)?;
    stage.await_right(&user, None, ("list", "kollect.dev", "kollecttargets"))?;
    stage.await_right(&user, Some(&namespace), ("list", "", "configmaps"))?;
    act.play(&user)
}

/// A team's own, with Roles alone.
fn tenant_mode(stage: &Stage) -> Result<()> {
    let namespace = stage.cluster().create_namespace("tenant")?;
    let objects = stage.render(
        &namespace,
        "tenant",
        &values(&json!({"tenantMode": true, "watchNamespaces": [namespace]}))?,
    )?;
    ensure!(!objects.iter().any(|one| one["kind"] == "ClusterRole"));
    let user = stage.grant(&namespace, &objects)?;
    stage.await_right(
        &user,
        Some(&namespace),
        ("list", "kollect.dev", "kollecttargets"),
    )?;
    Act::new(stage, &namespace, objects)?.play(&user)
}

#[test]
fn an_operator_lives_with_the_rights_of_its_release() -> Result<()> {
    let stage = Stage::shared()?;
    whole_cluster(stage).context("the whole cluster")?;
    printed_roles(stage).context("rbac.collect: none")?;
    tenant_mode(stage).context("tenant mode")?;
    minimal::samples(stage).context("the samples")
}
