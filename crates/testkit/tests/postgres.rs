//! PostgreSQL: TLS, passwords, databases, crashes.

use std::process::Command;

use anyhow::Result;
use kollect_testkit::Postgres;
use kollect_testkit::postgres::{Database, Tls};

#[test]
fn verified_tls_and_separate_databases() -> Result<()> {
    let postgres = Postgres::shared()?;
    let (one, two) = (
        postgres.create_database("one")?,
        postgres.create_database("two")?,
    );
    one.psql("CREATE TABLE t (n int); INSERT INTO t VALUES (1), (2)")?;
    assert_eq!(
        one.psql("SELECT n, n * 10 FROM t ORDER BY n")?,
        "1|10\n2|20"
    );
    let version = "SELECT version FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(one.psql(version)?, "TLSv1.3");
    assert!(
        two.psql("SELECT n FROM t").is_err(),
        "a database of its own"
    );
    Ok(())
}

#[test]
fn urls_connect_and_a_wrong_password_is_refused() -> Result<()> {
    let postgres = Postgres::shared()?;
    let database = postgres.create_database("urls")?;
    let in_use = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    assert_eq!(
        select(postgres, &database.url(Tls::Off), in_use).unwrap(),
        "f"
    );
    assert_eq!(
        select(postgres, &database.url(Tls::Required), in_use).unwrap(),
        "t"
    );

    let wrong = database.url(Tls::Off).replace(postgres.password(), "wrong");
    let refused = select(postgres, &wrong, in_use).unwrap_err();
    assert!(
        refused.contains("password authentication failed"),
        "{refused}"
    );

    // Another authority signed this one.
    let other = Postgres::start()?;
    let stranger = kollect_testkit::RunDir::new("trust")?;
    let ca = stranger.write_private("ca.crt", postgres.ca_pem())?;
    let url = other
        .create_database("x")?
        .url(Tls::Required)
        .replace("require", "verify-full");
    let refused = select(
        postgres,
        &format!("{url}&sslrootcert={}", ca.display()),
        in_use,
    )
    .unwrap_err();
    assert!(refused.contains("certificate verify failed"), "{refused}");
    Ok(())
}

#[test]
fn committed_rows_survive_a_crash() -> Result<()> {
    let mut postgres = Postgres::start()?;
    let database = postgres.create_database("crash")?;
    database.psql("CREATE TABLE t (n int); INSERT INTO t VALUES (7)")?;
    let count = |database: &Database| database.psql("SELECT n FROM t");

    postgres.crash()?;
    assert!(count(&database).is_err(), "nobody listens");
    postgres.server().resume()?;
    assert_eq!(count(&database)?, "7");

    postgres.server().stop()?;
    assert!(!postgres.server().is_running());
    postgres.server().resume()?;
    assert_eq!(count(&database)?, "7");
    Ok(())
}

fn select(server: &Postgres, url: &str, sql: &str) -> Result<String, String> {
    let output = Command::new(server.program("psql"))
        .args(["-XtA", "-c", sql, url])
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}
