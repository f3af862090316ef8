//! One delivery to one partition: what the table holds, what differs, and the statements for it.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::Row;

use super::{
    BigquerySink,
    encode::{self, Portion},
    fault::Fault,
    jobs::{self, Jobs, Statement},
    names::Partition,
    requests::{DmlStats, Parameter, ParameterType, ParameterValue, ResultRow},
    sql::{self, Dialect, Shape},
};
use crate::database::{
    keys::Key,
    wanted::{Found, Sightings, Wanted},
};

const COMPARE: &str = "bigquery compare";
const MERGE: &str = "bigquery merge upsert";
const DELETE: &str = "bigquery delete";
const EMULATED_DELETE: &str = "bigquery emulator delete";
const EMULATED_INSERT: &str = "bigquery emulator insert";

/// Which of the parameters the rows are.
const ROWS: usize = 3;

/// How many bytes of keys of rows that have to go are kept at once.
const STALE: usize = 8 << 20;

/// What was done.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) bytes: u64,
    /// Rows that fit into no request, with the object's name.
    pub(super) unstorable: BTreeMap<Key, String>,
    /// For how long the quota of the table held the delivery up.
    pub(super) waited: Duration,
}

/// What differs.
pub(super) struct Difference<'r> {
    /// Rows that are not there, or are there with another content.
    pub(super) write: Vec<&'r Row>,
    /// Rows that have to go.
    pub(super) stale: Vec<Key>,
    /// Rows that are there more than once: all of them go before one comes.
    pub(super) doubled: Vec<Key>,
    /// There are more of those that have to go.
    pub(super) more: bool,
}

/// One delivery.
pub(super) struct Writer<'w> {
    pub(super) sink: &'w BigquerySink,
    pub(super) jobs: Jobs<'w>,
    pub(super) inventory: &'w InventoryId,
    pub(super) partition: Partition<'w>,
    /// When the delivery began.
    pub(super) at: Timestamp,
    pub(super) shape: Shape,
    /// Statements so far.
    pub(super) number: u64,
}

