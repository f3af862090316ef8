//! Attempts to read, export or delete what is somebody else's. All of them are in
//! `data/escapes.yaml`; here is how they are made, and how it is seen that they fail.

use std::{
    collections::VecDeque,
    fs,
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kollect_operator::rights::{self, Account};
use kollect_testkit::{cluster::User, git, git::Repository, http, postgres::Tls};
use serde_json::{Value, json};

use crate::{
    case::{Case, filled, filled_text, object},
    stage::{Operator, Stage, collection, eventually, path},
    sweep,
};

/// How long an attempt may take to be answered.
const ANSWERED: Duration = Duration::from_mins(1);
/// How long a delivery that was not waited for may be under way.
const ARRIVED: Duration = Duration::from_secs(3);
/// The places that hold rows as they are.
const ROWS: &str = "table ";
/// How many attempts are made at a time.
const AT_A_TIME: usize = 8;

/// Everybody who tries something, each in a namespace of his own.
pub(crate) struct Escapes<'s> {
    stage: &'s Stage,
    attempts: Vec<Attempt>,
    /// The account of the teams' operator.
    teams: User,
    teams_home: String,
}

/// One case and its place.
struct Attempt {
    case: Case,
    namespace: String,
    victim: String,
    tenant: User,
    table: String,
    marker: String,
    repository: Repository,
    words: Vec<(&'static str, String)>,
}

impl<'s> Escapes<'s> {
    /// Makes a place for each case.
    pub(crate) fn prepare(stage: &'s Stage) -> Result<Self> {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/escapes.yaml");
        let mut cases = Case::read(&fs::read_to_string(file)?)?;
        ensure!(cases.len() >= 40, "{} escapes", cases.len());
        // For people who look at one of them: ESCAPES=K03,control.
        if let Ok(wanted) = std::env::var("ESCAPES") {
            cases.retain(|case| wanted.split(',').any(|id| case.id.starts_with(id)));
        }
        let cluster = stage.cluster();
        let teams_home = cluster.create_namespace("teams")?;
        let teams = cluster.create_service_account(&teams_home, "kollect")?;
        stage.create(&[tenant_role()])?;
        let mut attempts = Vec::new();
        for (number, case) in cases.into_iter().enumerate() {
            attempts.push(Attempt::prepare(stage, number, case)?);
        }
        for attempt in &attempts {
            let (namespace, tenant) = (&attempt.namespace, &attempt.tenant);
            stage.await_right(namespace, tenant, "kollecttargets")?;
        }
        Ok(Self {
            stage,
            attempts,
            teams,
            teams_home,
        })
    }

    /// The cases of teams that run an operator of their own, which serves nothing but their
    /// namespaces.
    pub(crate) fn play_teams(&self) -> Result<Vec<String>> {
        let stage = self.stage;
        let account = Account {
            namespace: &self.teams_home,
            name: "kollect",
        };
        let collected = [rights::collected("", &["configmaps", "secrets"])];
        let served: Vec<&Attempt> = self.of(true);
        let names: Vec<&str> = served.iter().flat_map(|one| one.served()).collect();
        for name in &names {
            stage.let_serve(name, account, &collected)?;
        }
        for name in &names {
            stage.await_right(name, &self.teams, "kollecttargets")?;
        }
        let flags = [
            "--tenant-mode".to_owned(),
            format!("--watch-namespaces={}", names.join(",")),
        ];
        let operator = stage.operator("teams", &self.teams, &flags)?;
        let mut failures = self.play(&served, &operator);
        failures.extend(self.sweep(&served, &operator)?);
        // The platform's operator would serve these too.
        for name in names {
            for plural in ["kollectinventories", "kollecttargets"] {
                stage.empty(name, plural).with_context(|| operator.log())?;
            }
        }
        Ok(failures)
    }

