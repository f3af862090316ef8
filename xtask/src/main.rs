//! `cargo xtask`: the commands a person types, and nothing to prepare by hand before them.
//!
//! One module per command; [`workspace`] knows the repository and its settings for cargo,
//! [`step`] runs a list of steps and reports.

mod bench;
mod codegen;
mod crd_pages;
mod demo;
mod image;
mod licences;
mod programs;
mod release;
mod soak;
mod step;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Builds, checks and shows Kollect.
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Check everything: format, lints, documentation, licences, generated files, tests.
    Test(test::Arguments),
    /// Start a real Kubernetes API with Kollect's kinds and samples.
    Demo(demo::Arguments),
    /// Write the generated files.
    Codegen(codegen::Arguments),
    /// Measure what Kollect is held to.
    Bench(bench::Arguments),
    /// Run the hardest tests for longer: hostile neighbours, kills, rest.
    Soak(soak::Arguments),
    /// Build the container image, without a container engine.
    Image(image::Arguments),
    /// Make everything that is released: image, archives, chart, list of components, checksums.
    Release(release::Arguments),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Test(arguments) => test::run(&arguments),
        Command::Demo(arguments) => demo::run(&arguments),
        Command::Codegen(arguments) => codegen::run(&arguments),
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Release(arguments) => release::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
