//! Apache Kafka: one node that is broker and controller at once.
//!
//! One server per test process ([`Kafka::shared`]), one topic per test. Clients of Kafka go where a
//! broker says that it is, so a bad network has to be in what the broker says: a [`Wire`] is a
//! listener of its own that advertises the port of a [`Proxy`].
//!
//! | Listener | Who gets in |
//! | --- | --- |
//! | [`plain`](Kafka::plain) | anybody, and may do everything |
//! | [`sasl`](Kafka::sasl) | TLS; [`USER`] by SCRAM-SHA-256, SCRAM-SHA-512 and PLAIN; anybody by OAUTHBEARER with a [`token`] |
//! | [`mutual`](Kafka::mutual) | TLS; certificates of [`client`](Kafka::client) |
//! | [`wire`](Kafka::wire) | no TLS; [`USER`] by SCRAM-SHA-512 and PLAIN |
//!
//! Topics are not created by being named, and a topic without access rules is open to every user.

use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};

use crate::names::secret;
use crate::pki::{Authority, Identity};
use crate::process::{Program, Signal};
use crate::proxy::Proxy;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{maven, ports};

/// The user of all listeners with SASL.
pub const USER: &str = "kollect";

/// How many wires a server has. Each costs two threads, whether it is used or not.
const WIRES: usize = 48;

/// Flags that make a short-lived JVM start fast and stay small.
const JVM: [&str; 6] = [
    "-Xms64m",
    "-Xmx256m",
    "-Xss512k",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
];

/// A Kafka server that this process owns.
pub struct Kafka {
    // Before the directory, so that the server is gone when its data is removed.
    server: Service,
    java: PathBuf,
    jars: PathBuf,
    password: String,
    authority: Authority,
    ports: Ports,
    wires: Mutex<Vec<Ends>>,
    _run: RunDir,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    plain: u16,
    sasl: u16,
    mutual: u16,
    controller: u16,
}

/// The two ends of a wire: where the broker listens, and where it says that it does.
#[derive(Debug, Clone, Copy)]
struct Ends {
    broker: u16,
    advertised: u16,
}

/// A listener of the server that is reached through a [`Proxy`] and nowhere else.
pub struct Wire {
    /// What fails on demand.
    pub proxy: Proxy,
}

impl Wire {
    /// `host:port` for clients.
    pub fn broker(&self) -> String {
        self.proxy.address().to_string()
    }
}

impl Kafka {
    /// The server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Kafka, String>> =
            LazyLock::new(|| Kafka::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a server of its own.
    pub fn start() -> Result<Self> {
        Self::start_with(&[])
    }

    /// Starts a server of its own with settings, such as `("message.max.bytes", "65536")`.
    pub fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let jars = maven::jars("kafka")?;
        let java = maven::java()?;
        let run = RunDir::new("kafka")?;
        let password = secret()?;
        let authority = Authority::new("kollect test kafka")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        // One file with key and certificate is what the server reads as a PEM key store.
        let pem = [identity.key_pem.as_str(), &identity.cert_pem].concat();
        let keystore = run.write_private("server.pem", pem)?;
        let truststore = run.write_private("ca.pem", authority.pem())?;
        let ports = Ports {
            plain: ports::free()?,
            sasl: ports::free()?,
            mutual: ports::free()?,
            controller: ports::free()?,
        };
        let wires = (0..WIRES)
            .map(|_| {
                Ok(Ends {
                    broker: ports::free()?,
                    advertised: ports::free()?,
                })
            })
            .collect::<Result<Vec<_>>>()?;
        let mut text = properties(&run.join("data"), ports, &wires, &password);
        for (name, value) in [
            ("ssl.keystore.location", keystore.display().to_string()),
            ("ssl.truststore.location", truststore.display().to_string()),
        ] {
            writeln!(text, "{name}={value}")?;
        }
        for (name, value) in settings {
            writeln!(text, "{name}={value}")?;
        }
        let file = run.write_private("server.properties", text)?;

        let format = jvm(&java, &jars, "kafka-format")
            .arg("kafka.tools.StorageTool")
            .args_of(&["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"])
            .arg(&file);
        let format = ["SCRAM-SHA-256", "SCRAM-SHA-512"]
            .iter()
            .fold(format, |format, mechanism| {
                format
                    .arg("--add-scram")
                    .arg(format!("{mechanism}=[name={USER},password={password}]"))
            });
        format.run()?;
        let server = jvm(&java, &jars, "kafka").arg("kafka.Kafka").arg(&file);
        // Listeners begin one after the other; the first one says when the broker knows itself.
        let mut others = vec![ports.sasl, ports.mutual];
        others.extend(wires.iter().map(|ends| ends.broker));
        let ready = move || {
            answers(ports.plain)?;
            for port in &others {
                TcpStream::connect((Ipv4Addr::LOCALHOST, *port))?;
            }
            Ok(())
        };
        let server = Service::start(server, run.path(), ready)?;
        Ok(Self {
            server: server.shutdown_signal(Signal::TERM),
            java,
            jars,
            password,
            authority,
            ports,
            wires: Mutex::new(wires),
            _run: run,
        })
    }

    /// Where everybody may do everything.
    pub fn plain(&self) -> String {
        local(self.ports.plain)
    }

    /// TLS, with a user and a password.
    pub fn sasl(&self) -> String {
        local(self.ports.sasl)
    }

    /// TLS, with a certificate of the client.
    pub fn mutual(&self) -> String {
        local(self.ports.mutual)
    }

    /// A wire that nobody else has.
    pub fn wire(&self) -> Result<Wire> {
        let mut wires = self.wires.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = wires.pop().context("all wires of the server are in use")?;
        let proxy = Proxy::on(ends.advertised, (Ipv4Addr::LOCALHOST, ends.broker))?;
        Ok(Wire { proxy })
    }

