//! The `kollect` program: arguments in, exit code out.

mod arguments;
mod crds;
mod operator;

use std::process::ExitCode;

use clap::Parser;
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let result = match arguments::Arguments::parse().command {
        arguments::Command::Crds(options) => crds::run(&options),
        arguments::Command::Operator(options) => operator::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("kollect: {error:#}");
            ExitCode::FAILURE
        }
    }
}
