//! Connection strings, encryption and logins.

use std::time::{Duration, Instant};

use kollect_sinks::{
    Sink, SinkError,
    backend::Environment,
    dial::{Dialer, Resolve},
    postgres::PostgresSink,
};
use kollect_testkit::{
    Postgres,
    pki::Authority,
    postgres::{Tls, USER},
};
use serde_json::{Value, json};

use super::{
    items::deployments,
    server::{T1, database, environment, everything, inventory, secret, sink_at, spec, sql},
};

/// A connection string for a database of the shared server.
fn url(database: &str, host: &str, rest: &str) -> String {
    let server = Postgres::shared().expect("a server");
    format!(
        "postgres://{USER}:{}@{host}:{}/{database}?{rest}",
        server.password(),
        server.port()
    )
}

fn base64(text: &str) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    STANDARD.encode(text)
}

/// D25 to D27 and the texts of incomplete configuration.
#[tokio::test]
async fn where_the_connection_string_is_found() {
    let database = database("keys");
    let good = database.url(Tls::Off);
    let bad = "postgres://nobody:nothing@127.0.0.1:1/nowhere";
    for data in [
        &[("dsn", "  "), ("url", &good)][..],
        &[("url", bad), ("dsn", &good)],
        &[("DATABASE_URL", bad), ("connectionString", &good)],
        &[
            ("DATABASE_URL", &format!("\n {good} \n")),
            ("password", "x"),
        ],
    ] {
        let spec = spec(json!({}));
        let materials = secret(&spec, data).expect("materials");
        let sink = PostgresSink::new(&spec, materials, &environment()).expect("a sink");
        assert_eq!(
            sink.probe().await.expect("a probe"),
            "PostgreSQL ping succeeded"
        );
    }
    let refused = |changes: Value, data: &[(&str, &str)]| {
        let spec = spec(changes);
        let built = secret(&spec, data)
            .and_then(|materials| PostgresSink::new(&spec, materials, &environment()));
        built.expect_err("refused")
    };
    for (changes, data, text) in [
        (
            json!({}),
            &[("password", "x")][..],
            "postgres secret must contain dsn or url key",
        ),
        (
            json!({}),
            &[("dsn", " "), ("url", "")],
            "postgres secret must contain dsn or url key",
        ),
        (json!({}), &[], "postgres databaseRef secret is empty"),
        (
            json!({"postgres": null}),
            &[("dsn", &good)],
            "postgres sink requires spec.postgres",
        ),
        (
            json!({"postgres": {"table": " "}}),
            &[("dsn", &good)],
            "postgres sink requires spec.postgres.table",
        ),
        (
            json!({"postgres": {"databaseRef": {"name": " "}}}),
            &[("dsn", &good)],
            "postgres sink requires spec.postgres.databaseRef",
        ),
    ] {
        assert_eq!(refused(changes, data), SinkError::Terminal(text.to_owned()));
    }
    let error = refused(json!({"options": {"fancy": "x"}}), &[("dsn", &good)]);
    assert!(
        error
            .message()
            .starts_with("spec.options[fancy] is not known"),
        "{error}"
    );
}

/// D28: no way around the address policy, and no word about where it would have led.
#[tokio::test]
async fn forbidden_addresses_are_not_dialled() {
    let spec = spec(json!({}));
    let environment = Environment {
        dialer: Dialer::new(kollect_api::address::AddressPolicy::default()),
        ..environment()
    };
    for dsn in [
        "postgres://tenantuser:hunter2@127.0.0.1:1/tenantdb",
        "host=localhost hostaddr=127.0.0.1 user=tenantuser password=hunter2 dbname=tenantdb",
        "postgres://tenantuser:hunter2@metadata.google.internal/tenantdb",
    ] {
        let materials = secret(&spec, &[("dsn", dsn)]).expect("materials");
        let sink = PostgresSink::new(&spec, materials, &environment).expect("a sink");
        let delivered = everything(&sink, &inventory(), T1, &deployments(1, 1)).await;
        for error in [delivered.unwrap_err(), sink.probe().await.unwrap_err()] {
            assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
            assert!(
                error
                    .message()
                    .starts_with("connect postgres: connection failed"),
                "{error}"
            );
            for part in [
                "tenantuser",
                "hunter2",
                "127.0.0.1",
                "tenantdb",
                "metadata",
                "localhost",
            ] {
                assert!(!error.message().contains(part), "{error}");
            }
        }
    }
}

