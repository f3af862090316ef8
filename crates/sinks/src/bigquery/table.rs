//! Making the table ready, and telling it from another one of the same name.

use kollect_api::sink::common::ProvisioningMode;
use serde_json::{Map, Value, json};

use super::{
    api::{Api, Call},
    fault::Fault,
    names::Names,
    requests::{Clustering, Table, TableReference, TableRequest, TableSchema, TimePartitioning},
    sql::{CLUSTERING, COLUMNS, HASH, Shape},
};
use crate::error::SinkError;

const ENSURE: &str = "bigquery ensure table";
const VERIFY: &str = "bigquery verify table";

/// A table that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Which table it is; another one of the same name has another one.
    pub(super) id: String,
    /// Where its jobs run, unless the spec says.
    pub(super) location: Option<String>,
    pub(super) shape: Shape,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

/// What a sink wants in the dataset.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) names: Names,
    pub(super) mode: ProvisioningMode,
    pub(super) cluster: String,
    pub(super) location: Option<String>,
    /// Whether a new table has a partition for each day.
    pub(super) partitioned: bool,
    /// Settings of the spec that mean nothing here, said with every full delivery.
    pub(super) idle_settings: Vec<String>,
}

impl Plan {
    /// Finds the table or makes it. `known` is what was found earlier.
    pub(super) async fn ready(&self, api: &Api, known: Option<&Place>) -> Result<Place, Fault> {
        let table = match self.look(api).await? {
            Some(table) => table,
            None if self.mode == ProvisioningMode::Existing => return Err(self.missing().into()),
            None => {
                self.create(api).await?;
                let found = self.look(api).await?;
                found.ok_or_else(|| {
                    SinkError::transient(format!(
                        "{ENSURE}: it went away again, or is not shown yet"
                    ))
                })?
            }
        };
        let id = incarnation(&table);
        if let Some(known) = known.filter(|known| known.id == id) {
            return Ok(known.clone());
        }
        let stage = self.stage();
        self.check(&table).map_err(|error| error.at(stage))?;
        let mut warnings = self.idle_settings.clone();
        let mut shape = Shape {
            hashed: has_hash(&table.schema),
        };
        if !shape.hashed && self.mode == ProvisioningMode::Ensure {
            match self.add_hash(api, &table.schema).await {
                Ok(()) => shape.hashed = true,
                Err(fault) if matches!(fault.error, SinkError::Transient(_)) => {
                    return Err(fault.at(stage));
                }
                // Rows can be written without it.
                Err(_) => {}
            }
        }
        if !shape.hashed {
            warnings.push(format!(
                "{} has no column {HASH} INT64, so every full delivery sends all rows; add it",
                self.names.short()
            ));
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        Ok(Place {
            id,
            location: table
                .location
                .filter(|location| !location.trim().is_empty()),
            shape,
            warnings,
        })
    }

    /// Which table there is, if there is one.
    pub(super) async fn present(&self, api: &Api) -> Result<Option<String>, Fault> {
        Ok(self.look(api).await?.as_ref().map(incarnation))
    }

    /// Refuses what is not there or is no table for rows, without touching anything.
    pub(super) async fn verify(&self, api: &Api) -> Result<(), Fault> {
        let table = self.look(api).await?.ok_or_else(|| self.missing())?;
        Ok(self.check(&table).map_err(|error| error.at(VERIFY))?)
    }

    fn stage(&self) -> &'static str {
        match self.mode {
            ProvisioningMode::Ensure => ENSURE,
            ProvisioningMode::Existing => VERIFY,
        }
    }

    async fn look(&self, api: &Api) -> Result<Option<Table>, Fault> {
        let found = api.send(&Call::get(self.names.table_path())).await;
        match found {
            Ok(table) => Ok(Some(table)),
            Err(fault) if fault.is_missing() => Ok(None),
            Err(fault) => Err(fault.at(self.stage())),
        }
    }

    /// The error for `existing` mode when there is nothing.
    fn missing(&self) -> SinkError {
        SinkError::terminal(format!(
            "{VERIFY}: {} does not exist (provisioning.mode=existing); create it with the statement of \
             status.preview, or use mode ensure",
            self.names.short()
        ))
    }

    async fn create(&self, api: &Api) -> Result<(), Fault> {
        let Names {
            project,
            dataset,
            table,
        } = &self.names;
        let request = TableRequest {
            table_reference: Some(TableReference {
                project_id: project,
                dataset_id: dataset,
                table_id: table,
            }),
            schema: schema(),
            time_partitioning: self.partitioned.then_some(TimePartitioning {
                kind: "DAY",
                field: "exported_at",
            }),
            clustering: Some(Clustering {
                fields: &CLUSTERING,
            }),
        };
        let body = serde_json::to_vec(&request)
            .map_err(|_| SinkError::terminal(format!("{ENSURE}: no valid request")))?;
        let created: Result<Table, Fault> =
            api.send(&Call::post(self.names.tables_path(), body)).await;
        match created {
            Ok(_) => Ok(()),
            // Somebody else was faster.
            Err(fault) if fault.is_duplicate() => Ok(()),
            Err(fault) if fault.is_missing() => Err(Fault {
                error: SinkError::terminal(format!(
                    "{ENSURE}: dataset {project}.{dataset} is not there; create it, Kollect never does"
                )),
                ..fault
            }),
            Err(fault) => Err(fault.at(ENSURE)),
        }
    }

