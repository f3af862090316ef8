//! A fleet of clusters on one server.

use std::sync::Arc;

use kollect_testkit::{Postgres, postgres::Tls};
use serde_json::json;

use super::{
    fleet_work::Fleet,
    server::{T1, everything, inventory, sink_at, sql},
};

/// Many operators at work in one table: none waits for a lock of another for a second, none ends in
/// a deadlock, and nobody's rows are touched by anybody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_on_one_table() {
    let fleet = Fleet::configured();
    let settings = [("max_connections", "500"), ("deadlock_timeout", "200ms")];
    let start = move || -> anyhow::Result<_> {
        let server = Postgres::start_with(&settings)?;
        let database = server.create_database("fleet")?;
        Ok((server, database))
    };
    let (server, database) = tokio::task::spawn_blocking(start)
        .await
        .expect("a thread")
        .expect("a server");
    let sink = |cluster: usize| {
        // A name of its own, and so connections of its own, as another process has.
        let url = database.url(Tls::Off) + &format!("&application_name=cluster-{cluster}");
        let spec =
            json!({"cluster": format!("cluster-{cluster}"), "options": {"lock_timeout": "1s"}});
        sink_at(&url, spec).expect("a sink")
    };
    let first = sink(0);
    everything(&first, &inventory(), T1, &fleet.rows_of(0, 0))
        .await
        .expect("the table is made");
    let stays = "INSERT INTO items SELECT inventory_namespace, inventory_name, target_name, source_uid, 'nobody', \
         resource_namespace, payload, exported_at FROM items";
    sql(&database, stays).await;
    let times = fleet
        .work(&inventory(), |cluster| Arc::new(sink(cluster)))
        .await
        .expect("no lock is waited for longer than a second");
    fleet.tell("PostgreSQL", &times);
    let state = "SELECT count(*), count(DISTINCT cluster), \
         count(*) FILTER (WHERE 'cluster-' || (payload->'attributes'->>'cluster') <> cluster AND cluster <> 'nobody') FROM items";
    let rows = fleet.rows_of(0, fleet.rounds).len() * fleet.clusters + fleet.rows;
    let expected = format!("{rows}|{}|0", fleet.clusters + 1);
    assert_eq!(sql(&database, state).await, [expected]);
    let deadlocks = "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()";
    assert_eq!(sql(&database, deadlocks).await, ["0"]);
    let record =
        "SELECT count(*), min(rows), max(rows), bool_and(healthy) FROM kollect_inventories";
    let rows = fleet.rows_of(0, fleet.rounds).len();
    let expected = format!("{}|{rows}|{rows}|t", fleet.clusters);
    assert_eq!(sql(&database, record).await, [expected]);
    drop(server);
}