/// Knows no name.
#[derive(Debug)]
struct NoNames;

#[async_trait::async_trait]
impl Resolve for NoNames {
    async fn resolve(&self, host: &str) -> std::io::Result<Vec<std::net::IpAddr>> {
        match host {
            "lost.example.com" => Err(std::io::Error::other("Temporary failure")),
            _ => Ok(Vec::new()),
        }
    }
}

/// Whoever reads it knows where to look, and learns nothing of the connection string.
#[tokio::test]
async fn what_is_in_the_way_is_said() {
    let spec = spec(json!({}));
    let policy = kollect_api::address::AddressPolicy {
        allowed_networks: vec!["127.0.0.0/8".parse().expect("a network")],
        ..kollect_api::address::AddressPolicy::default()
    };
    let environment = Environment {
        dialer: Dialer::with_resolver(policy, std::sync::Arc::new(NoNames)),
        ..environment()
    };
    // A port that was free a moment ago.
    let socket = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let closed = socket.local_addr().expect("an address").port();
    drop(socket);
    for (place, expected) in [
        (format!("127.0.0.1:{closed}"), "connection refused"),
        ("nowhere.example.com".to_owned(), "no such host"),
        ("lost.example.com".to_owned(), "could not be looked up"),
    ] {
        let dsn = format!("postgres://tenantuser:hunter2@{place}/tenantdb");
        let materials = secret(&spec, &[("dsn", &dsn)]).expect("materials");
        let sink = PostgresSink::new(&spec, materials, &environment).expect("a sink");
        let error = sink.probe().await.expect_err("nobody is there");
        assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
        assert!(error.message().contains(expected), "{place}: {error}");
        for part in ["tenantuser", "hunter2", "127.0.0.1", "tenantdb", "example"] {
            assert!(!error.message().contains(part), "{error}");
        }
    }
}

