//! Ctrl-C, whatever the program is doing.

use std::{
    io::{Read as _, Write as _},
    process::Child,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};

use crate::program::{Place, repository};

fn shop() -> String {
    repository().join("examples/shop").display().to_string()
}

/// Sends the signal of Ctrl-C and waits.
fn interrupt(child: &mut Child) -> Result<i32> {
    let pid = child.id().to_string();
    let sent = std::process::Command::new("kill")
        .args(["-INT", &pid])
        .status()?;
    ensure!(sent.success(), "cannot signal");
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().unwrap_or(-1));
        }
        if Instant::now() > deadline {
            child.kill()?;
            anyhow::bail!("it does not end");
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn said(child: &mut Child) -> String {
    let mut text = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        let _ = stderr.read_to_string(&mut text);
    }
    text
}

#[test]
fn e2_while_it_waits_for_a_dump() -> Result<()> {
    let place = Place::new();
    let shop = shop();
    let mut child = place.start(&["collect", "-f", &shop, "--from", "-", "--output", "out"]);
    // Half a dump; the rest never comes.
    let mut input = child.stdin.take();
    let half = input
        .as_mut()
        .map(|input| input.write_all(b"{\"kind\":\"List\",\"items\":["));
    thread::sleep(Duration::from_millis(500));
    let waits = child.try_wait();
    let ended = interrupt(&mut child);
    half.transpose()?;
    ensure!(waits?.is_none(), "it waits for its input");
    assert_eq!(ended?, 130);
    assert!(said(&mut child).contains("interrupted"));
    assert!(!place.path("out").exists());
    Ok(())
}

#[test]
fn e2_while_a_dump_is_read() -> Result<()> {
    let place = Place::new();
    let object = |number: usize| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d{number}","namespace":"n","annotations":{{"text":"{}"}}}},"spec":{{"replicas":1}}}}"#,
            "x".repeat(2_000)
        )
    };
    let objects: Vec<String> = (0..60_000).map(object).collect();
    place.write(
        "dump.json",
        &format!(r#"{{"kind":"List","items":[{}]}}"#, objects.join(",")),
    );
    let shop = shop();
    let args = [
        "collect",
        "-f",
        &shop,
        "--from",
        "dump.json",
        "--output",
        "out",
    ];
    let mut child = place.start(&args);
    thread::sleep(Duration::from_millis(300));
    ensure!(
        child.try_wait()?.is_none(),
        "the dump is too small for this test"
    );
    assert_eq!(interrupt(&mut child)?, 130);
    assert!(said(&mut child).contains("interrupted"));
    assert!(!place.path("out").exists());
    Ok(())
}
