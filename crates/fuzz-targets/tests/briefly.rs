//! Runs every target for a few seconds.
//!
//! `KOLLECT_FUZZ_SECONDS` and `KOLLECT_FUZZ_NUMBER` change how long and with which inputs.

use std::path::Path;
use std::time::Duration;

use kollect_fuzz_targets::{CEL, HELM, JSON_PATH, OBJECT, TARGETS, Target, driver};

/// No input may keep a worker busy for longer, even without optimisation on a busy machine.
const SLOWEST: Duration = Duration::from_secs(10);

fn setting(name: &str, default: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(default, |value| value.parse().expect("a number"))
}

fn run(target: &Target) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target.name);
    let corpus = driver::corpus(&directory).expect("a corpus");
    assert!(corpus.len() >= 5, "a corpus of {}", corpus.len());
    let time = Duration::from_secs(setting("KOLLECT_FUZZ_SECONDS", 5));
    let report = driver::run(target, &corpus, setting("KOLLECT_FUZZ_NUMBER", 1), time);
    println!("{}: {report:?}", target.name);
    assert!(report.inputs > 500, "{report:?}");
    assert!(report.slowest < SLOWEST, "{report:?}");
}

#[test]
fn cel() {
    run(&CEL);
}

#[test]
fn json_path() {
    run(&JSON_PATH);
}

#[test]
fn helm() {
    run(&HELM);
}

#[test]
fn object() {
    run(&OBJECT);
}

/// A driver that finds nothing is only worth something if it would find something.
#[test]
#[should_panic(expected = "finds it: \"")]
fn the_driver_finds_a_broken_promise() {
    let target = Target {
        name: "finds it",
        check: |data| assert!(!data.windows(2).any(|pair| pair == b"}}")),
        longest: 100,
        words: &["}"],
    };
    driver::run(&target, &[b"{}".to_vec()], 1, Duration::from_secs(5));
}

/// Every target has a program for libFuzzer.
#[test]
fn libfuzzer_knows_every_target() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let manifest = std::fs::read_to_string(fuzz.join("Cargo.toml")).expect("a manifest");
    for Target { name, .. } in TARGETS {
        assert!(manifest.contains(&format!("name = \"{name}\"")), "{name}");
        assert!(
            fuzz.join(format!("fuzz_targets/{name}.rs")).exists(),
            "{name}"
        );
    }
}
