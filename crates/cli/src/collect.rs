//! `kollect collect`: one look at clusters, or at a dump of one, without an operator.
//!
//! ```text
//! manifests ─> configuration ─┐
//! dump or API server ─> world ┴─> plan ─> objects ─> gather ─> outcomes ─> units ─> export
//! ```
//!
//! Plan, gates, extraction and which rows an inventory takes are those of the operator; this command only asks once instead of
//! watching. What was not collected is never written, so a failed run leaves what was there.

pub(crate) mod contexts;
mod credentials;
mod dump;
mod export;
mod live;
mod local;
mod outcome;
mod records;
mod report;
mod run;
mod source;
mod table;
mod units;
mod way;
mod world;

use std::{
    io::{self, BufWriter},
    path::PathBuf,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use clap_complete::engine::ArgValueCompleter;
use jiff::Timestamp;
use kollect_api::rules::Object;
use kollect_collect::plan::{TargetKey, comma_list};
use kollect_sinks::{backend::Environment, dial::Dialer};

use self::{
    dump::Dump,
    export::Exporting,
    outcome::Code,
    records::Format,
    report::{Level, LogFormat, Report},
    run::Run,
    source::Source,
    way::Way,
    world::Wishes,
};
use crate::{
    completion,
    configuration::Configuration,
    manifest::{self, Extent},
    validate::{self, Permissions},
};

/// Options of `kollect collect`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Manifests: files, directories (their *.yaml, *.yml and *.json files) or - for standard
    /// input. Repeatable. With --from, the objects of the dump are used if this is not given.
    #[arg(long, value_name = "PATH", required_unless_present = "from")]
    config: Vec<PathBuf>,
    /// Collect from a dump instead of a cluster: what `kubectl get -o json` or -o yaml printed.
    /// Files, directories with everything below them, or - for standard input. Repeatable.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kubeconfig", "context"])]
    from: Vec<PathBuf>,
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Contexts of the kubeconfig, by name or pattern (*, ?, [a-c]); the current one if not given.
    #[arg(
        long,
        value_name = "NAME",
        value_delimiter = ',',
        add = ArgValueCompleter::new(completion::context_names)
    )]
    context: Vec<String>,
    /// Name of the cluster in what is written; the name of the context if not given.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Collect from this namespace alone, whatever targets say in includedNamespaces.
    #[arg(long, value_name = "NAME")]
    namespace: Option<String>,
    /// Where to write: a directory, or - for standard output. Otherwise the sinks of the manifests.
    #[arg(long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How to write with --output: ndjson by default on standard output, yaml in a directory.
    #[arg(long, value_name = "FORMAT", requires = "output")]
    format: Option<Format>,
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
    /// How many lists to read at the same time.
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    concurrency: u16,
    /// How long one list, or one delivery to a sink, may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::arguments::duration)]
    timeout: Duration,
    /// What to log, from this level on.
    #[arg(long, value_name = "LEVEL", default_value = "info")]
    log_level: Level,
    /// How to log; text on a terminal and json elsewhere if not given.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<LogFormat>,
    #[command(flatten)]
    permissions: Permissions,
}

/// Runs the command. An error means that nothing was begun.
pub(crate) fn run(options: &Options) -> Result<Code> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            code = collect(options) => code,
            interrupted = tokio::signal::ctrl_c() => {
                interrupted.context("cannot watch signals")?;
                // Files are replaced in one step, so what is there is whole.
                bail!("interrupted; what was not written yet is as it was")
            }
        }
    })
}

async fn collect(options: &Options) -> Result<Code> {
    way::check_flags(options.output.as_deref(), options.format, options.dry_run)?;
    let report = Report::new(options.log_level, options.log_format);
    let mut dump = if options.from.is_empty() {
        None
    } else {
        Some(Dump::read(&options.from)?)
    };
    if dump.as_ref().is_some_and(|dump| dump.len() == 0) {
        bail!("the dump holds no objects; make one with kubectl get -A -o json");
    }
    let configuration = configuration(options, dump.as_mut())?;
    let keys = target_keys(&configuration);
    if keys.is_empty() {
        bail!("the configuration has no targets, so there is nothing to collect");
    }
    let source = match dump {
        Some(dump) => Source::Dump(dump),
        None => Source::Clusters(live::Clusters::open(options, &report)?),
    };
    let names = source.names();
    if names.len() > 1 && options.cluster.is_some() {
        bail!(
            "--cluster names one cluster, but {} contexts are selected",
            names.len()
        );
    }
    let way = Way::choose(options, &configuration, names.len())?;
    let work = tempfile::tempdir().context("cannot create a temporary directory")?;
    let mut run = Run {
        configuration: &configuration,
        keys,
        way,
        wishes: Wishes {
            namespace: options.namespace.clone(),
            scrub_keys: comma_list(&options.scrub_keys),
        },
        exporting: Exporting {
            at: now()?,
            dry_run: options.dry_run,
            timeout: options.timeout,
            report: &report,
        },
        environment: Environment {
            dialer: Dialer::new(options.permissions.policy()),
            work_dir: work.path().to_owned(),
            local_repositories: true,
            census: std::sync::Arc::default(),
            local_files: true,
        },
        per_cluster: names.len() > 1,
        report: &report,
        records: Vec::new(),
        messages: Vec::new(),
        codes: Vec::new(),
    };
    for name in &names {
        let cluster = options.cluster.as_ref().unwrap_or(name);
        run.context(&source, name, cluster).await;
    }
    run.finish(&mut BufWriter::new(io::stdout().lock()))
}

/// Reads and judges the manifests. Without any, those of the dump count.
fn configuration(options: &Options, dump: Option<&mut Dump>) -> Result<Configuration> {
    let standard = options.permissions.standard();
    let configuration = match dump {
        Some(dump) if options.config.is_empty() => Configuration::new(dump.take_own(), &standard),
        _ => {
            let texts = manifest::read_all(&options.config, Extent::Flat)?;
            Configuration::load(&texts, &standard)?
        }
    };
    validate::report(&configuration);
    if !configuration.problems.is_empty() {
        bail!(
            "{} config object(s) failed validation",
            configuration.problems.len()
        );
    }
    if options.strict && !configuration.warnings.is_empty() {
        bail!(
            "{} warning(s), and --strict takes warnings for errors",
            configuration.warnings.len()
        );
    }
    Ok(configuration)
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
