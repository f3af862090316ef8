//! `kollect rbac`: the roles that an operator needs for exactly these manifests.

mod needs;
mod roles;

use std::{
    io::{self, Write as _},
    path::PathBuf,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kollect_api::meta::SYSTEM_NAMESPACE;

use self::{
    needs::{Definitions, Mode, Needs},
    roles::{Account, Names},
};
use crate::{
    configuration::Configuration,
    manifest, terminal,
    validate::{self, Permissions},
};

/// Options of `kollect rbac`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Manifests: files, directories (their *.yaml, *.yml and *.json files) or - for standard input.
    #[arg(
        short = 'f',
        long,
        visible_alias = "filename",
        value_name = "PATH",
        required = true
    )]
    config: Vec<PathBuf>,
    /// Bind the roles to this account, as NAMESPACE/NAME.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = account)]
    service_account: Option<Account>,
    /// For an operator with --tenant-mode: Roles alone.
    #[arg(long, requires = "watch_namespaces")]
    tenant_mode: bool,
    /// For an operator with these --watch-namespaces: Roles in each of them.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    watch_namespaces: Vec<String>,
    /// Leave out what the operator itself needs, where the chart grants that.
    #[arg(long)]
    only_collected: bool,
    /// What the operator does beside collecting.
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "leader-election"
    )]
    with: Vec<Extra>,
    /// How the names of roles begin.
    #[arg(long, value_name = "NAME", default_value = "kollect")]
    name: String,
    #[command(flatten)]
    permissions: Permissions,
}

/// Something an operator can do that takes rights of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Extra {
    /// Several replicas, one of which writes.
    LeaderElection,
    /// Metrics over HTTPS.
    Metrics,
    /// The admission webhook, with certificates that the operator makes.
    Webhook,
    /// Nothing of that.
    None,
}

fn account(text: &str) -> Result<Account, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(Account {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }),
        _ => Err("write it as NAMESPACE/NAME, such as kollect-system/kollect".to_owned()),
    }
}

/// Reads the manifests and prints the roles.
pub(crate) fn run(options: &Options) -> Result<()> {
    let texts = manifest::read_all(&options.config)?;
    let configuration = Configuration::load(&texts, &options.permissions.standard());
    // What is no object of ours is no business of this command.
    for finding in configuration.findings.iter().filter(|one| one.is_error()) {
        terminal::say(&finding.to_string());
    }
    validate::check(&configuration, false)?;
    let mode = Mode {
        tenant: options.tenant_mode,
        watched: options.watch_namespaces.clone(),
        home: home(options),
        with: options.with.clone(),
        only_collected: options.only_collected,
    };
    let names = Names::of_release(&options.name);
    let definitions = Definitions::of(
        texts
            .iter()
            .flat_map(|text| manifest::parse(text).documents),
    );
    let needs = Needs::of(&configuration.objects, &definitions, &mode, &names)?;
    for remark in &needs.remarks {
        terminal::say(&format!("Note: {remark}"));
    }
    if needs.is_empty() {
        bail!("these manifests collect nothing: give profiles together with their targets");
    }
    let text = roles::yaml(&needs, &names, options.service_account.as_ref());
    match io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

/// The namespace that the operator lives in.
fn home(options: &Options) -> String {
    match (&options.service_account, options.watch_namespaces.first()) {
        (Some(account), _) => account.namespace.clone(),
        (None, Some(first)) if options.tenant_mode => first.clone(),
        _ => SYSTEM_NAMESPACE.to_owned(),
    }
}
