//! A cluster, a database, and operators that run with what a chart gave them.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::LazyLock,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use kollect_testkit::{
    AuditLog, Cluster, ControlPlane, Helm, Postgres, RunDir,
    cluster::User,
    control_plane::Options,
    definitions::{CERT_MANAGER, CERT_MANAGER_ISSUERS, Definition, MONITORING},
    postgres::{Database, Tls},
    rbac::Scope,
    wait::eventually,
};
use serde_json::{Value, json};

/// How long anything may take that should take a moment.
pub(crate) const PATIENCE: Duration = Duration::from_mins(2);

/// Where the chart is.
pub(crate) fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../charts/kollect")
}

/// The objects of a text of manifests.
pub(crate) fn objects(text: &str) -> Result<Vec<Value>> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text)?;
    Ok(all.into_iter().filter(Value::is_object).collect())
}

/// An object by `Kind/name` or `Kind/namespace/name`.
pub(crate) fn find<'o>(objects: &'o [Value], name: &str) -> Option<&'o Value> {
    let parts: Vec<&str> = name.split('/').collect();
    let (kind, namespace, name) = match parts[..] {
        [kind, name] => (kind, None, name),
        [kind, namespace, name] => (kind, Some(namespace), name),
        _ => return None,
    };
    objects.iter().find(|one| {
        let metadata = &one["metadata"];
        one["kind"] == kind
            && metadata["name"] == name
            && namespace.is_none_or(|namespace| metadata["namespace"] == namespace)
    })
}

/// What all tests of this program share.
pub(crate) struct Stage {
    pub(crate) plane: ControlPlane,
    pub(crate) postgres: Postgres,
    pub(crate) helm: Helm,
    pub(crate) directory: RunDir,
}

impl Stage {
    /// The one of this program.
    pub(crate) fn shared() -> Result<&'static Self> {
        static SHARED: LazyLock<Result<Stage, String>> =
            LazyLock::new(|| Stage::new().map_err(|error| format!("{error:#}")));
        SHARED.as_ref().map_err(|text| anyhow!("{text}"))
    }

    fn new() -> Result<Self> {
        let plane = ControlPlane::start_audited(Options { controllers: true })?;
        let cluster = plane.cluster();
        let foreign = MONITORING
            .iter()
            .chain([&CERT_MANAGER, &CERT_MANAGER_ISSUERS]);
        let foreign: Result<Vec<String>> = foreign.map(Definition::yaml).collect();
        cluster.define(foreign?)?;
        // As an administrator of the cluster would who lets teams install operators of their own.
        let definitions = chart().join("../../deploy/install-crds.yaml");
        cluster.kubectl(&["apply", "-f", &definitions.to_string_lossy()])?;
        let established = [
            "wait",
            "--for=condition=Established",
            "--timeout=60s",
            "crd",
            "--all",
        ];
        cluster.kubectl(&established)?;
        for namespace in ["kollect-system", "team-a", "team-b", "team-c"] {
            cluster.kubectl(&["create", "namespace", namespace])?;
        }
        Ok(Self {
            plane,
            postgres: Postgres::start()?,
            helm: Helm::new()?,
            directory: RunDir::new("chart")?,
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.plane.cluster()
    }

    /// Who asked for what.
    pub(crate) fn audit(&self) -> Result<&AuditLog> {
        self.plane
            .audit()
            .context("this control plane has no audit log")
    }

    /// Waits until the API server honours a right: verb, group and resource.
    pub(crate) fn await_right(
        &self,
        user: &User,
        namespace: Option<&str>,
        (verb, group, resource): (&str, &str, &str),
    ) -> Result<()> {
        let scope = namespace.map_or(Scope::Cluster, Scope::Namespace);
        eventually("the granted right", || {
            let allowed = self.cluster().allows(scope, user, verb, group, resource)?;
            ensure!(allowed, "{} may not {verb} {resource} yet", user.name);
            Ok(())
        })
    }

    /// What the chart renders with these values, as objects of a namespace and a release.
    pub(crate) fn render(
        &self,
        namespace: &str,
        release: &str,
        values: &Value,
    ) -> Result<Vec<Value>> {
        let file = format!("{namespace}-{release}.json");
        let values = self.directory.write_private(&file, values.to_string())?;
        let args = ["--values".into(), values];
        objects(&self.helm.template(&chart(), (namespace, release), &args)?)
    }

    /// Applies what of a chart grants rights or is written to, and returns the account of the operator.
    pub(crate) fn grant(&self, namespace: &str, objects: &[Value]) -> Result<User> {
        let granting = objects.iter().filter(|one| {
            let kind = one["kind"].as_str().unwrap_or_default();
            let others = ["ServiceAccount", "ValidatingWebhookConfiguration"];
            kind.contains("Role") || others.contains(&kind)
        });
        let granting: Vec<&Value> = granting.collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": granting});
        self.cluster().apply(&list.to_string())?;
        let deployment = objects.iter().find(|one| one["kind"] == "Deployment");
        let deployment = deployment.context("no Deployment")?;
        let name = deployment["spec"]["template"]["spec"]["serviceAccountName"].as_str();
        self.user(namespace, name.context("no account")?)
    }

    /// An account with a token.
    pub(crate) fn user(&self, namespace: &str, name: &str) -> Result<User> {
        let token = self.cluster().request_token(namespace, name, &[])?;
        Ok(User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            token,
        })
    }

    /// Starts the operator as the pod of the Deployment would: with its arguments and as its account.
    pub(crate) fn operator(
        &self,
        namespace: &str,
        user: &User,
        args: &[String],
    ) -> Result<Operator> {
        self.operator_in(self.cluster(), namespace, user, args)
    }

    /// The same in another cluster.
    pub(crate) fn operator_in(
        &self,
        cluster: &Cluster,
        namespace: &str,
        user: &User,
        args: &[String],
    ) -> Result<Operator> {
        let name = user.name.replace(':', "-");
        let kubeconfig = self
            .directory
            .write_private(&format!("{name}.kubeconfig"), cluster.kubeconfig_of(user))?;
        let log = self.directory.join(&format!("{name}.log"));
        let file = File::create(&log)?;
        let child = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(args)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .env("POD_NAMESPACE", namespace)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .spawn()?;
        Ok(Operator { child, log })
    }

    /// Applies objects.
    pub(crate) fn apply(&self, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.cluster().apply(&list.to_string()).map(|_| ())
    }
}

