//! Releases come, change, go back and go, in a cluster of their own.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{
    Cluster, ControlPlane, Helm, cluster::User, ports, postgres::Tls, wait::eventually,
};
use serde_json::Value;

use crate::stage::{Stage, chart};

fn args(command: &str, more: &[&str]) -> Vec<String> {
    let words = command.split_whitespace().chain(more.iter().copied());
    words
        .map(|word| match word {
            "CHART" => chart().display().to_string(),
            word => word.to_owned(),
        })
        .collect()
}

#[test]
fn a_release_is_installed_upgraded_rolled_back_and_removed() -> Result<()> {
    let (plane, helm) = (ControlPlane::start()?, Helm::new()?);
    let cluster = plane.cluster();
    // Nobody answers the webhook here.
    let alone = ["--set=webhooks.failurePolicy=Ignore,webhooks.timeoutSeconds=1"];
    let helm = |command: &str, more: &[&str]| {
        let with_values = command.contains("CHART");
        let alone = if with_values { &alone[..] } else { &[] };
        helm.run_in(cluster, &args(command, &[alone, more].concat()))
    };
    let get = |what: &[&str]| cluster.kubectl(&[&["get"], what].concat());
    let deployment = |path: &str| {
        let path = format!("-o=jsonpath={path}");
        get(&[
            "deployment",
            "kollect-controller-manager",
            "-n",
            "kollect-system",
            &path,
        ])
    };
    let replicas = || deployment("{.spec.replicas}");

    let notes = helm(
        "install kollect CHART -n kollect-system --create-namespace",
        &[],
    )?;
    for text in [
        "rollout status",
        "kollect init",
        "get kollecttargets,kollectinventories",
    ] {
        ensure!(notes.contains(text), "{notes}");
    }
    ensure!(replicas()? == "1");
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd/kollectprofiles.kollect.dev",
    ])?;
    // Kubernetes' own roles have our kinds.
    eventually("the aggregated roles", || {
        for (role, kind) in [
            ("view", "kollecttargets"),
            ("edit", "kollecttargets"),
            ("admin", "kollectscopes"),
        ] {
            let rules = get(&["clusterrole", role, "-o=jsonpath={.rules}"])?;
            ensure!(rules.contains(kind), "{role} lacks {kind}");
        }
        Ok(())
    })?;

    // An upgrade upgrades definitions too.
    let version = |value: &str| {
        let patch =
            format!(r#"{{"metadata":{{"labels":{{"app.kubernetes.io/version":"{value}"}}}}}}"#);
        cluster.kubectl(&[
            "patch",
            "crd",
            "kollectprofiles.kollect.dev",
            "--type=merge",
            "-p",
            &patch,
        ])
    };
    version("0.0.1")?;
    helm(
        "upgrade kollect CHART -n kollect-system",
        &["--set=replicaCount=2"],
    )?;
    ensure!(replicas()? == "2");
    helm(
        "upgrade kollect CHART -n kollect-system",
        &["--set=replicaCount=3,commonLabels.a=b"],
    )?;
    let label = get(&[
        "crd",
        "kollectprofiles.kollect.dev",
        "-o=jsonpath={.metadata.labels.a}",
    ])?;
    ensure!(label == "b", "{label}");
    helm("rollback kollect 2 -n kollect-system", &[])?;
    ensure!(replicas()? == "2");
    let refused = helm(
        "upgrade kollect CHART -n kollect-system",
        &["--set=tenantMode=true"],
    );
    ensure!(refused.is_err_and(|error| error.to_string().contains("watchNamespaces")));
    ensure!(replicas()? == "2", "what is refused changes nothing");

    // Definitions, and everybody's objects with them, outlive the release.
    cluster.apply(
        "{apiVersion: kollect.dev/v1alpha1, kind: KollectScope, metadata: {name: stays, namespace: default}, spec: {}}",
    )?;
    helm("uninstall kollect -n kollect-system --wait", &[])?;
    get(&["kollectscope", "stays", "-n", "default"])?;
    eventually("an empty namespace", || {
        let kinds = "all,roles,rolebindings,serviceaccounts";
        let left = get(&[kinds, "-n", "kollect-system", "-o=name"])?;
        let left: Vec<&str> = left
            .lines()
            .filter(|line| line.contains("kollect"))
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })?;
    let roles = get(&[
        "clusterroles,clusterrolebindings,validatingwebhookconfigurations",
        "-o=name",
    ])?;
    ensure!(!roles.contains("kollect"), "{roles}");

    // And the next release takes them over, to take them along this time.
    helm(
        "install kollect CHART -n kollect-system",
        &["--set=crds.keep=false"],
    )?;
    ensure!(replicas()? == "1");
    helm("uninstall kollect -n kollect-system --wait", &[])?;
    eventually("no definitions", || {
        let left = get(&["crd", "-o=name"])?;
        ensure!(!left.contains("kollect"), "{left}");
        Ok(())
    })?;
    five_commands(cluster)
}