    /// The cases of teams that share the platform's operator, which may read everything.
    pub(crate) fn play_platform(&self) -> Result<Vec<String>> {
        let stage = self.stage;
        let cluster = stage.cluster();
        let home = cluster.create_namespace("platform")?;
        let user = cluster.create_service_account(&home, "kollect")?;
        let mut rules = rights::rules(|_| true);
        rules.push(rights::collected("*", &["*"]));
        stage.create(&[
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": "kollect-platform"}, "rules": rules,
            }),
            json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "kollect-platform"},
                "roleRef": {
                    "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                    "name": "kollect-platform",
                },
                "subjects": [{"kind": "ServiceAccount", "name": "kollect", "namespace": home}],
            }),
        ])?;
        stage.await_right(&home, &user, "kollectclustertargets")?;
        let operator = stage.operator("platform", &user, &[])?;
        let served = self.of(false);
        let mut failures = self.play(&served, &operator);
        failures.extend(self.sweep(&served, &operator)?);
        Ok(failures)
    }

    fn of(&self, tenant_mode: bool) -> Vec<&Attempt> {
        let all = self.attempts.iter();
        all.filter(|attempt| attempt.case.tenant_mode == tenant_mode)
            .collect()
    }

    /// Plays cases side by side. Returns what went wrong.
    fn play(&self, attempts: &[&Attempt], operator: &Operator) -> Vec<String> {
        let queue: Mutex<VecDeque<&Attempt>> = Mutex::new(attempts.iter().copied().collect());
        let failures = Mutex::new(Vec::new());
        let next = || {
            let mut queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
            queue.pop_front()
        };
        thread::scope(|scope| {
            for _ in 0..AT_A_TIME {
                scope.spawn(|| {
                    while let Some(attempt) = next() {
                        if let Err(error) = attempt.play(self.stage) {
                            let text = format!("{}: {error:#}", attempt.case.id);
                            let mut failures =
                                failures.lock().unwrap_or_else(PoisonError::into_inner);
                            failures.push(text);
                        }
                    }
                });
            }
        });
        let mut failures = failures
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        if !failures.is_empty() && std::env::var_os("OPERATOR_LOG").is_some() {
            failures.push(operator.log());
        }
        failures
    }

    /// Looks for what must not have left, wherever it could have gone.
    fn sweep(&self, attempts: &[&Attempt], operator: &Operator) -> Result<Vec<String>> {
        // What is on its way arrives.
        thread::sleep(ARRIVED);
        let mut places = sweep::tables(&self.stage.database)?;
        places.extend(sweep::statuses(&self.stage.admin()?)?);
        places.push(("the log".to_owned(), operator.log()));
        places.push(("metrics".to_owned(), operator.metrics()?));
        for attempt in attempts {
            places.extend(sweep::repository(&attempt.case.id, &attempt.repository)?);
        }
        // Nothing that a terminal would obey is shown anywhere but in the rows themselves.
        let shown = places.iter().filter(|(place, _)| !place.starts_with(ROWS));
        let obeyed = shown.filter(|(_, text)| text.contains('\u{1b}') || text.contains("\\u001b"));
        let mut failures: Vec<String> = obeyed
            .map(|(place, _)| format!("control characters in {place}"))
            .collect();
        for attempt in attempts {
            let found = sweep::find(&attempt.marker, &places);
            if attempt.case.id.starts_with("control") {
                let missing = ["table", "repository"]
                    .into_iter()
                    .filter(|place| !found.iter().any(|found| found.contains(place)));
                failures.extend(missing.map(|place| {
                    format!("{}: the marker should be in a {place}", attempt.case.id)
                }));
            } else {
                let id = &attempt.case.id;
                failures.extend(
                    found
                        .iter()
                        .map(|place| format!("{id}: LEFT, found in {place}")),
                );
            }
        }
        Ok(failures)
    }
}

/// What a tenant may do in his namespace: everything with our kinds, statuses included, but for
/// scopes; and write the Secrets and ConfigMaps that go with them.
fn tenant_role() -> Value {
    let kinds = [
        "kollectconnectiontests",
        "kollectdatabasesinks",
        "kollecteventsinks",
        "kollectinventories",
        "kollectprofiles",
        "kollectsnapshotsinks",
        "kollecttargets",
    ];
    let statuses = kinds.map(|kind| format!("{kind}/status"));
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "tenant"},
        "rules": [
            {"apiGroups": ["kollect.dev"], "resources": kinds, "verbs": ["*"]},
            {"apiGroups": ["kollect.dev"], "resources": statuses, "verbs": ["*"]},
            {"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["*"]},
            {"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["*"]},
        ],
    })
}

