//! Kollect as a release of its chart. There is no kubelet here, so the operator runs beside the
//! cluster: as its pod would, with the arguments of the Deployment and the rights of its account.

use anyhow::{Context, Result};
use kollect_testkit::cluster::User;
use kollect_testkit::process::{Process, Program};
use kollect_testkit::progress::say;
use kollect_testkit::{ControlPlane, Helm, ports};

use crate::codegen::chart_dir;
use crate::workspace;

const NAMESPACE: &str = "kollect-system";
const NAME: &str = "kollect-controller-manager";

/// Installs the chart.
pub(super) fn install(control_plane: &ControlPlane) -> Result<()> {
    let chart = chart_dir();
    let chart = chart.to_string_lossy();
    let health = format!("--set=healthProbe.bindAddress=127.0.0.1:{}", ports::free()?);
    let mut args = vec![
        "install",
        "kollect",
        &chart,
        "--create-namespace",
        "--namespace",
        NAMESPACE,
        &health,
    ];
    args.extend(SETTINGS);
    let cluster = control_plane.cluster();
    Helm::new()?.run_in(cluster, &args)?;
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "crd",
        "--all",
    ])?;
    say("the chart is installed: definitions, account and roles");
    Ok(())
}

/// Builds and starts the operator.
pub(super) fn operator(control_plane: &ControlPlane) -> Result<Process> {
    say("building kollect");
    workspace::execute(&mut workspace::cargo(&[
        "build",
        "--quiet",
        "-p",
        "kollect-cli",
    ])?)?;
    let cluster = control_plane.cluster();
    let path = "jsonpath={.spec.template.spec.containers[0].args}";
    let args = cluster.kubectl(&["get", "deployment", NAME, "-n", NAMESPACE, "-o", path])?;
    let args: Vec<String> =
        serde_json::from_str(&args).context("the Deployment has no arguments")?;
    let user = User {
        name: format!("system:serviceaccount:{NAMESPACE}:{NAME}"),
        token: cluster.request_token(NAMESPACE, NAME, &[])?,
    };
    let kubeconfig = control_plane.directory().join("operator.kubeconfig");
    std::fs::write(&kubeconfig, cluster.kubeconfig_of(&user))?;
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Program::new("kollect", workspace::target_dir()?.join("debug/kollect"))
        .args_of(&args)
        .flag("kubeconfig", &kubeconfig)
        .env("POD_NAMESPACE", NAMESPACE)
        .spawn(control_plane.directory())
}

/// What is special about this place.
const SETTINGS: [&str; 7] = [
    // Nobody could call it: there is no network of pods.
    "--set=webhooks.enabled=false",
    "--set=metrics.enabled=false",
    "--set=logging.format=console",
    "--set=controller.targetCountResync=1s",
    // The servers are on this machine; otherwise loopback is out of bounds.
    "--set=allowSinkNetworks={127.0.0.0/8}",
    // A sample reads what Helm keeps in Secrets.
    "--set-json=rbac.extraRules=[{\"apiGroups\":[\"\"],\"resources\":[\"secrets\"],\"verbs\":[\"list\",\"watch\"]}]",
    "--set=leaderElection.enabled=false",
];
