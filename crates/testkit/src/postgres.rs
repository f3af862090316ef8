//! PostgreSQL with TLS and SCRAM passwords.
//!
//! One server per test process ([`Postgres::shared`]), one [`Database`] per test. Tests that take
//! the server away start their own with [`Postgres::start`].

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow};

use crate::account::Account;
use crate::names::{secret, unique};
use crate::pki::Authority;
use crate::process::{Program, Signal};
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{debian, ports};

/// The superuser of the server, who also owns the databases.
pub const USER: &str = "kollect";

/// A PostgreSQL server that this process owns.
pub struct Postgres {
    // Before the directory, so that the server is gone when its data is removed.
    server: Service,
    client: Client,
    ca_pem: String,
    _run: RunDir,
}

/// How to reach the server; what a [`Database`] keeps of it.
#[derive(Debug, Clone)]
struct Client {
    bin: PathBuf,
    port: u16,
    password: String,
    ca_file: PathBuf,
}

/// A database for one test.
#[derive(Debug, Clone)]
pub struct Database {
    /// Its name.
    pub name: String,
    client: Client,
}

/// A server that follows another one and takes no writes.
pub struct Standby {
    _server: Service,
    port: u16,
    _run: RunDir,
}

impl Standby {
    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Whether a connection is encrypted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tls {
    /// Plain TCP.
    Off,
    /// TLS, or no connection.
    Required,
}

impl Postgres {
    /// The server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Postgres, String>> =
            LazyLock::new(|| Postgres::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server of its own with settings, such as `("max_connections", "50")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_at(None, settings)
    }

    /// Starts a server of its own whose data is in a new directory below this one.
    pub fn start_below(directory: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        Self::start_at(Some(directory), settings)
    }

    fn start_at(directory: Option<&Path>, settings: &[(&str, &str)]) -> Result<Self> {
        let bin = debian::ensure("postgresql", server_programs)?;
        let run = RunDir::new("postgres")?;
        let me = Account::current()?;
        // The server refuses to run as root.
        let user = if me.is_root() {
            Account::unprivileged(&["postgres"])?
        } else {
            me.clone()
        };
        let as_user = |program: Program| {
            if me.is_root() {
                program.run_as(&user)
            } else {
                program
            }
        };

        let authority = Authority::new("kollect test postgres")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let password = secret()?;
        let cert = run.write_private("server.crt", &identity.cert_pem)?;
        let key = run.write_private("server.key", &identity.key_pem)?;
        let password_file = run.write_private("password", &password)?;
        let data = directory.unwrap_or(run.path()).join("data");
        std::fs::create_dir(&data)?;
        for path in [&cert, &key, &password_file, &data] {
            user.own(path)?;
        }

        as_user(Program::new("initdb", bin.join("initdb")))
            .flag("pgdata", &data)
            .flag("username", USER)
            .flag("auth", "scram-sha-256")
            .flag("pwfile", &password_file)
            .flag("encoding", "UTF8")
            .flag("locale", "C.UTF-8")
            .arg("--no-sync")
            .run()?;

        let port = ports::free()?;
        let server = as_user(Program::new("postgres", bin.join("postgres")))
            .arg("-D")
            .arg(&data)
            // An immediate shutdown; a killed postmaster would leave shared memory behind.
            .death_signal(Signal::QUIT)
            .flag("listen_addresses", "127.0.0.1")
            .flag("port", port.to_string())
            .flag("unix_socket_directories", "")
            .flag("ssl", "on")
            .flag("ssl_cert_file", &cert)
            .flag("ssl_key_file", &key)
            // The machine does not crash, so nothing has to wait for the disk; the server may, so
            // commits still wait for the log to be written.
            .flag("fsync", "off")
            .flag("full_page_writes", "off");
        let server = settings
            .iter()
            .fold(server, |server, (name, value)| server.flag(name, value));
        let probe = Program::new("pg_isready", bin.join("pg_isready"))
            .flag("host", "127.0.0.1")
            .flag("port", port.to_string());
        let server = Service::start(server, run.path(), move || probe.run().map(|_| ()))?
            .shutdown_signal(Signal::INT);

        let ca_file = run.write_private("ca.crt", authority.pem())?;
        let client = Client {
            bin,
            port,
            password,
            ca_file,
        };
        Ok(Self {
            server,
            client,
            ca_pem: authority.pem(),
            _run: run,
        })
    }

    /// Starts a standby that follows this server and can be read, with all of its users.
    pub fn standby(&self) -> Result<Standby> {
        let run = RunDir::new("postgres-standby")?;
        let me = Account::current()?;
        let user = if me.is_root() {
            Account::unprivileged(&["postgres"])?
        } else {
            me.clone()
        };
        let as_user = |program: Program| {
            if me.is_root() {
                program.run_as(&user)
            } else {
                program
            }
        };
        let data = run.join("data");
        std::fs::create_dir(&data)?;
        // The server insists on it, and the copy does not change the directory it finds.
        std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o700))?;
        let Client {
            bin,
            port,
            password,
            ..
        } = &self.client;
        let passwords = run.write_private(
            "pgpass",
            format!("127.0.0.1:{port}:replication:{USER}:{password}\n"),
        )?;
        for path in [&data, &passwords] {
            user.own(path)?;
        }
        as_user(Program::new("pg_basebackup", bin.join("pg_basebackup")))
            .env("PGPASSFILE", &passwords)
            .flag("pgdata", &data)
            .flag("host", "127.0.0.1")
            .flag("port", port.to_string())
            .flag("username", USER)
            .flag("checkpoint", "fast")
            .flag("wal-method", "stream")
            .arg("--write-recovery-conf")
            .arg("--no-password")
            .arg("--no-sync")
            .run()?;
        let port = ports::free()?;
        let server = as_user(Program::new("postgres", bin.join("postgres")))
            .arg("-D")
            .arg(&data)
            .death_signal(Signal::QUIT)
            .flag("listen_addresses", "127.0.0.1")
            .flag("port", port.to_string())
            .flag("unix_socket_directories", "")
            .flag("hot_standby", "on")
            .flag("fsync", "off");
        let probe = Program::new("pg_isready", bin.join("pg_isready"))
            .flag("host", "127.0.0.1")
            .flag("port", port.to_string());
        let server = Service::start(server, run.path(), move || probe.run().map(|_| ()))?
            .shutdown_signal(Signal::INT);
        Ok(Standby {
            _server: server,
            port,
            _run: run,
        })
    }

    /// Creates a database whose name starts with `prefix`.
    pub fn create_database(&self, prefix: &str) -> Result<Database> {
        let name = unique(prefix);
        self.client
            .psql("postgres", Tls::Off, &format!("CREATE DATABASE \"{name}\""))?;
        Ok(Database {
            name,
            client: self.client.clone(),
        })
    }

    /// A client program of the same version, such as `psql`.
    pub fn program(&self, name: &str) -> PathBuf {
        self.client.bin.join(name)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.client.port
    }

    /// The server process, if it runs.
    pub fn pid(&self) -> Option<u32> {
        self.server.pid()
    }

    /// The password of [`USER`].
    pub fn password(&self) -> &str {
        &self.client.password
    }

    /// The authority that signed the server's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The server process, to take away and bring back. Kill it with [`crash`](Self::crash).
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }

    /// Ends the server without a checkpoint, as a crash would; the next start recovers.
    pub fn crash(&mut self) -> Result<()> {
        self.server.end(Signal::QUIT)
    }
}

impl Database {
    /// `postgres://…` with user and password.
    pub fn url(&self, tls: Tls) -> String {
        let mode = match tls {
            Tls::Off => "disable",
            Tls::Required => "require",
        };
        let Client { port, password, .. } = &self.client;
        format!(
            "postgres://{USER}:{password}@127.0.0.1:{port}/{}?sslmode={mode}",
            self.name
        )
    }

    /// Runs SQL over a connection that verifies the server and returns the unaligned rows, one
    /// per line, columns separated by `|`.
    pub fn psql(&self, sql: &str) -> Result<String> {
        self.client.psql(&self.name, Tls::Required, sql)
    }

    /// Runs SQL and returns the rows as people like to see them.
    pub fn table(&self, sql: &str) -> Result<String> {
        self.client.run(&self.name, Tls::Required, sql, &[])
    }
}

impl Client {
    fn psql(&self, database: &str, tls: Tls, sql: &str) -> Result<String> {
        self.run(database, tls, sql, &["--tuples-only", "--no-align"])
    }

