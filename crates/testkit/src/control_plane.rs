//! etcd, kube-apiserver and kube-controller-manager, started together.
//!
//! RBAC is on, users are authenticated by static tokens, certificates come from an authority of
//! this control plane alone. There is no scheduler and no kubelet: Pods stay pending.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::audit::AuditLog;
use crate::cluster::{Cluster, User};
use crate::http;
use crate::pki::{Authority, Identity, SigningKey};
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{go, names, ports};

/// A control plane that this process owns. Dropping it ends the servers and removes their data.
pub struct ControlPlane {
    // Dropped in this order: clients before the servers they talk to, the directory last.
    controller_manager: Option<Service>,
    apiserver: Service,
    etcd: Service,
    etcd_client: http::Client,
    cluster: Cluster,
    audit: Option<AuditLog>,
    run: RunDir,
}

/// What to start.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Whether to run the controller manager. Without it namespaces are never removed, owner
    /// references mean nothing and new namespaces have no service account, but there is one
    /// process less between a test and what it provokes.
    pub controllers: bool,
}

impl ControlPlane {
    /// Starts a control plane with controllers.
    pub fn start() -> Result<Self> {
        Self::start_with(Options { controllers: true })
    }

    /// Starts a control plane.
    pub fn start_with(options: Options) -> Result<Self> {
        Self::start_as(options, false)
    }

    /// Starts a control plane that writes down who asked for what.
    pub fn start_audited(options: Options) -> Result<Self> {
        Self::start_as(options, true)
    }

    fn start_as(options: Options, audited: bool) -> Result<Self> {
        let programs = go::KUBERNETES.binaries()?;
        let run = RunDir::new("control-plane")?;
        let files = Files::write(&run)?;

        let etcd_port = ports::free()?;
        let etcd_client = http::Client::plain(etcd_port);
        let health = etcd_client.clone();
        let etcd = Service::start(
            etcd_program(&programs, &run, etcd_port)?,
            run.path(),
            move || answers(&health, "/health"),
        )?;

        let cluster = files.cluster(&run, &programs, options)?;
        let ready = cluster.api(cluster.admin())?;
        let mut program = apiserver_program(&programs, &files, etcd_port, cluster.port);
        let mut audit = None;
        if audited {
            let (log, policy) = AuditLog::prepare(&run)?;
            program = program
                .flag("audit-policy-file", policy)
                .flag("audit-log-path", log.path())
                // In one file to the end.
                .flag("audit-log-maxsize", "4096");
            audit = Some(log);
        }
        let apiserver = Service::start(program, run.path(), move || answers(&ready, "/readyz"))?;

        let controller_manager = if options.controllers {
            let port = ports::free()?;
            let healthy = http::Client::tls(port, cluster.ca_pem())?;
            let program = controller_manager_program(&programs, &files, &cluster, port);
            Some(Service::start(program, run.path(), move || {
                answers(&healthy, "/healthz")
            })?)
        } else {
            None
        };
        Ok(Self {
            controller_manager,
            apiserver,
            etcd,
            etcd_client,
            cluster,
            audit,
            run,
        })
    }

    /// Who asked for what, if it was [started](Self::start_audited) that way.
    pub fn audit(&self) -> Option<&AuditLog> {
        self.audit.as_ref()
    }

    /// How to talk to it.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// The API server, to take away and bring back.
    pub fn apiserver(&mut self) -> &mut Service {
        &mut self.apiserver
    }

    /// The store behind the API server, to take away and bring back.
    pub fn etcd(&mut self) -> &mut Service {
        &mut self.etcd
    }

    /// The controller manager, if it was started.
    pub fn controller_manager(&mut self) -> Option<&mut Service> {
        self.controller_manager.as_mut()
    }

    /// Where configuration and logs are.
    pub fn directory(&self) -> &Path {
        self.run.path()
    }

    /// Writes the file that [`Cluster::shared`] of other processes reads, and returns its path.
    pub fn publish(&self) -> Result<PathBuf> {
        self.run
            .write_private("cluster.json", serde_json::to_vec(&self.cluster)?)
    }

    /// Forgets all history, so that a watch from any earlier version is answered with 410 Gone.
    ///
    /// etcd is compacted, and the API server is restarted because its own cache would still know
    /// the events.
    pub fn forget_history(&mut self) -> Result<()> {
        let newest = self
            .etcd_client
            .post("/v3/kv/range", &json!({ "key": "AA==" }))?;
        let revision = newest["header"]["revision"]
            .as_str()
            .context("etcd tells no revision")?;
        let compaction = json!({ "revision": revision, "physical": true });
        self.etcd_client.post("/v3/kv/compaction", &compaction)?;
        self.apiserver.kill()?;
        self.apiserver.resume()
    }
}

/// The files that the servers read.
struct Files {
    ca: PathBuf,
    server: (PathBuf, PathBuf),
    tokens: PathBuf,
    signing_key: PathBuf,
    signing_pub: PathBuf,
    ca_pem: String,
    admin: User,
    restricted: User,
}