impl Writer<'_> {
    /// Reads what is there: keys and hashes.
    pub(super) async fn compare<'r>(
        &mut self,
        wanted: &Wanted<'r>,
    ) -> Result<Difference<'r>, Fault> {
        let text = sql::select(self.jobs.names, self.shape);
        let parameters = self.parameters(None, false);
        let statement = Statement {
            text: &text,
            parameters: &parameters,
        };
        let configuration = statement.encoded()?;
        let id = self.name(&configuration);
        let at = |fault: Fault| fault.at(COMPARE);
        self.jobs.run(&id, &configuration).await.map_err(at)?;
        let mut reading = Reading::new(wanted);
        let read = self.jobs.rows(&id, |row| reading.take(row)).await;
        read.map_err(at)?;
        Ok(reading.difference())
    }

    /// Writes rows and removes others, in as few statements as requests allow: one, mostly.
    pub(super) async fn apply<'r>(
        &mut self,
        rows: impl Iterator<Item = &'r Row>,
        gone: impl Iterator<Item = &'r Key>,
        tally: &mut Tally,
    ) -> Result<(), Fault> {
        let mut portion = Portion::default();
        for row in rows {
            let encoded = match encode::upsert(row, &self.partition) {
                Ok(encoded) => {
                    tally.written += 1;
                    tally.bytes += encoded.bytes;
                    encoded
                }
                // What cannot be stored must not be there with what it was earlier.
                Err(encode::TooLarge) => {
                    let key = Key::of(row);
                    let encoded = encode::gone(&key);
                    tally.unstorable.insert(key, name_of(row));
                    encoded
                }
            };
            if let Some(full) = portion.add(encoded) {
                self.send(full, tally).await?;
            }
        }
        for key in gone {
            tally.removed += 1;
            if let Some(full) = portion.add(encode::gone(key)) {
                self.send(full, tally).await?;
            }
        }
        self.send(portion, tally).await
    }

    async fn send(&mut self, portion: Portion, tally: &mut Tally) -> Result<(), Fault> {
        if portion.is_empty() {
            return Ok(());
        }
        match self.sink.dialect() {
            Dialect::Merge => {
                let text = sql::merge(self.jobs.names, self.shape);
                self.execute(MERGE, &text, Some(&portion), true, tally)
                    .await?;
            }
            Dialect::DeleteInsert => {
                let text = sql::delete_keys(self.jobs.names);
                self.execute(EMULATED_DELETE, &text, Some(&portion), false, tally)
                    .await?;
                let text = sql::insert(self.jobs.names, self.shape);
                self.execute(EMULATED_INSERT, &text, Some(&portion), true, tally)
                    .await?;
            }
        }
        Ok(())
    }

    /// Removes every row of the partition.
    pub(super) async fn clear(&mut self, tally: &mut Tally) -> Result<(), Fault> {
        let text = sql::clear(self.jobs.names);
        let stats = self.execute(DELETE, &text, None, false, tally).await?;
        let removed = stats.and_then(|stats| stats.deleted_row_count?.parse().ok());
        tally.removed += removed.unwrap_or(0);
        Ok(())
    }

    /// Runs a statement that changes something. Until its end is known it is on record.
    async fn execute(
        &mut self,
        stage: &str,
        text: &str,
        portion: Option<&Portion>,
        dated: bool,
        tally: &mut Tally,
    ) -> Result<Option<DmlStats>, Fault> {
        let at = self.at.strftime("%Y-%m-%d %H:%M:%S%.6f+00:00").to_string();
        let text_rows = match self.sink.dialect() {
            Dialect::Merge => None,
            Dialect::DeleteInsert => portion.map(Portion::text),
        };
        let mut parameters = self.parameters(portion, dated);
        if let Some(text) = &text_rows
            && let Some(rows) = parameters.get_mut(ROWS)
        {
            rows.parameter_type = ParameterType::plain("STRING");
            rows.parameter_value = ParameterValue::Value(text);
        }
        if let Some(last) = parameters.last_mut().filter(|_| dated) {
            last.parameter_value = ParameterValue::Value(&at);
        }
        let statement = Statement {
            text,
            parameters: &parameters,
        };
        let configuration = statement.encoded()?;
        drop(parameters);
        let id = self.name(&configuration);
        tally.waited += self.sink.share.spend().await;
        self.sink.begun(self.inventory, &id);
        let outcome = self.jobs.run(&id, &configuration).await;
        if !matches!(&outcome, Err(fault) if fault.open) {
            self.sink.ended(self.inventory);
        }
        outcome.map_err(|fault| fault.at(stage))
    }

    /// The parameters of a statement; rows come after the partition, and the date is the last.
    fn parameters<'p>(&'p self, portion: Option<&'p Portion>, dated: bool) -> Vec<Parameter<'p>> {
        let mut parameters: Vec<Parameter<'p>> = sql::of_partition(&self.partition)
            .map(|(name, value)| Parameter {
                name,
                parameter_type: ParameterType::plain("STRING"),
                parameter_value: ParameterValue::Value(value),
            })
            .into();
        if let Some(portion) = portion {
            parameters.push(Parameter {
                name: "rows",
                parameter_type: ParameterType::rows(),
                parameter_value: ParameterValue::ArrayValues(&portion.elements),
            });
        }
        if dated {
            parameters.push(Parameter {
                name: "exported_at",
                parameter_type: ParameterType::plain("TIMESTAMP"),
                parameter_value: ParameterValue::Value(""),
            });
        }
        parameters
    }

    fn name(&mut self, configuration: &[u8]) -> String {
        let prefix = jobs::prefix(self.jobs.names, &self.partition);
        let number = self.number;
        self.number += 1;
        jobs::name(&prefix, &self.sink.origin, self.at, number, configuration)
    }
}

/// Rows of a table as they are read.
struct Reading<'w, 'r> {
    wanted: &'w Wanted<'r>,
    sightings: Sightings,
    stale: Vec<Key>,
    doubled: Vec<Key>,
    bytes: usize,
    more: bool,
}

impl<'w, 'r> Reading<'w, 'r> {
    fn new(wanted: &'w Wanted<'r>) -> Self {
        Self {
            wanted,
            sightings: wanted.sightings(),
            stale: Vec::new(),
            doubled: Vec::new(),
            bytes: 0,
            more: false,
        }
    }

