//! The operators of a fleet, as far as a database sees them: many clusters, one sink each, the same
//! inventory and the same uids everywhere.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use kollect_api::InventoryId;
use kollect_inventory::{Delta, Snapshot};
use kollect_sinks::{Delivery, DeliveryRows, DocumentOptions, Sink, SinkError};
use serde_json::{Value, json};

use super::items::{Items, deployment};

/// How large a fleet is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fleet {
    pub(crate) clusters: usize,
    pub(crate) rows: usize,
    pub(crate) rounds: usize,
}

impl Fleet {
    /// A small one, unless the environment asks for more.
    pub(crate) fn configured() -> Self {
        let number = |name: &str, usual| {
            let given = std::env::var(name).ok();
            given.and_then(|text| text.parse().ok()).unwrap_or(usual)
        };
        Self {
            clusters: number("KOLLECT_FLEET_CLUSTERS", 40),
            rows: number("KOLLECT_FLEET_ROWS", 500),
            rounds: number("KOLLECT_FLEET_ROUNDS", 5),
        }
    }

    /// The rows of a cluster after some rounds: each round changes a few of them, and one comes and
    /// goes.
    pub(crate) fn rows_of(self, cluster: usize, round: usize) -> Snapshot {
        let items: Vec<Value> = (0..self.rows + round % 2)
            .map(|row| {
                let changes = (row + round) / 50;
                let attributes = json!({"cluster": cluster, "changes": changes});
                deployment(&format!("uid-{row:05x}"), &attributes)
            })
            .collect();
        Items::default().snapshot(&items)
    }

    /// Lets every cluster deliver everything, then changes, then look again. Gives how long each
    /// call took, sorted.
    pub(crate) async fn work(
        self,
        inventory: &InventoryId,
        sink: impl Fn(usize) -> Arc<dyn Sink>,
    ) -> Result<Vec<Duration>, SinkError> {
        let clusters =
            (0..self.clusters).map(|cluster| self.one(cluster, inventory, sink(cluster)));
        // All of them are connected at once; machines are not fleets, so not all of them work.
        let done: Vec<_> = stream::iter(clusters).buffer_unordered(32).collect().await;
        let mut times = Vec::new();
        for one in done {
            times.extend(one?);
        }
        times.sort();
        Ok(times)
    }

    async fn one(
        self,
        cluster: usize,
        inventory: &InventoryId,
        sink: Arc<dyn Sink>,
    ) -> Result<Vec<Duration>, SinkError> {
        let mut times = Vec::new();
        let delivery = |rows| Delivery {
            inventory: inventory.clone(),
            generation: 1,
            at: Timestamp::now(),
            rows,
            documents: DocumentOptions::default(),
        };
        let mut rows = self.rows_of(cluster, 0);
        for round in 0..=self.rounds {
            let next = self.rows_of(cluster, round);
            let began = Instant::now();
            if round == 0 {
                sink.deliver(&delivery(DeliveryRows::All(next.clone())))
                    .await?;
            } else {
                let delta = Arc::new(Delta::between(&rows, &next));
                sink.deliver(&delivery(DeliveryRows::Changes(delta)))
                    .await?;
            }
            times.push(began.elapsed());
            rows = next;
            let began = Instant::now();
            let look = delivery(DeliveryRows::Changes(Arc::default()));
            if sink.confirm(&look).await?.is_none() {
                sink.deliver(&delivery(DeliveryRows::All(rows.clone())))
                    .await?;
            }
            times.push(began.elapsed());
        }
        Ok(times)
    }

    /// Says how it went.
    pub(crate) fn tell(self, what: &str, times: &[Duration]) {
        let at = |share: usize| times[(times.len() - 1) * share / 100];
        println!(
            "{what}: {} clusters with {} rows, {} calls: median {:?}, 99th {:?}, longest {:?}",
            self.clusters,
            self.rows,
            times.len(),
            at(50),
            at(99),
            at(100)
        );
    }
}
