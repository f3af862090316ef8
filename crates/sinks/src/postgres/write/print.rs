//! Whether anybody has touched a partition since it was written.

use std::sync::atomic::Ordering;

use futures::future::join3;

use super::{CHECK, COMMIT, Writer};
use crate::postgres::{fault::Fault, session::Session};

const SAVE: &str = "SAVEPOINT kollect_print";
const UNDO: &str = "ROLLBACK TO SAVEPOINT kollect_print";

impl Writer<'_> {
    /// What the partition looks like in this transaction. None if the server cannot say, which is
    /// found out once and is no failure.
    pub(super) async fn print(&self, session: &mut Session) -> Result<Option<String>, Fault> {
        if self.ready.printless.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let saved = session.client.batch_execute(SAVE).await;
        saved.map_err(self.stage(CHECK))?;
        let answer = match session.prepared(&self.statements().print()).await {
            Ok(print) => session.client.query_one(&print, &self.partition()).await,
            Err(error) => Err(error),
        };
        match answer.and_then(|row| row.try_get(0)) {
            Ok(print) => Ok(Some(print)),
            Err(error) if session.client.is_closed() => Err(self.stage(CHECK)(error)),
            Err(_) => {
                let undone = session.client.batch_execute(UNDO).await;
                undone.map_err(self.stage(CHECK))?;
                self.ready.printless.store(true, Ordering::Relaxed);
                Ok(None)
            }
        }
    }

    /// Whether nobody has touched the partition since it looked like this.
    pub(in crate::postgres) async fn is_untouched(
        &self,
        session: &mut Session,
        print: &str,
    ) -> Result<bool, Fault> {
        let [look] = self.prepare(session, [&self.statements().print()]).await?;
        let client = &session.client;
        let partition = self.partition();
        let (begun, now, committed) = join3(
            client.batch_execute(&self.plan.begin),
            client.query_one(&look, &partition),
            client.batch_execute("COMMIT"),
        )
        .await;
        begun.map_err(self.stage("postgres export: begin tx"))?;
        let now: String = self.first(CHECK, now)?;
        committed.map_err(self.stage(COMMIT))?;
        Ok(now == print)
    }
}
