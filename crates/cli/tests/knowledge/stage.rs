//! A team with rows in a database, and the operator that put them there.

use std::{
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    Cluster, ControlPlane, Postgres, RunDir, Trouble,
    cluster::User,
    control_plane::Options,
    postgres::{Database, Tls},
    rbac::{CLUSTER_FACTS, OPERATOR, read},
    trouble::on,
};
use serde_json::{Value, json};

/// Records every row that is deleted.
const TRIGGER: &str = "\
    CREATE TABLE IF NOT EXISTS deleted (at text, name text);
    CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO deleted VALUES (TG_TABLE_NAME, OLD.payload->>'name'); RETURN OLD; END $$;";

/// What all cases of this program share.
pub(crate) struct Shared {
    plane: ControlPlane,
    _postgres: Postgres,
    database: Database,
    run: RunDir,
}

impl Shared {
    pub(crate) fn start() -> Result<Self> {
        let plane = ControlPlane::start_with(Options { controllers: false })?;
        let definitions = crd::all_yaml();
        plane
            .cluster()
            .define(definitions.iter().map(|file| &file.yaml))?;
        let postgres = Postgres::start()?;
        let database = postgres.create_database("knowledge")?;
        database.psql(TRIGGER)?;
        Ok(Self {
            plane,
            _postgres: postgres,
            database,
            run: RunDir::new("knowledge")?,
        })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        self.plane.cluster()
    }
}

/// The operator. Ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One team, its operator and the trouble in between.
pub(crate) struct Team {
    shared: Arc<Shared>,
    pub(crate) name: String,
    pub(crate) namespace: String,
    table: String,
    user: User,
    pub(crate) trouble: Trouble,
    log: PathBuf,
    operator: Option<Process>,
    /// Whether the operator looks at the team's namespace alone.
    alone: bool,
}

impl Team {
    /// A team with some ConfigMaps, and everything to have them in a table.
    pub(crate) fn new(shared: &Arc<Shared>, name: &str, alone: bool) -> Result<Self> {
        let cluster = shared.cluster();
        let namespace = cluster.create_namespace(name)?;
        let collected = [
            read("", &["configmaps", "secrets"]),
            read("example.com", &["widgets"]),
        ];
        let user = cluster.account(&namespace, &[OPERATOR, CLUSTER_FACTS, &collected])?;
        let table = format!("t_{}", name.replace('-', "_"));
        let team = Self {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            log: shared.run.join(&format!("{name}.log")),
            table,
            user,
            trouble: Trouble::with(cluster)?,
            operator: None,
            namespace,
            alone,
        };
        team.write_manifests()?;
        for number in 0..5 {
            team.put(&format!("still-{number}"), number)?;
        }
        Ok(team)
    }

