//! `kollect init`: manifests to begin with, by answering questions or by flags.

pub(crate) mod blueprint;
pub(crate) mod cluster;
mod prompts;
mod suggest;
mod wizard;

use std::{
    fs,
    io::{self, IsTerminal as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use kollect_api::GroupVersionKind;

use self::{
    blueprint::{Attribute, Blueprint, File, Filter, Namespaces, labels, metadata_attributes},
    cluster::LiveCluster,
    prompts::{Stopped, Terminal},
    wizard::Wizard,
};
use crate::{
    completion,
    configuration::{Configuration, Standard},
    manifest::Text,
};

/// Options of `kollect init`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Where to write profile.yaml and target.yaml.
    #[arg(long, value_name = "DIR", default_value = "./collect-config")]
    output_dir: PathBuf,
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context to look at; the current one if not given.
    #[arg(long, value_name = "NAME", add = ArgValueCompleter::new(completion::context_names))]
    context: Option<String>,
    /// What to collect, as group/version/kind or version/kind. Asks no questions and no cluster.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<GroupVersionKind>,
    #[command(flatten)]
    answers: Answers,
}

/// Answers for those who do not want to be asked.
#[derive(Debug, Args)]
#[group(requires = "kind")]
struct Answers {
    /// Name of profile and target; the kind in lower case if not given.
    #[arg(long)]
    name: Option<String>,
    /// Collect from these namespaces only.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "namespace_selector"
    )]
    namespaces: Vec<String>,
    /// Collect from namespaces with these labels, as key=value[,key=value].
    #[arg(long, value_name = "LABELS")]
    namespace_selector: Option<String>,
    /// Collect objects with these labels, as key=value[,key=value].
    #[arg(long, value_name = "LABELS", conflicts_with = "names")]
    label_selector: Option<String>,
    /// Collect objects with these names.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    names: Vec<String>,
    /// A value to extract, as name=path. Repeatable; some metadata if not given.
    #[arg(long, value_name = "NAME=PATH", value_parser = attribute)]
    attribute: Vec<Attribute>,
    /// Overwrite files that are there.
    #[arg(long)]
    force: bool,
}

/// Writes manifests.
pub(crate) fn run(options: &Options) -> Result<()> {
    match &options.kind {
        Some(kind) => from_flags(options, kind),
        None => from_answers(options),
    }
}

fn from_flags(options: &Options, kind: &GroupVersionKind) -> Result<()> {
    let answers = &options.answers;
    let attributes = if answers.attribute.is_empty() {
        metadata_attributes()
    } else {
        answers.attribute.clone()
    };
    let blueprint = Blueprint {
        name: answers
            .name
            .clone()
            .unwrap_or_else(|| kind.kind.to_lowercase()),
        kind: kind.clone(),
        namespaces: match (&answers.namespace_selector, &*answers.namespaces) {
            (Some(selector), _) => Namespaces::Labelled(labels(selector)?),
            (None, []) => Namespaces::All,
            (None, names) => Namespaces::Named(names.to_vec()),
        },
        filter: match (&answers.label_selector, &*answers.names) {
            (Some(selector), _) => Filter::Labels(labels(selector)?),
            (None, []) => Filter::Nothing,
            (None, names) => Filter::Names(names.to_vec()),
        },
        attributes,
        reads_secrets: false,
        sampled: None,
        warning: None,
    };
    let files = blueprint.files()?;
    for File { name, .. } in &files {
        let path = options.output_dir.join(name);
        if path.exists() && !answers.force {
            bail!("{} exists; give --force to overwrite it", path.display());
        }
    }
    write(&options.output_dir, &files)
}

fn from_answers(options: &Options) -> Result<()> {
    if !io::stdin().is_terminal() {
        bail!(
            "init asks questions and needs an interactive terminal; give --kind and other flags instead, or begin with the samples in examples/pipeline"
        );
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let context = options.context.as_deref();
    let cluster = LiveCluster::open(options.kubeconfig.as_deref(), context, runtime)?;
    let wizard = Wizard {
        cluster: &cluster,
        prompts: &Terminal::new(),
    };
    match wizard.run(&options.output_dir) {
        Ok(files) => write(&options.output_dir, &files),
        Err(Stopped::Canceled(why)) => {
            eprintln!("canceled: {why}");
            bail!("nothing was written")
        }
        Err(Stopped::Failed(error)) => Err(error),
    }
}

/// Writes the files, after what validation says of them: nothing that it refuses is ever written.
fn write(directory: &Path, files: &[File]) -> Result<()> {
    store(directory, files)?;
    eprint!("{}", farewell(directory, files));
    Ok(())
}

/// Writes the files without a word.
pub(crate) fn store(directory: &Path, files: &[File]) -> Result<()> {
    let text = |file: &File| Text {
        name: directory.join(file.name).display().to_string(),
        content: file.content.clone(),
    };
    let texts: Vec<Text> = files.iter().map(text).collect();
    let configuration = Configuration::load(&texts, &Standard::default());
    crate::validate::report(&configuration);
    if configuration.failed() > 0 {
        bail!(
            "these manifests would not be valid, so nothing was written; choose other attributes or names"
        );
    }
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o750)
        .create(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for File { name, content } in files {
        let path = directory.join(name);
        let written = fs::OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&path)
            .and_then(|mut file| io::Write::write_all(&mut file, content.as_bytes()));
        written.with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn farewell(directory: &Path, files: &[File]) -> String {
    let shown = directory.display();
    let mut text = String::from("wrote\n");
    for File { name, .. } in files {
        text.push_str(&format!("  {}\n", directory.join(name).display()));
    }
    text.push_str(&format!(
        "try it:\n  kollect collect --config \"{shown}\" --output -\nkeep it in files:\n  kollect collect --config \"{shown}\" --output ./inventory\nlater, in a cluster with the operator (needs its CRDs and the right to create objects):\n  kubectl apply -f \"{shown}\"\n"
    ));
    text
}

fn kind(text: &str) -> Result<GroupVersionKind, String> {
    let parts: Vec<&str> = text.split('/').collect();
    match *parts {
        [version, kind] if !version.is_empty() && !kind.is_empty() => {
            Ok(GroupVersionKind::new("", version, kind))
        }
        [group, version, kind] if !version.is_empty() && !kind.is_empty() => {
            Ok(GroupVersionKind::new(group, version, kind))
        }
        _ => Err(
            "write it as group/version/kind (apps/v1/Deployment) or version/kind (v1/Pod)"
                .to_owned(),
        ),
    }
}

pub(crate) fn attribute(text: &str) -> Result<Attribute, String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => Ok(Attribute {
            name: name.to_owned(),
            path: path.to_owned(),
            // What may match several times is a list, also where it matches once.
            type_: path.contains("[*]").then_some("list"),
            optional: true,
        }),
        _ => Err("write it as name=path, such as image=$.spec.image".to_owned()),
    }
}
