//! Supervision: no program survives its owner, and failures say why.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, thread};

use anyhow::{Result, bail};
use kollect_testkit::RunDir;
use kollect_testkit::process::{Process, Program, Signal};

/// Names the file in which the child of `dies_with_the_process` announces its own child.
const ANNOUNCE: &str = "KOLLECT_TESTKIT_ANNOUNCE";

fn sleeper(run: &RunDir) -> Process {
    Program::new("sleep", "sleep")
        .arg("600")
        .spawn(run.path())
        .unwrap()
}

fn lives(pid: u32) -> bool {
    // A dead process that nobody has waited for still has an entry, with state Z.
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .starts_with(" Z")
    })
}

fn gone_soon(pid: u32) -> bool {
    let started = Instant::now();
    while lives(pid) && started.elapsed() < Duration::from_secs(10) {
        thread::sleep(Duration::from_millis(10));
    }
    !lives(pid)
}

#[test]
fn dies_on_drop_and_on_panic() {
    let run = RunDir::new("process").unwrap();
    let process = sleeper(&run);
    let pid = process.pid();
    assert!(lives(pid));
    drop(process);
    assert!(!lives(pid));

    let process = sleeper(&run);
    let pid = process.pid();
    let panicked = thread::spawn(move || {
        let _owned = process;
        panic!("expected by this test");
    });
    assert!(panicked.join().is_err());
    assert!(!lives(pid));
}

#[test]
fn outlives_the_thread_that_started_it() {
    let run = RunDir::new("process").unwrap();
    let mut process = thread::scope(|scope| scope.spawn(|| sleeper(&run)).join().unwrap());
    // The signal would arrive at the end of the thread, not later.
    thread::sleep(Duration::from_millis(200));
    assert!(process.is_running());
    assert!(!process.stop(Signal::TERM).unwrap().success());
}

/// Runs itself as a child that starts a program and is then killed without a chance to clean up.
#[test]
fn dies_with_the_process() {
    if let Some(file) = std::env::var_os(ANNOUNCE) {
        let run = RunDir::new("process").unwrap();
        let process = sleeper(&run);
        let partial = format!("{}.partial", file.display());
        fs::write(&partial, process.pid().to_string()).unwrap();
        fs::rename(partial, file).unwrap();
        thread::sleep(Duration::from_mins(1));
        return;
    }
    let run = RunDir::new("process").unwrap();
    let file = run.join("pid");
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "dies_with_the_process", "--nocapture"])
        .env(ANNOUNCE, &file)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let started = Instant::now();
    while !file.exists() && started.elapsed() < Duration::from_secs(30) {
        thread::sleep(Duration::from_millis(10));
    }
    let pid: u32 = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert!(lives(pid));
    owner.kill().unwrap();
    owner.wait().unwrap();
    assert!(gone_soon(pid), "the kernel ends {pid} with its owner");
}

#[test]
fn a_program_that_ends_early_shows_its_last_words() {
    let run = RunDir::new("process").unwrap();
    let mut process = Program::new("broken", "sh")
        .arg("-c")
        .arg("echo port is taken; exit 3")
        .spawn(run.path())
        .unwrap();
    let never = || -> Result<()> { bail!("connection refused") };
    let error = process
        .wait_ready(Duration::from_secs(20), never)
        .unwrap_err()
        .to_string();
    assert!(error.contains("broken exited (exit status: 3)"), "{error}");
    assert!(error.ends_with("port is taken"), "{error}");
}

#[test]
fn a_program_that_never_answers_is_given_up() {
    let run = RunDir::new("process").unwrap();
    let mut process = sleeper(&run);
    let never = || -> Result<()> { bail!("connection refused") };
    let error = process
        .wait_ready(Duration::from_secs(1), never)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("sleep was not ready after 1s: connection refused"),
        "{error}"
    );
}
