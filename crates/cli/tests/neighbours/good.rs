//! The namespace that must not notice anything.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use jiff::Timestamp;
use kollect_testkit::{http, postgres::Tls};
use serde_json::json;

use crate::{
    delays::{Change, Delays, OBJECTS},
    hostile::Neighbours,
    stage::{Stage, eventually, put},
};

/// The pause between two changes.
const PAUSE: Duration = Duration::from_millis(500);

/// Notes every row at the moment of its commit: a deferred trigger is the last thing that happens
/// before.
const TRIGGER: &str = "\
    CREATE TABLE commits (number bigint, at bigint);
    CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        INSERT INTO commits VALUES (
          (NEW.payload->'attributes'->>'number')::bigint,
          (extract(epoch FROM clock_timestamp()) * 1000000)::bigint);
        RETURN NULL;
      END $$;
    CREATE CONSTRAINT TRIGGER note AFTER INSERT OR UPDATE ON items
      DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION note();";

/// A team with objects, an inventory and a database.
pub(crate) struct Tenant {
    namespace: String,
}

impl Tenant {
    pub(crate) fn settle(stage: &Stage) -> Result<Self> {
        let namespace = stage.plane.cluster().create_namespace("good")?;
        let tenant = Self { namespace };
        let namespace = &tenant.namespace;
        let api = stage.api()?;
        for number in 0..OBJECTS {
            tenant.put(&api, number)?;
        }
        stage.create_dsn(namespace, "dsn", &stage.database.url(Tls::Off))?;
        stage.create(
            namespace,
            "KollectProfile",
            "maps",
            &json!({
                "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
            }),
        )?;
        stage.create(
            namespace,
            "KollectTarget",
            "maps",
            &json!({"profileRef": "maps", "includedNamespaces": [namespace]}),
        )?;
        stage.create(
            namespace,
            "KollectDatabaseSink",
            "pg",
            &json!({
                "type": "postgres", "cluster": "east",
                "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
            }),
        )?;
        stage.create(
            namespace,
            "KollectInventory",
            "inv",
            &json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "0s"}),
        )?;
        Ok(tenant)
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.namespace
    }

    fn put(&self, api: &http::Client, number: u64) -> Result<()> {
        let name = format!("m-{}", number % OBJECTS);
        let data = json!({"number": number.to_string()});
        put(api, &self.namespace, &name, &data)
    }

    /// Changes objects for a while, and lets the neighbours change theirs.
    pub(crate) fn change(
        &self,
        stage: &Stage,
        neighbours: &Neighbours,
        during: Duration,
    ) -> Result<Vec<Change>> {
        let api = stage.api()?;
        let begun = Instant::now();
        let mut changes = Vec::new();
        for number in OBJECTS.. {
            if begun.elapsed() > during {
                break;
            }
            let sent = now();
            self.put(&api, number)?;
            let answered = now();
            changes.push(Change {
                number,
                sent,
                answered,
            });
            if number % 2 == 0 {
                neighbours.stir(&api, number)?;
            }
            let passed = Duration::from_micros(u64::try_from(now() - sent).unwrap_or(0));
            thread::sleep(PAUSE.saturating_sub(passed));
        }
        Ok(changes)
    }
}

fn now() -> i64 {
    Timestamp::now().as_microsecond()
}

/// Waits for the first export and begins to note commits.
pub(crate) fn wait_for_rows(stage: &Stage) -> Result<()> {
    eventually("the rows of the good namespace", || {
        let rows = stage.database.psql("SELECT count(*) FROM items")?;
        ensure!(rows == OBJECTS.to_string(), "{rows} rows");
        Ok(())
    })?;
    stage.database.psql(TRIGGER).map(|_| ())
}

/// How long the changes took to their commits.
pub(crate) fn delays(stage: &Stage, changes: &[Change]) -> Result<Delays> {
    let last = changes.last().context("something changed")?.number;
    // A row that never comes is a figure too, so this does not fail.
    let _ = eventually("the last change", || {
        let sql = format!("SELECT count(*) FROM commits WHERE number = {last}");
        ensure!(stage.database.psql(&sql)? != "0", "it is not there");
        Ok(())
    });
    let commits = stage.database.psql("SELECT number, at FROM commits")?;
    let commits: Option<Vec<_>> = commits
        .lines()
        .map(|line| {
            let (number, at) = line.split_once('|')?;
            Some((number.parse().ok()?, at.parse().ok()?))
        })
        .collect();
    Ok(Delays::of(changes, &commits.context("numbers")?))
}
