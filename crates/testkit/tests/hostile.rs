//! Hostile servers speak their protocols well enough that real clients get into trouble.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use kollect_testkit::hostile::{GitManner, Hostile, PostgresManner};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Postgres, RunDir};

#[test]
fn the_silent_one_says_nothing_and_ends_on_drop() -> Result<()> {
    let server = Hostile::silent()?;
    let mut stream = TcpStream::connect(server.address())?;
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n")?;
    stream.set_read_timeout(Some(Duration::from_millis(300)))?;
    let silence = stream.read(&mut [0; 16]).unwrap_err().kind();
    assert!(matches!(
        silence,
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    assert_eq!((server.accepted(), server.sent()), (1, 0));
    drop(server);
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    assert_eq!(stream.read(&mut [0; 16]).unwrap_or(0), 0);
    Ok(())
}

/// Lists the refs of a server with git, at most for a while.
fn git(server: &Hostile) -> Result<Output> {
    let run = RunDir::new("hostile-git")?;
    let ca = run.write_private("ca.crt", server.ca_pem().context("it has one")?)?;
    // It ends the programs that git starts too.
    Ok(Command::new("timeout")
        .args(["4", "git", "ls-remote"])
        .arg(format!("https://127.0.0.1:{}/any.git", server.port()))
        .current_dir(run.path())
        .env("GIT_SSL_CAINFO", ca)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .stdin(Stdio::null())
        .output()?)
}

#[test]
fn git_believes_the_repository_and_never_comes_to_an_end() -> Result<()> {
    let report = Hostile::git(GitManner::EndlessReport)?;
    let empty = git(&report)?;
    let told = String::from_utf8_lossy(&empty.stderr);
    assert!(
        empty.status.success(),
        "an empty repository is good: {told}"
    );
    for (manner, bytes) in [
        (GitManner::EndlessRefs, 10_000_000..u64::MAX),
        // The greeting of TLS, the head of the answer, and a record of some twenty bytes for each.
        (GitManner::Drip, 300..10_000),
    ] {
        let server = Hostile::git(manner)?;
        let listed = git(&server)?;
        // Stopped by us or, on a quick machine, when the server had sent all that it may.
        let ended = listed.status.code();
        assert!(matches!(ended, Some(124 | 128)), "{manner:?}: {ended:?}");
        assert!(
            bytes.contains(&server.sent()),
            "{manner:?}: {}",
            server.sent()
        );
        eventually("the end of the connection", || {
            anyhow::ensure!(server.connections() == 0, "it is open");
            Ok(())
        })?;
    }
    Ok(())
}

/// Runs psql against a server, at most for a while.
fn psql(server: &Hostile) -> Result<Output> {
    let program = Postgres::shared()?.program("psql");
    let dsn = format!(
        "host=127.0.0.1 port={} user=u dbname=d sslmode=disable",
        server.port()
    );
    Ok(Command::new("timeout")
        .arg("3")
        .arg(program)
        .args(["--no-psqlrc", "--command", "SELECT 1", &dsn])
        .output()?)
}

#[test]
fn psql_is_let_in_and_regrets_it() -> Result<()> {
    let server = Hostile::postgres(PostgresManner::LargeErrors)?;
    let told = psql(&server)?;
    assert!(told.stderr.len() > 19_000_000, "{}", told.stderr.len());
    for manner in [
        PostgresManner::SilentAtLogin,
        PostgresManner::SilentAtQueries,
        PostgresManner::NoticesAtLogin,
        PostgresManner::EndlessNotices,
        PostgresManner::EndlessSettings,
    ] {
        let server = Hostile::postgres(manner)?;
        let outcome = psql(&server)?;
        assert_eq!(outcome.status.code(), Some(124), "{manner:?} ended");
        let talks = !matches!(
            manner,
            PostgresManner::SilentAtLogin | PostgresManner::SilentAtQueries
        );
        assert_eq!(server.sent() > 1_000_000, talks, "{manner:?}");
    }
    Ok(())
}
