//! `cargo xtask bench`: the figures that Kollect is held to, measured beside a yardstick in the
//! same run, so that the machine does not matter.

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::workspace;

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Decoding and extraction: time and memory per object, against cloning and full decoding.
    Extract,
    /// Planning in a large installation: a plan from nothing, and the ones that follow.
    Plan,
    /// Collection on a real API server: time to know everything, memory, changes per second.
    Collect {
        /// How many Deployments.
        #[arg(long, default_value_t = 10_000)]
        objects: usize,
        /// Over how many namespaces they are spread.
        #[arg(long, default_value_t = 10)]
        namespaces: usize,
    },
    /// Export to PostgreSQL: time until all rows are there, memory, latency of single changes.
    Export {
        /// How many Deployments.
        #[arg(long, default_value_t = 10_000)]
        objects: usize,
        /// Over how many namespaces they are spread.
        #[arg(long, default_value_t = 10)]
        namespaces: usize,
    },
    /// What an inventory in PostgreSQL costs while nothing changes, at default intervals.
    Rest {
        /// How many Deployments.
        #[arg(long, default_value_t = 100_000)]
        objects: usize,
        /// For how many minutes nothing changes.
        #[arg(long, default_value_t = 10)]
        minutes: usize,
    },
    /// Many teams with an inventory and a sink each, all on one database: starts, rest, changes.
    Tenants {
        /// How many teams.
        #[arg(long, default_value_t = 200)]
        teams: usize,
        /// How many targets each team has.
        #[arg(long, default_value_t = 5)]
        targets: usize,
        /// How many Deployments there are in all.
        #[arg(long, default_value_t = 20_000)]
        objects: usize,
    },
    /// Admission: what the webhook adds to a write at 200 writes per second.
    Admission {
        /// How many targets are stored.
        #[arg(long, default_value_t = 10_000)]
        targets: usize,
    },
    /// A MongoDB collection: the first export, the same rows again, one changed row.
    Mongodb {
        /// How many rows.
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
    },
    /// Parquet in a bucket of S3: time beside a plain upload, memory, size.
    Lake {
        /// How many rows.
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
    },
    /// Reading a large dump on the command line, beside jq.
    Dump {
        /// How many Deployments.
        #[arg(long, default_value_t = 50_000)]
        objects: usize,
    },
    /// A Git repository with a file per row: the first export, one changed row.
    Git {
        /// How many rows.
        #[arg(long, default_value_t = 100_000)]
        rows: usize,
    },
}

/// Runs one program that needs a number of rows and no `kollect`.
fn with_rows(program: &str, rows: usize) -> Result<()> {
    let args = [
        "run",
        "--release",
        "-p",
        "kollect-bench",
        "--bin",
        program,
        "--",
    ];
    let mut bench = workspace::cargo(&args)?;
    bench.arg(rows.to_string());
    workspace::execute(&mut bench)
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    match &arguments.what {
        What::Extract => programs(&["extract-time", "extract-memory"]),
        What::Plan => programs(&["plan-time"]),
        What::Collect {
            objects,
            namespaces,
        } => on_servers("collect", &[*objects, *namespaces]),
        What::Export {
            objects,
            namespaces,
        } => on_servers("export", &[*objects, *namespaces]),
        What::Rest { objects, minutes } => on_servers("rest", &[*objects, *minutes]),
        What::Tenants {
            teams,
            targets,
            objects,
        } => on_servers("tenants", &[*teams, *targets, *objects]),
        What::Admission { targets } => on_servers("admission", &[*targets]),
        What::Git { rows } => with_rows("repository", *rows),
        What::Mongodb { rows } => with_rows("documents", *rows),
        What::Lake { rows } => with_rows("lake", *rows),
        What::Dump { objects } => on_servers("dump", &[*objects]),
    }
}

/// Runs programs of the bench crate, one after the other.
fn programs(names: &[&str]) -> Result<()> {
    for name in names {
        let args = ["run", "--release", "-p", "kollect-bench", "--bin", name];
        workspace::execute(&mut workspace::cargo(&args)?)?;
    }
    Ok(())
}

/// Runs a program that measures the built `kollect` between real servers.
fn on_servers(program: &str, numbers: &[usize]) -> Result<()> {
    let build = ["build", "--release", "-p", "kollect-cli"];
    workspace::execute(&mut workspace::cargo(&build)?)?;
    let args = [
        "run",
        "--release",
        "-p",
        "kollect-bench",
        "--bin",
        program,
        "--",
    ];
    let mut bench = workspace::cargo(&args)?;
    bench.args(numbers.iter().map(usize::to_string));
    bench.env(
        "KOLLECT_BINARY",
        workspace::target_dir()?.join("release/kollect"),
    );
    workspace::execute(&mut bench)
}
