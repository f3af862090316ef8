//! The test programs of the workspace, run beside each other: most of them wait for servers, and
//! waiting together takes no longer than waiting alone.
//!
//! Each worker has a control plane of its own, so that programs which run at the same time never
//! see each other's objects.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use kollect_testkit::progress::human;
use kollect_testkit::{ControlPlane, cluster, progress};
use serde_json::Value;

use crate::workspace;

/// Programs at a time. More would make the ones that compute late.
const WORKERS: usize = 2;

/// The programs that take longest begin first, so that none of them is left for the end.
const SLOW: [&str; 13] = [
    "sinks/git",
    "cli/exports",
    "sinks/bigquery",
    "sinks/postgres",
    "sinks/objects",
    "cli/knowledge",
    "cli/admission",
    "cli/tenant",
    "cli/chart",
    "cli/alerts",
    "sinks/kafka",
    "watch/watch",
    "cli/neighbours",
];

/// A test program that cargo built.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Program {
    /// `cli/exports`, `api/lib`.
    name: String,
    executable: PathBuf,
    /// Where cargo would run it.
    directory: PathBuf,
}

/// Builds all test programs and runs them, then the examples in the documentation.
pub(crate) fn run() -> Result<()> {
    let build = ["test", "--locked", "--workspace", "--no-run"];
    let format = ["--message-format", "json-render-diagnostics"];
    let output = workspace::cargo(&[&build[..], &format].concat())?
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("the tests do not compile");
    }
    let programs = programs(&String::from_utf8_lossy(&output.stdout));
    progress::say(&format!(
        "{} test programs, {WORKERS} at a time",
        programs.len()
    ));
    let failed = beside_each_other(programs)?;
    let examples = ["test", "--locked", "--workspace", "--doc"];
    let examples = workspace::execute(&mut workspace::cargo(&examples)?);
    if !failed.is_empty() {
        bail!("these test programs failed: {}", failed.join(", "));
    }
    examples
}

/// The test programs among the messages of a build, slow ones first.
fn programs(messages: &str) -> Vec<Program> {
    let mut programs: Vec<Program> = messages.lines().filter_map(program).collect();
    programs.sort_by_key(|program| {
        let slow = SLOW.iter().position(|slow| *slow == program.name);
        let own_tests = program.name.ends_with("/lib") || program.name.ends_with("/bin");
        (slow.unwrap_or(SLOW.len()), own_tests, program.name.clone())
    });
    programs
}

fn program(message: &str) -> Option<Program> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message["profile"]["test"] != Value::Bool(true) {
        return None;
    }
    let executable = PathBuf::from(message["executable"].as_str()?);
    let directory = Path::new(message["manifest_path"].as_str()?).parent()?;
    let package = directory.file_name()?.to_string_lossy();
    let kind = message["target"]["kind"][0].as_str()?;
    let target = match kind {
        "test" => message["target"]["name"].as_str()?,
        other => other,
    };
    Some(Program {
        name: format!("{package}/{target}"),
        executable,
        directory: directory.to_owned(),
    })
}

/// Runs the programs and returns the names of those that failed.
fn beside_each_other(programs: Vec<Program>) -> Result<Vec<String>> {
    let queue = Mutex::new(VecDeque::from(programs));
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| scope.spawn(|| work(&queue, &failed)))
            .collect();
        for worker in workers {
            match worker.join() {
                Ok(result) => result?,
                Err(_) => bail!("a worker panicked"),
            }
        }
        Ok(())
    })?;
    Ok(failed.into_inner().unwrap_or_else(PoisonError::into_inner))
}

fn work(queue: &Mutex<VecDeque<Program>>, failed: &Mutex<Vec<String>>) -> Result<()> {
    let control_plane = ControlPlane::start()?;
    let announced = control_plane.publish()?;
    loop {
        let next = queue
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        let Some(program) = next else {
            return Ok(());
        };
        let started = Instant::now();
        // Errors go where results go, so that a failure stands beside what it complains about.
        let (reader, writer) = std::io::pipe().context("cannot make a pipe")?;
        let mut child = Command::new(&program.executable)
            .current_dir(&program.directory)
            .env(cluster::ENV, &announced)
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .spawn()
            .with_context(|| format!("cannot run {}", program.executable.display()))?;
        let output = std::io::read_to_string(reader);
        let status = child.wait()?;
        tell(&program, started.elapsed(), &output.unwrap_or_default());
        if !status.success() {
            let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
            failed.push(format!("{} ({status})", program.name));
        }
    }
}

fn tell(program: &Program, took: Duration, output: &str) {
    // One call, so that two programs that end at once do not mix their lines.
    println!("\n     Ran {} in {}\n{output}", program.name, human(took));
}

#[cfg(test)]
mod tests {
    use super::programs;

    fn message(manifest: &str, kind: &str, name: &str, test: bool) -> String {
        let executable = format!("/target/debug/deps/{name}-0123");
        serde_json::json!({
            "reason": "compiler-artifact",
            "manifest_path": manifest,
            "target": {"kind": [kind], "name": name},
            "profile": {"test": test},
            "executable": executable,
        })
        .to_string()
    }

    #[test]
    fn slow_programs_come_first_and_others_are_no_tests() {
        let messages = [
            message("/k/crates/api/Cargo.toml", "lib", "kollect_api", true),
            message("/k/crates/api/Cargo.toml", "test", "it", true),
            message("/k/crates/cli/Cargo.toml", "bin", "kollect", false),
            message("/k/crates/cli/Cargo.toml", "bin", "kollect", true),
            message("/k/crates/cli/Cargo.toml", "test", "exports", true),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let programs = programs(&messages.join("\n"));
        let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
        assert_eq!(names, ["cli/exports", "api/it", "api/lib", "cli/bin"]);
        assert!(programs[0].directory.ends_with("crates/cli"));
    }
}
