//! Every command in README and docs/cli.md is run, and prints what they show.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::Cluster;

use crate::{
    program::{Place, repository},
    shown::{self, Shown, commands},
};

const DEPLOYMENT: &str = "
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: NAMESPACE}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: web, image: 'web:1'}]}
";

fn copy(from: &Path, to: &Path, scratch: &str) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy(&path, &target, scratch)?;
        } else {
            let text = fs::read_to_string(&path)?;
            fs::write(target, text.replace("/tmp/", scratch))?;
        }
    }
    Ok(())
}

fn run_all(document: &str) -> Result<()> {
    let cluster = Cluster::shared()?;
    let place = Place::new();
    let scratch = format!("{}/", place.path("scratch").display());
    fs::create_dir_all(&scratch)?;
    copy(
        &repository().join("examples"),
        &place.path("examples"),
        &scratch,
    )?;
    // Whoever types kubectl has it, and a cluster with something in it.
    let namespace = cluster.create_namespace("documents")?;
    cluster.apply(&DEPLOYMENT.replace("NAMESPACE", &namespace))?;
    let kubectl = cluster.kubectl_command().get_program().to_owned();
    let kollect = Path::new(env!("CARGO_BIN_EXE_kollect"));
    let mut path = vec![
        kollect.parent().context("a directory")?.to_owned(),
        Path::new(&kubectl)
            .parent()
            .context("a directory")?
            .to_owned(),
    ];
    path.extend(std::env::split_paths(
        &std::env::var_os("PATH").unwrap_or_default(),
    ));
    let path = std::env::join_paths(path)?;
    let text = fs::read_to_string(repository().join(document))?;
    let all = commands(&text);
    ensure!(all.len() > 4, "{document} shows commands");
    for Shown { command, output } in all {
        let script = command.replace("/tmp/", &scratch);
        let ran = Command::new("bash")
            .args(["-c", &script])
            .current_dir(place.path("."))
            .env("HOME", place.path("."))
            .env("PATH", &path)
            .env("KUBECONFIG", cluster.kubeconfig())
            .output()?;
        let stdout = String::from_utf8_lossy(&ran.stdout);
        let stderr = String::from_utf8_lossy(&ran.stderr);
        // 1 of a comparison means that it found something.
        let fine = [
            Some(0),
            Some(i32::from(command.starts_with("kollect diff"))),
        ];
        ensure!(
            fine.contains(&ran.status.code()),
            "{document}: {command}: {:?}\n{stdout}{stderr}",
            ran.status
        );
        let stdout = stdout.replace(&scratch, "/tmp/");
        shown::expect(document, &command, &output, &stdout)?;
    }
    Ok(())
}

#[test]
fn every_command_of_the_readme_works() -> Result<()> {
    run_all("README.md")
}

#[test]
fn every_command_of_the_guide_works() -> Result<()> {
    run_all("docs/cli.md")
}
