//! Servers that run out of something in the middle: room, or patience with a role.

use std::time::{Duration, Instant};

use kollect_sinks::{Sink, SinkError};
use kollect_testkit::{
    Postgres,
    postgres::{Database, Tls},
    small_disk::SmallDisk,
};
use serde_json::json;

use super::{
    items::deployments,
    server::{T1, T2, T3, changes, database, everything, inventory, sink_at, sql, try_sql},
};

const PATIENCE: Duration = Duration::from_secs(90);

/// A full disk is a failure that passes: readers keep the rows they had, and everything is there
/// once there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_nothing() {
    let start = || -> anyhow::Result<Option<(Postgres, Database, SmallDisk)>> {
        let Some(disk) = SmallDisk::new(192)? else {
            return Ok(None);
        };
        let small = [
            ("max_wal_size", "32MB"),
            ("min_wal_size", "32MB"),
            ("wal_recycle", "off"),
        ];
        let server = Postgres::start_below(disk.path(), &small)?;
        let database = server.create_database("full")?;
        Ok(Some((server, database, disk)))
    };
    let started = tokio::task::spawn_blocking(start).await.expect("a thread");
    let Some((server, database, disk)) = started.expect("a server") else {
        println!("this account may not mount a small disk: nothing is tried");
        return;
    };
    let sink = sink_at(&database.url(Tls::Off), json!({})).expect("a sink");
    let few = deployments(200, 1);
    everything(&sink, &inventory(), T1, &few)
        .await
        .expect("room");
    disk.fill(512).expect("filled");
    let many = deployments(30_000, 2);
    for attempt in 0..3 {
        let error = everything(&sink, &inventory(), T2, &many).await;
        let error = error.expect_err("no room");
        assert!(
            matches!(error, SinkError::Transient(_)),
            "{attempt}: {error:?}"
        );
    }
    disk.clear().expect("cleared");
    // The server may have ended, and comes back by itself.
    let began = Instant::now();
    let rows = "SELECT count(*), max(payload->'attributes'->>'replicas') FROM items";
    loop {
        match try_sql(&database, rows).await {
            Ok(found) => {
                assert_eq!(found, ["200|1"], "readers keep what they had");
                break;
            }
            Err(error) => assert!(began.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    while let Err(error) = everything(&sink, &inventory(), T3, &many).await {
        assert!(began.elapsed() < PATIENCE, "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(sql(&database, rows).await, ["30000|2"]);
    drop((server, disk));
}

/// Rights that come and go while rows are written: whatever is refused is refused as a whole, says
/// so, and heals.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_come_and_go_lose_nothing() {
    let database = database("rights");
    let owner = super::server::sink(&database, json!({}));
    everything(&owner, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("made");
    let role = kollect_testkit::names::unique("fickle");
    sql(
        &database,
        &format!("CREATE ROLE \"{role}\"; GRANT ALL ON items, kollect_inventories TO \"{role}\""),
    )
    .await;
    let sink =
        sink_at(&database.url(Tls::Off), json!({"options": {"role": role}})).expect("a sink");
    let toggling = {
        let (database, role) = (database.clone(), role.clone());
        tokio::spawn(async move {
            for round in 0..20 {
                let what = ["INSERT", "UPDATE", "DELETE", "ALL"][round % 4];
                sql(
                    &database,
                    &format!("REVOKE {what} ON items FROM \"{role}\""),
                )
                .await;
                sql(&database, &format!("GRANT ALL ON items TO \"{role}\"")).await;
            }
        })
    };
    let (mut refused, mut rows) = (0, None);
    let mut round = 1;
    while !toggling.is_finished() {
        round += 1;
        let count = 60 + usize::from(round % 2 == 0) * 5;
        let next = deployments(count, round);
        let done = match &rows {
            Some(before) => changes(&sink, &inventory(), T2, before, &next).await,
            None => everything(&sink, &inventory(), T2, &next).await,
        };
        rows = match done {
            Ok(_) => {
                let state = sql(&database, "SELECT count(*) FROM items").await;
                assert_eq!(state, [next.len().to_string()]);
                Some(next)
            }
            Err(SinkError::Forbidden(text)) => {
                assert!(text.contains("items"), "{text}");
                refused += 1;
                None
            }
            Err(error) => panic!("{error:?}"),
        };
    }
    toggling.await.expect("toggled");
    println!("{round} deliveries, {refused} of them refused");
    everything(&sink, &inventory(), T3, &deployments(61, 1))
        .await
        .expect("granted");
    let state = "SELECT count(*), max(payload->'attributes'->>'replicas') FROM items";
    assert_eq!(sql(&database, state).await, ["61|1"]);
    sink.retire(&inventory()).await.expect("retired");
}