impl Attempt {
    fn prepare(stage: &Stage, number: usize, case: Case) -> Result<Self> {
        let cluster = stage.cluster();
        let namespace = cluster.create_namespace(&format!("e{number}"))?;
        let victim = cluster.create_namespace(&format!("v{number}"))?;
        let tenant = cluster.create_service_account(&namespace, "tenant")?;
        stage.create(&[json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "tenant", "namespace": namespace},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "tenant",
            },
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
        })])?;
        let repository = stage.git.create_repo(&format!("e{number}"))?;
        let (table, marker) = (format!("e{number}"), marker(number, &namespace));
        let words = vec![
            ("ns", namespace.clone()),
            ("victim", victim.clone()),
            ("marker", marker.clone()),
            ("marker64", STANDARD.encode(&marker)),
            ("table", table.clone()),
            ("dsn", stage.database.url(Tls::Off)),
            ("repo", repository.https_url().to_owned()),
            ("ca", STANDARD.encode(stage.git.ca_pem())),
            ("helm", helm_release(&marker)),
        ];
        let attempt = Self {
            case,
            namespace,
            victim,
            tenant,
            table,
            marker,
            repository,
            words,
        };
        let admin = stage.admin()?;
        for step in &attempt.case.prepared {
            attempt.step(stage, &admin, step)?;
        }
        Ok(attempt)
    }

    /// The namespaces that an operator in tenant mode serves.
    fn served(&self) -> Vec<&str> {
        let mut served = vec![&*self.namespace];
        if self.case.serves_victim {
            served.push(&self.victim);
        }
        served
    }

    fn play(&self, stage: &Stage) -> Result<()> {
        let played = self.try_out(stage);
        let admin = stage.admin()?;
        for step in &self.case.finally {
            self.step(stage, &admin, step).context("clearing away")?;
        }
        played
    }

    fn try_out(&self, stage: &Stage) -> Result<()> {
        self.expect_judged(stage)?;
        let admin = stage.admin()?;
        for namespace in [&self.namespace, &self.victim] {
            for object in self.scaffold(stage, namespace) {
                make(&admin, &object)?;
            }
        }
        for step in &self.case.setup {
            self.step(stage, &admin, step).context("set-up")?;
        }
        let tenant = stage.cluster().api(&self.tenant)?;
        let mut answer = Ok(());
        for step in &self.case.attempt {
            // Only the last one is refused, if any.
            answer.context("an attempt before the last one")?;
            answer = self.step(stage, &tenant, step);
        }
        match (&self.case.refused, answer) {
            (None, answer) => answer.context("the attempt")?,
            (Some(expected), Ok(())) => bail!("the API server should say {expected:?}"),
            (Some(expected), Err(error)) => {
                let (expected, said) = (self.text(expected), format!("{error:#}"));
                ensure!(said.contains(&expected), "{said:?} lacks {expected:?}");
            }
        }
        for step in &self.case.after {
            self.step(stage, &admin, step).context("afterwards")?;
        }
        self.expect_settled(stage)?;
        for said in &self.case.says {
            self.expect_said(stage, &filled(said, &self.words))?;
        }
        if let Some(rows) = &self.case.rows {
            self.expect_rows(stage, &self.namespace, rows)?;
        }
        if let Some(rows) = &self.case.keeps {
            self.expect_rows(stage, &self.victim, rows)?;
        }
        if let Some(files) = &self.case.files {
            self.expect_files(files)?;
        }
        self.expect_content(stage)
    }

    /// What everybody has: where to deliver to, and an inventory.
    fn scaffold(&self, stage: &Stage, namespace: &str) -> Vec<Value> {
        let login = json!({"username": git::USER, "password": stage.git.password()});
        let object = |kind: &str, name: &str, member: &str, content: Value| {
            let version = match kind {
                "Secret" => "v1",
                _ => "kollect.dev/v1alpha1",
            };
            json!({
                "apiVersion": version, "kind": kind,
                "metadata": {"name": name, "namespace": namespace}, member: content,
            })
        };
        vec![
            object(
                "Secret",
                "dsn",
                "stringData",
                json!({"dsn": self.text("%dsn%")}),
            ),
            object("Secret", "git", "stringData", login),
            object(
                "KollectDatabaseSink",
                "pg",
                "spec",
                json!({
                    "type": "postgres", "cluster": "east",
                    "postgres": {"databaseRef": {"name": "dsn"}, "table": self.table},
                }),
            ),
            object(
                "KollectInventory",
                "inv",
                "spec",
                json!({"databaseSinkRefs": [{"name": "pg"}], "exportMinInterval": "0s"}),
            ),
        ]
    }

    fn text(&self, text: &str) -> String {
        filled_text(text, &self.words)
    }

    /// Does one thing as whoever `api` is of.
    fn step(&self, stage: &Stage, api: &http::Client, step: &Value) -> Result<()> {
        let step = filled(step, &self.words);
        match step["do"].as_str() {
            None => make(api, &object(&step, &self.namespace)?),
            Some("replace") => {
                let object = object(&step, &self.namespace)?;
                edit(stage, api, &object, "")
            }
            Some("status") => {
                let object = object(&step, &self.namespace)?;
                edit(stage, api, &object, "/status")
            }
            Some("delete") => {
                let path = path(&object(&step, &self.namespace)?)?;
                succeeded(&api.request("DELETE", &path, None)?)
            }
            Some("await") => {
                if let Some(files) = step["files"].as_array() {
                    return self.expect_files(&texts(files));
                }
                if let Some(rows) = step["rows"].as_array() {
                    let rows = texts(rows);
                    let namespace = step["in"].as_str().unwrap_or(&self.namespace);
                    self.expect_rows(stage, namespace, &rows)
                } else {
                    self.expect_said(stage, &step)
                }
            }
            Some(other) => bail!("{other:?} is nothing that can be done"),
        }
    }

    /// What the rules say of the tenant's objects, without any cluster. Admission says the same.
    fn expect_judged(&self, stage: &Stage) -> Result<()> {
        let Some(expected) = &self.case.judged else {
            return Ok(());
        };
        let mut manifests = Vec::new();
        for step in &self.case.attempt {
            let mut step = filled(step, &self.words);
            let ours = step["kind"]
                .as_str()
                .is_some_and(|kind| kind.starts_with("Kollect"));
            let whole = step["do"].is_null() || step["do"] == "replace";
            if ours && whole {
                if let Some(members) = step.as_object_mut() {
                    members.remove("do");
                }
                manifests.push(object(&step, &self.namespace)?.to_string());
            }
        }
        let file = stage
            .run
            .write_private(&format!("{}.yaml", self.table), manifests.join("\n---\n"))?;
        let output = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["validate", "--allow-sink-networks=127.0.0.0/8"])
            .arg(file)
            .output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        let expected = self.text(expected);
        ensure!(
            said.contains(&expected),
            "validate says {said:?}, not {expected:?}"
        );
        ensure!(
            !output.status.success(),
            "validate succeeds, and says {said:?}"
        );
        Ok(())
    }

    /// Waits until the operator has made up its mind about the tenant's target, if there is one.
    fn expect_settled(&self, stage: &Stage) -> Result<()> {
        let target = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectTarget",
            "metadata": {"name": "t", "namespace": self.namespace},
        });
        let api = stage.admin()?;
        if api.request("GET", &path(&target)?, None)?.status == 404 {
            return Ok(());
        }
        eventually("decision about the target", ANSWERED, || {
            let answer = api.request("GET", &path(&target)?, None)?;
            if answer.status == 404 {
                // It was deleted, and has gone by now.
                return Ok(());
            }
            let words = spoken(&answer.json()?["status"]);
            let decided = words.contains("Ready=True") || words.contains("Degraded=True");
            ensure!(decided, "it says {words:?}");
            Ok(())
        })
    }

    /// Waits until the status of an object says something.
    fn expect_said(&self, stage: &Stage, said: &Value) -> Result<()> {
        let mut short = said.clone();
        let members = short.as_object_mut().context("what is said")?;
        let texts = members.remove("text").context("a text")?;
        let texts = match texts {
            Value::Array(texts) => texts,
            text => vec![text],
        };
        let object = object(&short, &self.namespace)?;
        let what = format!(
            "{} {} says {texts:?}",
            object["kind"], object["metadata"]["name"]
        );
        eventually(&what, ANSWERED, || {
            let status = stage.status(&object)?;
            let words = spoken(&status);
            let lacks = |text: &&Value| !words.contains(text.as_str().unwrap_or_default());
            let missing = texts.iter().find(lacks);
            ensure!(missing.is_none(), "{missing:?} is not in {words}");
            Ok(())
        })
    }

    /// Waits until the inventory of a namespace has exactly the rows of these objects in the table.
    fn expect_rows(&self, stage: &Stage, namespace: &str, expected: &[String]) -> Result<()> {
        let mut expected: Vec<String> = expected.iter().map(|name| self.text(name)).collect();
        expected.sort();
        let sql = format!(
            "SELECT payload->>'name' FROM {} WHERE inventory_namespace = '{namespace}' ORDER BY 1",
            self.table
        );
        eventually(
            &format!("rows {expected:?} of {namespace}"),
            ANSWERED,
            || {
                let rows = match stage.database.psql(&sql) {
                    Ok(text) => text.lines().map(str::to_owned).collect(),
                    // Nobody has delivered anything.
                    Err(error) if format!("{error:#}").contains("does not exist") => Vec::new(),
                    Err(error) => return Err(error),
                };
                let inventory = json!({
                    "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
                    "metadata": {"name": "inv", "namespace": namespace},
                });
                let status = stage.status(&inventory).unwrap_or_default();
                ensure!(
                    rows == expected,
                    "{rows:?}; the inventory says {}",
                    spoken(&status)
                );
                Ok(())
            },
        )
    }

    /// What the table holds, beside names: `holds` shows that rows are there and how they look.
    fn expect_content(&self, stage: &Stage) -> Result<()> {
        if self.case.holds.is_empty() && self.case.never.is_empty() {
            return Ok(());
        }
        let sql = format!("SELECT payload->'attributes' FROM {}", self.table);
        let never = &self.case.never;
        let text = eventually("content of the table", ANSWERED, || {
            let text = stage.database.psql(&sql)?;
            for held in &self.case.holds {
                let held = self.text(held);
                ensure!(text.contains(&held), "{held:?} is not in {text}");
            }
            Ok(text)
        })?;
        for left in never.iter().map(|text| self.text(text)) {
            ensure!(!text.contains(&left), "{left:?} is in {text}");
        }
        Ok(())
    }

    fn expect_files(&self, expected: &[String]) -> Result<()> {
        let expected: Vec<String> = expected.iter().map(|path| self.text(path)).collect();
        eventually(&format!("files {expected:?}"), ANSWERED, || {
            let listing = self
                .repository
                .git(&["ls-tree", "-r", "--name-only", "main"])
                .unwrap_or_default();
            let files: Vec<&str> = listing
                .lines()
                .filter(|path| !path.starts_with(".kollect/"))
                .collect();
            let found = |one: &&String| files.iter().any(|path| is_like(path, one));
            let missing = expected.iter().find(|one| !found(one));
            ensure!(missing.is_none(), "{missing:?} is not in {listing}");
            let known = |path: &&str| expected.iter().any(|one| is_like(path, one));
            let other = files.iter().find(|path| !known(path));
            ensure!(other.is_none(), "{other:?} is there too");
            Ok(())
        })
    }
}

