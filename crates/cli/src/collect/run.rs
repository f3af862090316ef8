//! One run: clusters are looked at side by side, and each is exported as soon as it is complete; one that fails does not hold up the
//! others.

use std::{
    io::{self, Write},
    path::Path,
};

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use kollect_api::rules::Object;
use kollect_collect::plan::TargetKey;
use kollect_sinks::backend::Environment;

use super::{
    export::{self, Destination, Exported, Exporting, NotExported, STANDARD_OUTPUT},
    local::{self, Directory, Naming, Written},
    outcome::{self, Code, TargetOutcome},
    print::{Batch, Printer},
    report,
    source::{Looking, Seen, Source},
    units::{self, Unit},
    way::Way,
    world::{self, Wishes},
};
use crate::{configuration::Configuration, interrupt};

/// How many clusters are looked at side by side.
const SIDE_BY_SIDE: usize = 4;

/// A run and what came of it so far.
pub(crate) struct Run<'r, W> {
    pub(crate) configuration: &'r Configuration,
    /// All targets in the order of the manifests.
    pub(crate) keys: Vec<TargetKey>,
    pub(crate) way: Way,
    pub(crate) wishes: Wishes,
    pub(crate) looking: Looking<'r>,
    pub(crate) exporting: Exporting<'r>,
    /// What all sinks share.
    pub(crate) environment: Environment,
    /// Whether files of several clusters stand side by side.
    pub(crate) per_cluster: bool,
    pub(crate) explain: bool,
    pub(crate) printer: Printer,
    pub(crate) out: W,
    /// What a file will hold, once everything is known.
    pub(crate) batches: Vec<Batch>,
    /// How many targets are missing there.
    pub(crate) held_back: usize,
    pub(crate) messages: Vec<String>,
    pub(crate) codes: Vec<Code>,
}