    /// Target name, uid, namespace, hash.
    fn take(&mut self, row: ResultRow) {
        let mut cells = row.f.into_iter().map(|cell| cell.v);
        let mut next = || cells.next().flatten();
        let (Some(target_name), Some(uid)) = (next(), next()) else {
            return;
        };
        let namespace = next().unwrap_or_default();
        let hash = next().and_then(|hash| hash.parse().ok());
        let found = self.wanted.judge(&target_name, &uid, &namespace, hash);
        if !self.sightings.is_surplus(found) {
            return;
        }
        if self.bytes > STALE {
            self.more = true;
            return;
        }
        self.bytes += target_name.len() + uid.len() + size_of::<Key>();
        let key = Key { target_name, uid };
        match found {
            Found::Same(place) | Found::Other(place) => {
                // It goes with its double, and has to come again.
                self.sightings.again(place);
                self.doubled.push(key);
            }
            Found::Held | Found::Stale => self.stale.push(key),
        }
    }

    fn difference(mut self) -> Difference<'r> {
        // One of a key is enough, also of what is nobody's.
        for keys in [&mut self.stale, &mut self.doubled] {
            keys.sort_unstable();
            keys.dedup();
        }
        Difference {
            write: self.wanted.missing(&self.sightings),
            stale: self.stale,
            doubled: self.doubled,
            more: self.more,
        }
    }
}

/// An object as people call it.
fn name_of(row: &Row) -> String {
    let origin = row.origin();
    match origin.namespace() {
        "" => format!("{}/{}", origin.kind(), row.name()),
        namespace => format!("{}/{namespace}/{}", origin.kind(), row.name()),
    }
}

#[cfg(test)]
mod tests {
    use kollect_inventory::{AttributesBuffer, HeldRows, Interner, OriginParts, TargetKind};

    use super::*;
    use crate::bigquery::{encode::content_hash, requests::ResultCell};

    fn found(cells: &[Option<&str>]) -> ResultRow {
        let cell = |text: Option<&str>| ResultCell {
            v: text.map(str::to_owned),
        };
        ResultRow {
            f: cells.iter().copied().map(cell).collect(),
        }
    }

    #[test]
    fn what_differs_is_found() {
        let mut interner = Interner::default();
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "nodes",
            namespace: "",
            group: "",
            version: "v1",
            kind: "Node",
        });
        let mut attributes = AttributesBuffer::new();
        attributes.set_null();
        let rows = ["same", "other", "absent", "twice"]
            .map(|uid| interner.row(&origin, uid, uid, attributes.view()));
        let held = [HeldRows::in_namespace("pods", "dark")];
        let wanted = Wanted::new(rows.iter(), &held, content_hash);
        let mut reading = Reading::new(&wanted);
        let hash = |place: usize| content_hash(&rows[place]).to_string();
        for (target, uid, namespace, hash) in [
            ("nodes", "same", "team-a", Some(hash(0))),
            ("nodes", "other", "team-a", Some("1".to_owned())),
            ("nodes", "twice", "team-a", Some(hash(3))),
            ("nodes", "twice", "team-a", None),
            ("nodes", "gone", "team-a", None),
            ("nodes", "gone", "team-a", None),
            ("pods", "kept", "dark", None),
            ("pods", "gone-too", "light", None),
        ] {
            reading.take(found(&[
                Some(target),
                Some(uid),
                Some(namespace),
                hash.as_deref(),
            ]));
        }
        // A server that sends less than was asked for is not believed.
        reading.take(found(&[Some("nodes")]));
        reading.take(found(&[]));
        let difference = reading.difference();
        let written: Vec<&str> = difference.write.iter().map(|row| row.name()).collect();
        assert_eq!(written, ["other", "absent", "twice"]);
        let keys = |keys: &[Key]| keys.iter().map(|key| key.uid.clone()).collect::<Vec<_>>();
        assert_eq!(keys(&difference.stale), ["gone", "gone-too"]);
        assert_eq!(keys(&difference.doubled), ["twice"]);
        assert!(!difference.more);
    }
}
