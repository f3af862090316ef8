//! `kollect operator`: the process that runs in the cluster.

mod election;
mod inherited;
mod logging;
mod repeats;
mod runtimes;
mod shutdown;
mod tenancy;
mod webhooks;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::{ArgAction, Args};
use kollect_api::{
    address::{AddressPolicy, Network},
    effective,
    meta::SYSTEM_NAMESPACE,
    rules,
};
use kollect_collect::{extract, plan};
use kollect_operator::{
    api_error::Sentence,
    controller::CollectionSettings,
    inventories,
    listeners::{CertificateFiles, ListenerSettings},
    metrics::SAMPLE_INTERVAL,
    process::{self, Operator},
};
use kube::{Config, config::KubeConfigOptions, config::Kubeconfig};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

pub(crate) use self::inherited::with_two_dashes;
use self::{
    election::Election,
    inherited::{Given, GoSwitch as _, switch},
    logging::Logging,
    runtimes::Runtimes,
    tenancy::Tenancy,
    webhooks::Webhooks,
};

/// How long the API server may take to answer for the first time.
const CONNECTING: Duration = Duration::from_secs(10);

/// Options of `kollect operator`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Kubeconfig file; otherwise $KUBECONFIG, the cluster's own credentials or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Serve namespaced kinds only, with namespaced rights.
    #[arg(long, action = ArgAction::Set, default_value_t = false, value_parser = switch, go_switch())]
    tenant_mode: bool,
    /// Namespaces to look at, separated by commas; empty for all.
    #[arg(long, value_name = "LIST", default_value = "")]
    watch_namespaces: String,
    /// Namespaces for targets that name none.
    #[arg(long, value_name = "LIST", default_value = "")]
    default_included_namespaces: String,
    /// Namespaces that no target collects from.
    #[arg(long, value_name = "LIST", default_value = "")]
    default_excluded_namespaces: String,
    /// Keys whose values are redacted, in addition to the built-in ones.
    #[arg(long, value_name = "LIST", default_value = "")]
    scrub_keys: String,
    /// The most bytes the attributes of one row may have as JSON.
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = extract::DEFAULT_MAX_ROW_BYTES,
        value_parser = row_bytes
    )]
    max_row_bytes: usize,
    /// How often a target's row count is written when nothing else changed.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration)]
    target_count_resync: Duration,
    #[command(flatten)]
    tenancy: Box<Tenancy>,
    #[command(flatten)]
    delivering: Box<Delivering>,
    #[command(flatten)]
    election: Box<Election>,
    #[command(flatten)]
    listeners: Box<Listeners>,
    #[command(flatten)]
    webhooks: Box<Webhooks>,
    #[command(flatten)]
    logging: Logging,
    #[command(flatten)]
    inherited: Given,
}

/// Options of exports and of the sinks they go to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sinks")]
struct Delivering {
    /// Sinks may be in private networks (RFC 1918 and IPv6 unique local).
    #[arg(long, action = ArgAction::Set, default_value_t = false, value_parser = switch, go_switch())]
    allow_private_sinks: bool,
    /// Networks that sinks may be in although they are private or loopback, such as 10.96.0.0/12.
    #[arg(long, value_name = "LIST", default_value = "")]
    allow_sink_networks: String,
    /// Host names that sinks may have although their addresses would be refused.
    #[arg(long, value_name = "LIST", default_value = "")]
    allow_sink_hosts: String,
    /// Sinks without credentials may use what the operator's own pod or machine is to its cloud: a
    /// role of AWS, a service account of Google, a managed identity of Azure.
    #[arg(long, action = ArgAction::Set, default_value_t = false, value_parser = switch, go_switch())]
    allow_workload_identity: bool,
    /// Git sinks may be directories of this machine (file://).
    #[arg(long)]
    allow_local_repositories: bool,
    /// Namespaces whose Secrets sinks of other namespaces may use.
    #[arg(long, value_name = "LIST", default_value = "")]
    secret_namespaces: String,
    /// Upper limit of every maxExportBytes [default: 1572864]. If given, documents of inventories
    /// that have none are split at this size; otherwise they are not split.
    #[arg(long, value_name = "BYTES", allow_negative_numbers = true)]
    max_export_bytes: Option<i64>,
    /// How long one export to one sink may take.
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration)]
    export_timeout: Duration,
    /// How many exports may run at a time.
    #[arg(long, value_name = "NUMBER", default_value_t = 16)]
    parallel_exports: usize,
    /// How long a deleted inventory waits for a sink that cannot be cleaned up.
    #[arg(long, value_name = "DURATION", default_value = "10m", value_parser = duration)]
    cleanup_timeout: Duration,
    /// Where Git mirrors are kept; empty for a directory of the system. Nothing there has to
    /// survive.
    #[arg(long, value_name = "DIR", default_value = "")]
    work_dir: String,
}

