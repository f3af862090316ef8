//! Settings that reach the session, and settings that do nothing.

use kollect_testkit::postgres::Tls;
use serde_json::json;

use super::{
    items::deployments,
    server::{T1, database, everything, inventory, sink_at, sql},
};

/// Parameters of the string and of the sink reach the session.
#[tokio::test]
async fn session_parameters() {
    let database = database("parameters");
    sql(
        &database,
        "CREATE TABLE seen (name text, value text); \
         CREATE FUNCTION look() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
           INSERT INTO seen SELECT name, setting FROM pg_settings WHERE name IN \
             ('statement_timeout', 'lock_timeout', 'work_mem', 'application_name', 'search_path'); \
           RETURN NEW; END $$",
    )
    .await;
    let dsn = format!(
        "{}&lock_timeout=7s&search_path=pg_catalog%2Cpublic&work_mem=5MB",
        database.url(Tls::Off)
    );
    let sink = sink_at(
        &dsn,
        json!({"options": {"statement_timeout": "90s", "work_mem": "6MB"}}),
    )
    .expect("a sink");
    everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .expect("one row");
    sql(
        &database,
        "CREATE TRIGGER look AFTER INSERT ON items FOR EACH ROW EXECUTE FUNCTION look()",
    )
    .await;
    everything(&sink, &inventory(), T1, &deployments(2, 1))
        .await
        .expect("two rows");
    assert_eq!(
        sql(&database, "SELECT name, value FROM seen ORDER BY name").await,
        [
            "application_name|kollect",
            "lock_timeout|7000",
            "search_path|pg_catalog,public",
            "statement_timeout|90000",
            "work_mem|6144",
        ]
    );
}

/// Settings without effect are no obstacle and no secret.
#[tokio::test]
async fn settings_without_effect_are_named() {
    let database = database("idle");
    let sink = super::server::sink(
        &database,
        json!({
            "serialization": {"compression": "gzip"},
            "provisioning": {"naming": {"template": "{namespace}-{name}"}},
        }),
    );
    let receipt = everything(&sink, &inventory(), T1, &deployments(1, 1)).await;
    let note = receipt.expect("delivered").note.expect("a warning");
    for field in [
        "spec.serialization.compression",
        "spec.provisioning.naming.template",
    ] {
        assert!(note.contains(&format!("{field} has no effect")), "{note}");
    }
}
