//! `kollect collect`: one look at clusters, or at a dump of one, without an operator.
//!
//! ```text
//! manifests ─> configuration ─┐
//! dump or API server ─> world ┴─> plan ─> objects ─> gather ─> outcomes ─> units ─> export
//! ```
//!
//! Plan, gates, extraction and which rows an inventory takes are those of the operator; this command only asks once instead of
//! watching. What was not collected is never written, so a failed run leaves what was there.

mod adhoc;
pub(crate) mod contexts;
pub(crate) mod credentials;
mod dump;
mod export;
mod live;
mod local;
mod outcome;
mod print;
mod report;
mod run;
mod shape;
pub(crate) mod source;
mod units;
mod way;
mod world;

use std::{
    io::{self, BufWriter, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use jiff::Timestamp;
use kollect_api::rules::Object;
use kollect_collect::plan::{TargetKey, comma_list};
use kollect_sinks::{backend::Environment, dial::Dialer};

pub(crate) use self::{
    outcome::{Code, Named, TargetOutcome},
    report::{Level, LogFormat, Report, explanation},
    shape::{condition, holds},
    world::Wishes,
};

use self::{
    dump::Dump,
    export::Exporting,
    print::Printer,
    run::Run,
    shape::Shape,
    source::{Looking, Seen, Source},
    way::Way,
};
use crate::{
    completion,
    configuration::{Configuration, Standard},
    init::blueprint::Attribute,
    manifest,
    render::{Format, Look},
    validate::{self, Permissions},
};

/// Options of `kollect collect`.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Options {
    /// What to collect without manifests, in any form that kubectl get understands: deployments, deploy, ingresses.networking.k8s.io.
    #[arg(value_name = "KIND", conflicts_with = "config")]
    kind: Option<String>,
    /// With KIND: a value to extract, as name=path. Repeatable; some metadata if not given.
    #[arg(long, short = 'a', value_name = "NAME=PATH", value_parser = crate::init::attribute, requires = "kind")]
    attribute: Vec<Attribute>,
    /// With KIND: objects with these labels, as key=value[,key=value].
    #[arg(long, short = 'l', value_name = "LABELS", requires = "kind")]
    selector: Option<String>,
    /// With KIND: write the manifests that were used into this directory.
    #[arg(long, value_name = "DIR", requires = "kind")]
    save: Option<PathBuf>,
    /// Manifests: files, directories with everything below them (*.yaml, *.yml and *.json files) or -
    /// for standard input. Repeatable. With --from, the objects of the dump are used if this is not given.
    #[arg(long, short = 'f', value_name = "PATH", required_unless_present_any = ["from", "kind"])]
    config: Vec<PathBuf>,
    #[command(flatten)]
    place: Origin,
    /// Name of the cluster in what is written; the name of the context if not given.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Where to write: a directory, a file (rows.csv), or - for standard output. Otherwise the sinks of the manifests.
    #[arg(long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// How to write: on standard output a table for people and ndjson for programs by default, yaml in a directory.
    #[arg(long, short = 'o', value_name = "FORMAT")]
    format: Option<Format>,
    /// The columns to show: namespace, name, kind, uid, …, and attributes. Separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    columns: Vec<String>,
    /// Sort by these columns; -NAME means downwards.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        allow_hyphen_values = true
    )]
    sort: Vec<String>,
    /// Show rows that fulfil a condition only, such as 'cel:object.replicas > 2'.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// Leave out the line with the names of columns.
    #[arg(long)]
    no_headers: bool,
    /// Print data and errors, and nothing else.
    #[arg(long, short = 'q')]
    quiet: bool,
    /// Say of every target how many objects were seen, and why some were left out.
    #[arg(long)]
    explain: bool,
    /// Write that there are no rows where every object failed.
    #[arg(long)]
    allow_empty: bool,
    /// Use --output although the manifests have sinks.
    #[arg(long, requires = "output")]
    ignore_sinks: bool,
    /// Collect and say what would be written, but write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Take warnings about the manifests for errors.
    #[arg(long)]
    strict: bool,
    /// Keys whose values are redacted, in addition to the built-in ones.
    #[arg(long, value_name = "LIST", default_value = "")]
    scrub_keys: String,
    /// What to log, from this level on.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,
    /// How to log; text on a terminal and json elsewhere if not given.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    permissions: Permissions,
}