    fn write_manifests(&self) -> Result<()> {
        let object = |kind: &str, name: &str, spec: &Value| {
            json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
            })
        };
        let dsn = self.shared.database.url(Tls::Off);
        let manifests = [
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "dsn", "namespace": self.namespace},
                "stringData": {"dsn": dsn},
            }),
            object(
                "KollectProfile",
                "maps",
                &json!({
                    "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                    "attributes": [{"name": "number", "path": "cel:int(object.data.number)"}],
                }),
            ),
            object(
                "KollectScope",
                "ceiling",
                &json!({"allowedNamespaces": [self.namespace]}),
            ),
            object(
                "KollectTarget",
                "maps",
                &json!({"profileRef": "maps", "includedNamespaces": [self.namespace]}),
            ),
            object(
                "KollectDatabaseSink",
                "pg",
                &json!({
                    "type": "postgres", "cluster": "east",
                    "postgres": {"databaseRef": {"name": "dsn"}, "table": self.table},
                }),
            ),
            object(
                "KollectInventory",
                "inv",
                &json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "0s"}),
            ),
        ];
        let yaml: Vec<String> = manifests.iter().map(Value::to_string).collect();
        self.shared.cluster().apply(&yaml.join("\n---\n"))?;
        Ok(())
    }

    /// Collects the same once more.
    pub(crate) fn add_target(&self, name: &str) -> Result<()> {
        let target = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {"profileRef": "maps", "includedNamespaces": [self.namespace]},
        });
        self.shared.cluster().apply(&target.to_string())?;
        Ok(())
    }

    /// Writes a ConfigMap with a number.
    pub(crate) fn put(&self, name: &str, number: u64) -> Result<()> {
        let cluster = self.shared.cluster();
        let api = cluster.api(cluster.admin())?;
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let map = json!({
            "metadata": {"name": name}, "data": {"number": number.to_string()},
        });
        let answer = api.request("PUT", &format!("{path}/{name}"), Some(&map))?;
        if !answer.is_success() {
            api.post(&path, &map)?;
        }
        Ok(())
    }

    /// Adds a target of a kind that nobody has collected so far.
    pub(crate) fn ask_for_another_kind(&self) -> Result<()> {
        let object = |kind: &str, spec: &Value| {
            json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
                "metadata": {"name": "other", "namespace": self.namespace}, "spec": spec,
            })
        };
        let profile = json!({
            "targetGVK": {"group": "example.com", "version": "v1", "kind": "Widget"},
            "attributes": [{"name": "n", "path": "$.metadata.name"}],
        });
        let target = json!({"profileRef": "other", "includedNamespaces": [self.namespace]});
        for object in [
            object("KollectProfile", &profile),
            object("KollectTarget", &target),
        ] {
            self.shared.cluster().apply(&object.to_string())?;
        }
        Ok(())
    }

    /// Installs that kind, and creates an object of it.
    pub(crate) fn install_the_other_kind(&self) -> Result<()> {
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": {"openAPIV3Schema": {"type": "object"}},
                }],
            },
        });
        self.shared.cluster().define([definition.to_string()])?;
        let widget = json!({
            "apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": "late", "namespace": self.namespace},
        });
        self.shared.cluster().apply(&widget.to_string())?;
        Ok(())
    }

    /// Waits until a condition of a target mentions this.
    pub(crate) fn expect_target(&self, name: &str, text: &str, within: Duration) -> Result<()> {
        self.eventually(&format!("{name} with {text:?}"), within, || {
            let cluster = self.shared.cluster();
            let path = format!(
                "/apis/kollect.dev/v1alpha1/namespaces/{}/kollecttargets/{name}",
                self.namespace
            );
            let status = cluster.api(cluster.admin())?.get(&path)?["status"].take();
            ensure!(status["conditions"].to_string().contains(text), "{status}");
            Ok(())
        })
    }

    /// Starts the operator, in place of one that runs.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.operator = None;
        let log = File::options().create(true).append(true).open(&self.log)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_kollect"));
        command
            .args(["operator", "--health-probe-bind-address=0"])
            .arg("--allow-sink-networks=127.0.0.0/8")
            .arg("--kubeconfig")
            .arg(self.trouble.kubeconfig(&self.user)?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log));
        if self.alone {
            command.arg(format!("--watch-namespaces={}", self.namespace));
        }
        self.operator = Some(Process(command.spawn()?));
        Ok(())
    }

    /// Ends the operator. What it said so far is forgotten.
    pub(crate) fn stop(&mut self) -> Result<()> {
        self.operator = None;
        self.forget_log()
    }

    /// From now on only what is said later counts.
    pub(crate) fn forget_log(&self) -> Result<()> {
        fs::write(&self.log, "").context("the log can be emptied")
    }

    /// Waits until the table holds what the cluster holds.
    pub(crate) fn expect_rows(&self, names: usize, within: Duration) -> Result<()> {
        self.eventually("rows", within, || {
            let sql = format!(
                "SELECT count(*) FROM {} WHERE inventory_namespace = '{}'",
                self.table, self.namespace
            );
            let rows = self.shared.database.psql(&sql)?;
            ensure!(rows == names.to_string(), "{rows} rows instead of {names}");
            Ok(())
        })
    }

    /// From now on deletions are recorded.
    pub(crate) fn record_deletes(&self) -> Result<()> {
        let table = &self.table;
        let sql = format!(
            "CREATE TRIGGER note BEFORE DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION note()"
        );
        self.shared.database.psql(&sql).map(|_| ())
    }

    /// Waits until the operator follows the changes of a resource.
    pub(crate) fn expect_watch(&self, resource: &str, within: Duration) -> Result<()> {
        self.eventually(&format!("a watch of {resource}"), within, || {
            ensure!(self.trouble.open(&on("watch", resource)) > 0);
            Ok(())
        })
    }

    /// Fails if a row was deleted.
    pub(crate) fn expect_no_deletes(&self, when: &str) -> Result<()> {
        let sql = format!("SELECT count(*) FROM deleted WHERE at = '{}'", self.table);
        let deleted = self.shared.database.psql(&sql)?;
        ensure!(
            deleted == "0",
            "{}: {deleted} rows were deleted {when}",
            self.name
        );
        Ok(())
    }

    /// Waits until a condition of the inventory mentions this.
    pub(crate) fn expect_status(&self, text: &str, within: Duration) -> Result<()> {
        self.eventually(&format!("a status with {text:?}"), within, || {
            let conditions = self.conditions()?;
            let found = conditions.iter().any(|one| one.contains(text));
            ensure!(found, "{conditions:#?}");
            Ok(())
        })
    }

    /// All conditions of the inventory and of its sinks, as text.
    pub(crate) fn conditions(&self) -> Result<Vec<String>> {
        let cluster = self.shared.cluster();
        let path = format!(
            "/apis/kollect.dev/v1alpha1/namespaces/{}/kollectinventories/inv",
            self.namespace
        );
        let status = cluster.api(cluster.admin())?.get(&path)?["status"].take();
        let own = status["conditions"].as_array().cloned().unwrap_or_default();
        let sinks = status["sinkExports"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let sinks = sinks
            .iter()
            .flat_map(|sink| sink["conditions"].as_array().cloned().unwrap_or_default());
        Ok(own
            .into_iter()
            .chain(sinks)
            .map(|one| one.to_string())
            .collect())
    }

    /// Waits until the log mentions this.
    pub(crate) fn expect_log(&self, text: &str, within: Duration) -> Result<()> {
        self.eventually(&format!("a log with {text:?}"), within, || {
            let log = fs::read_to_string(&self.log)?;
            ensure!(log.contains(text), "{log}");
            Ok(())
        })
    }

    fn eventually(
        &self,
        what: &str,
        within: Duration,
        mut check: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        let begun = Instant::now();
        loop {
            match check() {
                Ok(()) => return Ok(()),
                Err(error) if begun.elapsed() > within => {
                    let log = fs::read_to_string(&self.log).unwrap_or_default();
                    let start = log.len().saturating_sub(3_000);
                    let start = log.ceil_char_boundary(start);
                    let conditions = self.conditions().unwrap_or_default();
                    bail!(
                        "{}: no {what} within {within:?}: {error:#}\n{conditions:#?}\n{}",
                        self.name,
                        &log[start..]
                    );
                }
                Err(_) => thread::sleep(Duration::from_millis(250)),
            }
        }
    }
}