impl Files {
    fn write(run: &RunDir) -> Result<Self> {
        let authority = Authority::new("kollect test control plane")?;
        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes.default.svc",
            "10.0.0.1",
        ];
        let server = authority.server(&names)?;
        let signing = SigningKey::generate()?;
        let admin = User {
            name: "admin".to_owned(),
            token: names::secret()?,
        };
        let restricted = User {
            name: "restricted".to_owned(),
            token: names::secret()?,
        };
        let tokens = format!(
            "{},{},1,\"system:masters\"\n{},{},2\n",
            admin.token, admin.name, restricted.token, restricted.name
        );
        Ok(Self {
            ca: run.write_private("ca.crt", authority.pem())?,
            server: write_identity(run, "server", &server)?,
            tokens: run.write_private("tokens.csv", tokens)?,
            signing_key: run.write_private("service-accounts.key", signing.private_pem)?,
            signing_pub: run.write_private("service-accounts.pub", signing.public_pem)?,
            ca_pem: authority.pem(),
            admin,
            restricted,
        })
    }

    fn cluster(&self, run: &RunDir, programs: &Path, options: Options) -> Result<Cluster> {
        let mut cluster = Cluster {
            port: ports::free()?,
            ca_pem: self.ca_pem.clone(),
            admin: self.admin.clone(),
            restricted: self.restricted.clone(),
            kubeconfig: PathBuf::new(),
            kubectl: programs.join("kubectl"),
            controllers: options.controllers,
        };
        cluster.kubeconfig = run.write_private(
            "kubeconfig",
            kubeconfig(&cluster, &[&cluster.admin, &cluster.restricted]),
        )?;
        Ok(cluster)
    }
}

/// A kubeconfig whose current context is the first of these users. JSON, which is YAML too.
pub(crate) fn kubeconfig(cluster: &Cluster, users: &[&User]) -> String {
    let each = |form: &dyn Fn(&User) -> Value| -> Vec<Value> {
        users.iter().map(|user| form(user)).collect()
    };
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "kollect",
            "cluster": {
                "server": cluster.url(),
                "certificate-authority-data": STANDARD.encode(&cluster.ca_pem),
            },
        }],
        "users": each(&|user| json!({ "name": user.name, "user": { "token": user.token } })),
        "contexts": each(&|user| json!({
            "name": user.name,
            "context": { "cluster": "kollect", "user": user.name },
        })),
        "current-context": users.first().map(|user| &user.name),
    });
    format!("{config:#}\n")
}

fn etcd_program(programs: &Path, run: &RunDir, port: u16) -> Result<Program> {
    let client = format!("http://127.0.0.1:{port}");
    let peer = format!("http://127.0.0.1:{}", ports::free()?);
    Ok(Program::new("etcd", programs.join("etcd"))
        .flag("data-dir", run.join("etcd"))
        // The data is thrown away; waiting for the disk would only slow the tests.
        .arg("--unsafe-no-fsync")
        .flag("log-level", "warn")
        .flag("listen-client-urls", &client)
        .flag("advertise-client-urls", &client)
        .flag("listen-peer-urls", &peer)
        .flag("initial-advertise-peer-urls", &peer)
        .flag("initial-cluster", format!("default={peer}")))
}

fn apiserver_program(programs: &Path, files: &Files, etcd_port: u16, port: u16) -> Program {
    Program::new("kube-apiserver", programs.join("kube-apiserver"))
        .flag("etcd-servers", format!("http://127.0.0.1:{etcd_port}"))
        .flag("bind-address", "127.0.0.1")
        .flag("advertise-address", "127.0.0.1")
        .flag("secure-port", port.to_string())
        .flag("tls-cert-file", &files.server.0)
        .flag("tls-private-key-file", &files.server.1)
        .flag("client-ca-file", &files.ca)
        .flag("token-auth-file", &files.tokens)
        .flag("service-account-key-file", &files.signing_pub)
        .flag("service-account-signing-key-file", &files.signing_key)
        .flag(
            "service-account-issuer",
            "https://kubernetes.default.svc.cluster.local",
        )
        .flag("service-cluster-ip-range", "10.0.0.0/24")
        .flag("authorization-mode", "RBAC")
        .flag("allow-privileged", "true")
        // Loopback is no valid endpoint address for the `kubernetes` Service.
        .flag("endpoint-reconciler-type", "none")
}

fn controller_manager_program(
    programs: &Path,
    files: &Files,
    cluster: &Cluster,
    port: u16,
) -> Program {
    Program::new(
        "kube-controller-manager",
        programs.join("kube-controller-manager"),
    )
    .flag("kubeconfig", &cluster.kubeconfig)
    .flag("bind-address", "127.0.0.1")
    .flag("secure-port", port.to_string())
    .flag("tls-cert-file", &files.server.0)
    .flag("tls-private-key-file", &files.server.1)
    .flag("leader-elect", "false")
    .flag("service-account-private-key-file", &files.signing_key)
    .flag("root-ca-file", &files.ca)
    .flag("kube-api-qps", "500")
    .flag("kube-api-burst", "1000")
}

fn write_identity(run: &RunDir, name: &str, identity: &Identity) -> Result<(PathBuf, PathBuf)> {
    Ok((
        run.write_private(&format!("{name}.crt"), &identity.cert_pem)?,
        run.write_private(&format!("{name}.key"), &identity.key_pem)?,
    ))
}

fn answers(client: &http::Client, path: &str) -> Result<()> {
    let response = client.request("GET", path, None)?;
    let text = String::from_utf8_lossy(&response.body);
    ensure!(
        response.is_success(),
        "{path} says {}: {}",
        response.status,
        text.trim_end()
    );
    Ok(())
}
