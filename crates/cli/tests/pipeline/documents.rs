//! Every command in README and docs/cli.md is run, and prints what they show.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::Cluster;

use crate::program::{Place, repository};

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

/// One command and what is shown of its output.
#[derive(Debug, Default)]
struct Shown {
    command: String,
    output: Vec<String>,
}

/// The commands of all `console` blocks.
fn commands(text: &str) -> Vec<Shown> {
    let mut found: Vec<Shown> = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            line => match line.strip_prefix("$ ") {
                Some(command) => found.push(Shown {
                    command: command.to_owned(),
                    output: Vec::new(),
                }),
                None => {
                    let Some(last) = found.last_mut() else {
                        continue;
                    };
                    // A command may go on on the next line.
                    if last.output.is_empty() && last.command.ends_with('\\') {
                        last.command.pop();
                        last.command.push_str(line.trim_start());
                    } else {
                        last.output.push(line.to_owned());
                    }
                }
            },
        }
    }
    for shown in &mut found {
        while shown.output.last().is_some_and(String::is_empty) {
            shown.output.pop();
        }
    }
    found
}

/// Whether a line is as it is shown; `…` stands for anything, at the end of the output also for more lines.
fn is_shown(line: &str, shown: &str) -> bool {
    let mut pieces = shown.split('…');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let mut open = false;
    for piece in pieces {
        open = true;
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.is_empty() || (open && shown.ends_with('…'))
}

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
        let lines: Vec<&str> = stdout.lines().collect();
        for (number, shown) in output.iter().enumerate() {
            let shown = shown.replace("/tmp/", &scratch);
            let line = lines.get(number).copied().unwrap_or("(nothing)");
            // Columns are as wide as what is in them.
            let same = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            ensure!(
                is_shown(&same(line), &same(&shown)),
                "{document}: {command}\nline {}: {shown:?} is shown, {line:?} is printed\n{stdout}",
                number + 1
            );
        }
        let more = output.last().is_some_and(|last| last.contains('…'));
        ensure!(
            output.is_empty() || more || lines.len() == output.len(),
            "{document}: {command} prints more than is shown:\n{stdout}"
        );
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

#[test]
fn shown_lines() {
    for (line, shown, expected) in [
        ("a b", "a b", true),
        ("a b", "a", false),
        ("a 123", "a …", true),
        ("a 123 c", "a … c", true),
        ("a 123 d", "a … c", false),
    ] {
        assert_eq!(is_shown(line, shown), expected, "{line} {shown}");
    }
}
