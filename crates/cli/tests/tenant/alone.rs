//! A team runs an operator of its own: one namespace, one Role, nothing else.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kollect_operator::rights::{Account, collected};
use kollect_testkit::{audit::Request, postgres::Tls};
use serde_json::{Value, json};

use crate::stage::{SOON, Stage, eventually, name, path};

/// Labels and annotations of the namespace are read every quarter of a minute.
const NAMESPACE_READ: Duration = Duration::from_secs(45);

struct Team<'s> {
    stage: &'s Stage,
    namespace: String,
    repository: String,
}

impl Team<'_> {
    fn object(&self, kind: &str, name: &str, spec: &Value) -> Value {
        json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, "spec": spec,
        })
    }

    fn core(&self, kind: &str, name: &str, member: &str, content: &Value) -> Value {
        json!({
            "apiVersion": "v1", "kind": kind,
            "metadata": {"name": name, "namespace": self.namespace}, member: content,
        })
    }

    /// ConfigMaps of the namespace in a table and in a repository.
    fn manifests(&self) -> Vec<Value> {
        let stage = self.stage;
        let database = stage.database.url(Tls::Off);
        let login = json!({
            "username": kollect_testkit::git::USER, "password": stage.git.password(),
        });
        let maps = json!({
            "targetGVK": {"version": "v1", "kind": "ConfigMap"},
            "attributes": [{"name": "number", "path": "$.data.number"}],
        });
        let table = json!({
            "type": "postgres", "cluster": "east",
            "postgres": {"databaseRef": {"name": "dsn"}, "table": "alone"},
        });
        let files = json!({
            "type": "git", "cluster": "east", "layout": {"mode": "perResource"},
            "endpoint": self.repository, "git": {},
            "secretRef": {"name": "git"},
            "tls": {"caBundle": STANDARD.encode(stage.git.ca_pem())},
        });
        let inventory = json!({
            "databaseSinkRefs": [{"name": "pg"}], "snapshotSinkRefs": [{"name": "files"}],
            "exportMinInterval": "0s",
        });
        let test = json!({"sinkRef": {"databaseSinkRef": "pg"}, "ttlSecondsAfterFinished": 3600});
        vec![
            self.core("Secret", "dsn", "stringData", &json!({"dsn": database})),
            self.core("Secret", "git", "stringData", &login),
            self.core("ConfigMap", "a", "data", &json!({"number": "1"})),
            self.object("KollectProfile", "maps", &maps),
            self.object("KollectTarget", "maps", &json!({"profileRef": "maps"})),
            self.object("KollectDatabaseSink", "pg", &table),
            self.object("KollectSnapshotSink", "files", &files),
            self.object("KollectInventory", "inv", &inventory),
            self.object("KollectConnectionTest", "test", &test),
        ]
    }

    fn rows(&self) -> Result<Vec<String>> {
        let sql = "SELECT payload->>'name' FROM alone ORDER BY 1";
        let text = self.stage.database.psql(sql)?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    fn expect_rows(&self, expected: &[&str], within: Duration) -> Result<()> {
        eventually(&format!("rows {expected:?}"), within, || {
            let rows = self.rows()?;
            ensure!(rows == expected, "{rows:?}");
            Ok(())
        })
    }

    fn expect_condition(&self, object: &Value, type_: &str) -> Result<()> {
        let what = format!("{type_} of {} {}", object["kind"], name(object));
        eventually(&what, SOON, || {
            let status = self.stage.status(object)?;
            let conditions = status["conditions"].as_array().context("no conditions")?;
            let found = conditions.iter().find(|one| one["type"] == type_);
            let found = found.with_context(|| format!("{conditions:?}"))?;
            ensure!(found["status"] == "True", "{found}");
            Ok(())
        })
    }

    fn annotate(&self, annotation: &str, value: &str) -> Result<()> {
        let pair = format!("{annotation}={value}");
        let cluster = self.stage.cluster();
        cluster.kubectl(&[
            "annotate",
            "--overwrite",
            "namespace",
            &self.namespace,
            &pair,
        ])?;
        Ok(())
    }
}

/// Whether a request stays within the namespace, or is one that every account may make.
fn is_at_home(request: &Request, namespace: &str) -> bool {
    let path = request.uri.split('?').next().unwrap_or_default();
    let own = format!("/namespaces/{namespace}");
    let mut after = path.split(&own).skip(1);
    let within = after.any(|rest| rest.is_empty() || rest.starts_with('/'));
    let segments = path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .count();
    // Discovery of one group is two or three segments long.
    let discovery = request.verb == "get"
        && (path == "/version" || path == "/api/v1" || path.starts_with("/apis/") && segments == 3);
    let review = path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    within || discovery || review
}

