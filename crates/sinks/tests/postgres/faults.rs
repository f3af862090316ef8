//! Servers that die, callers that give up, and work that must not be done.

use std::{sync::Arc, time::Duration};

use kollect_api::InventoryId;
use kollect_inventory::{HeldRows, Snapshot};
use kollect_sinks::{DeliveryRows, Sink, SinkError};
use kollect_testkit::{
    Postgres,
    postgres::{Database, Tls},
};
use serde_json::json;

use super::{
    items::{Items, deployment, deployments},
    server::{T1, T2, T3, changes, database, delivery, everything, inventory, sink, sink_at, sql},
};

/// Makes every statement that inserts a certain row sleep, so that a test can act meanwhile.
const SLOW: &str = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
     $$ BEGIN PERFORM pg_sleep(60); RETURN NEW; END $$; \
     CREATE TRIGGER slow BEFORE INSERT ON items FOR EACH ROW WHEN (NEW.source_uid = 'uid-slow') \
     EXECUTE FUNCTION slow()";

fn with_slow(rows: usize) -> Snapshot {
    let slow = Items::default().row(&deployment("uid-slow", &json!({})));
    deployments(rows, 1)
        .rows()
        .iter()
        .cloned()
        .chain([slow])
        .collect()
}

/// Statements of sinks that are at work in this database.
async fn at_work(database: &Database) -> usize {
    let active = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() \
                  AND application_name = 'kollect' AND state <> 'idle'";
    sql(database, active).await[0].parse().expect("a number")
}

async fn until(what: &str, database: &Database, wanted: usize) {
    for _ in 0..500 {
        if at_work(database).await == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{what}: still not {wanted} at work");
}

/// A real server, killed in the middle of a full delivery: afterwards the table is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_has_the_old_state() {
    let mut server = tokio::task::spawn_blocking(|| Postgres::start().expect("a server"))
        .await
        .expect("a server");
    let database = server.create_database("killed").expect("a database");
    let sink = Arc::new(sink_at(&database.url(Tls::Off), json!({})).expect("a sink"));
    let old = deployments(100, 1);
    everything(&*sink, &inventory(), T1, &old)
        .await
        .expect("delivered");
    sql(&database, SLOW).await;

    let task = {
        let sink = Arc::clone(&sink);
        tokio::spawn(async move { everything(&*sink, &inventory(), T2, &with_slow(5_000)).await })
    };
    until("the delivery", &database, 1).await;
    server.crash().expect("a crash");
    let error = task.await.expect("no panic").unwrap_err();
    assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
    // While it is gone, every call says so in a way that may heal.
    let error = everything(&*sink, &inventory(), T2, &old)
        .await
        .unwrap_err();
    assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
    assert!(
        error
            .message()
            .starts_with("connect postgres: connection failed: connection refused"),
        "{error}"
    );
    server.server().resume().expect("back");
    assert_eq!(
        sql(
            &database,
            "SELECT count(*), count(DISTINCT exported_at) FROM items"
        )
        .await,
        ["100|1"]
    );

    // The server runs anew, so changes are not trusted before a full pass.
    let next = deployments(101, 1);
    let receipt = everything(&*sink, &inventory(), T2, &next)
        .await
        .expect("delivered");
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    server.server().stop().expect("stopped");
    server.server().resume().expect("back");
    let refused = changes(&*sink, &inventory(), T3, &next, &old)
        .await
        .unwrap_err();
    assert!(matches!(refused, SinkError::OutOfStep(_)), "{refused:?}");
    everything(&*sink, &inventory(), T3, &old)
        .await
        .expect("delivered");
    tokio::task::spawn_blocking(move || drop(server))
        .await
        .expect("stopped");
}

/// A delivery that is dropped ends at the server too, whatever it was doing there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_delivery_ends_at_the_server() {
    let database = database("cancelled");
    let sink = Arc::new(sink(&database, json!({})));
    everything(&*sink, &inventory(), T1, &deployments(10, 1))
        .await
        .expect("delivered");
    sql(&database, SLOW).await;
    for rows in [5, 5_000] {
        let content = DeliveryRows::All(with_slow(rows));
        let work = {
            let (sink, delivery) = (Arc::clone(&sink), delivery(&inventory(), T2, content));
            tokio::spawn(async move { sink.deliver(&delivery).await })
        };
        until("the delivery", &database, 1).await;
        work.abort();
        until("after the delivery was dropped", &database, 0).await;
        assert_eq!(sql(&database, "SELECT count(*) FROM items").await, ["10"]);
        let error = changes(
            &*sink,
            &inventory(),
            T3,
            &deployments(10, 1),
            &deployments(11, 1),
        )
        .await;
        assert!(matches!(error, Err(SinkError::OutOfStep(_))), "{error:?}");
        everything(&*sink, &inventory(), T3, &deployments(10, 1))
            .await
            .expect("delivered");
    }
}

