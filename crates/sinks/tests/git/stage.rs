//! Servers, sinks and the view of a reader.

use std::{
    collections::BTreeMap,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use kollect_api::{
    InventoryId, SinkKey,
    address::AddressPolicy,
    reference::SinkFamily,
    sink::{KollectSnapshotSinkSpec, SinkSpec},
};
use kollect_inventory::{
    AttributesBuffer, Delta, Interner, OriginParts, Row, Snapshot, TargetKind,
};
use kollect_sinks::{
    Census, Delivery, DeliveryRows, DocumentOptions, Sink, SinkError,
    backend::{self, Environment, SinkSeed},
    credentials,
    dial::Dialer,
    secret::SecretData,
};
use kollect_testkit::git::{GitServer, Repository, RepositoryOptions, USER};
use serde_json::{Value, json};

/// A repository behind HTTPS, and a place for mirrors.
pub(crate) struct Stage {
    pub(crate) server: GitServer,
    pub(crate) repository: Repository,
    pub(crate) work: tempfile::TempDir,
}

/// What makes one sink different from another.
#[derive(Clone)]
pub(crate) struct Sketch {
    /// Of the sink object.
    pub(crate) name: String,
    /// Merged into the description.
    pub(crate) spec: Value,
    /// The Secret.
    pub(crate) secret: Vec<(String, String)>,
    /// The directory of the mirrors, below the stage's.
    pub(crate) work: String,
    /// Who is there.
    pub(crate) census: Arc<Census>,
}

impl Stage {
    pub(crate) fn start() -> Self {
        let server = GitServer::start().unwrap();
        let options = RepositoryOptions {
            deny_non_fast_forwards: true,
        };
        let repository = server.create_repo_with("inventory", options).unwrap();
        // A second witness beside the setting: what is pushed has the old tip as its parent.
        hook(
            &repository,
            "#!/bin/sh\nwhile read old new ref; do\n  echo \"$old $new $ref\" >> pushes.log\ndone\n",
        );
        Self {
            server,
            repository,
            work: tempfile::tempdir().unwrap(),
        }
    }

    /// A sink with the right credentials; `spec` is merged into its description.
    pub(crate) fn sketch(&self, spec: Value) -> Sketch {
        let ca = STANDARD.encode(self.server.ca_pem());
        let mut whole = json!({
            "type": "git",
            "endpoint": self.repository.https_url(),
            "cluster": "prod-west",
            "secretRef": { "name": "git-credentials" },
            "tls": { "caBundle": ca },
            "git": {},
        });
        merge(&mut whole, spec);
        Sketch {
            name: "git-main".into(),
            spec: whole,
            secret: vec![
                ("username".into(), USER.into()),
                ("password".into(), self.server.password().into()),
            ],
            work: "mirrors".into(),
            census: Arc::default(),
        }
    }

    pub(crate) fn sink(&self, spec: Value) -> Arc<dyn Sink> {
        self.build(&self.sketch(spec)).unwrap()
    }

    pub(crate) fn build(&self, sketch: &Sketch) -> Result<Arc<dyn Sink>, SinkError> {
        build(sketch, self.work.path())
    }

    /// The files of a branch as git shows them, after git found nothing wrong with the repository.
    pub(crate) fn files(&self) -> BTreeMap<String, String> {
        self.repository
            .git(&["fsck", "--strict", "--no-dangling"])
            .unwrap();
        files(&self.repository, "main")
    }

    /// The same without Kollect's own records.
    pub(crate) fn visible(&self) -> BTreeMap<String, String> {
        let mut files = self.files();
        files.retain(|path, _| !path.starts_with(".kollect/"));
        files
    }

    pub(crate) fn paths(&self) -> Vec<String> {
        self.visible().into_keys().collect()
    }

    pub(crate) fn commits(&self) -> usize {
        self.repository
            .git(&["rev-list", "--count", "main"])
            .unwrap()
            .parse()
            .unwrap()
    }

    pub(crate) fn tip(&self) -> String {
        self.repository
            .git(&["rev-parse", "--verify", "--quiet", "main"])
            .unwrap_or_default()
    }

    pub(crate) fn subject(&self) -> String {
        self.repository
            .git(&["log", "-1", "--format=%s", "main"])
            .unwrap()
    }

    /// All commits form one line, and every push went from the old tip to a child of it.
    pub(crate) fn assert_linear(&self) {
        let parents = self
            .repository
            .git(&["rev-list", "--parents", "main"])
            .unwrap();
        let lines: Vec<&str> = parents.lines().collect();
        for (at, line) in lines.iter().enumerate() {
            let words = line.split(' ').count();
            let expected = if at + 1 == lines.len() { 1 } else { 2 };
            assert_eq!(words, expected, "{line}");
        }
        let log = std::fs::read_to_string(self.repository.path().join("pushes.log"));
        for push in log.unwrap_or_default().lines() {
            let mut words = push.split(' ');
            let (old, new) = (words.next().unwrap(), words.next().unwrap());
            // A push that was outrun is not in the history.
            let kept = self
                .repository
                .git(&["merge-base", "--is-ancestor", new, "main"]);
            if kept.is_ok() && !old.trim_matches('0').is_empty() {
                let parent = self
                    .repository
                    .git(&["rev-parse", &format!("{new}^")])
                    .unwrap();
                assert_eq!(parent, old, "{push}");
            }
        }
    }

    pub(crate) fn objects(&self) -> usize {
        let all = self
            .repository
            .git(&[
                "cat-file",
                "--batch-all-objects",
                "--batch-check=%(objectname)",
            ])
            .unwrap();
        all.lines().count()
    }

    /// Commits a file past every sink; `None` removes it.
    pub(crate) fn foreign_commit(&self, path: &str, content: Option<&str>) {
        let clone = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let status = self
                .server
                .git_command()
                .current_dir(clone.path())
                .args(args)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "git {args:?}");
        };
        let url = self.repository.path().to_string_lossy().into_owned();
        git(&["clone", "--quiet", "--branch", "main", &url, "."]);
        let file = clone.path().join(path);
        match content {
            Some(content) => {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, content).unwrap();
            }
            None => std::fs::remove_file(file).unwrap(),
        }
        git(&["add", "--all"]);
        git(&["commit", "--quiet", "--message", "foreign"]);
        git(&["push", "--quiet", "origin", "HEAD:main"]);
    }
}

