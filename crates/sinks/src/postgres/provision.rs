//! Making the table ready, once per sink.
//!
//! In `ensure` mode what is missing is created, and what is there is left alone, so a role that may
//! not create anything can use a table that exists. In `existing` mode nothing is created. Several
//! operators may do this at the same time: an advisory lock lets one of them through, and the
//! others find everything done.

mod objects;
mod target_views;

use std::{sync::Arc, time::Duration};

use kollect_api::sink::{common::ProvisioningMode, database::PostgresView};
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
};

use super::{
    catalog::Found,
    ddl,
    fault::Fault,
    lock_key,
    names::Names,
    session::Session,
    sql::{KeyShape, LOCK, Statements, literal},
};
use crate::{error::SinkError, redact::Redaction};

/// What a sink wants in the database.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) names: Names,
    pub(super) views: Vec<PostgresView>,
    pub(super) mode: ProvisioningMode,
    pub(super) cluster: String,
    pub(super) refresh: bool,
    /// Whether every target gets a view.
    pub(super) target_views: bool,
    /// How long entries of the history are kept that were superseded.
    pub(super) keeps_history: Option<Duration>,
    /// Settings of the spec that mean nothing here, said with every full delivery.
    pub(super) idle_settings: Vec<String>,
    /// Begins a transaction.
    pub(super) begin: String,
    pub(super) redaction: Redaction,
}

/// A table that can be written.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) statements: Statements,
    /// What a person should know.
    pub(super) warnings: Vec<String>,
}

/// How often the table is looked at again when somebody else is creating it too.
const LOOKS: usize = 4;

/// Only briefly in the way of others: the table is usable with its old key too.
const UPGRADE_LIMITS: &str = "SELECT set_config('lock_timeout', '3s', true), \
     set_config('statement_timeout', '30s', true)";

impl Plan {
    /// Makes everything ready.
    pub(super) async fn provision(&self, session: &mut Session) -> Result<Arc<Ready>, Fault> {
        let mut warnings = self.idle_settings.clone();
        let mut key = self.ensure(session).await?;
        if key == KeyShape::WithoutCluster {
            if self.mode == ProvisioningMode::Ensure && self.upgrade(session).await {
                key = KeyShape::WithCluster;
            } else {
                let table = self.names.table();
                let columns = KeyShape::WithCluster.columns().join(", ");
                warnings.push(format!(
                    "the unique key of {table} does not contain the cluster, so clusters that share it \
                     overwrite each other's rows; once every operator that writes to it is of this \
                     version, make {columns} its primary key"
                ));
            }
        }
        if self.mode == ProvisioningMode::Ensure {
            warnings.extend(self.ensure_history_objects(session).await);
            for view in &self.views {
                warnings.extend(self.ensure_view(session, view).await);
            }
        }
        for warning in &warnings {
            tracing::warn!("{warning}");
        }
        let mut statements = Statements::new(&self.names, key, self.refresh);
        if self.can_digest(session, &statements).await? {
            statements = statements.with_digests();
        }
        if self.has_inventories(session).await? {
            statements = statements.with_inventories(self.names.inventories());
        }
        Ok(Arc::new(Ready {
            statements,
            warnings,
        }))
    }

    /// Whether the server can say what it holds without showing it: not every one that speaks the
    /// language has the functions. Asked about a partition that nobody can have.
    async fn can_digest(&self, session: &Session, statements: &Statements) -> Result<bool, Fault> {
        let nobody = [
            (&"" as &(dyn ToSql + Sync), Type::TEXT),
            (&"", Type::TEXT),
            (&"", Type::TEXT),
        ];
        self.begin(session).await?;
        let answer = session
            .client
            .query_typed_one(&statements.digest(), &nobody)
            .await;
        Ok(self.attempted(session, answer).await?.is_some())
    }