/// Whether a path is the expected one, in which `*` stands for anything.
fn is_like(path: &str, expected: &str) -> bool {
    match expected.split_once('*') {
        Some((start, end)) => path.starts_with(start) && path.ends_with(end),
        None => path == expected,
    }
}

fn texts(list: &[Value]) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    list.iter().map(text).collect()
}

/// A release as Helm keeps it, with something in every part of it that must not be seen.
fn helm_release(marker: &str) -> String {
    let release = json!({
        "name": "shop", "namespace": "shop", "version": 1,
        "info": {"status": "deployed", "notes": format!("your password is {marker}")},
        "chart": {
            "metadata": {"name": "shop", "version": "7.6.5"}, "values": {"password": marker},
        },
        "config": {"password": marker, "title": marker},
        "manifest": format!("kind: Secret\ndata: {{password: {marker}}}"),
    });
    STANDARD.encode(release.to_string())
}

/// Something that is nowhere else.
fn marker(number: usize, namespace: &str) -> String {
    let random: String = namespace
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    format!("leak{number}zq{random}")
}

/// All that a status says to people.
fn spoken(status: &Value) -> String {
    let mut words = Vec::new();
    for condition in status["conditions"].as_array().into_iter().flatten() {
        words.push(format!(
            "{}={} {}: {}",
            condition["type"].as_str().unwrap_or_default(),
            condition["status"].as_str().unwrap_or_default(),
            condition["reason"].as_str().unwrap_or_default(),
            condition["message"].as_str().unwrap_or_default()
        ));
    }
    words.extend(status["lastExtractionError"].as_str().map(str::to_owned));
    for sink in status["sinkExports"].as_array().into_iter().flatten() {
        words.push(spoken(sink));
    }
    words.join("\n")
}

fn make(api: &http::Client, object: &Value) -> Result<()> {
    succeeded(&api.request("POST", &collection(object)?, Some(object))?)
}

/// Changes what is given of an object, or of its status.
fn edit(stage: &Stage, api: &http::Client, new: &Value, subresource: &str) -> Result<()> {
    let path = path(new)?;
    eventually("a version to edit", ANSWERED, || {
        let mut object = stage.admin()?.get(&path)?;
        for (member, value) in new.as_object().into_iter().flatten() {
            if member == "metadata" {
                for (key, value) in value.as_object().into_iter().flatten() {
                    object["metadata"][key] = value.clone();
                }
            } else {
                object[member] = value.clone();
            }
        }
        let answer = api.request("PUT", &format!("{path}{subresource}"), Some(&object))?;
        // Somebody else was faster.
        ensure!(answer.status != 409, "a conflict");
        Ok(answer)
    })
    .and_then(|answer| succeeded(&answer))
}

fn succeeded(answer: &http::Response) -> Result<()> {
    answer.json().map(|_| ())
}