/// Builds a sink from a sketch.
pub(crate) fn build(sketch: &Sketch, work: &Path) -> Result<Arc<dyn Sink>, SinkError> {
    let spec: KollectSnapshotSinkSpec = serde_json::from_value(sketch.spec.clone()).unwrap();
    let spec = SinkSpec::Snapshot(spec);
    let data: BTreeMap<String, Vec<u8>> = sketch
        .secret
        .iter()
        .map(|(key, value)| (key.clone(), value.clone().into_bytes()))
        .collect();
    let data = SecretData::from(data);
    let materials = credentials::materials(&spec, "team-a", |_| Some(data.clone()))?;
    let environment = Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse().unwrap()],
            ..AddressPolicy::default()
        }),
        work_dir: work.join(&sketch.work),
        local_repositories: true,
        census: Arc::clone(&sketch.census),
        local_files: false,
        workload: None,
    };
    let seed = SinkSeed {
        key: SinkKey::new(SinkFamily::Snapshot, "team-a", &*sketch.name),
        spec: Arc::new(spec),
        materials,
    };
    // A runtime of its own: many a test runs in one of a single thread, which cannot wait here.
    std::thread::scope(|scope| {
        let opening = scope.spawn(|| {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(backend::open(seed, &environment))
        });
        opening.join().expect("opening a sink does not panic")
    })
}

/// Lays one JSON object over another.
pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Path and content of all files of a branch; nothing if there is no such branch.
pub(crate) fn files(repository: &Repository, branch: &str) -> BTreeMap<String, String> {
    let Ok(listing) = repository.git(&["ls-tree", "-r", "-z", "--full-tree", branch]) else {
        return BTreeMap::new();
    };
    let entries: Vec<(&str, &str)> = listing
        .split('\0')
        .filter_map(|line| line.split_once('\t'))
        .map(|(head, path)| (head.split(' ').nth(2).unwrap(), path))
        .collect();
    let mut child = Command::new("git")
        .arg("--git-dir")
        .arg(repository.path())
        .args(["cat-file", "--batch=%(objectsize)"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let ids: Vec<String> = entries.iter().map(|(id, _)| format!("{id}\n")).collect();
    let feeding = std::thread::spawn(move || stdin.write_all(ids.concat().as_bytes()));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap().unwrap();
    let mut rest = output.stdout.as_slice();
    let mut files = BTreeMap::new();
    for (_, path) in entries {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap();
        let size: usize = std::str::from_utf8(&rest[..end]).unwrap().parse().unwrap();
        let content = &rest[end + 1..end + 1 + size];
        files.insert(
            path.to_owned(),
            String::from_utf8(content.to_vec()).unwrap(),
        );
        rest = &rest[end + 2 + size..];
    }
    files
}

pub(crate) fn hook(repository: &Repository, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = repository.path().join("hooks").join("pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// The inventory of most tests.
pub(crate) fn inventory() -> InventoryId {
    InventoryId::namespaced("team-a", "web")
}

/// A delivery of all rows, in the shape of the vectors.
pub(crate) fn everything(inventory: &InventoryId, rows: &[Row]) -> Delivery {
    delivery(inventory, DeliveryRows::All(Snapshot::new(rows.to_vec())))
}

/// A delivery of the difference between two states.
pub(crate) fn changes(inventory: &InventoryId, before: &[Row], after: &[Row]) -> Delivery {
    let before = Snapshot::new(before.to_vec());
    let after = Snapshot::new(after.to_vec());
    let delta = Arc::new(Delta::between(&before, &after));
    delivery(inventory, DeliveryRows::Changes(delta))
}

fn delivery(inventory: &InventoryId, rows: DeliveryRows) -> Delivery {
    Delivery {
        inventory: inventory.clone(),
        generation: 4,
        at: "2026-08-01T12:00:00Z".parse::<Timestamp>().unwrap(),
        rows,
        documents: DocumentOptions::default(),
    }
}

/// Makes rows as the vectors have them.
pub(crate) fn row(kind: &str, name: &str, attributes: &Value) -> Row {
    row_in("team-a", kind, name, attributes)
}

pub(crate) fn row_in(namespace: &str, kind: &str, name: &str, attributes: &Value) -> Row {
    let group = if kind == "Deployment" { "apps" } else { "" };
    let mut interner = Interner::new();
    let origin = interner.origin(OriginParts {
        owner: TargetKind::Target,
        target_namespace: "team-a",
        target_name: "deploys",
        namespace,
        group,
        version: "v1",
        kind,
    });
    let mut buffer = AttributesBuffer::new();
    match attributes.as_object() {
        Some(object) => buffer.set(object),
        None => buffer.set_null(),
    }
    interner.row(&origin, name, &format!("uid-{name}"), buffer.view())
}
