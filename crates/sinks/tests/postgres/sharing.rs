//! Sinks on one database are one client of it (F1).

use std::{sync::Arc, time::Duration};

use futures::future::join_all;
use kollect_api::{InventoryId, SinkKey, reference::SinkFamily};
use kollect_sinks::{
    Sink, SinkError,
    backend::{self, Environment, SinkSeed},
};
use kollect_testkit::{
    Postgres,
    names::{secret, unique},
    postgres::Database,
};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    items::deployments,
    server::{self, T1, T2, changes, database, environment, everything, sql},
};

/// A role of its own on a database of its own.
struct Tenancy {
    database: Database,
    user: String,
    password: String,
    environment: Environment,
}

impl Tenancy {
    async fn new(prefix: &str) -> Self {
        let database = database(prefix);
        let (user, password) = (unique("tenant"), secret().expect("a password"));
        let role = format!(
            "CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'; \
             GRANT USAGE, CREATE ON SCHEMA public TO \"{user}\""
        );
        sql(&database, &role).await;
        Self {
            database,
            user,
            password,
            environment: environment(),
        }
    }

    fn dsn(&self, password: &str, rest: &str) -> String {
        let port = Postgres::shared().expect("a server").port();
        let Self { database, user, .. } = self;
        format!(
            "postgres://{user}:{password}@127.0.0.1:{port}/{}?sslmode=disable{rest}",
            database.name
        )
    }

    /// Opens a sink as the operator does.
    async fn sink(&self, namespace: &str, name: &str, dsn: &str, table: &str) -> Arc<dyn Sink> {
        let spec = server::spec(json!({"postgres": {"table": table}}));
        let materials = server::secret(&spec, &[("dsn", dsn)]).expect("materials");
        let seed = SinkSeed {
            key: SinkKey::new(SinkFamily::Database, namespace, name),
            spec: Arc::new(spec),
            materials,
        };
        let opened = backend::open(seed, &self.environment).await;
        opened.expect("a sink")
    }

    /// The server processes that work for the role.
    async fn connections(&self) -> Vec<String> {
        let user = &self.user;
        let question =
            format!("SELECT pid FROM pg_stat_activity WHERE usename = '{user}' ORDER BY 1");
        sql(&self.database, &question).await
    }

