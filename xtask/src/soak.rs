//! `cargo xtask soak`: what the tests try for a minute, tried for longer.
//!
//! The same test programs as in `cargo xtask test`, told by the environment to go on. What they
//! print is meant to be pasted into an issue.

use std::process::Command;
use std::thread;

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::step::{Named as _, Report};
use crate::workspace;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Run only this; may be given several times.
    #[arg(long, value_enum)]
    only: Vec<Soak>,

    /// For how many minutes hostile neighbours do their worst.
    #[arg(long, default_value_t = 10)]
    minutes: u64,

    /// How often the operator is killed.
    #[arg(long, default_value_t = 1_000)]
    kills: usize,

    /// How often the server of a sink is killed in the middle of deliveries.
    #[arg(long, default_value_t = 100)]
    server_kills: usize,

    /// How often the operator is killed while it publishes to a stream.
    #[arg(long, default_value_t = 200)]
    stream_kills: usize,

    /// Test the debug build, as the tests do, instead of the one that is shipped.
    #[arg(long)]
    debug: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Soak {
    Neighbours,
    Kills,
    Servers,
    Streams,
    Rest,
    Uploads,
    FleetPostgres,
    FleetMongodb,
    Churn,
}

impl Soak {
    fn what(self) -> &'static str {
        match self {
            Self::Neighbours => "one namespace does its worst, another one must not notice",
            Self::Kills => "the operator killed at any moment loses and deletes nothing",
            Self::Servers => "a MongoDB server killed in the middle loses nothing it acknowledged",
            Self::Streams => {
                "the newest messages are right however often operator and server are killed"
            }
            Self::Rest => "an idle inventory writes nothing for ten minutes",
            Self::FleetPostgres => "200 clusters on one PostgreSQL table wait for nobody",
            Self::FleetMongodb => "200 clusters on one MongoDB collection touch nobody's documents",
            Self::Uploads => "uploads killed a hundred times leave nothing half written",
            Self::Churn => "five minutes of a hundred changes per second are gathered",
        }
    }

    /// The test program, the test in it, and what it is told.
    fn command(self, arguments: &Arguments) -> Result<Command> {
        let (package, program, test) = match self {
            Self::Neighbours => (
                "kollect-cli",
                "neighbours",
                "hostile_neighbours_cost_others_nothing",
            ),
            Self::Kills => ("kollect-cli", "exports", "kills_and_outages"),
            Self::Servers => (
                "kollect-sinks",
                "mongo",
                "a_server_is_killed_in_the_middle_of_deliveries",
            ),
            Self::Streams => (
                "kollect-cli",
                "streams",
                "kills_leave_the_newest_messages_right",
            ),
            Self::Rest => ("kollect-cli", "exports", "an_idle_inventory_rests"),
            Self::FleetPostgres => ("kollect-sinks", "postgres", "a_fleet_on_one_table"),
            Self::FleetMongodb => ("kollect-sinks", "mongo", "a_fleet_on_one_collection"),
            Self::Uploads => (
                "kollect-sinks",
                "objects",
                "killed_uploads_leave_nothing_half_written",
            ),
            Self::Churn => ("kollect-cli", "exports", "churn_is_gathered"),
        };
        let mut args = vec!["test", "--locked", "-p", package, "--test", program];
        if !arguments.debug {
            args.push("--release");
        }
        args.extend(["--", "--include-ignored", "--nocapture", test]);
        let mut command = workspace::cargo(&args)?;
        command
            .env(
                "KOLLECT_NEIGHBOURS_SECONDS",
                (arguments.minutes * 60).to_string(),
            )
            .env("KOLLECT_KILLS", arguments.kills.to_string())
            .env("KOLLECT_SERVER_KILLS", arguments.server_kills.to_string())
            .env("KOLLECT_UPLOAD_KILLS", "100")
            .env("KOLLECT_FLEET_CLUSTERS", "200")
            .env("KOLLECT_FLEET_ROUNDS", "40")
            .env("KOLLECT_CHURN_SECONDS", "300")
            .env("KOLLECT_STREAM_KILLS", arguments.stream_kills.to_string());
        Ok(command)
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let build = if arguments.debug { "debug" } else { "release" };
    let cores = thread::available_parallelism().map_or(1, usize::from);
    println!("cargo xtask soak of {}", commit());
    println!(
        "{build} build, {cores} cores, {} minutes of hostile neighbours, {} kills",
        arguments.minutes, arguments.kills
    );
    let mut report = Report::default();
    for soak in Soak::chosen(&arguments.only) {
        report.step(&soak.name(), soak.what(), || {
            workspace::execute(&mut soak.command(arguments)?)
        });
    }
    report.finish("soak")
}

/// What is tested, for whoever reads the figures later.
fn commit() -> String {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty"])
        .current_dir(workspace::root())
        .output();
    let text = described.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "an unknown commit".to_owned())
}
