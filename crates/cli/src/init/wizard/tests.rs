//! The questions answered by a script, about a cluster that is a table.

use std::cell::RefCell;

use kollect_api::GroupVersionKind;
use serde_json::{Value, json};

use super::*;
use crate::{
    configuration::{Configuration, Finding, Severity, Standard},
    init::prompts::Check,
    manifest::Text,
};

/// One answer of the script.
#[derive(Debug, Clone)]
enum Say {
    Yes,
    No,
    /// The option that begins like this.
    Pick(&'static str),
    /// The options that begin like these.
    PickAll(&'static [&'static str]),
    Type(&'static str),
    /// Whatever is offered.
    Default,
    Interrupt,
}

struct Script {
    answers: RefCell<Vec<Say>>,
    shown: RefCell<String>,
}

impl Script {
    fn new(answers: &[Say]) -> Self {
        let mut answers = answers.to_vec();
        answers.reverse();
        Self {
            answers: RefCell::new(answers),
            shown: RefCell::default(),
        }
    }

    fn next(&self, question: &str) -> Result<Say, Stopped> {
        self.say(question);
        let answer = self.answers.borrow_mut().pop();
        match answer.unwrap_or_else(|| panic!("nobody expected {question:?}")) {
            Say::Interrupt => canceled("you stopped"),
            answer => Ok(answer),
        }
    }
}

fn position(options: &[String], wanted: &str) -> usize {
    let found = options.iter().position(|option| option.starts_with(wanted));
    found.unwrap_or_else(|| panic!("{wanted:?} is none of {options:?}"))
}

impl Prompts for Script {
    fn say(&self, text: &str) {
        self.shown.borrow_mut().push_str(text);
        self.shown.borrow_mut().push('\n');
    }

    fn confirm(&self, question: &str, default: bool) -> Result<bool, Stopped> {
        Ok(match self.next(question)? {
            Say::Yes => true,
            Say::No => false,
            Say::Default => default,
            other => panic!("{other:?} does not answer {question:?}"),
        })
    }

    fn select(&self, question: &str, options: Vec<String>) -> Result<usize, Stopped> {
        match self.next(question)? {
            Say::Pick(wanted) => Ok(position(&options, wanted)),
            other => panic!("{other:?} does not answer {question:?}"),
        }
    }

    fn multi_select(
        &self,
        question: &str,
        options: Vec<String>,
        chosen: &[usize],
    ) -> Result<Vec<usize>, Stopped> {
        self.say(&options.join("\n"));
        Ok(match self.next(question)? {
            Say::PickAll(wanted) => wanted.iter().map(|one| position(&options, one)).collect(),
            Say::Default => chosen.to_vec(),
            other => panic!("{other:?} does not answer {question:?}"),
        })
    }

    fn text(&self, question: &str, default: &str, check: Check) -> Result<String, Stopped> {
        let text = match self.next(question)? {
            Say::Type(text) => text,
            Say::Default => default,
            other => panic!("{other:?} does not answer {question:?}"),
        };
        check(text).unwrap();
        Ok(text.to_owned())
    }
}

/// A cluster with a few kinds and one object of each, which counts what is read of objects.
#[derive(Default)]
struct Table {
    reads: RefCell<Vec<String>>,
}

impl Cluster for Table {
    fn place(&self) -> (&str, &str) {
        ("dev", "https://127.0.0.1:6443/")
    }

    fn kinds(&self) -> Result<Vec<Offered>> {
        let offered = |group: &str, kind: &str, namespaced| Offered {
            kind: GroupVersionKind::new(group, "v1", kind),
            plural: format!("{}s", kind.to_lowercase()),
            names: Vec::new(),
            namespaced,
        };
        Ok(vec![
            offered("", "Secret", true),
            offered("", "Node", false),
            offered("apps", "Deployment", true),
        ])
    }

    fn namespaces(&self) -> Result<Vec<String>> {
        Ok(["team-b", "default", "team-a"].map(str::to_owned).to_vec())
    }

    fn names(&self, kind: &Offered, _: &Namespaces, _: u32) -> Result<Vec<Place>> {
        self.reads
            .borrow_mut()
            .push(format!("list {}", kind.plural));
        Ok(vec![("team-a".to_owned(), "one".to_owned())])
    }

    fn get(&self, kind: &Offered, _: &Place) -> Result<Value> {
        self.reads.borrow_mut().push(format!("get {}", kind.plural));
        Ok(json!({
            "metadata": {"name": "one", "labels": {"app": "x"}},
            "spec": {"replicas": 3},
            "data": {"password": "hunter2"},
        }))
    }
}

struct Done {
    outcome: Result<Vec<File>, Stopped>,
    shown: String,
    reads: Vec<String>,
}

fn run(answers: &[Say]) -> Done {
    run_in(Path::new("/nowhere/at/all"), answers)
}

fn run_in(directory: &Path, answers: &[Say]) -> Done {
    let (cluster, script) = (Table::default(), Script::new(answers));
    let wizard = Wizard {
        cluster: &cluster,
        prompts: &script,
    };
    let outcome = wizard.run(directory);
    assert!(
        script.answers.borrow().is_empty(),
        "not all questions were asked"
    );
    Done {
        outcome,
        shown: script.shown.take(),
        reads: cluster.reads.take(),
    }
}

impl Done {
    /// The files, after the ordinary loader took them without a word.
    fn files(&self) -> (&str, &str) {
        let (files, findings) = self.loaded();
        assert_eq!(findings, [], "what is written is valid");
        files
    }