    /// Whether the table is there that says how old inventories are, and may be used. In `ensure`
    /// mode it is made. Rows are written without it all the same.
    async fn has_inventories(&self, session: &Session) -> Result<bool, Fault> {
        let name = self.names.inventories();
        let usable = format!(
            "SELECT coalesce(bool_and(has_table_privilege({0}::regclass, needed)), false) \
             FROM unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS needed \
             WHERE to_regclass({0}) IS NOT NULL",
            literal(&name)
        );
        let missing = format!("SELECT to_regclass({}) IS NULL", literal(&name));
        self.begin(session).await?;
        let asked = session.client.query_typed_one(&missing, &[]).await;
        let missing = self.attempted(session, asked).await?;
        let missing = missing.is_some_and(|row| row.try_get(0).unwrap_or(false));
        if missing {
            if self.mode == ProvisioningMode::Existing {
                return Ok(false);
            }
            if let Err(error) = self.create_inventories(session).await {
                let reason = self.fault("postgres create table", &error).error;
                self.rollback(session).await?;
                tracing::info!(
                    "{name} is not kept, which tells readers how old rows are: {reason}"
                );
            }
        }
        self.begin(session).await?;
        let asked = session.client.query_typed_one(&usable, &[]).await;
        let usable = self.attempted(session, asked).await?;
        if !usable.is_some_and(|row| row.try_get(0).unwrap_or(false)) {
            return Ok(false);
        }
        self.begin(session).await?;
        let sample = ddl::look_at_inventories(&self.names);
        let asked = session.client.query_typed(&sample, &[]).await;
        Ok(self.attempted(session, asked).await?.is_some())
    }

    async fn create_inventories(&self, session: &Session) -> Result<(), tokio_postgres::Error> {
        self.begin_alone(session).await?;
        let text = ddl::create_inventories(&self.names);
        session.client.batch_execute(&text).await?;
        session.client.batch_execute("COMMIT").await
    }

    async fn begin(&self, session: &Session) -> Result<(), Fault> {
        let begun = session.client.batch_execute(&self.begin).await;
        begun.map_err(|error| self.fault("postgres check table", &error))
    }

    /// Ends the transaction of something that may fail: a server that says no is an answer.
    async fn attempted<T>(
        &self,
        session: &Session,
        answer: Result<T, tokio_postgres::Error>,
    ) -> Result<Option<T>, Fault> {
        match answer {
            Err(error) if error.as_db_error().is_none() => {
                Err(self.fault("postgres check table", &error))
            }
            Err(_) => self.rollback(session).await.map(|()| None),
            Ok(answer) => {
                let ended = session.client.batch_execute("COMMIT").await;
                ended.map_err(|error| self.fault("postgres check table", &error))?;
                Ok(Some(answer))
            }
        }
    }

    /// Looks at the tables and says how rows are found, without creating anything.
    pub(super) async fn check(&self, session: &mut Session) -> Result<Option<KeyShape>, Fault> {
        let stage = "postgres check table";
        session
            .client
            .batch_execute(&self.begin)
            .await
            .map_err(|e| self.fault(stage, &e))?;
        let found = self
            .look(session)
            .await
            .map_err(|e| self.fault(stage, &e))?;
        session
            .client
            .batch_execute("COMMIT")
            .await
            .map_err(|e| self.fault(stage, &e))?;
        let (Some(table), history) = found else {
            return Ok(None);
        };
        let key = table.judge(&self.names.table())?;
        match (self.names.history(), history) {
            (None, _) => Ok(Some(key)),
            (Some(_), None) => Ok(None),
            (Some(name), Some(history)) => {
                history.judge_history(&name)?;
                Ok(Some(key))
            }
        }
    }

    async fn look(
        &self,
        session: &Session,
    ) -> Result<(Option<Found>, Option<Found>), tokio_postgres::Error> {
        let table = Found::read(&session.client, &self.names.table()).await?;
        let history = match self.names.history() {
            Some(name) => Found::read(&session.client, &name).await?,
            None => None,
        };
        Ok((table, history))
    }

    /// The error for `existing` mode when something does not exist.
    pub(super) fn missing(&self) -> SinkError {
        let history = self.names.history().map(|name| format!(" or {name}"));
        SinkError::terminal(format!(
            "postgres table {}{} does not exist, and spec.provisioning.mode is existing; create it \
             as status.preview shows, or use mode ensure",
            self.names.table(),
            history.unwrap_or_default()
        ))
    }