/// Options of the HTTP listeners.
#[derive(Debug, Args)]
struct Listeners {
    /// Where probes are answered (/healthz, /readyz); 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = ":8081")]
    health_probe_bind_address: String,
    /// Where metrics are served (/metrics); 0 for nowhere.
    #[arg(long, value_name = "ADDRESS", default_value = "0")]
    metrics_bind_address: String,
    /// Serve metrics over HTTPS, to callers whom the cluster allows to get /metrics.
    #[arg(long, action = ArgAction::Set, default_value_t = true, value_parser = switch, go_switch())]
    metrics_secure: bool,
    /// Directory of the certificate for metrics; empty for a self-signed one.
    #[arg(long, value_name = "DIR", default_value = "")]
    metrics_cert_path: String,
    /// File of the certificate in that directory.
    #[arg(long, value_name = "FILE", default_value = "tls.crt")]
    metrics_cert_name: PathBuf,
    /// File of its private key in that directory.
    #[arg(long, value_name = "FILE", default_value = "tls.key")]
    metrics_cert_key: PathBuf,
    /// How long series that profiles define may be reused before rows are looked through again.
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    collect_metrics_sample_interval: Duration,
}

impl Listeners {
    fn settings(&self) -> ListenerSettings {
        let directory = Path::new(&self.metrics_cert_path);
        let files = || CertificateFiles {
            certificate: directory.join(&self.metrics_cert_name),
            key: directory.join(&self.metrics_cert_key),
        };
        ListenerSettings {
            health_address: self.health_probe_bind_address.clone(),
            metrics_address: self.metrics_bind_address.clone(),
            secure_metrics: self.metrics_secure,
            certificate: (!self.metrics_cert_path.is_empty()).then(files),
            sample_interval: match self.collect_metrics_sample_interval {
                // Zero is no choice.
                Duration::ZERO => SAMPLE_INTERVAL,
                chosen => chosen,
            },
        }
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    kollect_api::Duration::new(text)
        .get()
        .map_err(|error| error.to_string())
}

/// Runs until the process is asked to stop.
pub(crate) fn run(options: &Options) -> Result<()> {
    options.logging.start();
    for warning in options.inherited.warnings() {
        tracing::warn!("{warning}");
    }
    let settings = settings(options)?;
    if let Some(warning) = beyond_a_role(options) {
        tracing::warn!("{warning}");
    }
    // What must never stop runs on this thread, and nobody else's work does.
    let own = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let runtimes = Runtimes::start(settings.webhooks.are_served())?;
    let outcome = own.block_on(operate(options, settings, &runtimes));
    // Threads that hang must not hold the process.
    runtimes.abandon();
    own.shutdown_background();
    outcome
}

async fn operate(
    options: &Options,
    settings: process::OperatorSettings,
    runtimes: &Runtimes,
) -> Result<()> {
    let stop = CancellationToken::new();
    // First of all: as the first process of a container, nobody else handles signals.
    shutdown::on_signal(stop.clone()).context("signals cannot be handled")?;
    let connecting = async {
        let config = config(options).await?;
        let client = runtimes::client(&config)?;
        match timeout(CONNECTING, client.apiserver_version()).await {
            Ok(Ok(version)) => tracing::info!(kubernetes = version.git_version, "connected"),
            // Somebody is there. What else is refused or slow is for the watches to say, and to
            // ask for again.
            Ok(Err(error @ kube::Error::Api(_))) => tracing::warn!(
                "the API server does not say its version: {}; going on without it",
                Sentence(&error)
            ),
            Err(_) => tracing::warn!(
                "the API server did not say its version within {CONNECTING:?}; going on without it"
            ),
            Ok(Err(error)) => {
                return Err(anyhow!("{}", Sentence(&error))).context(
                    "the API server cannot be reached; check the kubeconfig and the network",
                );
            }
        }
        anyhow::Ok((config, client))
    };
    let (config, client) = tokio::select! {
        () = stop.cancelled() => return Ok(()),
        connected = connecting => connected?,
    };
    let places = runtimes.workplaces(&config)?;
    let election = options.election.begin(&client, &home(options))?;
    let operator = Operator::new(&places, settings, election.leadership(), &stop);
    let keeper = operator.observed().keeper.clone();
    let lease = election.run(&keeper);
    let listeners = operator.listen(&client, &stop).await?;
    let ending = stop.clone();
    let mut work = places
        .control
        .runtime
        .spawn(async move { operator.run(&ending).await });
    let in_time = async {
        stop.cancelled().await;
        sleep(shutdown::WORK).await;
    };
    let ended = tokio::select! {
        ended = &mut work => ended,
        () = in_time => bail!(
            "work under way did not end within {} s of the signal and is given up; the lease will expire",
            shutdown::WORK.as_secs()
        ),
    };
    stop.cancel();
    lease.end().await;
    listeners.join_all().await;
    ended.context("the operator ended unexpectedly")??;
    tracing::info!("stopped");
    Ok(())
}

fn settings(options: &Options) -> Result<process::OperatorSettings> {
    if options.tenant_mode && plan::comma_list(&options.watch_namespaces).is_empty() {
        bail!(
            "--tenant-mode needs --watch-namespaces: add the namespaces that this operator is for, \
             separated by commas, such as --watch-namespaces=team-a,team-b"
        );
    }
    let sinks = &options.delivering;
    let networks = plan::comma_list(&sinks.allow_sink_networks);
    let networks: Result<Vec<Network>, _> = networks.iter().map(|text| text.parse()).collect();
    // What is not positive is no choice.
    let max_export_bytes = sinks.max_export_bytes.filter(|bytes| *bytes > 0);
    let rules = rules::Settings {
        deny_cluster_kinds: options.webhooks.deny_cluster_kinds(options.tenant_mode),
        addresses: AddressPolicy {
            allow_private: sinks.allow_private_sinks,
            allowed_networks: networks.context("--allow-sink-networks")?,
            allowed_hosts: plan::comma_list(&sinks.allow_sink_hosts),
            platform: false,
        },
        max_export_bytes: max_export_bytes.unwrap_or(effective::DEFAULT_MAX_EXPORT_BYTES),
        secret_namespaces: plan::comma_list(&sinks.secret_namespaces),
        local_repositories: sinks.allow_local_repositories,
        require_scope: options.tenancy.require_scope,
        secret_extraction: options.tenancy.secret_extraction,
    };
    let default = process::OperatorSettings::default();
    let work_dir = if sinks.work_dir.is_empty() {
        default.work_dir
    } else {
        PathBuf::from(&sinks.work_dir)
    };
    Ok(process::OperatorSettings {
        collection: CollectionSettings {
            mirrors: Some(work_dir.clone()),
            ..collection(options)
        },
        rules,
        inventories: inventories::ExportSettings {
            cleanup_patience: sinks.cleanup_timeout,
            max_export_bytes,
        },
        export_deadline: sinks.export_timeout,
        parallel_exports: sinks.parallel_exports,
        work_dir,
        workload_identity: sinks.allow_workload_identity,
        listeners: options.listeners.settings(),
        webhooks: options.webhooks.settings(
            options.election.namespace(&home(options)),
            options.tenant_mode,
        ),
    })
}

/// The namespace that an operator lives in which nobody told: a tenant's has rights in its own
/// namespaces only.
fn home(options: &Options) -> String {
    let watched = plan::comma_list(&options.watch_namespaces);
    let first = watched.into_iter().next().filter(|_| options.tenant_mode);
    first.unwrap_or_else(|| SYSTEM_NAMESPACE.to_owned())
}

/// What a tenant's operator was asked for that takes rights which a Role cannot grant.
fn beyond_a_role(options: &Options) -> Option<&'static str> {
    let listeners = &options.listeners;
    let secure = listeners.metrics_secure && listeners.metrics_bind_address != "0";
    (options.tenant_mode && secure).then_some(
        "--metrics-secure asks the API server who reads metrics (tokenreviews, \
         subjectaccessreviews), which takes rights in the whole cluster that a Role cannot grant: \
         without them nobody can read metrics. Give --metrics-secure=false, and keep others away \
         with a NetworkPolicy",
    )
}