    /// The files, and what the ordinary loader says about them.
    fn loaded(&self) -> ((&str, &str), Vec<Finding>) {
        let files = self.outcome.as_ref().unwrap();
        let texts = files.iter().map(|file| Text {
            name: file.name.to_owned(),
            content: file.content.clone(),
        });
        let texts: Vec<Text> = texts.collect();
        let loaded = Configuration::load(&texts, &Standard::default());
        assert_eq!(loaded.objects.len(), 2);
        ((&files[0].content, &files[1].content), loaded.findings)
    }

    fn is_canceled(&self) -> bool {
        matches!(self.outcome, Err(Stopped::Canceled(_)))
    }
}

use Say::{Default as Offered_, Interrupt, No, Pick, PickAll, Type, Yes};

#[test]
fn a_pattern_becomes_the_names_it_matches_now() {
    let done = run(&[
        Yes,
        Pick("Deployment (apps/v1)"),
        Pick("Discovery-time"),
        Type("team-*"),
        No,
        Pick("No resource filter"),
        No,
        PickAll(&["creationTimestamp", "labels"]),
        Type("deployment-images"),
        Yes,
    ]);
    let (profile, target) = done.files();
    assert!(target.contains("  includedNamespaces:\n  - team-a\n  - team-b\n"));
    assert!(!target.contains("team-*") && !profile.contains("team-*"));
    assert!(done.shown.contains("later ones are not included"));
    assert!(done.reads.is_empty(), "{:?}", done.reads);
}

#[test]
fn the_durable_way_is_a_selector() {
    let done = run(&[
        Yes,
        Pick("Deployment"),
        Pick("Discovery-time"),
        Type("team-*"),
        Yes,
        Type("team=a"),
        Pick("Label selector"),
        Type("app=x"),
        No,
        Offered_,
        Offered_,
        Yes,
    ]);
    let (_, target) = done.files();
    assert!(target.contains("namespaceSelector:\n    matchLabels:\n      team: a\n"));
    assert!(target.contains("labelSelector:\n    matchLabels:\n      app: x\n"));
    assert!(!target.contains("includedNamespaces"));
    assert!(target.contains("name: deployment\n"), "{target}");
}

#[test]
fn whoever_declines_gets_nothing_written_and_nothing_read() {
    assert!(run(&[No]).is_canceled());
    assert!(run(&[Yes, Interrupt]).is_canceled());
    let done = run(&[
        Yes,
        Pick("Node"),
        Pick("Explicit resource name list"),
        Type("a, b"),
        No,
        Offered_,
        Offered_,
        No,
    ]);
    assert!(done.is_canceled() && done.reads.is_empty());
}

#[test]
fn no_namespaces_are_not_all_namespaces() {
    let done = run(&[
        Yes,
        Pick("Deployment"),
        Pick("Explicit namespace"),
        PickAll(&[]),
    ]);
    let Err(Stopped::Failed(error)) = done.outcome else {
        panic!("an empty list must not pass");
    };
    assert!(error.to_string().contains("all of them"), "{error}");
}

#[test]
fn a_sample_suggests_attributes() {
    let done = run(&[
        Yes,
        Pick("Deployment"),
        Pick("All"),
        Pick("No"),
        // Enter means yes, and nobody asks again.
        Offered_,
        Pick("team-a/one"),
        PickAll(&["labels (", "replicas"]),
        Offered_,
        Yes,
    ]);
    let (profile, _) = done.files();
    assert!(profile.contains("path: $.spec.replicas"), "{profile}");
    assert!(!profile.contains("annotations"));
    assert_eq!(done.reads, ["list deployments", "get deployments"]);
    assert!(!done.shown.contains("hunter2"));
    assert!(
        done.shown
            .contains("Deployment (apps/v1) namespace=team-a name=one")
    );
}

#[test]
fn secrets_are_read_only_with_consent() {
    let begin = [Yes, Pick("Secret"), Pick("All"), Pick("No"), Yes];
    let with = |rest: &[Say]| run(&[&begin[..], rest].concat());
    let declined = with(&[No, Offered_, Offered_, Yes]);
    assert!(declined.reads.is_empty());
    assert!(!declined.files().0.contains("annotations"));
    let accepted = with(&[
        Yes,
        Pick("team-a/one"),
        PickAll(&["labels (", "data.password"]),
        Offered_,
        Yes,
    ]);
    // The consent is the author's own. That other namespaces need an administrator's is warned of.
    let ((profile, target), findings) = accepted.loaded();
    let [warning] = &findings[..] else {
        panic!("one warning was expected: {findings:?}");
    };
    assert_eq!(warning.severity, Severity::Warning, "{warning:?}");
    assert_eq!(warning.file, "target.yaml");
    assert!(
        warning.problem.contains("allowSensitiveCollection"),
        "{warning:?}"
    );
    assert!(
        profile.contains("kollect.dev/allow-secret-extraction: \"true\""),
        "{profile}"
    );
    let all = format!("{profile}{target}{}", accepted.shown);
    assert!(!all.contains("hunter2"));
}

#[test]
fn files_are_overwritten_only_with_consent() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("profile.yaml");
    std::fs::write(&path, "mine").unwrap();
    let answers = |last| {
        let begin = [Yes, Pick("Node"), Pick("No"), No, Offered_, Offered_, Yes];
        [&begin[..], &[last]].concat()
    };
    let done = run_in(directory.path(), &answers(No));
    assert!(done.is_canceled() && done.shown.contains("mine"));
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    assert!(run_in(directory.path(), &answers(Yes)).outcome.is_ok());
}