    /// Waits until there are as many connections as that.
    async fn settle(&self, count: usize) {
        let begun = Instant::now();
        while self.connections().await.len() != count {
            assert!(begun.elapsed() < Duration::from_mins(1), "not {count}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_many_sinks_share_four_connections_and_give_them_back() {
    let tenancy = Tenancy::new("sharing").await;
    let dsn = tenancy.dsn(&tenancy.password, "&pool_max_conn_idle_time=2s");
    let mut sinks = Vec::new();
    for at in 0..24 {
        let namespace = format!("team-{}", at % 6);
        let table = format!("items_{}", at % 3);
        let sink = tenancy
            .sink(&namespace, &format!("pg-{at}"), &dsn, &table)
            .await;
        sinks.push((
            InventoryId::namespaced(&namespace, format!("inv-{at}")),
            sink,
        ));
    }
    let rows = deployments(200, 1);
    let deliveries = join_all(sinks.iter().map(|(inventory, sink)| {
        let rows = &rows;
        async move {
            let place = sink.place().await;
            let receipt = everything(&**sink, inventory, T1, rows).await;
            drop(place);
            receipt
        }
    }));
    let watching = async {
        let mut most = 0;
        loop {
            most = most.max(tenancy.connections().await.len());
            assert!(most <= 4, "{most} connections");
            sleep(Duration::from_millis(5)).await;
        }
    };
    let receipts = tokio::select! {
        receipts = deliveries => receipts,
        () = watching => unreachable!("it watches for ever"),
    };
    for receipt in receipts {
        assert_eq!(receipt.expect("delivered").written, 200);
    }
    let held = tenancy.connections().await.len();
    assert!((1..=4).contains(&held), "{held} connections");
    tenancy.settle(0).await;
    // And they come again.
    let (inventory, sink) = &sinks[0];
    let receipt = everything(&**sink, inventory, T2, &deployments(200, 2)).await;
    assert_eq!(receipt.expect("delivered").written, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_rotated_password_affects_its_tenant_alone() {
    let tenancy = Tenancy::new("rotated").await;
    let dsn = tenancy.dsn(&tenancy.password, "");
    let (a, b) = (
        tenancy.sink("team-a", "pg", &dsn, "items").await,
        tenancy.sink("team-b", "pg", &dsn, "items").await,
    );
    let [of_a, of_b] =
        ["team-a", "team-b"].map(|namespace| InventoryId::namespaced(namespace, "inv"));
    let rows = deployments(3, 1);
    for (sink, inventory) in [(&a, &of_a), (&b, &of_b)] {
        let receipt = everything(&**sink, inventory, T1, &rows).await;
        assert_eq!(receipt.expect("delivered").written, 3);
    }
    let shared = tenancy.connections().await;
    assert_eq!(shared.len(), 1, "both use one connection");

    // Somebody writes nonsense into the Secret of team-a.
    let broken = tenancy.dsn("nonsense", "");
    let rotated = tenancy.sink("team-a", "pg", &broken, "items").await;
    drop(a);
    let error = everything(&*rotated, &of_a, T2, &rows).await.unwrap_err();
    assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
    let receipt = everything(&*b, &of_b, T2, &deployments(3, 2)).await;
    assert_eq!(receipt.expect("team-b goes on").written, 3);
    assert_eq!(tenancy.connections().await, shared, "as before");

    // The password is changed for good, and only team-a is told.
    let renewed = secret().expect("a password");
    let change = format!("ALTER ROLE \"{}\" PASSWORD '{renewed}'", tenancy.user);
    sql(&tenancy.database, &change).await;
    let dsn = tenancy.dsn(&renewed, "");
    let rotated = tenancy.sink("team-a", "pg", &dsn, "items").await;
    let receipt = everything(&*rotated, &of_a, T2, &deployments(3, 3)).await;
    assert_eq!(receipt.expect("team-a is back").written, 3);
    let now = tenancy.connections().await;
    assert_eq!(now.len(), 2, "another identity has connections of its own");
    // What is open stays open; the old pool goes with its last user.
    drop(b);
    tenancy.settle(1).await;
    let left = tenancy.connections().await;
    assert!(!shared.contains(&left[0]), "that of team-a is left");
}

/// F7: what is there and was left alone is looked at, and not sent again.
#[tokio::test(flavor = "multi_thread")]
async fn f7_a_refresh_of_what_nobody_touched_is_one_look() {
    let tenancy = Tenancy::new("refresh").await;
    let dsn = tenancy.dsn(&tenancy.password, "");
    let sink = tenancy.sink("team-a", "pg", &dsn, "items").await;
    let [mine, other] = ["mine", "other"].map(|name| InventoryId::namespaced("team-a", name));
    let rows = deployments(200, 1);
    let deliver = async |inventory: &InventoryId, rows: &_| {
        let receipt = everything(&*sink, inventory, T1, rows).await;
        receipt.expect("delivered")
    };
    assert_eq!(deliver(&mine, &rows).await.written, 200);
    let again = deliver(&mine, &rows).await;
    assert_eq!((again.written, again.bytes), (0, 0), "nothing was sent");
    // What others write concerns their own rows.
    assert_eq!(deliver(&other, &rows).await.written, 200);
    assert_eq!(deliver(&mine, &rows).await.bytes, 0);
    // Whatever somebody does to the rows is put right.
    let here = "WHERE inventory_name = 'mine' AND source_uid = 'uid-000007'";
    for (harm, written) in [
        (format!("UPDATE items SET payload = '{{}}' {here}"), 1),
        (format!("DELETE FROM items {here}"), 1),
        (format!("UPDATE items SET source_uid = 'strange' {here}"), 1),
        // Nothing changes, which is found out without sending anything.
        ("VACUUM FULL items".to_owned(), 0),
        (format!("UPDATE items SET payload = payload {here}"), 0),
    ] {
        sql(&tenancy.database, &harm).await;
        let mended = deliver(&mine, &rows).await;
        assert_eq!(mended.bytes > 0, written > 0, "{harm}");
        assert_eq!(mended.written, written, "{harm}");
        assert_eq!(deliver(&mine, &rows).await.bytes, 0, "{harm}: then rest");
    }
    // What is new is sent, with what is near it, and after changes nothing is.
    let more = deployments(201, 1);
    let grown = deliver(&mine, &more).await;
    assert_eq!(grown.written, 1);
    assert!(grown.bytes < 5_000, "{} bytes", grown.bytes);
    let changed = changes(&*sink, &mine, T2, &more, &rows).await;
    assert_eq!(changed.expect("a change").removed, 1);
    assert_eq!(deliver(&mine, &rows).await.bytes, 0);
    let count = "SELECT count(*) FROM items WHERE inventory_name = 'mine'";
    assert_eq!(sql(&tenancy.database, count).await, ["200"]);
}
