//! The consumer of the manual, run as it stands there.

use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::{nats::CLIENTS, python};

use crate::stage::Stage;

const PAGE: &str = include_str!("../../../../docs/sinks/nats.md");

/// The first block of Python on the page.
fn example() -> Result<&'static str> {
    let (_, rest) = PAGE.split_once("```python\n").context("an example")?;
    let (script, _) = rest.split_once("```").context("its end")?;
    Ok(script)
}

#[test]
fn the_consumer_of_the_manual_builds_the_table() -> Result<()> {
    let mut stage = Stage::new()?;
    for (name, number) in [("a", 1), ("b", 1), ("c", 1)] {
        stage.put(name, number)?;
    }
    stage.start()?;
    stage.expect_in_step()?;
    stage.put("a", 2)?;
    stage.remove("b")?;
    stage.expect_in_step()?;
    let output = Command::new(python::environment(&CLIENTS)?)
        .args(["-c", example()?])
        .env(
            "NATS_URL",
            format!("nats://127.0.0.1:{}", stage.nats.port()),
        )
        .env("NATS_USER", "user2")
        .env("NATS_PASSWORD", stage.nats.password())
        .env("STOP_AT_THE_END", "1")
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let trouble = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{trouble}");
    let last = text.lines().last().context("no output")?;
    ensure!(last == "2 rows", "{text}");
    Ok(())
}
