//! Reading rows back, for those who compare: `kollect diff`.

use std::{pin::pin, time::SystemTime};

use futures::TryStreamExt as _;
use jiff::Timestamp;
use tokio_postgres::types::{ToSql, Type};

use super::{PostgresSink, fault::Fault};
use crate::error::SinkError;

impl PostgresSink {
    /// Hands the cluster and the JSON text of every row to `take`, as the table has them now, or as the history had them at a time.
    pub async fn read(
        &self,
        as_of: Option<Timestamp>,
        mut take: impl FnMut(&str, &str),
    ) -> Result<u64, SinkError> {
        let names = &self.plan.names;
        let text = match (as_of, names.history()) {
            (None, _) => format!("SELECT cluster, payload::text FROM {}", names.table()),
            (Some(_), Some(history)) => format!(
                "SELECT cluster, payload::text FROM (\
                 SELECT DISTINCT ON (inventory_namespace, inventory_name, cluster, target_name, source_uid) \
                 cluster, payload, operation FROM {history} WHERE valid_from <= $1 \
                 ORDER BY inventory_namespace, inventory_name, cluster, target_name, source_uid, entry DESC\
                 ) AS latest WHERE operation <> 'delete'"
            ),
            (Some(_), None) => {
                return Err(SinkError::terminal(
                    "a time needs the table of the history, and none was named",
                ));
            }
        };
        let at = as_of.map(SystemTime::from);
        let parameters: Vec<(&(dyn ToSql + Sync), Type)> = at
            .iter()
            .map(|at| (at as &(dyn ToSql + Sync), Type::TIMESTAMPTZ))
            .collect();
        let mut lease = self.pool.lease(self.connector.open()).await?;
        let session = lease.connection();
        let fault =
            |error: tokio_postgres::Error| Fault::at("read", &error, &self.plan.redaction).error;
        let rows = session.client.query_typed_raw(&text, parameters);
        let mut rows = pin!(rows.await.map_err(fault)?);
        let mut count = 0;
        while let Some(row) = rows.try_next().await.map_err(fault)? {
            take(row.get(0), row.get(1));
            count += 1;
        }
        Ok(count)
    }
}
