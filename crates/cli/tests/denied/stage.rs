//! A team with two namespaces, its rows in a database and a repository, and the operator that put
//! them there.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, bail, ensure};
use kollect_api::crd;
use kollect_testkit::{
    Cluster, ControlPlane, Postgres, RunDir, Trouble,
    cluster::User,
    control_plane::Options,
    postgres::{Database, Tls},
    rbac::{CLUSTER_FACTS, OPERATOR, Rule, Scope, read},
    trouble::on,
};
use serde_json::{Value, json};

/// Records every row that is deleted.
const TRIGGER: &str = "\
    CREATE TABLE IF NOT EXISTS deleted (at text, name text);
    CREATE OR REPLACE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN INSERT INTO deleted VALUES (TG_TABLE_NAME, OLD.payload->>'name'); RETURN OLD; END $$;";

/// Our kinds that live in namespaces, but for targets.
const ALL_BUT_TARGETS: &[&str] = &[
    "kollectprofiles",
    "kollectscopes",
    "kollectinventories",
    "kollectinventories/status",
    "kollectconnectiontests",
    "kollectsnapshotsinks",
    "kollectsnapshotsinks/status",
    "kollectdatabasesinks",
    "kollectdatabasesinks/status",
    "kollecteventsinks",
    "kollecteventsinks/status",
];

