//! The command line.

use clap::{ArgAction, Parser, Subcommand};

use std::time::Duration;

use crate::{collect, completion, crds, diff, explain, init, operator, rbac, schema, validate};

/// Kubernetes inventory: select live resources, extract what matters, deliver it.
#[derive(Debug, Parser)]
#[command(
    name = "kollect",
    version = VERSION,
    propagate_version = true,
    disable_version_flag = true
)]
pub(crate) struct Arguments {
    /// Print the version.
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version, global = true)]
    version: Option<bool>,
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

/// What `kollect` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Collect once, from clusters or from a dump, without an operator.
    Collect(Box<collect::Options>),
    /// Compare two clusters, dumps, exports or moments. Ends with 0 if they are equal, 1 if not, 2 after an error.
    Diff(Box<diff::Options>),
    /// Say what a target collects and why, and what it leaves out.
    Explain(Box<explain::Options>),
    /// Check manifests as an operator would, without a cluster.
    Validate(validate::Options),
    /// Write first manifests, by answering questions or by flags.
    Init(Box<init::Options>),
    /// Print a script that completes commands in a shell.
    Completion(completion::Options),
    /// Print JSON Schemas of manifests, for editors.
    Schema(schema::Options),
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.
    Crds(crds::Options),
    /// Print the roles that an operator needs for these manifests, ready for `kubectl apply -f -`.
    Rbac(Box<rbac::Options>),
    /// Run the operator.
    Operator(operator::Options),
    /// Print the version.
    Version,
}

/// The version with where it comes from, as far as the build was told.
pub(crate) const VERSION: &str = concat!(
    "version ",
    env!("CARGO_PKG_VERSION"),
    " (commit ",
    env!("KOLLECT_COMMIT"),
    ", built ",
    env!("KOLLECT_BUILT"),
    ")"
);

/// Reads a duration such as `90s` or `1h30m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    kollect_api::Duration::new(text)
        .get()
        .map_err(|error| error.to_string())
}
