//! One side of a comparison: what was named, and its rows.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kollect_api::sink::{SinkSpec, database::KollectDatabaseSinkSpec};
use kollect_inventory::Snapshot;
use kollect_sinks::{backend::Environment, dial::Dialer, postgres::PostgresSink};
use serde_json::{Value, json};

use super::{Options, documents, item::Items, repository};
use crate::collect::{self, Named, Origin, Question, Report, Wishes, contexts, credentials};

/// What one side is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Side {
    /// A context of the kubeconfig.
    Context(String),
    /// Objects of a cluster in files.
    Dump(PathBuf),
    /// Documents that were exported.
    Documents(PathBuf),
    /// The same at a revision, below a directory of the repository.
    Revision {
        repository: PathBuf,
        revision: String,
        below: String,
    },
    /// A connection string.
    Table(String),
}

const TABLE: &str = "postgres:";

/// How messages name a side. A connection string may hold a password.
pub(super) fn named(text: &str) -> String {
    if text.starts_with(TABLE) {
        return "postgres:…".to_owned();
    }
    text.to_owned()
}

impl Side {
    /// Finds out what was named.
    pub(super) fn parse(text: &str, options: &Options) -> Result<Self> {
        if let Some(dsn) = text.strip_prefix(TABLE) {
            return Ok(Side::Table(dsn.to_owned()));
        }
        let path = PathBuf::from(text);
        if text == "-" {
            return Ok(Side::Dump(path));
        }
        if path.exists() {
            return Ok(if documents::are_exported(&path)? {
                Side::Documents(path)
            } else {
                Side::Dump(path)
            });
        }
        if let Some((repository, revision)) = text.rsplit_once('@')
            && PathBuf::from(repository).is_dir()
        {
            let (revision, below) = revision.split_once(':').unwrap_or((revision, ""));
            return Ok(Side::Revision {
                repository: repository.into(),
                revision: revision.to_owned(),
                below: below.to_owned(),
            });
        }
        let known = contexts::read_kubeconfig(options.kubeconfig.as_deref());
        let names: Vec<String> = match known {
            Ok(kubeconfig) => kubeconfig
                .contexts
                .into_iter()
                .map(|one| one.name)
                .collect(),
            Err(_) => Vec::new(),
        };
        if names.iter().any(|name| name == text) {
            return Ok(Side::Context(text.to_owned()));
        }
        bail!(
            "{text:?} is no file, no directory, no repository@revision, no postgres:DSN, and no context of the kubeconfig ({})",
            if names.is_empty() {
                "there is none".to_owned()
            } else {
                names.join(", ")
            }
        )
    }

    /// Reads its rows. A side of which something is not known cannot be compared.
    pub(super) async fn read(
        &self,
        options: &Options,
        as_of: Option<Timestamp>,
        report: &Report,
    ) -> Result<Items> {
        if as_of.is_some() && !matches!(self, Side::Table(_)) {
            bail!("--as-of is for postgres:DSN; a repository takes a revision");
        }
        match self {
            Side::Context(name) => collected(options, Vec::new(), Some(name), report).await,
            Side::Dump(path) => collected(options, vec![path.clone()], None, report).await,
            Side::Documents(path) => documents::read(path),
            Side::Revision {
                repository,
                revision,
                below,
            } => repository::read(repository, revision, below),
            Side::Table(dsn) => table(dsn, options, as_of).await,
        }
    }
}

/// Collects as `kollect collect` does.
async fn collected(
    options: &Options,
    from: Vec<PathBuf>,
    context: Option<&String>,
    report: &Report,
) -> Result<Items> {
    let place = Origin {
        from,
        kubeconfig: options.kubeconfig.clone(),
        context: context.cloned().into_iter().collect(),
        namespace: options.namespace.clone(),
        all_namespaces: options.namespace.is_none(),
        concurrency: 4,
        timeout: options.timeout,
    };
    let question = Question {
        config: &options.config,
        kind: options.kind.as_deref(),
        attributes: &options.attribute,
        selector: None,
        save: None,
        place: &place,
        standard: options.permissions.standard(),
        strict: false,
    };
    if question.config.is_empty() && question.kind.is_none() && place.from.is_empty() {
        bail!("say what to compare, with --config or --kind");
    }
    let answer = question.ask(report).await?;
    let wishes = Wishes {
        namespace: options.namespace.clone(),
        ..Wishes::default()
    };
    let mut items = Items::default();
    for (name, seen) in answer.look(&wishes, report).await? {
        for outcome in seen.outcomes {
            if outcome.suspended {
                continue;
            }
            let Some(rows) = &outcome.rows else {
                bail!(
                    "target {} was not collected, so nothing can be said about it:\n{}",
                    Named(&outcome.key),
                    collect::explanation(&outcome)
                );
            };
            if outcome.is_degraded() {
                report.say(&format!(
                    "warning: {name}: not everything is known:\n{}",
                    collect::explanation(&outcome)
                ));
            }
            add(&mut items, rows);
        }
    }
    Ok(items)
}

fn add(items: &mut Items, rows: &Snapshot) {
    for row in rows.rows() {
        let mut text = String::new();
        row.write_json(&mut text);
        let row: Value = serde_json::from_str(&text).unwrap_or_default();
        items.add(row, &[]);
    }
}

/// Reads a table.
async fn table(dsn: &str, options: &Options, as_of: Option<Timestamp>) -> Result<Items> {
    let (schema, table) = match options.table.split_once('.') {
        Some((schema, table)) => (Some(schema), table),
        None => (None, options.table.as_str()),
    };
    let history = options.history_table.as_ref();
    let spec = json!({
        "type": "postgres",
        "postgres": {
            "databaseRef": {"name": "dsn"},
            "table": table,
            "schema": schema,
            "history": history.map(|table| json!({"table": table})),
        },
    });
    let spec: KollectDatabaseSinkSpec = serde_json::from_value(spec)?;
    let spec = SinkSpec::Database(spec);
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "dsn", "namespace": "default"},
        "stringData": {"dsn": dsn},
    }))?;
    let settings = options.permissions.standard().of_a_person();
    let environment = |name: &str| std::env::var(name).ok();
    let materials = credentials::materials(&spec, "default", &[secret], &settings, environment)?;
    let work = tempfile::tempdir().context("cannot create a temporary directory")?;
    let environment = Environment {
        dialer: Dialer::new(options.permissions.policy()),
        work_dir: work.path().to_owned(),
        local_repositories: true,
        census: std::sync::Arc::default(),
        local_files: true,
        workload: None,
    };
    let sink = PostgresSink::new(&spec, materials, &environment)?;
    let mut items = Items::default();
    let mut clusters = std::collections::BTreeSet::new();
    let read = sink.read(as_of, |cluster, payload| {
        if options
            .cluster
            .as_deref()
            .is_none_or(|wanted| wanted == cluster)
        {
            clusters.insert(cluster.to_owned());
            items.add(serde_json::from_str(payload).unwrap_or_default(), &[]);
        }
    });
    let read = tokio::time::timeout(options.timeout, read).await;
    read.context("no answer in time; give more with --timeout")??;
    if clusters.len() > 1 {
        let clusters: Vec<String> = clusters.into_iter().collect();
        bail!(
            "the table holds several clusters ({}); choose one with --cluster",
            clusters.join(", ")
        );
    }
    Ok(items)
}