/// Where objects come from; the same for all commands that read clusters or dumps.
#[derive(Debug, Clone, Args)]
pub(crate) struct Origin {
    /// Collect from a dump instead of a cluster: what `kubectl get -o json` or -o yaml printed, also packed by gzip or zstd.
    /// Files, directories with everything below them, or - for standard input. Repeatable.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    pub(crate) from: Vec<PathBuf>,
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Contexts of the kubeconfig, by name or pattern (*, ?, [a-c]); the current one if not given.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        add = ArgValueCompleter::new(completion::context_names)
    )]
    pub(crate) context: Vec<String>,
    /// Collect from this namespace alone, whatever targets say in includedNamespaces.
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Collect from all namespaces; without manifests otherwise the one of the context.
    #[arg(long, short = 'A', conflicts_with = "namespace")]
    pub(crate) all_namespaces: bool,
    /// How many lists to read at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) concurrency: u16,
    /// How long one list, or one delivery to a sink, may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::arguments::duration)]
    pub(crate) timeout: Duration,
}

impl Origin {
    /// Opens the dump or chooses contexts. No cluster is asked yet.
    fn open(&self, keep_own: bool, report: &Report) -> Result<Source> {
        if self.from.is_empty() {
            return Ok(Source::Clusters(live::Clusters::open(self, report)?));
        }
        let dump = Dump::read(&self.from, keep_own, report)?;
        if dump.is_empty() {
            bail!("the dump holds no objects; make one with kubectl get -A -o json");
        }
        Ok(Source::Dump(dump))
    }
}

/// Runs the command. An error means that nothing was begun.
pub(crate) fn run(options: &Options) -> Result<Code> {
    crate::interrupt::run(collect(options))
}

async fn collect(options: &Options) -> Result<Code> {
    way::check_flags(options.output.as_deref(), options.dry_run)?;
    let report = Report::new(options.log_level, options.log_format).quiet(options.quiet);
    let question = Question {
        config: &options.config,
        kind: options.kind.as_deref(),
        attributes: &options.attribute,
        selector: options.selector.as_deref(),
        save: options.save.as_deref(),
        place: &options.place,
        standard: options.permissions.standard(),
        strict: options.strict,
    };
    let Answer {
        configuration,
        keys,
        source,
        names,
    } = question.ask(&report).await?;
    if names.len() > 1 && options.cluster.is_some() {
        bail!(
            "--cluster names one cluster, but {} contexts are selected",
            names.len()
        );
    }
    let terminal = io::stdout().is_terminal();
    let way = Way::choose(options, &configuration, names.len(), terminal)?;
    let attributes = attributes(&configuration);
    let shape = Arc::new(Shape::new(
        &options.columns,
        &options.sort,
        options.condition.as_deref(),
        &attributes,
    )?);
    if shape.is_any() && matches!(way, Way::Sinks(_)) {
        bail!("--columns, --sort and --where are for --output; sinks take all rows as they are");
    }
    let work = tempfile::tempdir().context("cannot create a temporary directory")?;
    let headers = !options.no_headers;
    let at = now()?;
    let (format, look) = match &way {
        Way::Standard(format) => (*format, Look::of_standard_output(headers)),
        Way::File(_, format) | Way::Directory(_, format) => (*format, Look::of_file(headers)),
        Way::Sinks(_) => (Format::Json, Look::of_file(headers)),
    };
    let printer = Printer::new(print::Settings {
        format,
        look,
        shape: Arc::clone(&shape),
        attributes,
        several_clusters: names.len() > 1,
        titles: !options.quiet && headers && (keys.len() > 1 || names.len() > 1),
        at,
    });
    let mut run = Run {
        configuration: &configuration,
        keys,
        way,
        wishes: Wishes {
            namespace: options.place.namespace.clone(),
            scrub_keys: comma_list(&options.scrub_keys),
        },
        looking: Looking {
            report: &report,
            allow_empty: options.allow_empty,
        },
        exporting: Exporting {
            at,
            dry_run: options.dry_run,
            timeout: options.place.timeout,
            report: &report,
            shape,
            headers,
        },
        environment: Environment {
            dialer: Dialer::new(options.permissions.policy()),
            work_dir: work.path().to_owned(),
            local_repositories: true,
            census: std::sync::Arc::default(),
            local_files: true,
            workload: None,
        },
        per_cluster: names.len() > 1,
        explain: options.explain,
        printer,
        out: BufWriter::new(io::stdout().lock()),
        batches: Vec::new(),
        held_back: 0,
        messages: Vec::new(),
        codes: Vec::new(),
    };
    let cluster = options.cluster.as_deref();
    run.contexts(&source, &names, cluster).await?;
    run.finish()
}