/// A team's inventory of ConfigMaps and Services in a table.
pub(crate) fn team(namespace: &str, database: &Database) -> Vec<Value> {
    let ours = |kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace}, "spec": spec,
        })
    };
    let profile = |kind: &str| {
        json!({
            "targetGVK": {"version": "v1", "kind": kind},
            "attributes": [{"name": "made", "path": "$.metadata.name"}],
        })
    };
    let target = |profile: &str| json!({"profileRef": profile, "includedNamespaces": [namespace], "names": ["seen"]});
    vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"dsn": database.url(Tls::Off)},
            "metadata": {"name": "dsn", "namespace": namespace},
        }),
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": "1"},
            "metadata": {"name": "seen", "namespace": namespace},
        }),
        json!({
            "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]},
            "metadata": {"name": "seen", "namespace": namespace},
        }),
        ours("KollectProfile", "maps", profile("ConfigMap")),
        ours("KollectProfile", "services", profile("Service")),
        ours("KollectTarget", "maps", target("maps")),
        ours("KollectTarget", "services", target("services")),
        ours(
            "KollectDatabaseSink",
            "pg",
            json!({
                "type": "postgres", "cluster": "east",
                "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
            }),
        ),
        ours(
            "KollectInventory",
            "inv",
            json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "0s"}),
        ),
    ]
}

/// A running operator.
pub(crate) struct Operator {
    child: Child,
    log: PathBuf,
}

impl Operator {
    /// Waits until something holds while it runs.
    pub(crate) fn eventually<T>(
        &mut self,
        what: &str,
        mut check: impl FnMut() -> Result<T>,
    ) -> Result<T> {
        let begun = Instant::now();
        loop {
            let ended = self.child.try_wait()?;
            match check() {
                Ok(value) => return Ok(value),
                Err(error) if begun.elapsed() > PATIENCE || ended.is_some() => {
                    let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                    let lines: Vec<&str> = log.lines().rev().take(30).collect();
                    bail!("{what}: {error:#} ({ended:?})\n{}", lines.join("\n"));
                }
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Waits for so many rows of an inventory.
    pub(crate) fn expect_rows(&mut self, database: &Database, rows: usize) -> Result<()> {
        self.eventually(&format!("{rows} rows"), || {
            let found = database.psql("SELECT count(*) FROM items")?;
            ensure!(found == rows.to_string(), "{found} rows");
            Ok(())
        })
    }

    /// Asks it to end in order, so that everything it wrote down last is written.
    pub(crate) fn terminate(mut self) -> Result<()> {
        let pid = self.child.id().to_string();
        ensure!(
            Command::new("kill")
                .args(["-TERM", &pid])
                .status()?
                .success()
        );
        let status = self.child.wait()?;
        ensure!(status.success(), "the operator ended with {status}");
        Ok(())
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