/// The commands of README, one by one, and the inventory that comes of them.
fn five_commands(cluster: &Cluster) -> Result<()> {
    let stage = Stage::shared()?;
    let root = chart().join("../..");
    let readme = fs::read_to_string(root.join("README.md"))?;
    let section = readme
        .split("## In a cluster of yours")
        .nth(1)
        .context("no section")?;
    let block = section.split("```").nth(1).context("no commands")?;
    let commands: Vec<&str> = block.lines().skip(1).collect();
    ensure!(commands.len() <= 5, "{commands:#?}");

    let database = stage.postgres.create_database("readme")?;
    let kubectl = cluster.kubectl_command();
    let directories = [Path::new(kubectl.get_program()), stage.helm.program()]
        .map(|program| program.parent().map(|parent| parent.display().to_string()));
    let directories: Vec<String> = directories.into_iter().flatten().collect();
    let path = format!("{}:{}", directories.join(":"), std::env::var("PATH")?);
    // There is no kubelet to wait for and no network of pods; the database is on this machine.
    let here = format!(
        " --set webhooks.enabled=false,metrics.enabled=false \
         --set healthProbe.bindAddress=127.0.0.1:{} --set 'allowSinkNetworks={{127.0.0.0/8}}'",
        ports::free()?
    );
    let run = |command: &str| {
        let output = Command::new("sh")
            .args(["-c", &command.replace(" --wait", &here)])
            .current_dir(&root)
            .env("PATH", &path)
            .env("KUBECONFIG", cluster.kubeconfig())
            .env("DATABASE_URL", database.url(Tls::Off))
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let (last, first) = commands.split_last().context("no commands")?;
    for command in first {
        run(command)?;
    }
    let (namespace, name) = ("kollect-system", "kollect-controller-manager");
    let args = "-o=jsonpath={.spec.template.spec.containers[0].args}";
    let args = cluster.kubectl(&["get", "deployment", name, "-n", namespace, args])?;
    let user = User {
        name: format!("system:serviceaccount:{namespace}:{name}"),
        token: cluster.request_token(namespace, name, &[])?,
    };
    let args: Vec<String> = serde_json::from_str(&args)?;
    let mut operator = stage.operator_in(cluster, namespace, &user, &args)?;
    operator.eventually("the row of the Deployment", || {
        let names =
            "SELECT payload->>'name' FROM inventory_items WHERE payload->>'kind' = 'Deployment'";
        let rows = database.psql(names)?;
        ensure!(rows == "web", "{rows:?}");
        Ok(())
    })?;
    operator.eventually("a table that says so", || {
        let table = run(last)?;
        let target = table.lines().find(|line| line.contains("/deployments "));
        ensure!(target.is_some_and(|line| line.contains("True")), "{table}");
        Ok(())
    })
}

#[test]
fn a_namespace_admin_installs_a_teams_own_operator() -> Result<()> {
    let stage = Stage::shared()?;
    let (cluster, helm) = (stage.cluster(), &stage.helm);
    let namespace = cluster.create_namespace("team")?;
    let admin = cluster.create_service_account(&namespace, "lead")?;
    let subject = format!("--serviceaccount={namespace}:lead");
    cluster.kubectl(&[
        "create",
        "rolebinding",
        "lead",
        "--clusterrole=admin",
        &subject,
        "-n",
        &namespace,
    ])?;
    eventually("the rights of an admin", || {
        let scope = kollect_testkit::rbac::Scope::Namespace(&namespace);
        let ready = cluster.allows(
            scope,
            &admin,
            "patch",
            "kollect.dev",
            "kollecttargets/status",
        )?;
        ensure!(ready, "not aggregated yet");
        Ok(())
    })?;
    // By the team alone, with nothing but the rights of an admin of its namespace.
    let values = chart().join("values-minimal-rbac.yaml");
    let install = args(
        "install kollect CHART",
        &[
            "-n",
            &namespace,
            "--values",
            &values.to_string_lossy(),
            &format!("--set=watchNamespaces={{{namespace}}}"),
        ],
    );
    helm.run_as(cluster, &admin, &install)?;
    let role = cluster.kubectl(&[
        "get",
        "role",
        "kollect-manager",
        "-n",
        &namespace,
        "-o=json",
    ])?;
    let role: Value = serde_json::from_str(&role)?;
    ensure!(
        role["rules"]
            .as_array()
            .is_some_and(|rules| rules.len() > 5),
        "{role}"
    );
    helm.run_as(
        cluster,
        &admin,
        &args("uninstall kollect --wait", &["-n", &namespace]),
    )?;
    Ok(())
}