/// What is asked of clusters or of a dump, by any command.
pub(crate) struct Question<'q> {
    pub(crate) config: &'q [PathBuf],
    /// Takes the place of manifests.
    pub(crate) kind: Option<&'q str>,
    pub(crate) attributes: &'q [Attribute],
    pub(crate) selector: Option<&'q str>,
    pub(crate) save: Option<&'q Path>,
    pub(crate) place: &'q Origin,
    pub(crate) standard: Standard,
    pub(crate) strict: bool,
}

/// What there is to ask, and whom.
pub(crate) struct Answer {
    pub(crate) configuration: Configuration,
    /// All targets in the order of the manifests.
    pub(crate) keys: Vec<TargetKey>,
    source: Source,
    names: Vec<String>,
}

impl Question<'_> {
    /// Reads manifests and opens what is asked.
    pub(crate) async fn ask(&self, report: &Report) -> Result<Answer> {
        // Mistakes in manifests are told before anything large is read.
        let given = if self.config.is_empty() {
            None
        } else {
            let texts = manifest::read_all(self.config)?;
            Some(self.judged(Configuration::load(&texts, &self.standard))?)
        };
        let own = given.is_none() && self.kind.is_none();
        let mut source = self.place.open(own, report)?;
        let names = source.names();
        let configuration = match given {
            Some(configuration) => configuration,
            None => self.configuration(&mut source, &names).await?,
        };
        let keys = target_keys(&configuration);
        if keys.is_empty() {
            bail!("the configuration has no targets, so there is nothing to collect");
        }
        Ok(Answer {
            configuration,
            keys,
            source,
            names,
        })
    }

    /// Refuses manifests that cannot be used.
    fn judged(&self, configuration: Configuration) -> Result<Configuration> {
        validate::report(&configuration);
        validate::check(&configuration, self.strict)?;
        Ok(configuration)
    }

    /// What is collected where no manifests were named: a kind, or what the dump says.
    async fn configuration(&self, source: &mut Source, names: &[String]) -> Result<Configuration> {
        let Some(kind) = self.kind else {
            let own = match source {
                Source::Dump(dump) => dump.take_own(),
                Source::Clusters(_) => Vec::new(),
            };
            return self.judged(Configuration::new(own, &self.standard));
        };
        let context = names.first().map(String::as_str).unwrap_or_default();
        let place = self.place;
        let namespace = place.namespace.clone().or(source.namespace_of(context));
        let wish = adhoc::Wish {
            kind,
            attributes: self.attributes,
            namespace: namespace.as_deref().filter(|_| !place.all_namespaces),
            selector: self.selector,
        };
        let files = adhoc::manifests(&wish, source, context).await?;
        let configuration = self.judged(adhoc::load(&files, &self.standard))?;
        if let Some(directory) = self.save {
            adhoc::save(directory, &files)?;
        }
        Ok(configuration)
    }
}

impl Answer {
    /// Looks at every cluster, one after the other.
    pub(crate) async fn look(
        &self,
        wishes: &Wishes,
        report: &Report,
    ) -> Result<Vec<(String, Seen)>> {
        let looking = Looking {
            report,
            allow_empty: false,
        };
        let mut all = Vec::new();
        for name in &self.names {
            let world = world::world(&self.configuration, wishes);
            let seen = self.source.look(name, world, &self.keys, &looking).await;
            all.push((
                name.clone(),
                seen.with_context(|| format!("context {name}"))?,
            ));
        }
        Ok(all)
    }
}

/// The attributes of all profiles, each once, in their order.
fn attributes(configuration: &Configuration) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for object in &configuration.objects {
        if let Object::Profile(profile) = object {
            for name in outcome::attributes(&profile.spec) {
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
    }
    names
}

/// All targets in the order of the manifests.
fn target_keys(configuration: &Configuration) -> Vec<TargetKey> {
    let objects = configuration.objects.iter();
    let keys = objects.filter_map(|object| match object {
        Object::Target(_) => Some(TargetKey::namespaced(object.namespace(), object.name())),
        Object::ClusterTarget(_) => Some(TargetKey::cluster(object.name())),
        _ => None,
    });
    keys.collect()
}

/// The time of the run. `SOURCE_DATE_EPOCH` makes runs repeatable to the byte.
fn now() -> Result<Timestamp> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(seconds) => {
            let seconds = seconds.trim().parse().ok();
            seconds
                .and_then(|seconds| Timestamp::from_second(seconds).ok())
                .context("SOURCE_DATE_EPOCH is not a number of seconds")
        }
        Err(_) => Ok(Timestamp::now()),
    }
}
