//! The command line.

use clap::{Parser, Subcommand};

use crate::{crds, operator};

/// Kubernetes inventory: select live resources, extract what matters, deliver it.
#[derive(Debug, Parser)]
#[command(name = "kollect", version, propagate_version = true)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What `kollect` can do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print the CustomResourceDefinitions, ready for `kubectl apply -f -`.
    Crds(crds::Options),
    /// Run the operator.
    Operator(operator::Options),
}