/// From a target to a row and a file, with the printed Role and nothing else; not one request is
/// refused, from the first to the last.
pub(crate) fn play(stage: &Stage) -> Result<()> {
    let cluster = stage.cluster();
    let namespace = cluster.create_namespace("alone")?;
    let repository = stage.git.create_repo("alone")?;
    let team = Team {
        stage,
        repository: repository.https_url().to_owned(),
        namespace: namespace.clone(),
    };
    let user = cluster.create_service_account(&namespace, "kollect")?;
    let account = Account {
        namespace: &namespace,
        name: "kollect",
    };
    stage.let_serve(&namespace, account, &[collected("", &["configmaps"])])?;
    stage.await_right(&namespace, &user, "kollecttargets")?;
    // Somebody else's, which must not even be asked for.
    let others = cluster.create_namespace("others")?;
    stage.create(&[json!({
        "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": "7"},
        "metadata": {"name": "others", "namespace": others},
    })])?;

    let audit = stage.audit()?;
    let begun = audit.now()?;
    let flags = [
        "--tenant-mode".to_owned(),
        format!("--watch-namespaces={namespace}"),
        "--leader-elect".to_owned(),
    ];
    let mut operator = stage.operator("alone", &user, &flags)?;
    let manifests = team.manifests();
    stage.create(&manifests)?;
    let told = |error: anyhow::Error| error.context(operator.log());
    team.expect_rows(&["a"], SOON).map_err(told)?;
    eventually("files", SOON, || {
        let files = repository.git(&["ls-tree", "-r", "--name-only", "main"])?;
        let file = format!("east/{namespace}/configmap/a.yaml");
        ensure!(files.lines().any(|line| line == file), "{files}");
        Ok(())
    })
    .map_err(told)?;
    for (kind, type_) in [
        ("KollectTarget", "Ready"),
        ("KollectInventory", "Ready"),
        ("KollectDatabaseSink", "ConnectionVerified"),
        ("KollectSnapshotSink", "ConnectionVerified"),
    ] {
        let object = manifests.iter().find(|object| object["kind"] == kind);
        team.expect_condition(object.context("a manifest")?, type_)
            .map_err(told)?;
    }
    eventually("the lease", SOON, || {
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let leases = stage.admin()?.get(&leases)?;
        let held = leases["items"][0]["spec"]["holderIdentity"].as_str();
        ensure!(held.is_some_and(|holder| !holder.is_empty()), "{leases}");
        Ok(())
    })?;
    eventually("an event", SOON, || {
        let events = stage
            .admin()?
            .get(&format!("/api/v1/namespaces/{namespace}/events"))?;
        let items = events["items"].as_array().context("items")?;
        ensure!(!items.is_empty(), "none yet");
        Ok(())
    })
    .map_err(told)?;
    eventually("readiness", SOON, || operator.is_ready())?;

    // What changes follows, and the namespace may opt out: its annotations are read by its name.
    stage.create(&[team.core("ConfigMap", "b", "data", &json!({"number": "2"}))])?;
    team.expect_rows(&["a", "b"], SOON).map_err(told)?;
    team.annotate("kollect.dev/namespace-watch", "disabled")?;
    team.expect_rows(&[], NAMESPACE_READ).map_err(told)?;

    // Finalizers: an inventory goes, after its rows.
    let inventory = manifests
        .iter()
        .find(|one| one["kind"] == "KollectInventory");
    let inventory = path(inventory.context("an inventory")?)?;
    ensure!(
        stage
            .admin()?
            .request("DELETE", &inventory, None)?
            .is_success()
    );
    eventually("the end of the inventory", SOON, || {
        let found = stage.admin()?.request("GET", &inventory, None)?;
        ensure!(found.status == 404, "{}", found.status);
        Ok(())
    })
    .map_err(told)?;
    operator.stop()?;

    let requests = audit.of(&user.name, begun)?;
    let bad =
        |request: &&Request| matches!(request.code, 401 | 403) || !is_at_home(request, &namespace);
    let bad: Vec<&Request> = requests.iter().filter(bad).collect();
    ensure!(bad.is_empty(), "{bad:#?}");
    // Else the log would be empty for another reason.
    for (verb, what) in [
        ("watch", "kollecttargets"),
        ("watch", "configmaps"),
        ("patch", "kollectinventories"),
        ("get", "secrets/dsn"),
        ("create", "events"),
        ("update", "leases"),
    ] {
        let found = |one: &Request| one.verb == verb && one.uri.contains(what);
        ensure!(requests.iter().any(found), "no {verb} of {what}");
    }
    Ok(())
}
