//! `kollect explain`: what a target collects and why, and what it leaves out.

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kollect_api::visible::visible;

use crate::{
    collect::{self, Level, Named, Origin, Question, Report, TargetOutcome, Wishes},
    interrupt,
    manifest::nearest,
    validate::Permissions,
};

/// Options of `kollect explain`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The target: its name, or namespace/name. All of them if not given.
    #[arg(value_name = "TARGET")]
    target: Option<String>,
    /// Manifests: files, directories or - for standard input. Repeatable.
    #[arg(
        long,
        short = 'f',
        value_name = "PATH",
        required_unless_present = "from"
    )]
    config: Vec<PathBuf>,
    #[command(flatten)]
    place: Origin,
    #[command(flatten)]
    permissions: Permissions,
}

/// Looks and explains.
pub(crate) fn run(options: &Options) -> Result<()> {
    let text = interrupt::run(explain(options))?;
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

async fn explain(options: &Options) -> Result<String> {
    let report = Report::new(Level::Warn, None);
    let question = Question {
        config: &options.config,
        kind: None,
        attributes: &[],
        selector: None,
        save: None,
        place: &options.place,
        standard: options.permissions.standard(),
        strict: false,
    };
    let answer = question.ask(&report).await?;
    let names: Vec<String> = answer
        .keys
        .iter()
        .map(|key| Named(key).to_string())
        .collect();
    let wanted = |name: &str| {
        let target = options.target.as_deref();
        target.is_none_or(|target| {
            name == target
                || name
                    .rsplit_once('/')
                    .is_some_and(|(_, name)| name == target)
        })
    };
    if !names.iter().any(|name| wanted(name)) {
        let target = options.target.as_deref().unwrap_or_default();
        let short = names.iter().filter_map(|name| name.rsplit('/').next());
        match nearest(target, names.iter().map(String::as_str).chain(short)) {
            Some(meant) => bail!("there is no target {target:?}; did you mean {meant:?}?"),
            None => bail!(
                "there is no target {target:?}; there are {}",
                names.join(", ")
            ),
        }
    }
    let wishes = Wishes {
        namespace: options.place.namespace.clone(),
        ..Wishes::default()
    };
    let mut text = String::new();
    for (context, seen) in answer.look(&wishes, &report).await? {
        for outcome in &seen.outcomes {
            if wanted(&Named(&outcome.key).to_string()) {
                text.push_str(&format!("context {}\n", visible(&context)));
                text.push_str(&collect::explanation(outcome));
                text.push_str(&places(outcome));
            }
        }
    }
    Ok(text)
}

/// Namespaces and rules.
fn places(outcome: &TargetOutcome) -> String {
    if outcome.suspended {
        return "  it is suspended\n".to_owned();
    }
    let Some(plan) = &outcome.plan else {
        return String::new();
    };
    let mut text = String::new();
    let mut list = |what: &str, names: &[std::sync::Arc<str>]| {
        if !names.is_empty() {
            text.push_str(&format!("  namespaces {what}: {}\n", names.join(", ")));
        }
    };
    let namespaces = &plan.namespaces;
    list("that it means", &namespaces.matched);
    if namespaces.effective != namespaces.matched {
        list("that are left after scopes", &namespaces.effective);
    }
    list("that a scope forbids", &namespaces.outside_scope);
    list("that may not be listed", &namespaces.forbidden);
    if let Some(collection) = plan.collection() {
        let profile = &collection.extraction.profile;
        let rules = match plan.active_rules {
            0 => "names and labels".to_owned(),
            count => format!("{count} resource rules"),
        };
        text.push_str(&format!(
            "  objects are selected by {rules}, attributes come from profile {}\n",
            profile.metadata.name.as_deref().unwrap_or_default()
        ));
    }
    text
}