/// A statement that takes too long is ended by the server.
#[tokio::test]
async fn statements_have_a_limit() {
    let database = database("limit");
    let sink = sink(
        &database,
        json!({"options": {"statement_timeout": "300ms"}}),
    );
    everything(&sink, &inventory(), T1, &deployments(3, 1))
        .await
        .expect("delivered");
    sql(&database, SLOW).await;
    let error = everything(&sink, &inventory(), T2, &with_slow(3))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Transient(text) if text.contains("statement_timeout")),
        "{error:?}"
    );
    everything(&sink, &inventory(), T2, &deployments(4, 1))
        .await
        .expect("delivered on the same connection");
}

/// Two processes with the same partition, the old leader and the new one, take turns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leaders_take_turns() {
    let database = database("leaders");
    let (old, new) = (
        Arc::new(sink(&database, json!({}))),
        sink(&database, json!({})),
    );
    everything(&*old, &inventory(), T1, &deployments(10, 1))
        .await
        .expect("delivered");
    sql(&database, &SLOW.replace("60", "1")).await;
    let work = {
        let old = Arc::clone(&old);
        tokio::spawn(async move { everything(&*old, &inventory(), T2, &with_slow(20)).await })
    };
    until("the old leader", &database, 1).await;
    // Another inventory has no reason to wait.
    let other = InventoryId::namespaced("team-a", "other");
    everything(&new, &other, T2, &deployments(2, 1))
        .await
        .expect("the neighbour");
    assert!(!work.is_finished(), "the old leader is still at it");
    let receipt = everything(&new, &inventory(), T3, &deployments(5, 1))
        .await
        .expect("the new leader");
    assert!(work.await.expect("no panic").is_ok());
    assert_eq!(
        (receipt.written, receipt.removed),
        (0, 16),
        "it saw what the old leader left"
    );
    let rows = sql(
        &database,
        "SELECT count(*) FROM items WHERE inventory_name = 'team-inventory'",
    )
    .await;
    assert_eq!(rows, ["5"]);
}

/// Rows that are as they should be are neither written nor deleted nor locked.
#[tokio::test]
async fn unchanged_rows_are_left_alone() {
    let database = database("unchanged");
    sql(&database, "CREATE TABLE touched (operation text, uid text)").await;
    let first = sink(&database, json!({}));
    let few = InventoryId::namespaced("team-a", "few");
    let rows = deployments(2_000, 1);
    let inventories = [(&inventory(), &rows), (&few, &deployments(20, 1))];
    for (inventory, rows) in inventories {
        everything(&first, inventory, T1, rows)
            .await
            .expect("delivered");
    }
    sql(
        &database,
        "CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO touched VALUES (TG_OP, coalesce(NEW.source_uid, OLD.source_uid)); RETURN NULL; END $$; \
         CREATE TRIGGER touch AFTER INSERT OR UPDATE OR DELETE ON items FOR EACH ROW EXECUTE FUNCTION touch()",
    )
    .await;
    let versions =
        "SELECT md5(string_agg(ctid::text || xmin || xmax, ',' ORDER BY ctid)) FROM items";
    let before = sql(&database, versions).await;
    for (inventory, rows) in inventories {
        // The same sink, and a new one as after a restart.
        for sink in [&first, &sink(&database, json!({}))] {
            let receipt = everything(sink, inventory, T2, rows)
                .await
                .expect("delivered");
            assert_eq!((receipt.written, receipt.removed), (0, 0));
        }
    }
    assert_eq!(sql(&database, versions).await, before);
    assert_eq!(sql(&database, "SELECT count(*) FROM touched").await, ["0"]);

    // One change is one write.
    let mut changed = rows.rows().to_vec();
    changed[1_234] = Items::default().row(&deployment("uid-001234", &json!({"replicas": 7})));
    let changed = Snapshot::new(changed);
    let receipt = changes(&first, &inventory(), T2, &rows, &changed)
        .await
        .expect("one change");
    assert_eq!((receipt.written, receipt.removed), (1, 0));
    assert_eq!(
        sql(&database, "SELECT operation, uid FROM touched").await,
        ["UPDATE|uid-001234"]
    );
}

