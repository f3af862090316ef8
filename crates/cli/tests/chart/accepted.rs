//! Everything that is rendered is accepted by an API server.

use std::{
    io::Write as _,
    process::Stdio,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use anyhow::{Result, anyhow, bail, ensure};

use crate::{
    rendered::{Case, cases},
    stage::Stage,
};

/// How many at a time: kubectl spends most of its time waiting.
const AT_A_TIME: usize = 4;

fn accept(stage: &Stage, case: &Case) -> Result<()> {
    let text = case.render(&stage.helm, &stage.directory)?;
    let mut child = stage
        .cluster()
        .kubectl_command()
        .args([
            "apply",
            "--server-side",
            "--dry-run=server",
            "--force-conflicts",
        ])
        .args(["--validate=strict", "-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(text.as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("{}", said.trim());
    }
    // What is deprecated today is refused tomorrow.
    let warned = said.lines().filter(|line| line.starts_with("Warning"));
    // Definitions are there already, applied in another way.
    let warned: Vec<&str> = warned
        .filter(|line| !line.contains("last-applied"))
        .collect();
    ensure!(warned.is_empty(), "{warned:?}");
    Ok(())
}

#[test]
fn an_api_server_accepts_everything_that_is_rendered() -> Result<()> {
    let stage = Stage::shared()?;
    let cases = cases()?;
    let cases: Vec<&Case> = cases
        .iter()
        .filter(|case| case.refused.is_none() && case.dryrun)
        .collect();
    ensure!(cases.len() >= 25, "{} cases", cases.len());
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(error) = accept(stage, case)
                        && let Ok(mut failures) = failures.lock()
                    {
                        failures.push(format!("{}: {error:#}", case.title));
                    }
                }
            });
        }
    });
    let failures = failures
        .into_inner()
        .map_err(|_| anyhow!("a thread panicked"))?;
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}