impl<W: Write> Run<'_, W> {
    /// Looks at all clusters.
    pub(crate) async fn contexts(
        &mut self,
        source: &Source,
        names: &[String],
        cluster: Option<&str>,
    ) -> Result<()> {
        let world = world::world(self.configuration, &self.wishes);
        let (keys, looking) = (self.keys.clone(), self.looking);
        let mut looks = stream::iter(names)
            .map(|name| {
                let (world, keys) = (world.clone(), &keys);
                async move { (name, source.look(name, world, keys, &looking).await) }
            })
            .buffer_unordered(SIDE_BY_SIDE);
        while let Some((name, looked)) = looks.next().await {
            interrupt::check()?;
            self.context(name, cluster.unwrap_or(name), looked).await?;
        }
        Ok(())
    }

    /// Exports what was seen of one cluster.
    async fn context(&mut self, name: &str, cluster: &str, looked: Result<Seen>) -> Result<()> {
        let exported = match looked {
            Ok(seen) => {
                self.looking.report.outcomes(name, &seen.outcomes);
                self.export(&seen, cluster)
                    .await
                    .map(|exported| (seen.outcomes, exported))
            }
            Err(error) => Err(error),
        };
        match exported {
            Ok((outcomes, exported)) => self.conclude(name, &outcomes, &exported),
            Err(error) if interrupt::is_interruption(&error) => return Err(error),
            Err(error) => {
                self.messages.push(format!("context {name}: {error:#}"));
                self.codes.push(Code::Fatal);
            }
        }
        Ok(())
    }

    async fn export(&mut self, seen: &Seen, cluster: &str) -> Result<Vec<Exported>> {
        let mut units = self.units(seen);
        for unit in &mut units {
            if let Ok(rows) = &unit.rows {
                unit.rows = Ok(self.exporting.shape.filter(rows, cluster)?);
            }
        }
        let destinations = match &self.way {
            Way::Standard(_) => return self.print(&units, cluster),
            Way::File(path, _) => {
                let path = path.clone();
                return Ok(self.remember(&units, cluster, &path));
            }
            Way::Directory(root, format) => {
                let bare = root.file_name().is_some_and(|name| name == "inventory");
                let naming = Naming::new(cluster, *format, self.per_cluster, bare)?;
                vec![Destination::directory(Directory::new(root, naming))]
            }
            Way::Sinks(sinks) => export::open(sinks, &self.environment, cluster).await?,
        };
        Ok(export::export(&units, &destinations, &self.exporting).await)
    }

    /// Inventories are for sinks; everything else is written target by target.
    fn units(&self, seen: &Seen) -> Vec<Unit> {
        let has_inventories = self
            .configuration
            .objects
            .iter()
            .any(|object| matches!(object, Object::Inventory(_) | Object::ClusterInventory(_)));
        if has_inventories && matches!(self.way, Way::Sinks(_)) {
            units::of_inventories(self.configuration, &seen.world, &seen.outcomes)
        } else {
            units::of_targets(&seen.outcomes)
        }
    }

    /// Prints what is known of one cluster.
    fn print(&mut self, units: &[Unit], cluster: &str) -> Result<Vec<Exported>> {
        let mut exported = Vec::new();
        for unit in units {
            let result = match batch(unit, cluster) {
                Ok(batch) => {
                    interrupt::check()?;
                    patiently(self.printer.batch(&batch, &mut self.out))?;
                    Ok(format!("{} rows", batch.rows.len()))
                }
                Err(why) => Err(why),
            };
            exported.push(Exported {
                title: unit.title.clone(),
                to: STANDARD_OUTPUT.to_owned(),
                result,
            });
        }
        patiently(self.out.flush())?;
        Ok(exported)
    }

    /// Keeps what is known of one cluster for the file.
    fn remember(&mut self, units: &[Unit], cluster: &str, path: &Path) -> Vec<Exported> {
        let mut exported = Vec::new();
        for unit in units {
            let result = batch(unit, cluster).map(|batch| {
                let rows = batch.rows.len();
                self.batches.push(batch);
                format!("{rows} rows")
            });
            self.held_back += usize::from(result.is_err());
            exported.push(Exported {
                title: unit.title.clone(),
                to: path.display().to_string(),
                result,
            });
        }
        exported
    }

    fn conclude(&mut self, name: &str, outcomes: &[TargetOutcome], exported: &[Exported]) {
        let written = exported.iter().filter(|one| one.result.is_ok()).count();
        let degraded = exported.iter().any(|one| one.result.is_err())
            || outcomes.iter().any(TargetOutcome::is_degraded);
        self.codes.push(outcome::code(degraded, written));
        let report = self.looking.report;
        report.tell(report::summary(name, outcomes, exported).trim_end());
        if self.explain {
            for outcome in outcomes {
                report.say(report::explanation(outcome).trim_end());
            }
        }
        let errors = report::errors(outcomes, exported);
        let errors = errors
            .into_iter()
            .map(|error| format!("context {name}: {error}"));
        self.messages.extend(errors);
    }

    /// Writes what had to wait, prints what went wrong, and gives the code of the process.
    pub(crate) fn finish(mut self) -> Result<Code> {
        interrupt::check()?;
        let report = self.looking.report;
        let mut code = outcome::all(&self.codes);
        match &self.way {
            Way::Standard(_) => patiently(self.printer.finish(&mut self.out))?,
            // One file holds everything, so a part of it would delete the rest.
            Way::File(path, _) if code != Code::Success && !self.all_known() => {
                code = Code::Fatal;
                let path = path.display();
                self.messages.push(format!(
                    "{path}: not written, because not everything is known"
                ));
            }
            Way::File(path, _) => {
                let mut text = Vec::new();
                for batch in &self.batches {
                    self.printer.batch(batch, &mut text)?;
                }
                self.printer.finish(&mut text)?;
                let written = local::write_text(path, text, self.exporting.dry_run)?;
                let path = path.display();
                report.tell(&match (written, self.exporting.dry_run) {
                    (Written::Unchanged, _) => format!("{path} is unchanged"),
                    (Written::Changed, true) => format!("would write {path}"),
                    (Written::Changed, false) => format!("wrote {path}"),
                });
            }
            Way::Directory(..) | Way::Sinks(_) => {}
        }
        for message in &self.messages {
            report.say(message);
        }
        Ok(code)
    }

    /// Whether every target of every cluster has rows.
    fn all_known(&self) -> bool {
        self.held_back == 0 && !self.codes.contains(&Code::Fatal)
    }
}

fn batch(unit: &Unit, cluster: &str) -> Result<Batch, NotExported> {
    let rows = unit.rows.clone().map_err(NotExported::HeldBack)?;
    Ok(Batch {
        cluster: cluster.to_owned(),
        target: unit.id.clone(),
        rows,
        attributes: unit.attributes.clone(),
    })
}

/// Whoever reads may stop early, as `head` does.
fn patiently(written: io::Result<()>) -> Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}
