//! The servers that all of this program's tests share, and operators that run against them.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kollect_api::crd;
use kollect_operator::rights::{self, Account};
use kollect_testkit::{
    AuditLog, Cluster, ControlPlane, GitServer, Postgres, RunDir, cluster::User,
    control_plane::Options, http, ports, postgres::Database, rbac::Scope,
};
use serde_json::{Value, json};

/// What has to happen soon.
pub(crate) const SOON: Duration = Duration::from_mins(1);

/// One API server with an audit log, one PostgreSQL, one Git server.
pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) git: GitServer,
    pub(crate) database: Database,
    _postgres: Postgres,
    pub(crate) run: RunDir,
}

impl Stage {
    pub(crate) fn start() -> Result<Self> {
        let plane = ControlPlane::start_audited(Options { controllers: false })?;
        let definitions = crd::all_yaml();
        plane
            .cluster()
            .define(definitions.iter().map(|file| &file.yaml))?;
        let postgres = Postgres::start()?;
        Ok(Self {
            plane,
            git: GitServer::start()?,
            database: postgres.create_database("tenants")?,
            _postgres: postgres,
            run: RunDir::new("tenants")?,
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.plane.cluster()
    }

    pub(crate) fn audit(&self) -> Result<&AuditLog> {
        self.plane.audit().context("an audit log")
    }

    pub(crate) fn admin(&self) -> Result<http::Client> {
        let cluster = self.cluster();
        cluster.api(cluster.admin())
    }

    /// Creates objects as the administrator.
    pub(crate) fn create(&self, objects: &[Value]) -> Result<()> {
        let api = self.admin()?;
        for object in objects {
            api.post(&collection(object)?, object)
                .with_context(|| format!("create {} {}", object["kind"], name(object)))?;
        }
        Ok(())
    }

    /// Gives an account the one Role of a tenant's operator in a namespace, and nothing else.
    pub(crate) fn let_serve(
        &self,
        namespace: &str,
        account: Account<'_>,
        collected: &[PolicyRule],
    ) -> Result<()> {
        let role = rights::tenant_role("kollect", namespace, account, collected);
        let binding = rights::role_binding("kollect", namespace, account);
        let mut objects = [serde_json::to_value(role)?, serde_json::to_value(binding)?];
        for object in &mut objects {
            object["apiVersion"] = json!("rbac.authorization.k8s.io/v1");
        }
        self.create(&objects)
    }

    /// Waits until rights that were given a moment ago are honoured.
    pub(crate) fn await_right(&self, namespace: &str, user: &User, resource: &str) -> Result<()> {
        eventually("the right", SOON, || {
            let cluster = self.cluster();
            let scope = Scope::Namespace(namespace);
            let allowed = cluster.allows(scope, user, "list", "kollect.dev", resource)?;
            ensure!(allowed, "{} may not list {resource} yet", user.name);
            Ok(())
        })
    }

    /// Starts the built program as this user.
    pub(crate) fn operator(&self, name: &str, user: &User, flags: &[String]) -> Result<Operator> {
        let kubeconfig = self.cluster().kubeconfig_of(user);
        let kubeconfig = self
            .run
            .write_private(&format!("{name}.kubeconfig"), kubeconfig)?;
        let log = self.run.join(&format!("{name}.log"));
        let (metrics, health) = (ports::free()?, ports::free()?);
        let file = File::create(&log)?;
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .arg("operator")
            .arg("--allow-sink-networks=127.0.0.0/8")
            .arg(format!("--health-probe-bind-address=127.0.0.1:{health}"))
            .arg(format!("--metrics-bind-address=127.0.0.1:{metrics}"))
            .arg("--metrics-secure=false")
            .arg("--collect-metrics-sample-interval=1s")
            .arg(format!(
                "--work-dir={}",
                self.run.join(&format!("{name}-mirrors")).display()
            ))
            .args(flags)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("RUST_LOG", "info")
            .env_remove("POD_NAMESPACE")
            .stdout(Stdio::from(file.try_clone()?))
            .stderr(Stdio::from(file))
            .spawn()?;
        Ok(Operator {
            child,
            log,
            metrics,
            health,
        })
    }

    /// Deletes all objects of a kind, and waits until they are gone.
    pub(crate) fn empty(&self, namespace: &str, plural: &str) -> Result<()> {
        let path = format!("/apis/kollect.dev/v1alpha1/namespaces/{namespace}/{plural}");
        let api = self.admin()?;
        ensure!(api.request("DELETE", &path, None)?.is_success());
        eventually(&format!("end of all {plural} in {namespace}"), SOON, || {
            let left = api.get(&path)?["items"].as_array().map_or(0, Vec::len);
            ensure!(left == 0, "{left} left");
            Ok(())
        })
    }

    /// The status of an object.
    pub(crate) fn status(&self, object: &Value) -> Result<Value> {
        Ok(self.admin()?.get(&path(object)?)?["status"].take())
    }
}

/// A running program. Ends with the value.
pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
    metrics: u16,
    health: u16,
}

impl Operator {
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// The page of metrics.
    pub(crate) fn metrics(&self) -> Result<String> {
        let answer = http::Client::plain(self.metrics).request("GET", "/metrics", None)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    }

    pub(crate) fn is_ready(&self) -> Result<()> {
        let answer = http::Client::plain(self.health).request("GET", "/readyz", None)?;
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        ensure!(answer.is_success(), "{text}");
        Ok(())
    }

    /// Asks it to stop, and waits until it has.
    pub(crate) fn stop(&mut self) -> Result<()> {
        let asked = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status()?;
        ensure!(asked.success(), "kill");
        eventually("the end of the operator", SOON, || {
            let ended = self.child.try_wait()?;
            let ended = ended.context("it runs")?;
            ensure!(ended.success(), "{ended}");
            Ok(())
        })
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until something holds.
pub(crate) fn eventually<T>(
    what: &str,
    within: Duration,
    mut check: impl FnMut() -> Result<T>,
) -> Result<T> {
    let begun = Instant::now();
    loop {
        match check() {
            Ok(value) => return Ok(value),
            Err(error) if begun.elapsed() > within => {
                bail!("no {what} within {within:?}: {error:#}")
            }
            Err(_) => thread::sleep(Duration::from_millis(200)),
        }
    }
}

pub(crate) fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

/// Where objects of this kind and namespace are created.
pub(crate) fn collection(object: &Value) -> Result<String> {
    let version = object["apiVersion"].as_str().unwrap_or("v1");
    let base = if version.contains('/') { "apis" } else { "api" };
    let kind = object["kind"].as_str().context("a kind")?.to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{kind}s"),
    };
    Ok(match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("/{base}/{version}/namespaces/{namespace}/{plural}"),
        None => format!("/{base}/{version}/{plural}"),
    })
}

/// Where an object is.
pub(crate) fn path(object: &Value) -> Result<String> {
    Ok(format!("{}/{}", collection(object)?, name(object)))
}
