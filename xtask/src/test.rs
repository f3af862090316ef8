//! `cargo xtask test`: everything that has to hold before a change is good.

use anyhow::Result;
use clap::{Args, ValueEnum};
use kollect_testkit::{ControlPlane, cluster, go};

use crate::step::{Named as _, Report};
use crate::{codegen, demo, licences, programs, workspace};

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only this step; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Step>,

    /// What to test instead of the whole workspace: arguments for `cargo test`.
    #[arg(last = true)]
    cargo: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Step {
    Format,
    Lint,
    Docs,
    Licences,
    Codegen,
    Servers,
    Tests,
    Demo,
}

impl Step {
    fn what(self) -> &'static str {
        match self {
            Self::Format => "rustfmt would change nothing",
            Self::Lint => "clippy, all targets, warnings are errors; each backend alone",
            Self::Docs => "rustdoc, warnings are errors",
            Self::Licences => "licences, banned crates and sources of all dependencies",
            Self::Codegen => "generated files are current",
            Self::Servers => "the programs that the tests start",
            Self::Tests => "unit and integration tests, on a real Kubernetes API",
            Self::Demo => "the kinds are served and the samples are accepted",
        }
    }

    fn run(self, arguments: &Arguments) -> Result<()> {
        match self {
            Self::Format => cargo(&["fmt", "--all", "--check"]),
            Self::Lint => lint(),
            Self::Docs => workspace::execute(
                workspace::cargo(&["doc", "--workspace", "--no-deps", "--locked"])?
                    .env("RUSTDOCFLAGS", "-Dwarnings"),
            ),
            Self::Licences => licences::check(),
            Self::Codegen => codegen::check(),
            Self::Servers => go::KUBERNETES.binaries().map(|_| ()),
            Self::Tests => tests(&arguments.cargo),
            Self::Demo => demo::once(),
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let steps = Step::chosen(&arguments.only);
    let names: Vec<String> = steps.iter().map(|step| step.name()).collect();
    println!("cargo xtask test runs: {}", names.join(", "));
    println!(
        "On two cores the whole takes the better part of an hour on a fresh machine, where the test \
         servers are compiled too, and about half an hour after that."
    );
    println!("Build results: {}", workspace::target_dir()?.display());

    let mut report = Report::default();
    for step in steps {
        report.step(&step.name(), step.what(), || step.run(arguments));
    }
    report.finish("test")
}

/// Clippy everywhere, and every backend of the sinks by itself: a feature that needs another one
/// shows here and nowhere else.
fn lint() -> Result<()> {
    let clippy = ["clippy", "--workspace", "--all-targets", "--locked"];
    cargo(&[&clippy[..], &["--", "-D", "warnings"]].concat())?;
    let alone = [
        "check",
        "--locked",
        "-p",
        "kollect-sinks",
        "--no-default-features",
    ];
    for backend in [
        "",
        "bigquery",
        "git",
        "kafka",
        "mongodb",
        "nats",
        "object-store",
        "postgres",
    ] {
        cargo(&[&alone[..], &["--features", backend]].concat())?;
    }
    Ok(())
}

fn cargo(args: &[&str]) -> Result<()> {
    workspace::execute(&mut workspace::cargo(args)?)
}

/// All test programs, or what was asked for.
fn tests(selection: &[String]) -> Result<()> {
    if selection.is_empty() {
        return programs::run();
    }
    let control_plane = ControlPlane::start()?;
    workspace::execute(
        workspace::cargo(&["test", "--locked"])?
            .args(selection)
            .env(cluster::ENV, control_plane.publish()?),
    )
}
