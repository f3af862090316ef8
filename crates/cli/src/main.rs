//! The `kollect` program: arguments in, exit code out.

mod arguments;
mod crds;

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    let result = match arguments::Arguments::parse().command {
        arguments::Command::Crds(options) => crds::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kollect: {error:#}");
            ExitCode::FAILURE
        }
    }
}