/// Rows of a target of which nothing is known stay as they are, whatever else is delivered.
#[tokio::test]
async fn b3_rows_of_held_targets_stay() {
    // Few rows, and so many that they go through COPY; with and without history.
    for (rows, spec) in [
        (2, json!({})),
        (2, json!({"postgres": {"history": {"table": "log"}}})),
        (200, json!({})),
        (200, json!({"postgres": {"history": {"table": "log"}}})),
    ] {
        let database = database("held");
        let sink = sink(&database, spec);
        let mut item = deployment("uid-held", &json!({}));
        item["targetName"] = "bad".into();
        let held = Items::default().row(&item);
        let all = deployments(rows, 1).rows().to_vec();
        let both = Snapshot::new(all.into_iter().chain([held]));
        everything(&sink, &inventory(), T1, &both)
            .await
            .expect("everything is known");
        let names = "SELECT target_name, count(*) FROM items GROUP BY 1 ORDER BY 1";
        for (known, expected) in [
            (
                rows - 1,
                vec!["bad|1".to_owned(), format!("deployments|{}", rows - 1)],
            ),
            (0, vec!["bad|1".to_owned()]),
        ] {
            let some = deployments(known, 1).holding(vec![HeldRows::of_target("bad")]);
            everything(&sink, &inventory(), T2, &some)
                .await
                .expect("one target is held");
            assert_eq!(sql(&database, names).await, expected);
        }
        // Once it is known that there is nothing, nothing stays.
        everything(&sink, &inventory(), T3, &Snapshot::default())
            .await
            .expect("known");
        assert!(sql(&database, names).await.is_empty());
    }
}

/// How a change finds its row: by the key, however large the table is and whatever is known of it.
#[tokio::test]
async fn a_change_reads_only_its_row() {
    let database = database("plan");
    let sink = sink(&database, json!({}));
    let rows = deployments(20_000, 1);
    everything(&sink, &inventory(), T1, &rows)
        .await
        .expect("delivered");
    drop(sink);
    for analyzed in [false, true] {
        if analyzed {
            sql(&database, "ANALYZE items").await;
        }
        let sink = self::sink(&database, json!({}));
        everything(&sink, &inventory(), T3, &rows)
            .await
            .expect("all rows");
        drop(sink);
        let before_changes = tuples_read(&database).await;
        let sink = self::sink(&database, json!({}));
        everything(&sink, &inventory(), T3, &rows)
            .await
            .expect("all rows");
        let mut before = rows.clone();
        // Often enough that the server changes from one kind of plan to the other.
        for round in 0..12u64 {
            let mut next = before.rows().to_vec();
            next[777] =
                Items::default().row(&deployment("uid-000777", &json!({"replicas": round + 10})));
            next.pop();
            let next = Snapshot::new(next);
            let receipt = changes(&sink, &inventory(), T2, &before, &next)
                .await
                .expect("changes");
            assert_eq!((receipt.written, receipt.removed), (1, 1));
            before = next;
        }
        drop(sink);
        // The full delivery reads the table twice, and twice to see what it looks like now; what is
        // left is what the changes read.
        let read = tuples_read(&database).await - before_changes - 4 * 20_000;
        assert!(read < 500, "24 changes read {read} rows");
    }
}

/// Rows that anybody read in the table, by scans and through indexes. Sessions report it when they
/// end.
async fn tuples_read(database: &Database) -> i64 {
    for _ in 0..200 {
        let sessions = "SELECT count(*) FROM pg_stat_activity \
                        WHERE application_name = 'kollect' AND datname = current_database()";
        if sql(database, sessions).await == ["0"] {
            let read = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_user_tables WHERE relname = 'items'";
            return sql(database, read).await[0].parse().expect("a number");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("a connection stays open");
}

/// Where only some namespaces of a target could not be read, the rows of those stay, and what was
/// deleted in the others goes.
#[tokio::test]
async fn d11_rows_of_unread_namespaces_stay() {
    for (rows, spec) in [
        (2, json!({})),
        (200, json!({})),
        (200, json!({"postgres": {"history": {"table": "log"}}})),
    ] {
        let database = database("unread");
        let sink = sink(&database, spec);
        let elsewhere = |target: &str, namespace: &str| {
            let mut item = deployment(&format!("uid-{target}-{namespace}"), &json!({}));
            item["targetName"] = target.into();
            item["namespace"] = namespace.into();
            Items::default().row(&item)
        };
        let others = [
            elsewhere("one", "dark"),
            elsewhere("one", "light"),
            elsewhere("two", "dark"),
        ];
        let all = deployments(rows, 1).rows().to_vec();
        let all = Snapshot::new(all.into_iter().chain(others));
        everything(&sink, &inventory(), T1, &all)
            .await
            .expect("everything is known");
        let some = deployments(rows - 1, 1).holding(vec![
            HeldRows::in_namespace("one", "dark"),
            HeldRows::of_target("three"),
        ]);
        everything(&sink, &inventory(), T2, &some)
            .await
            .expect("a namespace is held");
        let names = "SELECT target_name, resource_namespace FROM items \
             WHERE target_name IN ('one', 'two') ORDER BY 1, 2";
        assert_eq!(sql(&database, names).await, ["one|dark"]);
        let count = "SELECT count(*) FROM items WHERE target_name = 'deployments'";
        assert_eq!(sql(&database, count).await, [(rows - 1).to_string()]);
        everything(&sink, &inventory(), T3, &deployments(rows, 1))
            .await
            .expect("known");
        assert!(sql(&database, names).await.is_empty());
    }
}