    async fn ensure(&self, session: &mut Session) -> Result<KeyShape, Fault> {
        for _ in 0..LOOKS {
            if let Some(key) = self.check(session).await? {
                return Ok(key);
            }
            if self.mode == ProvisioningMode::Existing {
                return Err(self.missing().into());
            }
            if let Err(error) = self.create(session).await {
                // Somebody without our lock, such as an earlier version, made it just now.
                let collided = [
                    SqlState::UNIQUE_VIOLATION,
                    SqlState::DUPLICATE_TABLE,
                    SqlState::DUPLICATE_OBJECT,
                ];
                let fault = self.fault("postgres create table", &error);
                self.rollback(session).await?;
                if !error.code().is_some_and(|code| collided.contains(code)) {
                    return Err(fault);
                }
            }
        }
        Err(SinkError::transient("postgres create table: others keep changing it").into())
    }

    async fn create(&self, session: &Session) -> Result<(), tokio_postgres::Error> {
        self.begin_alone(session).await?;
        session
            .client
            .batch_execute(&ddl::create_table(&self.names))
            .await?;
        if let Some(history) = ddl::create_history(&self.names) {
            session.client.batch_execute(&history).await?;
        }
        session.client.batch_execute("COMMIT").await
    }

    /// Puts the cluster into the primary key, if that disturbs nobody: no other cluster has rows in
    /// the table, and it can be done quickly. Says whether it was done.
    async fn upgrade(&self, session: &mut Session) -> bool {
        match self.try_upgrade(session).await {
            Ok(done) => done,
            Err(error) => {
                let reason = self.fault("postgres upgrade table", &error).error;
                tracing::info!("the primary key stays as it is: {reason}");
                // A connection that broke here is found out by the delivery that follows.
                let _ = self.rollback(session).await;
                false
            }
        }
    }

    async fn try_upgrade(&self, session: &mut Session) -> Result<bool, tokio_postgres::Error> {
        let client = &session.client;
        let table = self.names.table();
        let foreign = format!("SELECT EXISTS (SELECT 1 FROM {table} WHERE cluster <> $1)");
        client.batch_execute(&self.begin).await?;
        // Without a lock first: most tables that stay as they are need nobody to wait.
        let answer = client.query_one(&foreign, &[&self.cluster]).await?;
        let mut shared: bool = answer.try_get(0)?;
        client.batch_execute("COMMIT").await?;
        if shared {
            return Ok(false);
        }
        self.begin_alone(session).await?;
        client.batch_execute(UPGRADE_LIMITS).await?;
        client
            .batch_execute(&format!("LOCK TABLE {table} IN ACCESS EXCLUSIVE MODE"))
            .await?;
        let answer = client.query_one(&foreign, &[&self.cluster]).await?;
        shared = answer.try_get(0)?;
        let found = Found::read(client, &table).await?.unwrap_or_default();
        let constraint = found
            .key(KeyShape::WithoutCluster)
            .and_then(|key| key.primary.clone());
        let (false, "r", Some(constraint)) = (shared, found.kind.as_str(), constraint) else {
            client.batch_execute("ROLLBACK").await?;
            return Ok(found.key(KeyShape::WithCluster).is_some());
        };
        let name = super::sql::identifier(&constraint);
        let columns = KeyShape::WithCluster.columns().join(", ");
        client
            .batch_execute(&format!(
                "ALTER TABLE {table} DROP CONSTRAINT {name}, ADD CONSTRAINT {name} PRIMARY KEY ({columns})"
            ))
            .await?;
        client.batch_execute("COMMIT").await?;
        tracing::info!("the primary key of {table} now contains the cluster");
        Ok(true)
    }

    /// Begins a transaction that only one operator at a time has open for this table.
    async fn begin_alone(&self, session: &Session) -> Result<(), tokio_postgres::Error> {
        session.client.batch_execute(&self.begin).await?;
        let key = lock_key(&["table", &self.names.table()]);
        session.client.query_one(LOCK, &[&key]).await?;
        Ok(())
    }

    async fn rollback(&self, session: &Session) -> Result<(), Fault> {
        let ended = session.client.batch_execute("ROLLBACK").await;
        ended.map_err(|error| self.fault("postgres rollback", &error))
    }

    /// A failed statement.
    pub(super) fn fault(&self, stage: &str, error: &tokio_postgres::Error) -> Fault {
        Fault::at(stage, error, &self.redaction)
    }
}