    fn run(&self, database: &str, tls: Tls, sql: &str, form: &[&str]) -> Result<String> {
        let mode = match tls {
            Tls::Off => "disable",
            Tls::Required => "verify-full",
        };
        let output = Command::new(self.bin.join("psql"))
            .args(["--no-psqlrc", "--quiet", "--no-password"])
            .args(form)
            .args(["--set=ON_ERROR_STOP=1", "--command", sql])
            .env("PGHOST", "127.0.0.1")
            .env("PGPORT", self.port.to_string())
            .env("PGUSER", USER)
            .env("PGPASSWORD", &self.password)
            .env("PGDATABASE", database)
            .env("PGSSLMODE", mode)
            .env("PGSSLROOTCERT", &self.ca_file)
            .env("PGCONNECT_TIMEOUT", "10")
            .output()
            .context("cannot run psql")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        anyhow::ensure!(
            output.status.success(),
            "psql failed: {}",
            stderr.trim_end()
        );
        Ok(String::from_utf8_lossy(&output.stdout)
            .trim_end()
            .to_owned())
    }
}

/// The directory with `initdb`, `postgres` and `psql` of one installation.
///
/// They are not on `PATH` on Debian, and a `postgres` found on `PATH` may be a wrapper without
/// the rest, so a directory counts only when it holds all.
fn server_programs() -> Option<PathBuf> {
    let complete = |dir: &Path| {
        ["initdb", "postgres", "psql", "pg_isready"]
            .iter()
            .all(|name| dir.join(name).is_file())
    };
    let mut versions: Vec<(u32, PathBuf)> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort();
    let newest_first = versions.into_iter().rev().map(|(_, dir)| dir);
    let configured = Command::new("pg_config").arg("--bindir").output().ok();
    let configured =
        configured.map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
    newest_first.chain(configured).find(|dir| complete(dir))
}