/// Every `sslmode` against a server with a certificate of its own authority: whether it connects,
/// and encrypted or not.
#[tokio::test]
async fn modes_of_encryption() {
    let database = database("encryption");
    let server = Postgres::shared().expect("a server");
    let own = base64(server.ca_pem());
    let other = base64(&Authority::new("another").expect("an authority").pem());
    let files = tempfile::tempdir().expect("a directory");
    let ca_file = files.path().join("ca.crt");
    std::fs::write(&ca_file, server.ca_pem()).expect("written");
    let with_file = |mode: &str| format!("sslmode={mode}&sslrootcert={}", ca_file.display());
    let encrypted = Ok(true);
    let plain = Ok(false);
    let untrusted = Err("spec.tls.caBundle");
    let cases: Vec<(&str, String, Value, Result<bool, &str>)> = vec![
        ("127.0.0.1", "sslmode=disable".into(), json!({}), plain),
        ("127.0.0.1", "sslmode=allow".into(), json!({}), plain),
        ("127.0.0.1", "sslmode=prefer".into(), json!({}), encrypted),
        ("127.0.0.1", String::new(), json!({}), encrypted),
        ("127.0.0.1", "sslmode=require".into(), json!({}), encrypted),
        (
            "127.0.0.1",
            "sslmode=verify-ca".into(),
            json!({}),
            untrusted,
        ),
        (
            "127.0.0.1",
            "sslmode=verify-full".into(),
            json!({}),
            untrusted,
        ),
        (
            "127.0.0.1",
            "sslmode=verify-full".into(),
            json!({"insecureSkipVerify": true}),
            encrypted,
        ),
        // The sink's own authority.
        (
            "127.0.0.1",
            "sslmode=verify-full".into(),
            json!({"caBundle": own}),
            encrypted,
        ),
        (
            "127.0.0.1",
            "sslmode=verify-ca".into(),
            json!({"caBundle": own}),
            encrypted,
        ),
        (
            "127.0.0.1",
            "sslmode=verify-full".into(),
            json!({"caBundle": other}),
            untrusted,
        ),
        (
            "127.0.0.1",
            "sslmode=require".into(),
            json!({"caBundle": other}),
            untrusted,
        ),
        (
            "127.0.0.1",
            String::new(),
            json!({"caBundle": other}),
            untrusted,
        ),
        (
            "127.0.0.1",
            String::new(),
            json!({"caBundle": own}),
            encrypted,
        ),
        // A10: the password goes to nobody else, and not in clear text.
        (
            "127.0.0.1",
            "sslmode=prefer".into(),
            json!({"caBundle": other}),
            untrusted,
        ),
        (
            "127.0.0.1",
            "sslmode=allow".into(),
            json!({"caBundle": other}),
            untrusted,
        ),
        (
            "127.0.0.1",
            "sslmode=prefer".into(),
            json!({"caBundle": own}),
            encrypted,
        ),
        (
            "127.0.0.1",
            "sslmode=disable".into(),
            json!({"caBundle": other}),
            plain,
        ),
        // Another name for the same server.
        (
            "127.0.0.2",
            "sslmode=verify-full".into(),
            json!({"caBundle": own}),
            Err("another host name"),
        ),
        (
            "127.0.0.2",
            "sslmode=verify-ca".into(),
            json!({"caBundle": own}),
            encrypted,
        ),
        (
            "127.0.0.2",
            "sslmode=verify-ca".into(),
            json!({"caBundle": other}),
            untrusted,
        ),
        // A1: files in the operator's pod.
        (
            "127.0.0.1",
            with_file("verify-full"),
            json!({}),
            Err("the operator reads no files"),
        ),
        (
            "127.0.0.1",
            with_file("require"),
            json!({"caBundle": own}),
            Err("the operator reads no files"),
        ),
        (
            "127.0.0.1",
            "sslmode=require&sslcert=/nowhere/tls.crt".into(),
            json!({}),
            Err("the operator reads no files"),
        ),
    ];
    for (name, query, tls, expected) in cases {
        // The name is what certificates are checked against, the address is where the server is.
        let url = url(
            &database.name,
            name,
            &format!("{query}&hostaddr=127.0.0.1&application_name=probe"),
        );
        let what = format!("{name} {query} {tls}");
        let built = sink_at(&url, json!({"tls": tls}));
        let outcome = match &built {
            Ok(sink) => everything(sink, &inventory(), T1, &deployments(1, 1))
                .await
                .map(|_| ()),
            Err(error) => Err(error.clone()),
        };
        match (outcome, expected) {
            (Ok(()), Ok(encrypted)) => {
                let found = sql(
                    &database,
                    &format!(
                        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
                         WHERE application_name = 'probe' AND datname = '{}'",
                        database.name
                    ),
                )
                .await;
                let wanted = if encrypted { "t" } else { "f" };
                assert_eq!(found, [wanted], "{what}");
            }
            (Err(error), Err(says)) => {
                assert!(matches!(error, SinkError::Terminal(_)), "{what}: {error:?}");
                assert!(error.message().contains(says), "{what}: {error}");
            }
            (outcome, expected) => panic!("{what}: {outcome:?}, not {expected:?}"),
        }
        drop(built);
        gone(&database).await;
    }
}

