//! Reading a large dump, beside `jq` doing the same extraction on the same file, and beside reading the bytes at all.

use std::{
    fs::File,
    io::{BufWriter, Read as _, Write as _},
    path::Path,
    process::{Command, ExitCode, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use kollect_bench::{
    bar::{Bar, report},
    process, program, workload,
};

/// What a run cost.
struct Cost {
    seconds: f64,
    /// Of memory.
    peak_mib: f64,
    lines: usize,
}

/// The same extraction in the language of jq.
const JQ: &str = ".items[] | [.metadata.namespace, .metadata.name, .spec.replicas, \
     ([.spec.template.spec.containers[].image] | tojson)] | @csv";

fn main() -> Result<ExitCode> {
    let objects = std::env::args()
        .nth(1)
        .map_or(Ok(50_000), |text| text.parse())?;
    let place = tempfile::tempdir()?;
    let path = place.path().join("dump.json");
    let bytes = write(&path, objects)?;
    println!("{objects} Deployments, {} MB", bytes / 1_000_000);
    // What is in the cache of the system costs nobody anything.
    let scan = scan(&path)?;
    println!("reading and counting lines: {scan:.3} s");
    let kollect = program::kollect()?;
    let mut ours = Command::new(&kollect);
    ours.args([
        "collect",
        "deployments",
        "-A",
        "-q",
        "--no-headers",
        "-o",
        "csv",
        "--from",
    ])
    .arg(&path)
    .args(["--columns", "namespace,name,replicas,images"])
    .args(["-a", "replicas=$.spec.replicas"])
    .args(["-a", "images=$.spec.template.spec.containers[*].image"]);
    let ours = run(&mut ours)?;
    println!(
        "kollect: {:.3} s, {:.0} MiB, {} rows",
        ours.seconds, ours.peak_mib, ours.lines
    );
    let mut jq = Command::new("jq");
    jq.args(["-r", JQ]).arg(&path);
    let jq = run(&mut jq).context("jq is the yardstick; install it")?;
    println!(
        "jq: {:.3} s, {:.0} MiB, {} rows",
        jq.seconds, jq.peak_mib, jq.lines
    );
    ensure!(
        ours.lines == objects && jq.lines == objects,
        "both find every object"
    );
    Ok(report(&[
        Bar {
            name: "time of kollect beside jq",
            figure: ours.seconds / jq.seconds,
            most: 0.25,
            unit: "x",
        },
        Bar {
            name: "memory of kollect beside jq",
            figure: ours.peak_mib / jq.peak_mib,
            most: 0.15,
            unit: "x",
        },
        Bar {
            name: "time above twice that of reading the bytes",
            figure: ours.seconds - 2.0 * scan,
            most: 1.5,
            unit: "s",
        },
        Bar {
            name: "memory",
            figure: ours.peak_mib,
            most: 150.0,
            unit: "MiB",
        },
    ]))
}

/// Writes what `kubectl get deployments -A -o json` would print.
fn write(path: &Path, objects: usize) -> Result<u64> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"{\n    \"apiVersion\": \"v1\",\n    \"items\": [\n")?;
    for index in 0..objects {
        if index > 0 {
            file.write_all(b",\n")?;
        }
        let mut object = workload::managed(index);
        object["apiVersion"] = "apps/v1".into();
        object["kind"] = "Deployment".into();
        serde_json::to_writer_pretty(&mut file, &object)?;
    }
    file.write_all(b"\n    ],\n    \"kind\": \"List\"\n}\n")?;
    file.flush()?;
    Ok(std::fs::metadata(path)?.len())
}

/// How long counting lines takes.
fn scan(path: &Path) -> Result<f64> {
    let begin = Instant::now();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 256 * 1024];
    let mut lines = 0_usize;
    loop {
        let count = file.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        lines += breaks(&buffer[..count]);
    }
    ensure!(lines > 0, "the dump has lines");
    Ok(begin.elapsed().as_secs_f64())
}

/// Runs a program and looks at it while it runs.
fn run(command: &mut Command) -> Result<Cost> {
    let begin = Instant::now();
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut out = child.stdout.take().context("standard output")?;
    let reader = thread::spawn(move || {
        let mut lines = 0;
        let mut buffer = vec![0; 256 * 1024];
        while let Ok(count @ 1..) = out.read(&mut buffer) {
            lines += breaks(&buffer[..count]);
        }
        lines
    });
    let mut peak_mib: f64 = 0.0;
    let status = loop {
        if let Ok(usage) = process::usage(child.id()) {
            peak_mib = peak_mib.max(usage.peak);
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        thread::sleep(Duration::from_millis(2));
    };
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "{command:?} failed");
    let lines = reader.join().ok().context("reading its output")?;
    Ok(Cost {
        seconds,
        peak_mib,
        lines,
    })
}

/// How many lines end in some bytes.
fn breaks(bytes: &[u8]) -> usize {
    bytes.split(|byte| *byte == b'\n').count() - 1
}
