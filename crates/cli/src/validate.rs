//! `kollect validate`: what an operator would say of manifests, without any cluster; or of what a
//! cluster holds already.

mod live;

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Result, bail};
use clap::Args;
use kollect_api::{
    SinkKey,
    address::{AddressPolicy, Network},
    rules::{self, Object},
};

use crate::{
    configuration::{Configuration, Finding, Standard},
    manifest, terminal,
};

/// Options of `kollect validate`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, directories (their *.yaml, *.yml and *.json files) or - for standard input.
    #[arg(value_name = "PATH", required_unless_present_any = ["filename", "live"], conflicts_with = "live")]
    paths: Vec<PathBuf>,
    /// The same, as a flag.
    #[arg(
        short = 'f',
        long,
        visible_alias = "config",
        value_name = "PATH",
        conflicts_with = "live"
    )]
    filename: Vec<PathBuf>,
    /// Judge the objects that a cluster holds, instead of files.
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    place: live::Place,
    /// Refuse cluster targets and cluster inventories, as an operator of one tenant does.
    #[arg(long)]
    deny_cluster_kinds: bool,
    #[command(flatten)]
    permissions: Permissions,
    /// Take warnings for errors.
    #[arg(long)]
    strict: bool,
    /// How to print findings: text, one per line on standard error, or json on standard output.
    #[arg(
        short = 'o',
        long = "format",
        value_name = "FORMAT",
        default_value = "text"
    )]
    format: Format,
}

/// How findings are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Format {
    Text,
    Json,
}

/// What sinks may do; the same flags as those of the operator.
#[derive(Debug, Args)]
pub(crate) struct Permissions {
    /// Allow sinks on private networks (RFC 1918, IPv6 unique local).
    #[arg(long = "allow-private-sinks")]
    private: bool,
    /// Allow sinks on these networks although they are private or loopback, such as 10.96.0.0/12.
    #[arg(
        long = "allow-sink-networks",
        value_name = "LIST",
        value_delimiter = ','
    )]
    networks: Vec<Network>,
    /// Allow these host names of sinks although they are on the list of forbidden names.
    #[arg(long = "allow-sink-hosts", value_name = "LIST", value_delimiter = ',')]
    hosts: Vec<String>,
    /// Namespaces whose Secrets sinks of other namespaces may use.
    #[arg(long = "secret-namespaces", value_name = "LIST", value_delimiter = ',')]
    secrets: Vec<String>,
}

impl Permissions {
    /// The policy that the flags stand for.
    pub(crate) fn policy(&self) -> AddressPolicy {
        AddressPolicy {
            allow_private: self.private,
            allowed_networks: self.networks.clone(),
            allowed_hosts: self.hosts.clone(),
            platform: false,
        }
    }

    /// The rules with that policy.
    pub(crate) fn standard(&self) -> Standard {
        Standard {
            settings: rules::Settings {
                addresses: self.policy(),
                secret_namespaces: self.secrets.clone(),
                ..rules::Settings::default()
            },
        }
    }
}

/// Reads the manifests and says what is wrong with them.
pub(crate) fn run(options: &Options) -> Result<()> {
    let paths: Vec<PathBuf> = options
        .paths
        .iter()
        .chain(&options.filename)
        .cloned()
        .collect();
    let named: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let named = named.join(", ");
    let mut standard = options.permissions.standard();
    standard.settings.deny_cluster_kinds = options.deny_cluster_kinds;
    let (named, configuration) = if options.live {
        let documents = live::read(&options.place)?;
        let configuration = Configuration::new(documents, &standard);
        ("the cluster".to_owned(), configuration)
    } else {
        let texts = manifest::read_all(&paths)?;
        (named, Configuration::load(&texts, &standard))
    };
    match options.format {
        Format::Text => report(&configuration),
        Format::Json => {
            let findings = configuration.findings.iter().map(Finding::to_json);
            let findings = serde_json::Value::Array(findings.collect());
            print(&format!("{findings:#}\n"))?;
        }
    }
    check(&configuration, options.strict)?;
    if configuration.objects.is_empty() && configuration.secrets.is_empty() {
        let hint = if options.live {
            "none is stored there"
        } else {
            "look for *.yaml, *.yml and *.json files there"
        };
        bail!("{named}: no Kollect objects were found; {hint}");
    }
    if options.format == Format::Text {
        print(&format!("{named}: valid ({})\n", count(&configuration)))?;
    }
    Ok(())
}

/// Refuses manifests that cannot be used.
pub(crate) fn check(configuration: &Configuration, strict: bool) -> Result<()> {
    let failed = configuration.failed();
    if failed > 0 {
        bail!("{failed} config object(s) failed validation");
    }
    let warnings = configuration.warnings();
    if strict && warnings > 0 {
        bail!("{warnings} warning(s), and --strict takes warnings for errors");
    }
    Ok(())
}

fn print(text: &str) -> Result<()> {
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints what was found, one per line.
pub(crate) fn report(configuration: &Configuration) {
    for finding in &configuration.findings {
        terminal::say(&finding.to_string());
    }
}

/// How many objects of each sort there are.
fn count(configuration: &Configuration) -> String {
    let (mut profiles, mut targets, mut sinks, mut others) = (0, 0, 0, 0);
    for object in &configuration.objects {
        match object {
            Object::Profile(_) => profiles += 1,
            Object::Target(_) | Object::ClusterTarget(_) => targets += 1,
            object if SinkKey::of(object).is_some() => sinks += 1,
            _ => others += 1,
        }
    }
    let mut text = format!("{profiles} profile(s), {targets} target(s), {sinks} sink(s)");
    if others > 0 {
        text.push_str(&format!(", {others} other object(s)"));
    }
    text
}