/// A1: on a person's own machine, files are read.
#[tokio::test]
async fn a1_the_command_line_reads_files() {
    let database = database("files");
    let server = Postgres::shared().expect("a server");
    let files = tempfile::tempdir().expect("a directory");
    let ca_file = files.path().join("ca.crt");
    std::fs::write(&ca_file, server.ca_pem()).expect("written");
    let rest = format!("sslmode=verify-full&sslrootcert={}", ca_file.display());
    let url = url(&database.name, "127.0.0.1", &rest);
    let spec = spec(json!({}));
    let materials = secret(&spec, &[("dsn", &url)]).expect("materials");
    let environment = Environment {
        local_files: true,
        ..environment()
    };
    let sink = PostgresSink::new(&spec, materials, &environment).expect("a sink");
    sink.probe().await.expect("a probe");
}

/// Waits until the server has noticed that the sink's connections are closed.
async fn gone(database: &kollect_testkit::postgres::Database) {
    let query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'probe' \
                 AND datname = current_database()";
    let began = Instant::now();
    while sql(database, query).await != ["0"] {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "a connection stays open"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Rejected logins are terminal, fast and silent.
#[tokio::test]
async fn logins() {
    let database = database("logins");
    let server = Postgres::shared().expect("a server");
    let (port, password) = (server.port(), server.password());
    for (dsn, says) in [
        (
            format!("postgres://{USER}:wrong@127.0.0.1:{port}/{}", database.name),
            "authentication failed",
        ),
        (
            format!("postgres://{USER}@127.0.0.1:{port}/{}", database.name),
            "authentication failed",
        ),
        (
            format!(
                "postgres://stranger:{password}@127.0.0.1:{port}/{}",
                database.name
            ),
            "authentication failed",
        ),
        (
            format!("postgres://{USER}:{password}@127.0.0.1:{port}/nowhere"),
            "the database does not exist",
        ),
        (
            format!("postgres://127.0.0.1:{port}/{}", database.name),
            "no user",
        ),
        (
            format!(
                "postgres://{USER}:{password}@127.0.0.1:{port}/{}?options=-c%20nonsense%3D1",
                database.name
            ),
            "connection failed (SQLSTATE 42704)",
        ),
        (
            format!(
                "postgres://{USER}:{password}@127.0.0.1:{port}/{}?nonsense=1",
                database.name
            ),
            "nonsense",
        ),
    ] {
        let sink = sink_at(&dsn, json!({})).expect("a sink");
        let began = Instant::now();
        let delivered = everything(&sink, &inventory(), T1, &deployments(1, 1))
            .await
            .unwrap_err();
        let probed = sink.probe().await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(20), "{says}");
        for error in [delivered, probed] {
            assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
            assert!(error.message().contains(says), "{error}");
            for part in [
                USER,
                "stranger",
                password,
                "127.0.0.1",
                "nowhere",
                &database.name,
            ] {
                assert!(!error.message().contains(part), "{error}");
            }
        }
    }
}

/// The first of several hosts that answers and takes writes.
#[tokio::test]
async fn several_hosts() {
    let database = database("hosts");
    let server = Postgres::shared().expect("a server");
    let (port, password) = (server.port(), server.password());
    let closed = kollect_testkit::ports::free().expect("a port");
    for attributes in ["any", "read-write", "primary"] {
        let dsn = format!(
            "host=127.0.0.1,127.0.0.1 port={closed},{port} user={USER} password={password} \
             dbname={} target_session_attrs={attributes}",
            database.name
        );
        let sink = sink_at(&dsn, json!({})).expect("a sink");
        everything(&sink, &inventory(), T1, &deployments(1, 1))
            .await
            .expect(attributes);
    }
    // A server that is there but takes no writes by default is passed over.
    sql(
        &database,
        &format!(
            "ALTER DATABASE \"{}\" SET default_transaction_read_only = on",
            database.name
        ),
    )
    .await;
    let dsn = format!(
        "host=127.0.0.1 port={port} user={USER} password={password} dbname={} target_session_attrs=read-write",
        database.name
    );
    let error = sink_at(&dsn, json!({}))
        .expect("a sink")
        .probe()
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Transient(text) if text.contains("takes writes")),
        "{error:?}"
    );
}
