//! One run: cluster after cluster is looked at and exported; one that fails does not hold up the
//! others.

use std::io::{self, Write};

use anyhow::{Context as _, Result};
use kollect_api::rules::Object;
use kollect_collect::plan::TargetKey;
use kollect_sinks::backend::Environment;

use super::{
    export::{self, Destination, Exported, Exporting, NotExported, STANDARD_OUTPUT},
    local::{Directory, Naming},
    outcome::{self, Code, TargetOutcome},
    records::{self, Format, Record},
    report::{self, Report},
    source::{Seen, Source},
    units::{self, Unit},
    way::Way,
    world::{self, Wishes},
};
use crate::configuration::Configuration;

/// A run and what came of it so far.
pub(crate) struct Run<'r> {
    pub(crate) configuration: &'r Configuration,
    /// All targets in the order of the manifests.
    pub(crate) keys: Vec<TargetKey>,
    pub(crate) way: Way,
    pub(crate) wishes: Wishes,
    pub(crate) exporting: Exporting<'r>,
    /// What all sinks share.
    pub(crate) environment: Environment,
    /// Whether files of several clusters stand side by side.
    pub(crate) per_cluster: bool,
    pub(crate) report: &'r Report,
    pub(crate) records: Vec<Record>,
    pub(crate) messages: Vec<String>,
    pub(crate) codes: Vec<Code>,
}

impl Run<'_> {
    /// Looks at one cluster and exports what was seen.
    pub(crate) async fn context(&mut self, source: &Source, name: &str, cluster: &str) {
        let world = world::world(self.configuration, &self.wishes);
        let looked = source.look(name, world, &self.keys, self.report).await;
        let exported = match looked {
            Ok(seen) => {
                self.report.outcomes(name, &seen.outcomes);
                self.export(&seen, cluster)
                    .await
                    .map(|exported| (seen.outcomes, exported))
            }
            Err(error) => Err(error),
        };
        match exported {
            Ok((outcomes, exported)) => self.conclude(name, &outcomes, &exported),
            Err(error) => {
                self.messages.push(format!("context {name}: {error:#}"));
                self.codes.push(Code::Fatal);
            }
        }
    }

    async fn export(&mut self, seen: &Seen, cluster: &str) -> Result<Vec<Exported>> {
        let units = self.units(seen);
        let destinations = match &self.way {
            Way::Records(_) => return self.record(&units, cluster),
            Way::Directory(root, format) => {
                let naming = Naming::new(cluster, *format, self.per_cluster)?;
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

    fn record(&mut self, units: &[Unit], cluster: &str) -> Result<Vec<Exported>> {
        let naming = Naming::new(cluster, Format::Yaml, self.per_cluster)?;
        let mut exported = Vec::new();
        for unit in units {
            let result = match &unit.rows {
                Ok(rows) => {
                    let path = naming.path(&unit.id)?;
                    let record =
                        Record::new(cluster, &unit.id, path, rows.clone(), self.exporting.at);
                    self.records.push(record);
                    Ok(format!("{} rows", rows.len()))
                }
                Err(why) => Err(NotExported::HeldBack(why.clone())),
            };
            exported.push(Exported {
                title: unit.title.clone(),
                to: STANDARD_OUTPUT.to_owned(),
                result,
            });
        }
        Ok(exported)
    }

    fn conclude(&mut self, name: &str, outcomes: &[TargetOutcome], exported: &[Exported]) {
        let written = exported.iter().filter(|one| one.result.is_ok()).count();
        let degraded = exported.iter().any(|one| one.result.is_err())
            || outcomes.iter().any(TargetOutcome::is_degraded);
        self.codes.push(outcome::code(degraded, written));
        self.report.say(&report::summary(name, outcomes, exported));
        let errors = report::errors(outcomes, exported);
        let errors = errors
            .into_iter()
            .map(|error| format!("context {name}: {error}"));
        self.messages.extend(errors);
    }

    /// Writes records, prints what went wrong, and gives the code of the process.
    pub(crate) fn finish(self, out: &mut impl Write) -> Result<Code> {
        for message in &self.messages {
            self.report.say(message);
        }
        if let Way::Records(format) = self.way {
            match records::write(&self.records, format, out) {
                // Whoever reads may stop early, as `head` does.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                written => written.context("cannot write to standard output")?,
            }
        }
        Ok(outcome::worst(self.codes))
    }
}
