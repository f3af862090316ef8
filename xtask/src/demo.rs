//! `cargo xtask demo`: a real Kubernetes API that serves Kollect's kinds, to look at and to play
//! with.

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kollect_testkit::process::{Process, Program};
use kollect_testkit::progress::{human, say};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Cluster, ControlPlane};

use crate::{codegen, workspace};

const INTRODUCTION: &str = "\
This starts etcd, kube-apiserver and kube-controller-manager on loopback, applies Kollect's
kinds and samples and runs the operator. It takes about ten seconds; the first time on a machine the servers are
compiled before, about 7 minutes on two cores.";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Show everything and end, instead of waiting for Ctrl-C.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!("{INTRODUCTION}");
    let started = Instant::now();
    let control_plane = ControlPlane::start()?;
    let cluster = control_plane.cluster();
    let elapsed = human(started.elapsed());
    say(&format!(
        "Kubernetes answers on {} after {elapsed}",
        cluster.url()
    ));

    let kinds = codegen::crds_dir();
    apply(cluster, &kinds)?;
    let kinds = kinds.to_string_lossy();
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        &kinds,
    ])?;
    apply(cluster, &workspace::root().join("deploy/samples"))?;
    show(cluster)?;
    let operator = operator(&control_plane)?;
    collect(cluster)?;

    if !arguments.once {
        invite(&control_plane);
        wait_for_ctrl_c()?;
    }
    drop(operator);
    drop(control_plane);
    println!("\nThe servers are stopped and their data is removed.");
    Ok(())
}

/// Shows everything and ends.
pub(crate) fn once() -> Result<()> {
    run(&Arguments { once: true })
}

fn apply(cluster: &Cluster, dir: &Path) -> Result<()> {
    let shown = dir.strip_prefix(workspace::root()).unwrap_or(dir).display();
    ensure!(dir.is_dir(), "{shown} is missing from this checkout");
    let path = dir.to_string_lossy();
    let args = ["apply", "--server-side", "--recursive", "-f", &path];
    let applied = cluster.kubectl(&args)?;
    say(&format!(
        "{shown}: {} objects applied",
        applied.lines().count()
    ));
    Ok(())
}

/// Builds and starts the operator.
fn operator(control_plane: &ControlPlane) -> Result<Process> {
    say("building kollect");
    workspace::execute(&mut workspace::cargo(&[
        "build",
        "--quiet",
        "-p",
        "kollect-cli",
    ])?)?;
    let program = Program::new("kollect", workspace::target_dir()?.join("debug/kollect"))
        .arg("operator")
        .arg("--health-probe-bind-address=0")
        .arg("--target-count-resync=1s")
        .flag("kubeconfig", control_plane.cluster().kubeconfig());
    program.spawn(control_plane.directory())
}

/// Lets a team have some workloads, and shows how they become rows.
fn collect(cluster: &Cluster) -> Result<()> {
    for (name, image) in [
        ("api", "registry.example/api:1.4.2"),
        ("web", "registry.example/web:2.0.0"),
    ] {
        cluster.kubectl(&[
            "create",
            "deployment",
            name,
            "--image",
            image,
            "-n",
            "team-a",
        ])?;
    }
    cluster.kubectl(&[
        "create",
        "service",
        "clusterip",
        "api",
        "--tcp=80:8080",
        "-n",
        "team-a",
    ])?;
    let get = [
        "get",
        "kollecttargets",
        "deployments",
        "services",
        "-n",
        "team-a",
    ];
    let counted: &[&str] = &[
        &get[..],
        &["-o", "jsonpath={.items[*].status.collectedCount}"],
    ]
    .concat();
    eventually("rows of the team's targets", || {
        let counts = cluster.kubectl(counted)?;
        ensure!(counts == "2 1", "counted {counts:?}");
        Ok(())
    })?;
    println!(
        "\n$ kubectl {}\n{}",
        get.join(" "),
        cluster.kubectl(&get)?.trim_end()
    );
    Ok(())
}

fn show(cluster: &Cluster) -> Result<()> {
    const GROUP: &str = "--api-group=kollect.dev";
    let kinds = cluster.kubectl(&["api-resources", GROUP])?;
    println!("\n$ kubectl api-resources {GROUP}\n{}", kinds.trim_end());
    let names = cluster.kubectl(&["api-resources", GROUP, "-o", "name"])?;
    for name in names.lines() {
        let table = cluster.kubectl(&["get", name, "--all-namespaces", "--ignore-not-found"])?;
        if !table.is_empty() {
            let plural = name.split('.').next().unwrap_or(name);
            println!(
                "\n$ kubectl get {plural} --all-namespaces\n{}",
                table.trim_end()
            );
        }
    }
    Ok(())
}

fn invite(control_plane: &ControlPlane) {
    let cluster = control_plane.cluster();
    println!("\nLook around from another terminal:");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!(
        "  alias kubectl={}",
        cluster.kubectl_command().get_program().display()
    );
    println!("  kubectl explain kollectinventory.spec");
    println!("Logs: {}/*.log", control_plane.directory().display());
    println!("\nCtrl-C stops the servers and removes their data.");
}

/// Until this is called Ctrl-C just ends the program, and the kernel ends the servers with it.
fn wait_for_ctrl_c() -> Result<()> {
    let (sender, stop) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })
    .context("cannot listen for Ctrl-C")?;
    stop.recv().context("the handler of Ctrl-C is gone")
}
