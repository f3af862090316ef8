//! The namespace that does everything at once.

use std::{
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use kollect_testkit::{
    hostile::{GitManner, Hostile, PostgresManner},
    http,
};
use serde_json::{Value, json};

use crate::stage::{Stage, conditions, ours, path, put, until};

/// Sinks whose servers never answer.
const SILENT: usize = 40;
/// Attributes that double strings, in as few profiles as are accepted.
const DOUBLING: usize = 1_000;
/// Attributes with a pattern that is small to write and large to compile.
const PATTERNS: usize = 200;
/// Objects that all of this is evaluated on.
const OBJECTS: u64 = 5;
/// How long the whole namespace may take to be met, and to be told what is wrong.
const PATIENCE: Duration = Duration::from_secs(90);

/// The namespace and its servers.
pub(crate) struct Neighbours {
    namespace: String,
    servers: Vec<(&'static str, Hostile)>,
    troubles: Vec<Trouble>,
}

/// An object that is to blame for something, and how its status must say so.
struct Trouble {
    namespace: String,
    plural: &'static str,
    name: String,
    /// One of the conditions begins with this.
    condition: &'static str,
    /// And names the cause by one of these words.
    words: &'static [&'static str],
}

impl Neighbours {
    /// Starts the servers and creates everything.
    pub(crate) fn settle(stage: &Stage) -> Result<Self> {
        let mut neighbours = Self {
            namespace: stage.plane.cluster().create_namespace("hostile")?,
            servers: Vec::new(),
            troubles: Vec::new(),
        };
        let api = stage.api()?;
        for number in 0..OBJECTS {
            neighbours.stir(&api, number)?;
        }
        neighbours.expressions(stage)?;
        neighbours.meaningless(stage)?;
        neighbours.files(stage)?;
        neighbours.talkers(stage)?;
        neighbours.silent(stage)?;
        neighbours.pushes(stage)?;
        Ok(neighbours)
    }

    /// Changes one of the objects.
    pub(crate) fn stir(&self, api: &http::Client, number: u64) -> Result<()> {
        let name = format!("seed-{}", number % OBJECTS);
        let data = json!({"seed": "a".repeat(64), "number": number.to_string()});
        put(api, &self.namespace, &name, &data)
    }

    /// Waits until the operator has talked to every server.
    pub(crate) fn wait_until_met(&self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        for (name, server) in &self.servers {
            until(end, || {
                ensure!(server.accepted() > 0, "nobody talked to {name}");
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Hostile objects whose status does not name their trouble, with what they say instead.
    pub(crate) fn told(&self, stage: &Stage) -> Result<Vec<String>> {
        let api = stage.api()?;
        let end = Instant::now() + PATIENCE;
        let silent = self.troubles.iter().filter_map(|trouble| {
            let told = until(end, || {
                let path = path(&trouble.namespace, trouble.plural, &trouble.name);
                trouble.check(&api.get(&path)?["status"])
            });
            told.err().map(|error| format!("{error:#}"))
        });
        Ok(silent.collect())
    }

    fn blame(
        &mut self,
        plural: &'static str,
        name: &str,
        condition: &'static str,
        words: &'static [&'static str],
    ) {
        self.troubles.push(Trouble {
            namespace: self.namespace.clone(),
            plural,
            name: name.to_owned(),
            condition,
            words,
        });
    }

    /// Profiles that cost.
    fn expressions(&mut self, stage: &Stage) -> Result<()> {
        self.target(
            stage,
            "plain",
            &[json!({"name": "n", "path": "$.data.number"})],
        )?;

        // Fifteen doublings make 2 MiB of 64 bytes: each by itself is within its limit.
        let doubling = |number: usize| {
            let doubled = ".map(s, s + s)".repeat(15);
            let path = format!("cel:[object.data.seed + '{number}']{doubled}[0]");
            json!({"name": format!("a{number}"), "path": path})
        };
        let doubling: Vec<Value> = (0..DOUBLING).map(doubling).collect();
        for (number, part) in self.accepted(stage, &doubling)?.enumerate() {
            let name = format!("doubling-{number}");
            self.target(stage, &name, part)?;
            self.blame(
                "kollecttargets",
                &name,
                "Degraded=True/",
                &["attribute", "profile"],
            );
        }

        let pattern = |number: usize| {
            let path =
                format!("cel:object.data.seed.matches('^(([a-z]{{1,40}}){{1,40}}{number})*$')");
            json!({"name": format!("p{number}"), "path": path})
        };
        let patterns: Vec<Value> = (0..PATTERNS).map(pattern).collect();
        for (number, part) in self.accepted(stage, &patterns)?.enumerate() {
            let name = format!("patterns-{number}");
            self.target(stage, &name, part)?;
            self.blame(
                "kollecttargets",
                &name,
                "Degraded=True/",
                &["attribute", "profile"],
            );
        }
        Ok(())
    }

    /// Attributes in parts as large as the API server takes them in one profile.
    fn accepted<'a>(
        &self,
        stage: &Stage,
        attributes: &'a [Value],
    ) -> Result<impl Iterator<Item = &'a [Value]> + use<'a>> {
        let path = format!("{}?dryRun=All", ours(&self.namespace, "kollectprofiles"));
        let api = stage.api()?;
        let fits = |size: usize| -> Result<bool> {
            let profile = json!({
                "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectProfile",
                "metadata": {"name": "attempt"}, "spec": profile(&attributes[..size]),
            });
            Ok(api.request("POST", &path, Some(&profile))?.is_success())
        };
        for part in [1, 2, 4, 8, 16, 32] {
            let size = attributes.len() / part;
            if fits(size)? {
                return Ok(attributes.chunks(size));
            }
        }
        anyhow::bail!("the API server takes no profile at all")
    }

    /// A profile and a target of the same name.
    fn target(&self, stage: &Stage, name: &str, attributes: &[Value]) -> Result<()> {
        stage.create(
            &self.namespace,
            "KollectProfile",
            name,
            &profile(attributes),
        )?;
        let target = json!({"profileRef": name, "includedNamespaces": [self.namespace]});
        stage.create(&self.namespace, "KollectTarget", name, &target)
    }

    /// A target that means nothing, from the beginning: its rows are not known, so a Git sink of
    /// this namespace is given none.
    fn meaningless(&mut self, stage: &Stage) -> Result<()> {
        let target = json!({
            "profileRef": "plain", "includedNamespaces": [self.namespace],
            "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In"}]},
        });
        stage.create(&self.namespace, "KollectTarget", "bad-selector", &target)?;
        self.blame(
            "kollecttargets",
            "bad-selector",
            "Degraded=True/",
            &["labelSelector"],
        );
        Ok(())
    }

    /// Another namespace of the same people, whose rows are known: the worst of the Git servers are
    /// given a push, and their reports have no end.
    fn pushes(&mut self, stage: &Stage) -> Result<()> {
        let namespace = stage.plane.cluster().create_namespace("hostile-git")?;
        let profile = profile(&[json!({"name": "n", "path": "$.data.number"})]);
        stage.create(&namespace, "KollectProfile", "plain", &profile)?;
        let target = json!({"profileRef": "plain", "includedNamespaces": [namespace]});
        stage.create(&namespace, "KollectTarget", "plain", &target)?;
        put(&stage.api()?, &namespace, "seed", &json!({"number": "1"}))?;
        for (name, manner) in [
            ("report", GitManner::EndlessReport),
            ("remarks", GitManner::EndlessRemarks),
        ] {
            let server = Hostile::git(manner)?;
            stage.create(&namespace, "KollectSnapshotSink", name, &git(name, &server))?;
            let spec = json!({
                "snapshotSinkRefs": [{"name": name}], "exportMinInterval": "0s",
            });
            stage.create(&namespace, "KollectInventory", name, &spec)?;
            self.troubles.push(Trouble {
                namespace: namespace.clone(),
                plural: "kollectinventories",
                name: name.to_owned(),
                condition: "Degraded=True/",
                words: &["git limit: "],
            });
            self.servers.push((name, server));
        }
        Ok(())
    }

    /// Sinks that point to files which never end.
    fn files(&mut self, stage: &Stage) -> Result<()> {
        let fifo = stage.run.join("fifo");
        let made = Command::new("mkfifo").arg(&fifo).status()?;
        ensure!(made.success(), "mkfifo failed");
        let fifo = fifo.to_string_lossy();
        for (name, file) in [("zero", "/dev/zero"), ("fifo", &*fifo)] {
            let options = format!("sslmode=verify-full&sslrootcert={file}");
            self.database(stage, name, 5432, &options)?;
            self.blame(
                "kollectdatabasesinks",
                name,
                "ConnectionVerified=False/",
                &["sslrootcert"],
            );
        }
        self.inventory(stage, "files", &["zero", "fifo"], &[])
    }

    /// Servers that say too much.
    fn talkers(&mut self, stage: &Stage) -> Result<()> {
        let mut gits = Vec::new();
        for (name, manner) in [
            ("drip", GitManner::Drip),
            ("refs", GitManner::EndlessRefs),
            ("report", GitManner::EndlessReport),
            ("remarks", GitManner::EndlessRemarks),
        ] {
            let server = Hostile::git(manner)?;
            self.git(stage, name, &server)?;
            self.servers.push((name, server));
            gits.push(name);
        }
        // The others show only when something is pushed.
        for name in ["drip", "refs"] {
            self.blame(
                "kollectsnapshotsinks",
                name,
                "ConnectionVerified=False/",
                &["no answer within", "larger than"],
            );
        }
        let mut databases = Vec::new();
        for (name, manner) in [
            ("errors", PostgresManner::LargeErrors),
            ("notices", PostgresManner::EndlessNotices),
            ("login-notices", PostgresManner::NoticesAtLogin),
            ("settings", PostgresManner::EndlessSettings),
        ] {
            let server = Hostile::postgres(manner)?;
            self.database(stage, name, server.port(), "sslmode=disable")?;
            self.blame(
                "kollectdatabasesinks",
                name,
                "ConnectionVerified=False/",
                &["the server"],
            );
            self.servers.push((name, server));
            databases.push(name);
        }
        self.inventory(stage, "talkers", &databases, &gits)
    }

    /// Sinks whose servers never answer: not at all, or not to a question.
    fn silent(&mut self, stage: &Stage) -> Result<()> {
        let silent = Hostile::silent()?;
        let stuck = Hostile::postgres(PostgresManner::SilentAtQueries)?;
        let git = Hostile::silent()?;
        let names: Vec<String> = (0..SILENT)
            .map(|number| format!("silent-{number}"))
            .collect();
        for (number, ten) in names.chunks(10).enumerate() {
            let (mut databases, mut gits) = (Vec::new(), Vec::new());
            for (place, name) in ten.iter().enumerate() {
                if place % 5 == 4 {
                    self.git(stage, name, &git)?;
                    self.blame(
                        "kollectsnapshotsinks",
                        name,
                        "ConnectionVerified=False/",
                        &["no answer within"],
                    );
                    gits.push(&**name);
                } else {
                    let server = if place % 2 == 0 { &silent } else { &stuck };
                    self.database(stage, name, server.port(), "sslmode=disable")?;
                    self.blame(
                        "kollectdatabasesinks",
                        name,
                        "ConnectionVerified=False/",
                        &["no answer within"],
                    );
                    databases.push(&**name);
                }
            }
            self.inventory(stage, &format!("silent-{number}"), &databases, &gits)?;
        }
        self.servers
            .extend([("silent", silent), ("stuck", stuck), ("silent git", git)]);
        Ok(())
    }

    fn database(&self, stage: &Stage, name: &str, port: u16, options: &str) -> Result<()> {
        let dsn = format!("postgres://tenant:hunter2@127.0.0.1:{port}/d?{options}");
        stage.create_dsn(&self.namespace, name, &dsn)?;
        let spec = json!({
            "type": "postgres", "cluster": "east",
            "postgres": {"databaseRef": {"name": name}, "table": "items"},
        });
        stage.create(&self.namespace, "KollectDatabaseSink", name, &spec)
    }

    fn git(&self, stage: &Stage, name: &str, server: &Hostile) -> Result<()> {
        let spec = git(name, server);
        stage.create(&self.namespace, "KollectSnapshotSink", name, &spec)
    }

    fn inventory(
        &self,
        stage: &Stage,
        name: &str,
        databases: &[&str],
        gits: &[&str],
    ) -> Result<()> {
        let refs = |names: &[&str]| -> Vec<Value> {
            names.iter().map(|name| json!({"name": name})).collect()
        };
        let spec = json!({
            "databaseSinkRefs": refs(databases), "snapshotSinkRefs": refs(gits),
            "exportMinInterval": "0s",
        });
        stage
            .create(&self.namespace, "KollectInventory", name, &spec)
            .with_context(|| format!("inventory {name}"))
    }
}

impl Trouble {
    fn check(&self, status: &Value) -> Result<()> {
        let told = conditions(status);
        let named = told.iter().any(|line| {
            line.starts_with(self.condition)
                && (self.words.is_empty() || self.words.iter().any(|word| line.contains(word)))
        });
        let Self { plural, name, .. } = self;
        ensure!(
            named,
            "{plural}/{name} has no {} with {:?}: {told:#?}",
            self.condition,
            self.words
        );
        let text = status.to_string();
        ensure!(!text.contains("hunter2"), "{plural}/{name} tells a secret");
        ensure!(
            text.len() < 20_000,
            "{plural}/{name} says {} bytes",
            text.len()
        );
        Ok(())
    }
}

fn git(name: &str, server: &Hostile) -> Value {
    let mut spec = json!({
        "type": "git", "cluster": "east",
        "endpoint": format!("https://127.0.0.1:{}/{name}.git", server.port()),
    });
    if let Some(ca) = server.ca_pem() {
        spec["tls"] = json!({"caBundle": STANDARD.encode(ca)});
    }
    spec
}

fn profile(attributes: &[Value]) -> Value {
    json!({
        "targetGVK": {"version": "v1", "kind": "ConfigMap"}, "attributes": attributes,
    })
}
