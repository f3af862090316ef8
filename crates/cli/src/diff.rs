//! `kollect diff`: what is different between two clusters, dumps, exports or moments.
//!
//! ```text
//! context, dump ─ manifests ─> rows ─┐
//! exported documents, repo@rev ──────┼─> items ─ compare ─> summary, details
//! postgres:DSN ──────────────────────┘
//! ```

mod compare;
mod documents;
mod item;
mod repository;
mod side;

use std::{
    collections::BTreeSet,
    io::{self, BufWriter, Write},
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result};
use clap::Args;
use jiff::Timestamp;

use self::{
    compare::{Difference, compare},
    item::Items,
    side::Side,
};
use crate::{
    collect::{self, Level, Report},
    init::blueprint::Attribute,
    interrupt,
    render::{self, Format, Look},
    validate::Permissions,
};

/// Options of `kollect diff`.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Before: a context of the kubeconfig, a dump or a directory of exported documents, a Git revision of one
    /// (repository@revision), or a table (postgres:DSN).
    #[arg(value_name = "A")]
    before: String,
    /// After: the same.
    #[arg(value_name = "B")]
    after: String,
    /// Manifests for contexts and dumps; without any, those that a dump holds.
    #[arg(long, short = 'f', value_name = "PATH")]
    pub(crate) config: Vec<PathBuf>,
    /// Compare objects of this kind without manifests.
    #[arg(long, value_name = "KIND", conflicts_with = "config")]
    pub(crate) kind: Option<String>,
    /// With --kind: a value to compare, as name=path. Repeatable.
    #[arg(long, short = 'a', value_name = "NAME=PATH", value_parser = crate::init::attribute, requires = "kind")]
    pub(crate) attribute: Vec<Attribute>,
    /// Kubeconfig file; otherwise $KUBECONFIG or ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Compare this namespace alone.
    #[arg(long, short = 'n', value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// Attributes that do not count. Repeatable, separated by commas.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    ignore: Vec<String>,
    /// Compare rows that fulfil a condition only, such as 'cel:object.replicas > 2'.
    #[arg(long = "where", value_name = "CONDITION")]
    condition: Option<String>,
    /// How to show differences.
    #[arg(long, short = 'o', value_name = "FORMAT", default_value = "table")]
    format: Format,
    /// The table of postgres:DSN, with its schema if that is not public.
    #[arg(long, value_name = "NAME", default_value = "inventory_items")]
    pub(crate) table: String,
    /// The table that keeps the history, for --as-of.
    #[arg(long, value_name = "NAME")]
    pub(crate) history_table: Option<String>,
    /// A as it was at this time (2026-01-31T12:00:00Z); for postgres:DSN with a history.
    #[arg(long, value_name = "TIME", requires = "history_table")]
    as_of: Option<Timestamp>,
    /// Only of this cluster, where a table holds several.
    #[arg(long, value_name = "NAME")]
    pub(crate) cluster: Option<String>,
    /// How long one list may take.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = crate::arguments::duration)]
    pub(crate) timeout: Duration,
    /// Print nothing but the differences.
    #[arg(long, short = 'q')]
    quiet: bool,
    #[command(flatten)]
    pub(crate) permissions: Permissions,
}

/// Compares; the code says whether there is a difference.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let difference = interrupt::run(find(options))?;
    let mut out = BufWriter::new(io::stdout().lock());
    match show(&difference, options, &mut out) {
        // Whoever reads may stop early, as `head` does.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        shown => shown.context("cannot write to standard output")?,
    }
    Ok(ExitCode::from(u8::from(!difference.is_empty())))
}

async fn find(options: &Options) -> Result<Difference> {
    let report = Report::new(Level::Warn, None).quiet(options.quiet);
    let condition = options.condition.as_deref().map(collect::condition);
    let condition = condition.transpose()?;
    let [before, after] = [&options.before, &options.after].map(|text| Side::parse(text, options));
    let (before, after) = (before?, after?);
    let before = before.read(options, options.as_of, &report).await;
    let mut before = before.with_context(|| options.before_name())?;
    let after = after.read(options, None, &report).await;
    let mut after = after.with_context(|| options.after_name())?;
    if before.lacks_targets() || after.lacks_targets() {
        before = before.without_targets();
        after = after.without_targets();
    }
    if let Some(condition) = &condition {
        for side in [&mut before, &mut after] {
            let mut kept = Items::default();
            for (key, attributes) in std::mem::take(&mut side.0) {
                let object = Items::as_object(&key, &attributes);
                if collect::holds(condition, &object, &key.name)? {
                    kept.0.insert(key, attributes);
                }
            }
            *side = kept;
        }
    }
    let ignored: BTreeSet<String> = options.ignore.iter().cloned().collect();
    Ok(compare(&before, &after, &ignored))
}

impl Options {
    /// Names of sides in messages. A DSN may hold a password.
    fn before_name(&self) -> String {
        side::named(&self.before)
    }

    fn after_name(&self) -> String {
        side::named(&self.after)
    }
}

fn show(difference: &Difference, options: &Options, out: &mut impl Write) -> io::Result<()> {
    let look = Look::of_standard_output(true);
    let format = options.format;
    match format {
        Format::Json => {
            serde_json::to_writer_pretty(&mut *out, &difference.to_json())?;
            out.write_all(b"\n")?;
        }
        Format::Yaml => out.write_all(render::yaml(&difference.to_json())?.as_bytes())?,
        Format::Csv | Format::Ndjson => difference.details().write(format, look, out)?,
        Format::Table | Format::Wide | Format::Markdown => {
            let [added, removed, changed] = difference.counts();
            let head = format!(
                "{} → {}: {added} added, {removed} removed, {changed} changed, {} the same",
                options.before_name(),
                options.after_name(),
                difference.same
            );
            if format == Format::Markdown {
                writeln!(out, "{}", render::harmless(&head))?;
            } else {
                writeln!(out, "{}", kollect_api::visible::visible(&head))?;
            }
            if !difference.is_empty() {
                for grid in [difference.summary(), difference.details()] {
                    writeln!(out)?;
                    grid.write(format, look, out)?;
                }
            }
        }
    }
    out.flush()
}
