//! The `kollect` program: arguments in, exit code out.

mod arguments;
mod collect;
mod completion;
mod configuration;
mod crds;
mod diff;
mod explain;
mod init;
mod interrupt;
mod manifest;
mod operator;
mod rbac;
mod render;
mod schema;
mod terminal;
mod validate;

use std::process::ExitCode;

use arguments::{Arguments, Command};
use clap::{CommandFactory as _, Parser as _};
use mimalloc::MiMalloc;

#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// A command that failed: bad flags or manifests, nothing done.
const FAILED: u8 = 2;

fn main() -> ExitCode {
    completion::answer();
    let done = |()| ExitCode::SUCCESS;
    let arguments = operator::with_two_dashes(std::env::args());
    let Some(command) = Arguments::parse_from(arguments).command else {
        // Whoever asks for nothing is shown what there is.
        return match Arguments::command().print_help() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    };
    let result = match command {
        Command::Collect(options) => collect::run(&options).map(collect::Code::exit),
        Command::Validate(options) => validate::run(&options).map(done),
        Command::Init(options) => init::run(&options).map(done),
        Command::Completion(options) => completion::run(&options).map(done),
        Command::Crds(options) => crds::run(&options).map(done),
        Command::Rbac(options) => rbac::run(&options).map(done),
        Command::Operator(options) => operator::run(&options).map(done),
        Command::Diff(options) => diff::run(&options),
        Command::Explain(options) => explain::run(&options).map(done),
        Command::Schema(options) => schema::run(&options).map(done),
        Command::Version => {
            println!("kollect {}", arguments::VERSION);
            Ok(ExitCode::SUCCESS)
        }
    };
    result.unwrap_or_else(|error| {
        terminal::say(&format!("Error: {error:#}"));
        ExitCode::from(if interrupt::is_interruption(&error) {
            interrupt::EXIT_CODE
        } else {
            FAILED
        })
    })
}
