//! PostgreSQL as a subject of the conformance suite: a database and a role of its own on the shared
//! server, behind a wire of its own.

use std::sync::Arc;

use async_trait::async_trait;
use kollect_api::InventoryId;
use kollect_sinks::{Sink, conformance::Subject};
use kollect_testkit::{
    Postgres, Proxy,
    names::{secret, unique},
    postgres::Database,
};
use serde_json::{Value, json};

use super::server::{database, sink_at, sql};

pub(crate) struct PostgresSubject {
    database: Database,
    proxy: Proxy,
    user: String,
    password: String,
}

const WRONG_PASSWORD: &str = "wrong-donkey-battery-staple";

impl PostgresSubject {
    pub(crate) async fn start() -> Self {
        let (database, port) = tokio::task::spawn_blocking(|| {
            let port = Postgres::shared().expect("a server").port();
            (database("conformance"), port)
        })
        .await
        .expect("a database");
        let (user, password) = (unique("tenant"), secret().expect("a password"));
        sql(
            &database,
            &format!(
                "CREATE ROLE \"{user}\" LOGIN PASSWORD '{password}'; \
                 GRANT USAGE, CREATE ON SCHEMA public TO \"{user}\""
            ),
        )
        .await;
        Self {
            database,
            proxy: Proxy::to(("127.0.0.1", port)).expect("a wire"),
            user,
            password,
        }
    }

    fn connect(&self, cluster: &str, password: &str) -> Arc<dyn Sink> {
        let Self {
            database,
            proxy,
            user,
            ..
        } = self;
        let url = format!(
            "postgres://{user}:{password}@127.0.0.1:{}/{}?sslmode=disable",
            proxy.port(),
            database.name
        );
        Arc::new(sink_at(&url, json!({"cluster": cluster})).expect("a sink"))
    }

    async fn exists(&self) -> bool {
        sql(&self.database, "SELECT to_regclass('items') IS NOT NULL").await == ["t"]
    }
}

#[async_trait]
impl Subject for PostgresSubject {
    async fn sink(&self, cluster: &str) -> Arc<dyn Sink> {
        self.connect(cluster, &self.password)
    }

    async fn sink_with_wrong_credentials(&self) -> Option<Arc<dyn Sink>> {
        Some(self.connect("prod-west", WRONG_PASSWORD))
    }

    async fn contents(&self, inventory: &InventoryId, cluster: &str) -> Vec<Value> {
        if !self.exists().await {
            return Vec::new();
        }
        let query = format!(
            "SELECT payload FROM items WHERE inventory_namespace = '{}' AND inventory_name = '{}' \
             AND cluster = '{cluster}'",
            inventory.namespace(),
            inventory.name
        );
        let rows = sql(&self.database, &query).await;
        rows.iter()
            .map(|row| serde_json::from_str(row).expect("a payload is JSON"))
            .collect()
    }

    async fn stop(&self) {
        self.proxy.refuse();
        // A server that is gone does nothing any more, and neither does this one.
        sql(
            &self.database,
            &format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{}'",
                self.user
            ),
        )
        .await;
    }

    async fn start(&self) {
        self.proxy.accept().expect("the same port");
    }

    async fn stall(&self, on: bool) -> bool {
        self.proxy.stall(on);
        true
    }

    async fn lose(&self) -> bool {
        sql(&self.database, "TRUNCATE items").await;
        true
    }

    /// Versions of rows, and who locked them last: a row that was only locked shows as well.
    async fn mark(&self) -> Option<String> {
        let relations = sql(
            &self.database,
            "SELECT oid, relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY oid",
        )
        .await;
        let rows = if self.exists().await {
            sql(
                &self.database,
                "SELECT ctid, xmin, xmax FROM items ORDER BY ctid",
            )
            .await
        } else {
            Vec::new()
        };
        Some(format!("{relations:?} {rows:?}"))
    }

    fn secrets(&self) -> Vec<String> {
        vec![
            self.user.clone(),
            self.password.clone(),
            WRONG_PASSWORD.to_owned(),
            self.database.name.clone(),
            "127.0.0.1".to_owned(),
            self.proxy.port().to_string(),
        ]
    }
}
