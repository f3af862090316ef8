//! A large inventory: everything, one change, a large change, nothing left.

use std::time::Instant;

use kollect_inventory::Snapshot;
use kollect_sinks::Sink;
use serde_json::json;

use super::{
    items::{Items, deployment, deployments},
    server::{T1, T2, T3, changes, database, everything, inventory, sink, sql},
};

const ROWS: usize = 100_000;

/// Prints what it took; only what came out is asserted, because the machine may be busy.
#[tokio::test]
async fn a_hundred_thousand_rows() {
    let database = database("large");
    let sink = sink(&database, json!({}));
    let rows = deployments(ROWS, 1);
    let count = "SELECT count(*), count(DISTINCT source_uid), sum((payload->'attributes'->>'replicas')::int) FROM items";
    let timed =
        |what: &str, began: Instant| println!("{what}: {:.3} s", began.elapsed().as_secs_f64());

    let began = Instant::now();
    let receipt = everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("delivered");
    timed("100,000 new rows", began);
    assert_eq!((receipt.written, receipt.removed), (ROWS as u64, 0));
    assert_eq!(sql(&database, count).await, ["100000|100000|100000"]);

    let began = Instant::now();
    let receipt = everything(&sink, &inventory(), T2, &rows)
        .await
        .expect("delivered");
    timed("100,000 unchanged rows", began);
    assert_eq!((receipt.written, receipt.removed), (0, 0));

    let mut before = rows;
    let mut times = Vec::new();
    for round in 0..100u64 {
        let mut next = before.rows().to_vec();
        let place = usize::try_from(round * 997).expect("small");
        next[place] = Items::default().row(&deployment(
            &format!("uid-{place:06}"),
            &json!({"replicas": 2}),
        ));
        let next = Snapshot::new(next);
        let began = Instant::now();
        let receipt = changes(&sink, &inventory(), T3, &before, &next)
            .await
            .expect("one change");
        times.push(began.elapsed());
        assert_eq!((receipt.written, receipt.removed), (1, 0));
        before = next;
    }
    times.sort();
    println!("one change: median {:?}, 99th {:?}", times[50], times[98]);
    assert_eq!(sql(&database, count).await, ["100000|100000|100100"]);

    let next = deployments(ROWS / 2, 3);
    let began = Instant::now();
    let receipt = changes(&sink, &inventory(), T3, &before, &next)
        .await
        .expect("many changes");
    timed("50,000 updates and 50,000 deletes as changes", began);
    assert_eq!(
        (receipt.written, receipt.removed),
        (ROWS as u64 / 2, ROWS as u64 / 2)
    );
    assert_eq!(sql(&database, count).await, ["50000|50000|150000"]);

    let receipt = sink.retire(&inventory()).await.expect("retired");
    assert_eq!(receipt.removed, ROWS as u64 / 2);
    assert_eq!(sql(&database, "SELECT count(*) FROM items").await, ["0"]);
}