/// The right to read some of our kinds, and to write what is said about them.
const fn ours<'a>(resources: &'a [&'a str]) -> Rule<'a> {
    Rule {
        group: "kollect.dev",
        resources,
        verbs: &["get", "list", "watch", "patch", "update"],
    }
}

/// What all cases share.
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
        let database = postgres.create_database("denied")?;
        database.psql(TRIGGER)?;
        Ok(Self {
            plane,
            _postgres: postgres,
            database,
            run: RunDir::new("denied")?,
        })
    }

    fn cluster(&self) -> &Cluster {
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

/// One team.
pub(crate) struct Team {
    shared: Arc<Shared>,
    name: String,
    /// The namespaces `a`, where the team lives, and `b`.
    namespaces: [String; 2],
    user: User,
    trouble: Trouble,
    operator: Option<Process>,
}

impl Team {
    /// One team whose target looks at both namespaces.
    pub(crate) fn new(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        let secrets = [read("", &["secrets"])];
        let team = Self::with(shared, name, &[OPERATOR, CLUSTER_FACTS, &secrets])?;
        team.allow("a")?;
        team.allow("b")?;
        team.apply(&team.manifests("a", &team.namespaces))?;
        Ok(team)
    }

    /// Two teams with an operator that has its rights in each of their namespaces; in the second
    /// one it may not read targets before somebody [allows](Self::allow_targets) it.
    pub(crate) fn neighbours(shared: &Arc<Shared>, name: &str) -> Result<Self> {
        let collected = [read("", &["secrets", "configmaps"])];
        let own = |rule: &&Rule<'_>| rule.group != "kollect.dev";
        let others: Vec<Rule<'_>> = OPERATOR.iter().filter(own).copied().collect();
        let cluster_kinds = [read(
            "kollect.dev",
            &[
                "kollectclustertargets",
                "kollectclusterscopes",
                "kollectclusterinventories",
            ],
        )];
        let rules: [&[Rule<'_>]; 4] = [&others, CLUSTER_FACTS, &collected, &cluster_kinds];
        let team = Self::with(shared, name, &rules)?;
        let cluster = shared.cluster();
        for at in ["a", "b"] {
            let scope = Scope::Namespace(team.namespace(at));
            cluster.grant(scope, &team.user, &[ours(ALL_BUT_TARGETS)])?;
            team.apply(&team.manifests(at, &[team.namespace(at).to_owned()]))?;
        }
        team.allow_targets("a")?;
        Ok(team)
    }

    fn with(shared: &Arc<Shared>, name: &str, rules: &[&[Rule<'_>]]) -> Result<Self> {
        let cluster = shared.cluster();
        let namespaces = [
            cluster.create_namespace(&format!("{name}-a"))?,
            cluster.create_namespace(&format!("{name}-b"))?,
        ];
        let team = Self {
            shared: Arc::clone(shared),
            name: name.to_owned(),
            user: cluster.account(&namespaces[0], rules)?,
            namespaces,
            trouble: Trouble::with(cluster)?,
            operator: None,
        };
        let made = Command::new("git")
            .args(["init", "--quiet", "--bare", "--initial-branch=main"])
            .arg(team.repository())
            .status()?;
        ensure!(made.success(), "git init");
        Ok(team)
    }

    fn apply(&self, manifests: &[Value]) -> Result<()> {
        let yaml: Vec<String> = manifests.iter().map(Value::to_string).collect();
        self.shared.cluster().apply(&yaml.join("\n---\n"))?;
        Ok(())
    }

    /// Everything to have the ConfigMaps of some namespaces in table and repository.
    fn manifests(&self, at: &str, included: &[String]) -> Vec<Value> {
        let namespace = self.namespace(at);
        let object = |kind: &str, name: &str, spec: Value| {
            json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
                "metadata": {"name": name, "namespace": namespace}, "spec": spec,
            })
        };
        let repository = format!("file://{}", self.repository().display());
        vec![
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "dsn", "namespace": namespace},
                "stringData": {"dsn": self.shared.database.url(Tls::Off)},
            }),
            object(
                "KollectProfile",
                "maps",
                json!({
                    "targetGVK": {"version": "v1", "kind": "ConfigMap"},
                    "attributes": [{"name": "number", "path": "$.data.number"}],
                }),
            ),
            object(
                "KollectTarget",
                "maps",
                json!({"profileRef": "maps", "includedNamespaces": included}),
            ),
            object(
                "KollectDatabaseSink",
                "pg",
                json!({
                    "type": "postgres", "cluster": "east",
                    "postgres": {"databaseRef": {"name": "dsn"}, "table": self.name},
                }),
            ),
            object(
                "KollectSnapshotSink",
                "git",
                json!({
                    "type": "git", "cluster": "east", "layout": {"mode": "perResource"},
                    "endpoint": repository, "git": {},
                }),
            ),
            object(
                "KollectInventory",
                "inv",
                json!({
                    "databaseSinkRefs": [{"name": "pg"}], "snapshotSinkRefs": [{"name": "git"}],
                    "exportMinInterval": "0s",
                }),
            ),
        ]
    }

    fn repository(&self) -> PathBuf {
        self.shared.run.join(&format!("{}.git", self.name))
    }

    fn log(&self) -> PathBuf {
        self.shared.run.join(&format!("{}.log", self.name))
    }

    /// The namespace that objects of this name, or a place, belong to.
    fn namespace(&self, name: &str) -> &str {
        &self.namespaces[usize::from(!name.starts_with('a'))]
    }

    /// Starts the operator, in place of one that runs.
    pub(crate) fn start(&mut self) -> Result<()> {
        self.operator = None;
        let log = File::create(self.log())?;
        let work = self.shared.run.join(&format!("{}-work", self.name));
        let mut command = Command::new(env!("CARGO_BIN_EXE_kollect"));
        command
            .args(["operator", "--health-probe-bind-address=0"])
            .args([
                "--allow-sink-networks=127.0.0.0/8",
                "--allow-local-repositories",
            ])
            .arg(format!("--work-dir={}", work.display()))
            .arg(format!("--watch-namespaces={}", self.namespaces.join(",")))
            .arg("--kubeconfig")
            .arg(self.trouble.kubeconfig(&self.user)?)
            .env("RUST_LOG", "warn")
            .stdout(Stdio::from(log.try_clone()?))
            .stderr(Stdio::from(log));
        self.operator = Some(Process(command.spawn()?));
        Ok(())
    }

    /// Ends the operator.
    pub(crate) fn stop(&mut self) {
        self.operator = None;
    }

    /// Takes the right to read ConfigMaps away in one place, and ends the watches that had it.
    pub(crate) fn deny(&self, place: &str) -> Result<()> {
        let namespace = self.namespace(place);
        let cluster = self.shared.cluster();
        cluster.kubectl(&["delete", "rolebinding", "--all", "-n", namespace])?;
        self.expect_refused(namespace, "", "configmaps")?;
        self.trouble.cut(&on("*", "configmaps"));
        Ok(())
    }

    /// Gives the right to read ConfigMaps in one place.
    pub(crate) fn allow(&self, place: &str) -> Result<()> {
        let scope = Scope::Namespace(self.namespace(place));
        let maps = [read("", &["configmaps"])];
        self.shared.cluster().grant(scope, &self.user, &maps)
    }

    /// Gives the right to read targets in one place, and to write what is said about them.
    pub(crate) fn allow_targets(&self, place: &str) -> Result<()> {
        let scope = Scope::Namespace(self.namespace(place));
        let targets = [ours(&["kollecttargets", "kollecttargets/status"])];
        self.shared.cluster().grant(scope, &self.user, &targets)
    }

    /// Takes the right to read targets away in one place, and leaves all others.
    pub(crate) fn deny_targets(&self, place: &str) -> Result<()> {
        let namespace = self.namespace(place);
        let cluster = self.shared.cluster();
        cluster.kubectl(&["delete", "rolebinding", "--all", "-n", namespace])?;
        let scope = Scope::Namespace(namespace);
        cluster.grant(scope, &self.user, &[ours(ALL_BUT_TARGETS)])?;
        self.expect_refused(namespace, "kollect.dev", "kollecttargets")
    }

    fn expect_refused(&self, namespace: &str, group: &str, resource: &str) -> Result<()> {
        self.eventually("a right that is gone", Duration::from_mins(1), || {
            let cluster = self.shared.cluster();
            let scope = Scope::Namespace(namespace);
            let allowed = cluster.allows(scope, &self.user, "list", group, resource)?;
            ensure!(!allowed, "still allowed");
            Ok(())
        })
    }

    /// Writes a ConfigMap with a number.
    pub(crate) fn put(&self, name: &str, number: u64) -> Result<()> {
        let cluster = self.shared.cluster();
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace(name));
        let map = json!({"metadata": {"name": name}, "data": {"number": number.to_string()}});
        cluster.api(cluster.admin())?.post(&path, &map).map(|_| ())
    }

    /// Deletes a ConfigMap.
    pub(crate) fn delete(&self, name: &str) -> Result<()> {
        let namespace = self.namespace(name);
        let arguments = ["delete", "configmap", name, "-n", namespace];
        self.shared.cluster().kubectl(&arguments).map(|_| ())
    }

    /// Waits until the table holds these and no others.
    pub(crate) fn expect_rows(&self, names: &[&str], within: Duration) -> Result<()> {
        let sql = format!("SELECT payload->>'name' FROM {}", self.name);
        self.expect(names, "rows", within, || {
            let rows = self.shared.database.psql(&sql)?;
            Ok(rows.lines().map(str::to_owned).collect())
        })
    }

    /// Waits until the branch holds these and no others.
    pub(crate) fn expect_files(&self, names: &[&str], within: Duration) -> Result<()> {
        self.expect(names, "files", within, || {
            let listing = Command::new("git")
                .arg("--git-dir")
                .arg(self.repository())
                .args(["ls-tree", "-r", "--name-only", "main"])
                .output()?;
            ensure!(listing.status.success(), "there is no branch yet");
            let text = String::from_utf8(listing.stdout)?;
            let files = text.lines().filter(|path| !path.starts_with(".kollect/"));
            let stems = files.filter_map(|path| path.rsplit('/').next()?.split('.').next());
            let objects = stems.filter(|stem| stem.starts_with("a-") || stem.starts_with("b-"));
            Ok(objects.map(str::to_owned).collect())
        })
    }

    /// From now on deletions are recorded.
    pub(crate) fn record_deletes(&self) -> Result<()> {
        let sql = format!(
            "CREATE TRIGGER note BEFORE DELETE ON {} FOR EACH ROW EXECUTE FUNCTION note()",
            self.name
        );
        self.shared.database.psql(&sql).map(|_| ())
    }

    /// Fails unless these rows were deleted, each once, and no others.
    pub(crate) fn expect_deleted(&self, names: &[&str]) -> Result<()> {
        let sql = format!(
            "SELECT name FROM deleted WHERE at = '{}' ORDER BY 1",
            self.name
        );
        let deleted = self.shared.database.psql(&sql)?;
        let mut names = names.to_vec();
        names.sort_unstable();
        let deleted: Vec<&str> = deleted.lines().collect();
        ensure!(
            deleted == names,
            "{}: {deleted:?} were deleted instead of {names:?}",
            self.name
        );
        Ok(())
    }

    /// Waits until an object of the team (`kollecttargets/maps`, …) says that ConfigMaps may not be
    /// read, and where.
    pub(crate) fn expect_denied(&self, object: &str, within: Duration) -> Result<()> {
        let denied = self.namespace("b");
        self.expect_degraded(
            "a",
            object,
            "denied list or watch access to configmaps",
            within,
        )?;
        self.expect_degraded("a", object, denied, within)
    }

    /// Waits until an object says that something is wrong, in these words.
    pub(crate) fn expect_degraded(
        &self,
        at: &str,
        object: &str,
        text: &str,
        within: Duration,
    ) -> Result<()> {
        self.eventually(&format!("{object} that says {text:?}"), within, || {
            let conditions = self.conditions(at, object)?;
            let degraded = conditions.iter().find(|one| one["type"] == "Degraded");
            let message = degraded.and_then(|one| one["message"].as_str());
            let found = message.is_some_and(|message| message.contains(text));
            ensure!(found, "{conditions:#?}");
            Ok(())
        })
    }

    fn conditions(&self, at: &str, object: &str) -> Result<Vec<Value>> {
        let cluster = self.shared.cluster();
        let path = format!(
            "/apis/kollect.dev/v1alpha1/namespaces/{}/{object}",
            self.namespace(at)
        );
        let mut object = cluster.api(cluster.admin())?.get(&path)?;
        let conditions = object["status"]["conditions"].take();
        Ok(conditions.as_array().cloned().unwrap_or_default())
    }

    fn expect(
        &self,
        names: &[&str],
        what: &str,
        within: Duration,
        find: impl Fn() -> Result<BTreeSet<String>>,
    ) -> Result<()> {
        let expected: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        self.eventually(what, within, || {
            let found = find()?;
            ensure!(found == expected, "{found:?} instead of {expected:?}");
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
                    let log = fs::read_to_string(self.log()).unwrap_or_default();
                    let start = log.ceil_char_boundary(log.len().saturating_sub(3_000));
                    let conditions = self.conditions("a", "kollectinventories/inv");
                    bail!(
                        "{}: no {what} within {within:?}: {error:#}\n{:#?}\n{}",
                        self.name,
                        conditions.unwrap_or_default(),
                        &log[start..]
                    );
                }
                Err(_) => thread::sleep(Duration::from_millis(250)),
            }
        }
    }
}
