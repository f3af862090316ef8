//! `kollect completion`: completion for shells, which asks the program itself for values.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::{CompleteEnv, engine::CompletionCandidate, env::Shells};

use crate::{arguments::Arguments, collect::contexts};

/// Options of `kollect completion`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The shell.
    shell: Shell,
}

/// Shells that can be served.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
}

impl Shell {
    fn name(self) -> &'static str {
        match self {
            Shell::Bash => "bash",
            Shell::Zsh => "zsh",
            Shell::Fish => "fish",
            Shell::Powershell => "powershell",
        }
    }
}

/// The variable through which the scripts ask.
const VARIABLE: &str = "KOLLECT_COMPLETE";

/// Answers a shell that asks for completions, and ends the process then.
pub(crate) fn answer() {
    CompleteEnv::with_factory(Arguments::command)
        .var(VARIABLE)
        .complete();
}

/// Prints the script.
pub(crate) fn run(options: &Options) -> Result<()> {
    let name = options.shell.name();
    let shells = Shells::builtins();
    let shell = shells
        .completer(name)
        .ok_or_else(|| anyhow!("no completion for {name}"))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "kollect", "kollect", "kollect", &mut script)
        .context("cannot write the script")?;
    match io::stdout().lock().write_all(&script) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Completes `--context` with the names in the kubeconfig that the command would use.
pub(crate) fn context_names(current: &OsStr) -> Vec<CompletionCandidate> {
    let Some(current) = current.to_str() else {
        return Vec::new();
    };
    let words: Vec<String> = std::env::args().collect();
    let Ok(kubeconfig) = contexts::read_kubeconfig(typed_kubeconfig(&words).as_deref()) else {
        return Vec::new();
    };
    let names = kubeconfig.contexts.into_iter().map(|context| context.name);
    complete_list(current, names.collect())
        .into_iter()
        .map(CompletionCandidate::new)
        .collect()
}

/// The `--kubeconfig` among words typed so far.
fn typed_kubeconfig(words: &[String]) -> Option<PathBuf> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == "--kubeconfig" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.strip_prefix("--kubeconfig=") {
            return Some(path.into());
        }
    }
    None
}

/// Completes the part after the last comma and keeps the rest.
fn complete_list(current: &str, mut names: Vec<String>) -> Vec<String> {
    let (kept, prefix) = match current.rfind(',') {
        Some(comma) => current.split_at(comma + 1),
        None => ("", current),
    };
    names.sort();
    names.dedup();
    names.retain(|name| name.starts_with(prefix));
    names.iter().map(|name| format!("{kept}{name}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_part_after_the_last_comma_is_completed() {
        let names = || {
            ["prod-us-1", "dev", "prod-eu-1"]
                .map(str::to_owned)
                .to_vec()
        };
        for (current, expected) in [
            ("", &["dev", "prod-eu-1", "prod-us-1"][..]),
            ("prod", &["prod-eu-1", "prod-us-1"]),
            ("dev,prod", &["dev,prod-eu-1", "dev,prod-us-1"]),
            ("x", &[]),
        ] {
            assert_eq!(complete_list(current, names()), expected, "{current}");
        }
    }

    #[test]
    fn a_kubeconfig_that_was_typed_counts() {
        let words = |text: &str| -> Vec<String> { text.split(' ').map(str::to_owned).collect() };
        let typed = |text| typed_kubeconfig(&words(text));
        assert_eq!(typed("kollect collect --context x"), None);
        assert_eq!(typed("a --kubeconfig /k b"), Some("/k".into()));
        assert_eq!(typed("a --kubeconfig=/k"), Some("/k".into()));
    }
}