fn collection(options: &Options) -> CollectionSettings {
    CollectionSettings {
        plan: plan::Settings {
            default_included_namespaces: plan::comma_list(&options.default_included_namespaces),
            default_excluded_namespaces: plan::comma_list(&options.default_excluded_namespaces),
            watch_namespaces: plan::comma_list(&options.watch_namespaces),
            tenant_mode: options.tenant_mode,
            require_scope: options.tenancy.require_scope,
            secret_extraction: options.tenancy.secret_extraction,
            ..plan::Settings::default()
        },
        quota: options.tenancy.quota(),
        extraction: extract::Settings {
            scrub_keys: plan::comma_list(&options.scrub_keys),
            max_row_bytes: options.max_row_bytes,
        },
        count_resync: match options.target_count_resync {
            // Zero is no choice.
            Duration::ZERO => CollectionSettings::default().count_resync,
            chosen => chosen,
        },
        ..CollectionSettings::default()
    }
}

/// A row is held in memory several times while it is delivered, so there is a most.
fn row_bytes(text: &str) -> Result<usize, String> {
    const MOST: usize = 16 << 20;
    let bytes: usize = text
        .parse()
        .map_err(|_| format!("{text:?} is not a number of bytes"))?;
    if (1024..=MOST).contains(&bytes) {
        Ok(bytes)
    } else {
        Err(format!("must be between 1024 and {MOST}"))
    }
}

async fn config(options: &Options) -> Result<Config> {
    let mut config = match &options.kubeconfig {
        Some(file) => {
            let kubeconfig = Kubeconfig::read_from(file)
                .with_context(|| format!("cannot read {}", file.display()))?;
            Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("{} is not usable", file.display()))?
        }
        None => Config::infer().await.context(
            "no credentials for a cluster; give --kubeconfig, set KUBECONFIG or run in a pod",
        )?,
    };
    // Watches decide by themselves when to try again; a client that hides answers from them would
    // wait twice.
    config.default_retry = false;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c11_the_size_of_rows_can_be_chosen_within_bounds() {
        assert_eq!(row_bytes("262144"), Ok(262_144));
        assert_eq!(row_bytes("1048576"), Ok(1 << 20));
        for text in ["", "0", "1023", "16777217", "-1", "1MiB", "1e6"] {
            assert!(row_bytes(text).is_err(), "{text}");
        }
    }
}
