//! `kollect validate`: what an operator would say of manifests, without any cluster.

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
    configuration::{Configuration, Standard},
    manifest::{self, Extent},
    terminal,
};

/// Options of `kollect validate`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Files, directories (their *.yaml, *.yml and *.json files) or - for standard input.
    #[arg(value_name = "PATH", required_unless_present = "filename")]
    paths: Vec<PathBuf>,
    /// The same, as a flag.
    #[arg(short = 'f', long, visible_alias = "config", value_name = "PATH")]
    filename: Vec<PathBuf>,
    #[command(flatten)]
    permissions: Permissions,
    /// Take warnings for errors.
    #[arg(long)]
    strict: bool,
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
    let texts = manifest::read_all(&paths, Extent::Flat)?;
    let configuration = Configuration::load(&texts, &options.permissions.standard())?;
    report(&configuration);
    let failed = configuration.problems.len();
    if failed > 0 {
        bail!("{failed} config object(s) failed validation");
    }
    if options.strict && !configuration.warnings.is_empty() {
        bail!(
            "{} warning(s), and --strict takes warnings for errors",
            configuration.warnings.len()
        );
    }
    let named: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    let verdict = format!("{}: valid ({})\n", named.join(", "), count(&configuration));
    match io::stdout().lock().write_all(verdict.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Prints warnings and problems.
pub(crate) fn report(configuration: &Configuration) {
    for warning in &configuration.warnings {
        terminal::say(&format!("warning: {warning}"));
    }
    for problem in &configuration.problems {
        terminal::say(&format!("invalid: {problem}"));
        for place in problem.places() {
            terminal::say(&format!("  at {place}"));
        }
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
