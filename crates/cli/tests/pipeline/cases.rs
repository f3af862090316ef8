//! Cases as data: files, arguments and what must come of them.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::program::{Place, repository};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// Files that are there; `shop` stands for the example configuration, `dump` for its dump.
    #[serde(default)]
    files: BTreeMap<String, String>,
    #[serde(default)]
    uses: Vec<String>,
    /// Runs, one after the other, in the same directory.
    runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    stdin: String,
    code: i32,
    /// Texts that standard output must contain; an empty list means that it must be empty.
    #[serde(default)]
    stdout: Option<Vec<String>>,
    #[serde(default)]
    stderr: Vec<String>,
    /// Texts that must be nowhere.
    #[serde(default)]
    absent: Vec<String>,
    /// Files afterwards and what they contain; null means that there is none.
    #[serde(default)]
    after: BTreeMap<String, Option<String>>,
}

fn run_cases(text: &str) {
    let cases: Vec<Case> = serde_saphyr::from_str(text).unwrap();
    assert!(!cases.is_empty());
    // Side by side: most of the time goes into starting the program.
    let workers = 4;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let share = cases.iter().skip(worker).step_by(workers);
            scope.spawn(move || share.for_each(run_case));
        }
    });
}

fn run_case(case: &Case) {
    let name = &case.name;
    let place = Place::new();
    for used in &case.uses {
        for entry in std::fs::read_dir(repository().join("examples").join(used)).unwrap() {
            let path = entry.unwrap().path();
            let file = path.file_name().unwrap().to_str().unwrap();
            let content = std::fs::read_to_string(&path).unwrap();
            place.write(&format!("{used}/{file}"), &content);
        }
    }
    for (file, content) in &case.files {
        place.write(file, content);
    }
    for (number, run) in case.runs.iter().enumerate() {
        let args: Vec<&str> = run.args.iter().map(String::as_str).collect();
        let env: Vec<(&str, &str)> = run
            .env
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
            .collect();
        let ran = place.run(&args, &env, &run.stdin);
        let at = format!("{name}, run {number}: {ran:#?}");
        assert_eq!(ran.code, run.code, "{at}");
        if let Some(expected) = &run.stdout {
            if expected.is_empty() {
                assert_eq!(ran.stdout, "", "{at}");
            }
            for text in expected {
                assert!(ran.stdout.contains(text), "no {text:?} on stdout of {at}");
            }
        }
        for text in &run.stderr {
            assert!(ran.stderr.contains(text), "no {text:?} on stderr of {at}");
        }
        for text in &run.absent {
            let both = format!("{}{}", ran.stdout, ran.stderr);
            assert!(!both.contains(text), "{text:?} in {at}");
        }
        for (file, expected) in &run.after {
            let content = place.read(file);
            match expected {
                None => assert_eq!(content, None, "{file} after {at}"),
                Some(text) => assert!(
                    content
                        .as_deref()
                        .is_some_and(|content| content.contains(text)),
                    "no {text:?} in {file} = {content:?} after {at}"
                ),
            }
        }
    }
}

#[test]
fn frame() {
    run_cases(include_str!("../data/frame.yaml"));
}

#[test]
fn validate() {
    run_cases(include_str!("../data/validate.yaml"));
}

#[test]
fn init() {
    run_cases(include_str!("../data/init.yaml"));
}

#[test]
fn collect_from_a_dump() {
    run_cases(include_str!("../data/collect.yaml"));
}

#[test]
fn every_example_is_valid() {
    let examples = repository().join("examples");
    let mut directories = vec![examples.join("shop")];
    for entry in std::fs::read_dir(examples.join("pipeline")).unwrap() {
        directories.push(entry.unwrap().path());
    }
    assert!(directories.len() > 5, "{directories:?}");
    for directory in directories {
        let place = Place::new();
        let ran = place.run(
            &["validate", "--strict", directory.to_str().unwrap()],
            &[],
            "",
        );
        assert_eq!(ran.code, 0, "{}: {ran:#?}", directory.display());
        assert_eq!(ran.stderr, "", "{}", directory.display());
    }
}

/// The API server's word on the samples is asked for in the tests of the API.
#[test]
fn e1_every_sample_is_valid() {
    let place = Place::new();
    for directory in [
        "deploy/samples",
        "examples/shop",
        "examples/git",
        "examples/tenancy",
    ] {
        let directory = repository().join(directory);
        let ran = place.run(&["validate", directory.to_str().unwrap()], &[], "");
        assert_eq!(ran.code, 0, "{ran:#?}");
    }
}

#[test]
fn a_file_that_says_the_same_is_not_touched() {
    let place = Place::new();
    let examples = repository().join("examples");
    let path = |name: &str| examples.join(name).to_str().unwrap().to_owned();
    let collect = || {
        let (shop, dump) = (path("shop"), path("dump"));
        let args = [
            "collect", "--config", &shop, "--from", &dump, "--output", "out",
        ];
        let ran = place.run(&args, &[], "");
        assert_eq!(ran.code, 0, "{ran:#?}");
        let file = place.path("out/inventory/shop/deployments.yaml");
        let modified = std::fs::metadata(&file).unwrap().modified().unwrap();
        (modified, ran.stderr)
    };
    let (first, _) = collect();
    std::thread::sleep(std::time::Duration::from_millis(20));
    let (second, told) = collect();
    assert_eq!(first, second);
    assert!(told.contains("unchanged"), "{told}");
}