    /// The password of [`USER`].
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The authority that signed the server's certificate, and whose clients it believes.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// A certificate that the server takes for `User:CN=<name>`.
    pub fn client(&self, name: &str) -> Result<Identity> {
        self.authority.client(name, None)
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }

    /// Runs a class of the jars, such as `org.apache.kafka.tools.…`, and returns what it printed.
    pub fn run(&self, class: &str, arguments: &[&str]) -> Result<String> {
        let output = Command::new(&self.java)
            .args(JVM)
            .arg("-cp")
            .arg(self.jars.join("*"))
            .arg(class)
            .args(arguments)
            .output()
            .context("cannot run java")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{class} failed: {stderr}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// A token for OAUTHBEARER that names a user, good for an hour. Nobody signs it: the server of the
/// tests believes anybody.
pub fn token(user: &str) -> String {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    let now = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |time| time.as_secs());
    let claims = format!(r#"{{"sub":"{user}","iat":{now},"exp":{}}}"#, now + 3600);
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    format!("{}.{}.", part(r#"{"alg":"none"}"#), part(&claims))
}

fn local(port: u16) -> String {
    format!("127.0.0.1:{port}")
}

fn jvm(java: &Path, jars: &Path, name: &str) -> Program {
    Program::new(name, java)
        .args_of(&JVM)
        .arg("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        .arg("-cp")
        .arg(jars.join("*"))
}

/// A listener of the server: its name, what it asks for, and its ports.
struct Listener {
    name: String,
    protocol: &'static str,
    ends: Ends,
}

fn listeners(ports: Ports, wires: &[Ends]) -> Vec<Listener> {
    let open = |name: &str, protocol, port| Listener {
        name: name.to_owned(),
        protocol,
        ends: Ends {
            broker: port,
            advertised: port,
        },
    };
    let wires = wires.iter().enumerate().map(|(number, ends)| Listener {
        name: format!("WIRE{number}"),
        protocol: "SASL_PLAINTEXT",
        ends: *ends,
    });
    [
        open("PLAIN", "PLAINTEXT", ports.plain),
        open("SASL", "SASL_SSL", ports.sasl),
        open("MUTUAL", "SSL", ports.mutual),
    ]
    .into_iter()
    .chain(wires)
    .collect()
}

fn properties(data: &Path, ports: Ports, wires: &[Ends], password: &str) -> String {
    let listeners = listeners(ports, wires);
    let join =
        |of: &dyn Fn(&Listener) -> String| listeners.iter().map(of).collect::<Vec<_>>().join(",");
    let address = |name: &str, port: u16| format!("{name}://127.0.0.1:{port}");
    let controller = address("CONTROLLER", ports.controller);
    let mut text = format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{}\n\
         listeners={},{controller}\n\
         advertised.listeners={}\n\
         listener.security.protocol.map={},CONTROLLER:PLAINTEXT\n\
         controller.listener.names=CONTROLLER\n\
         inter.broker.listener.name=PLAIN\n\
         log.dirs={}\n\
         ssl.keystore.type=PEM\n\
         ssl.truststore.type=PEM\n\
         listener.name.mutual.ssl.client.auth=required\n\
         authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
         allow.everyone.if.no.acl.found=true\n\
         super.users=User:ANONYMOUS\n",
        ports.controller,
        join(&|listener| address(&listener.name, listener.ends.broker)),
        join(&|listener| address(&listener.name, listener.ends.advertised)),
        join(&|Listener { name, protocol, .. }| format!("{name}:{protocol}")),
        data.display(),
    );
    for Listener { name, protocol, .. } in &listeners {
        if !protocol.starts_with("SASL") {
            continue;
        }
        let name = name.to_lowercase();
        let module = "org.apache.kafka.common.security";
        let scram = format!("{module}.scram.ScramLoginModule required;");
        let plain = format!("{module}.plain.PlainLoginModule required user_{USER}=\"{password}\";");
        let oauth = format!(
            "{module}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=\"{USER}\";"
        );
        let mut mechanisms = vec![("scram-sha-512", &scram), ("plain", &plain)];
        if name == "sasl" {
            mechanisms.extend([("scram-sha-256", &scram), ("oauthbearer", &oauth)]);
        }
        let names: Vec<_> = mechanisms
            .iter()
            .map(|(name, _)| name.to_uppercase())
            .collect();
        let _ = writeln!(
            text,
            "listener.name.{name}.sasl.enabled.mechanisms={}",
            names.join(",")
        );
        for (mechanism, module) in mechanisms {
            let _ = writeln!(
                text,
                "listener.name.{name}.{mechanism}.sasl.jaas.config={module}"
            );
        }
    }
    text.push_str(SETTINGS);
    text
}

/// Small and quick, as suits one node that is thrown away.
const SETTINGS: &str = "\
auto.create.topics.enable=false
num.partitions=3
default.replication.factor=1
offsets.topic.num.partitions=1
offsets.topic.replication.factor=1
transaction.state.log.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
group.initial.rebalance.delay.ms=0
num.network.threads=1
num.io.threads=4
num.recovery.threads.per.data.dir=1
background.threads=2
log.cleaner.dedupe.buffer.size=10485760
log.cleaner.backoff.ms=200
log.segment.delete.delay.ms=1000
log.retention.check.interval.ms=1000
";

/// Whether the broker answers and knows itself: a metadata request (version 1) without topics.
fn answers(port: u16) -> Result<()> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = [0, 0, 0, 14, 0, 3, 0, 1, 0, 0, 0, 7, 0xff, 0xff, 0, 0, 0, 0];
    stream.write_all(&request)?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    ensure!(answer[8..] != [0; 4], "the broker is not registered yet");
    Ok(())
}
