//! Forgetting what a history has for too long.

use std::time::SystemTime;

use futures::future::join3;
use tokio_postgres::types::Type;

use super::{COMMIT, Writer};
use crate::postgres::{fault::Fault, session::Session};

/// How many entries are removed at once, each time in a transaction of its own: nobody waits for
/// that, and nothing is lost if it ends midway.
const BATCH: i64 = 1_000;
/// How many batches follow each other, so that the next delivery need not wait.
const BATCHES: usize = 10;

impl Writer<'_> {
    /// Removes entries of the history that were superseded before this moment, as many as fit in a
    /// short time. Says whether none is left.
    pub(in crate::postgres) async fn forget(
        &self,
        session: &mut Session,
        moment: SystemTime,
    ) -> Result<bool, Fault> {
        let Some(text) = self.statements().forget() else {
            return Ok(true);
        };
        let [forget] = self.questions(session, [&text]).await?;
        for _ in 0..BATCHES {
            let mut values = self.partition();
            values.push((&moment, Type::TIMESTAMPTZ));
            values.push((&BATCH, Type::INT8));
            let (begun, gone, committed) = join3(
                session.client.batch_execute(&self.plan.begin),
                session.one(&forget, &values),
                session.client.batch_execute("COMMIT"),
            )
            .await;
            begun.map_err(self.stage("postgres export: begin tx"))?;
            let gone = self.count("postgres history", gone)?;
            committed.map_err(self.stage(COMMIT))?;
            if gone < BATCH.unsigned_abs() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
