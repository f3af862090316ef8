//! `cargo xtask demo`: a real Kubernetes API that serves Kollect's kinds, to look at and to play
//! with.

use std::path::Path;
use std::sync::mpsc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use kollect_testkit::progress::{human, say};
use kollect_testkit::{Cluster, ControlPlane};

use crate::{codegen, workspace};

const GROUP: &str = "kollect.dev";

#[derive(Args)]
pub(crate) struct Arguments {
    /// Show everything and end, instead of waiting for Ctrl-C.
    #[arg(long)]
    once: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    println!(
        "This starts etcd, kube-apiserver and kube-controller-manager on loopback and applies"
    );
    println!(
        "Kollect's kinds and samples. It takes about ten seconds; the first time on a machine"
    );
    println!("the servers are compiled before, about 7 minutes on two cores.");
    let stop = stop_signal()?;

    let started = Instant::now();
    let control_plane = ControlPlane::start()?;
    let cluster = control_plane.cluster();
    say(&format!(
        "the Kubernetes API answers on {} ({})",
        cluster.url(),
        human(started.elapsed())
    ));

    apply_kinds(cluster)?;
    let samples = workspace::root().join("deploy/samples");
    apply(cluster, &samples)?;
    show(cluster)?;

    let kubectl = cluster
        .kubectl_command()
        .get_program()
        .to_string_lossy()
        .into_owned();
    println!("\nLook around from another terminal:");
    println!("  export KUBECONFIG={}", cluster.kubeconfig().display());
    println!("  alias kubectl={kubectl}");
    println!("  kubectl explain kollectinventory.spec");
    println!("Logs: {}/*.log", control_plane.directory().display());
    if arguments.once {
        println!("\nDone; everything is stopped and removed.");
        return Ok(());
    }
    println!("\nCtrl-C stops the servers and removes their data.");
    let _ = stop.recv();
    println!("stopped");
    Ok(())
}

/// Becomes readable when the person wants the demo to end. Installed before anything is started,
/// so that an early Ctrl-C already leaves nothing behind.
fn stop_signal() -> Result<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel();
    ctrlc::set_handler(move || {
        let _ = sender.send(());
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(receiver)
}

fn apply_kinds(cluster: &Cluster) -> Result<()> {
    let dir = codegen::crds_dir();
    apply(cluster, &dir)?;
    let dir = dir.to_string_lossy();
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "--timeout=60s",
        "-f",
        &dir,
    ])?;
    Ok(())
}

fn apply(cluster: &Cluster, dir: &Path) -> Result<()> {
    let shown = dir
        .strip_prefix(workspace::root())
        .unwrap_or(dir)
        .display()
        .to_string();
    ensure!(dir.is_dir(), "{shown} is missing from this checkout");
    let path = dir.to_string_lossy();
    let applied = cluster.kubectl(&["apply", "--server-side", "--recursive", "-f", &path])?;
    say(&format!(
        "{shown}: {} objects applied",
        applied.lines().count()
    ));
    Ok(())
}

fn show(cluster: &Cluster) -> Result<()> {
    let api_group = format!("--api-group={GROUP}");
    println!("\n$ kubectl api-resources {api_group}");
    print!("{}", cluster.kubectl(&["api-resources", &api_group])?);
    let names = cluster.kubectl(&["api-resources", &api_group, "-o", "name"])?;
    for name in names.lines() {
        let kind = name.split('.').next().unwrap_or(name);
        let table = cluster.kubectl(&["get", name, "--all-namespaces", "--ignore-not-found"])?;
        if !table.is_empty() {
            println!(
                "\n$ kubectl get {kind} --all-namespaces\n{}",
                table.trim_end()
            );
        }
    }
    Ok(())
}