    /// Columns can be added at the end of a table at any time.
    async fn add_hash(&self, api: &Api, schema: &TableSchema) -> Result<(), Fault> {
        let mut fields = schema.fields.clone();
        fields.push(field(HASH, "INTEGER", "NULLABLE"));
        let request = TableRequest {
            table_reference: None,
            schema: TableSchema { fields },
            time_partitioning: None,
            clustering: None,
        };
        let body = serde_json::to_vec(&request)
            .map_err(|_| SinkError::terminal(format!("{ENSURE}: no valid request")))?;
        let _: Table = api
            .send(&Call::patch(self.names.table_path(), body))
            .await?;
        Ok(())
    }

    /// Whether rows can be kept there.
    fn check(&self, table: &Table) -> Result<(), SinkError> {
        let short = self.names.short();
        if table.kind.as_deref().is_some_and(|kind| kind != "TABLE") {
            return Err(SinkError::terminal(format!(
                "{short} is a view or an external table; a sink needs a table"
            )));
        }
        let wrong: Vec<String> = COLUMNS
            .iter()
            .filter(|(name, kind)| column(&table.schema, name).as_deref() != Some(*kind))
            .map(|(name, kind)| format!("{name} {kind}"))
            .collect();
        if wrong.is_empty() {
            return Ok(());
        }
        Err(SinkError::terminal(format!(
            "{short} lacks columns of a sink, or has them with another type: {}; status.preview has \
             the statement that creates the table",
            wrong.join(", ")
        )))
    }
}

/// What tells a table from another one of the same name.
fn incarnation(table: &Table) -> String {
    table.creation_time.clone().unwrap_or_default()
}

/// The type of a column, in the words of SQL.
fn column(schema: &TableSchema, name: &str) -> Option<String> {
    let text = |field: &Map<String, Value>, key: &str| {
        Some(field.get(key)?.as_str()?.to_ascii_uppercase())
    };
    let field = schema.fields.iter().find(|field| {
        let known = field.get("name").and_then(Value::as_str);
        known.is_some_and(|known| known.eq_ignore_ascii_case(name))
    })?;
    if text(field, "mode").as_deref() == Some("REPEATED") {
        return None;
    }
    let kind = text(field, "type")?;
    Some(if kind == "INTEGER" {
        "INT64".to_owned()
    } else {
        kind
    })
}

fn has_hash(schema: &TableSchema) -> bool {
    column(schema, HASH).as_deref() == Some("INT64")
}

/// The columns of a new table.
fn schema() -> TableSchema {
    let mut fields: Vec<_> = COLUMNS
        .iter()
        .map(|(name, kind)| field(name, kind, "REQUIRED"))
        .collect();
    fields.push(field(HASH, "INTEGER", "NULLABLE"));
    TableSchema { fields }
}

fn field(name: &str, kind: &str, mode: &str) -> Map<String, Value> {
    [("name", name), ("type", kind), ("mode", mode)]
        .into_iter()
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan {
            names: Names {
                project: "acme".to_owned(),
                dataset: "inventory".to_owned(),
                table: "items".to_owned(),
            },
            mode: ProvisioningMode::Existing,
            cluster: String::new(),
            location: None,
            partitioned: true,
            idle_settings: Vec::new(),
        }
    }

    fn table(change: impl FnOnce(&mut Table)) -> Table {
        let mut table = Table {
            schema: schema(),
            kind: Some("TABLE".to_owned()),
            ..Table::default()
        };
        change(&mut table);
        table
    }

    #[test]
    fn only_a_table_with_our_columns_will_do() {
        let plan = plan();
        for (table, expected) in [
            (table(|_| {}), Ok(())),
            (table(|table| table.kind = None), Ok(())),
            (table(|table| drop(table.schema.fields.pop())), Ok(())),
            (
                table(|table| table.schema.fields.push(field("more", "FLOAT", "NULLABLE"))),
                Ok(()),
            ),
            (
                table(|table| table.kind = Some("VIEW".to_owned())),
                Err("is a view"),
            ),
            (
                table(|table| drop(table.schema.fields.remove(6))),
                Err("payload JSON"),
            ),
            (
                table(|table| table.schema.fields[6] = field("payload", "STRING", "REQUIRED")),
                Err("payload JSON"),
            ),
            (
                table(|table| table.schema.fields[4] = field("cluster", "STRING", "REPEATED")),
                Err("cluster STRING"),
            ),
        ] {
            match (plan.check(&table), expected) {
                (Ok(()), Ok(())) => {}
                (Err(SinkError::Terminal(text)), Err(part)) => {
                    assert!(text.contains(part), "{text}");
                }
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
    }
}
