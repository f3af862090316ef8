//! Proposals against real servers: git's own http-backend behind TLS, OpenSSH, and directories.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicU32, Ordering},
    },
};

use kollect_api::{
    address::AddressPolicy,
    sink::{KollectSnapshotSinkSpec, SinkSpec, snapshot::Git},
};
use kollect_testkit::git::{GitServer, Repository as Served, RepositoryOptions, SshServer, USER};

use super::*;
use crate::{
    backend::Environment,
    credentials,
    dial::Dialer,
    error::SinkError,
    git::settings::{self, Settings},
    secret::SecretData,
};

/// Writes and removes files, whatever is there.
pub(super) struct Edit {
    writes: Vec<(String, String)>,
    removes: Vec<String>,
    /// Something that happens between looking at the branch and pushing.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    applied: AtomicU32,
}

impl Edit {
    pub(super) fn new(writes: &[(&str, &str)], removes: &[&str]) -> Arc<Self> {
        Arc::new(Self {
            writes: writes
                .iter()
                .map(|(path, content)| ((*path).to_owned(), (*content).to_owned()))
                .collect(),
            removes: removes.iter().map(|path| (*path).to_owned()).collect(),
            meanwhile: Mutex::new(None),
            applied: AtomicU32::new(0),
        })
    }

    fn meanwhile(self: Arc<Self>, event: impl FnOnce() + Send + 'static) -> Arc<Self> {
        *self.meanwhile.lock().unwrap() = Some(Box::new(event));
        self
    }
}

impl Proposal for Edit {
    fn apply(&self, tree: &mut Tree<'_>) -> Result<(), GitError> {
        self.applied.fetch_add(1, Ordering::SeqCst);
        for path in &self.removes {
            tree.remove(path)?;
        }
        for (path, content) in &self.writes {
            tree.put(path, content.as_bytes())?;
        }
        if let Some(event) = self.meanwhile.lock().unwrap().take() {
            event();
        }
        Ok(())
    }

    fn message(&self) -> String {
        "test: export\n".into()
    }

    fn at(&self) -> Timestamp {
        Timestamp::from_second(1_768_478_400).unwrap()
    }
}

/// A description of a sink and the Secret it refers to.
pub(super) fn read(
    endpoint: &str,
    secret: &[(&str, &str)],
    ca: Option<&str>,
    work_dir: &Path,
) -> Result<Settings, GitError> {
    let mut common = serde_json::json!({
        "type": "git",
        "endpoint": endpoint,
        "secretRef": { "name": "credentials" },
    });
    if let Some(pem) = ca {
        use base64::Engine as _;
        let pem = base64::engine::general_purpose::STANDARD.encode(pem);
        common["tls"] = serde_json::json!({ "caBundle": pem });
    }
    let spec: KollectSnapshotSinkSpec = serde_json::from_value(common).unwrap();
    let spec = SinkSpec::Snapshot(KollectSnapshotSinkSpec {
        git: Some(Git::default()),
        ..spec
    });
    let data: BTreeMap<String, Vec<u8>> = secret
        .iter()
        .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
        .collect();
    let data = SecretData::from(data);
    let materials = credentials::materials(&spec, "team-a", |_| Some(data.clone())).unwrap();
    let policy = AddressPolicy {
        allowed_networks: vec!["127.0.0.0/8".parse().unwrap()],
        ..AddressPolicy::default()
    };
    let environment = Environment {
        dialer: Dialer::new(policy),
        work_dir: work_dir.to_owned(),
        local_repositories: true,
        census: std::sync::Arc::default(),
        local_files: false,
        workload: None,
    };
    settings::settings(&spec, &materials, &environment)
}

pub(super) fn publisher(settings: Settings, work_dir: &Path) -> Arc<Publisher> {
    Arc::new(Publisher {
        remote: settings.remote,
        url: settings.url,
        branch: settings.branch,
        depth: settings.depth,
        author: settings.author,
        signer: settings.signer,
        work_dir: work_dir.to_owned(),
        limits: Limits::default(),
    })
}

struct Https {
    server: GitServer,
    repository: Served,
    work: tempfile::TempDir,
}

impl Https {
    fn start(options: RepositoryOptions) -> Self {
        let server = GitServer::start().unwrap();
        let repository = server.create_repo_with("sink", options).unwrap();
        Self {
            server,
            repository,
            work: tempfile::tempdir().unwrap(),
        }
    }

    /// A publisher with a work directory of its own, like another operator.
    fn publisher(&self, name: &str) -> Arc<Publisher> {
        self.publisher_as(name, self.server.password())
    }

    fn publisher_as(&self, name: &str, password: &str) -> Arc<Publisher> {
        let work = self.work.path().join(name);
        let secret = [("username", USER), ("password", password)];
        let ca = self.server.ca_pem();
        let settings = read(self.repository.https_url(), &secret, Some(ca), &work).unwrap();
        publisher(settings, &work)
    }
}

fn fast_forwards_only() -> RepositoryOptions {
    RepositoryOptions {
        deny_non_fast_forwards: true,
    }
}

/// Path and content of all files of a branch, and that nothing is wrong with the repository.
fn files(repository: &Served, branch: &str) -> Vec<(String, String)> {
    repository
        .git(&["fsck", "--strict", "--no-dangling"])
        .unwrap();
    let paths = repository
        .git(&["ls-tree", "-r", "--name-only", branch])
        .unwrap();
    paths
        .lines()
        .map(|path| {
            let content = repository
                .git(&["show", &format!("{branch}:{path}")])
                .unwrap();
            (path.to_owned(), content)
        })
        .collect()
}

fn count(repository: &Served, branch: &str) -> usize {
    repository
        .git(&["rev-list", "--count", branch])
        .unwrap()
        .parse()
        .unwrap()
}

/// Commits a file past every publisher.
fn foreign_commit(repository: &Served, path: &str, content: &str) {
    let blob = {
        let file = repository.path().join("foreign");
        std::fs::write(&file, content).unwrap();
        repository
            .git(&["hash-object", "-w", &file.to_string_lossy()])
            .unwrap()
    };
    let git = Repository::open_bare(repository.path()).unwrap();
    let tip = git.refname_to_id("refs/heads/main").unwrap();
    let parent = git.find_commit(tip).unwrap();
    let mut update = git2::build::TreeUpdateBuilder::new();
    update.upsert(path, blob.parse().unwrap(), git2::FileMode::Blob);
    let tree = update
        .create_updated(&git, &parent.tree().unwrap())
        .unwrap();
    let tree = git.find_tree(tree).unwrap();
    let who = git2::Signature::now("Somebody", "somebody@else.invalid").unwrap();
    git.commit(
        Some("refs/heads/main"),
        &who,
        &who,
        "foreign",
        &tree,
        &[&parent],
    )
    .unwrap();
}

#[tokio::test]
async fn s30_s27_an_empty_repository_gets_its_branch_and_equal_files_no_commit() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher("one");
    publisher.probe().await.unwrap();
    let edit = Edit::new(&[("a/b.yaml", "one\n"), ("c.yaml", "two\n")], &[]);
    let published = publisher.publish(edit.clone()).await.unwrap();
    let head = stage.repository.git(&["rev-parse", "main"]).unwrap();
    assert_eq!(published.commit.unwrap().to_string(), head);
    assert_eq!(published.tally.written, 2);
    assert_eq!(count(&stage.repository, "main"), 1);
    assert_eq!(files(&stage.repository, "main").len(), 2);

    let again = publisher.publish(edit.clone()).await.unwrap();
    assert_eq!(
        again,
        Published {
            commit: None,
            tally: Tally::default()
        }
    );
    // Nor after a restart with nothing on disk.
    let fresh = stage.publisher("two").publish(edit).await.unwrap();
    assert_eq!(fresh.commit, None);
    assert_eq!(count(&stage.repository, "main"), 1);
}

#[tokio::test]
async fn nothing_at_all_makes_no_branch() {
    let stage = Https::start(fast_forwards_only());
    let published = stage
        .publisher("one")
        .publish(Edit::new(&[], &["x"]))
        .await
        .unwrap();
    assert_eq!(published.commit, None);
    assert_eq!(stage.repository.git(&["branch", "--list"]).unwrap(), "");
}

#[tokio::test]
async fn s29_somebody_else_was_faster() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher("one");
    publisher
        .publish(Edit::new(&[("ours", "1")], &[]))
        .await
        .unwrap();
    let repository = stage.repository.clone();
    let edit = Edit::new(&[("ours", "2")], &[])
        .meanwhile(move || foreign_commit(&repository, "dir/theirs", "theirs"));
    publisher.publish(edit.clone()).await.unwrap();
    assert_eq!(edit.applied.load(Ordering::SeqCst), 2);
    let expected = [("dir/theirs", "theirs"), ("ours", "2")];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.to_owned()));
    assert_eq!(files(&stage.repository, "main"), expected);
    assert_eq!(count(&stage.repository, "main"), 3);
    // No merge: every commit has one parent at most.
    assert_eq!(
        stage
            .repository
            .git(&["rev-list", "--merges", "main"])
            .unwrap(),
        ""
    );
}

#[tokio::test]
async fn the_same_change_by_somebody_else_is_no_commit() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher("one");
    publisher
        .publish(Edit::new(&[("ours", "1")], &[]))
        .await
        .unwrap();
    let repository = stage.repository.clone();
    let edit = Edit::new(&[("ours", "2")], &[])
        .meanwhile(move || foreign_commit(&repository, "ours", "2"));
    let published = publisher.publish(edit).await.unwrap();
    assert_eq!(published.commit, None);
    assert_eq!(count(&stage.repository, "main"), 2);
}

#[tokio::test]
async fn a_branch_that_is_put_back_or_deleted_is_followed() {
    let stage = Https::start(RepositoryOptions::default());
    let publisher = stage.publisher("one");
    for content in ["1", "2", "3"] {
        publisher
            .publish(Edit::new(&[("ours", content)], &[]))
            .await
            .unwrap();
    }
    stage
        .repository
        .git(&["update-ref", "refs/heads/main", "main~2"])
        .unwrap();
    publisher
        .publish(Edit::new(&[("ours", "4")], &[]))
        .await
        .unwrap();
    assert_eq!(count(&stage.repository, "main"), 2);
    stage
        .repository
        .git(&["update-ref", "-d", "refs/heads/main"])
        .unwrap();
    publisher
        .publish(Edit::new(&[("ours", "5")], &[]))
        .await
        .unwrap();
    assert_eq!(count(&stage.repository, "main"), 1);
    assert_eq!(
        files(&stage.repository, "main"),
        [("ours".to_owned(), "5".to_owned())]
    );
}

#[tokio::test]
async fn one_file_among_many_costs_one_blob_its_trees_and_a_commit() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher("one");
    let many: Vec<(String, String)> = (0..1_000)
        .map(|n| {
            (
                format!("c/ns-{}/kind/{n:04}.yaml", n % 10),
                format!("value: {n}\n"),
            )
        })
        .collect();
    let borrowed: Vec<(&str, &str)> = many
        .iter()
        .map(|(path, content)| (path.as_str(), content.as_str()))
        .collect();
    publisher.publish(Edit::new(&borrowed, &[])).await.unwrap();
    let before = objects(&stage.repository);
    publisher
        .publish(Edit::new(
            &[("c/ns-3/kind/0003.yaml", "value: changed\n")],
            &[],
        ))
        .await
        .unwrap();
    // A blob, four trees (kind, ns-3, c, root) and the commit.
    assert_eq!(objects(&stage.repository) - before, 6);
    assert_eq!(files_quickly(&stage.repository), 1_000);
}

fn objects(repository: &Served) -> usize {
    let all = repository
        .git(&[
            "cat-file",
            "--batch-all-objects",
            "--batch-check=%(objectname)",
        ])
        .unwrap();
    all.lines().count()
}

fn files_quickly(repository: &Served) -> usize {
    repository
        .git(&["fsck", "--strict", "--no-dangling"])
        .unwrap();
    repository
        .git(&["ls-tree", "-r", "--name-only", "main"])
        .unwrap()
        .lines()
        .count()
}

#[tokio::test]
async fn wrong_credentials_are_refused_without_being_repeated() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher_as("one", "hunter2-wrong");
    let edit = Edit::new(&[("a", "1")], &[]);
    for error in [
        publisher.probe().await.unwrap_err(),
        publisher.publish(edit).await.unwrap_err(),
    ] {
        assert!(matches!(error, GitError::Authentication(_)), "{error:?}");
        let error = SinkError::from(error);
        assert!(matches!(error, SinkError::Terminal(_)));
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

#[tokio::test]
async fn an_unknown_authority_is_not_believed() {
    let stage = Https::start(fast_forwards_only());
    let work = stage.work.path().join("one");
    let secret = [("username", USER), ("password", stage.server.password())];
    let settings = read(stage.repository.https_url(), &secret, None, &work).unwrap();
    let error = publisher(settings, &work).probe().await.unwrap_err();
    assert!(matches!(error, GitError::Sink(_)), "{error:?}");
}

#[tokio::test]
async fn a_missing_repository_is_no_empty_one() {
    let stage = Https::start(fast_forwards_only());
    let work = stage.work.path().join("one");
    let secret = [("username", USER), ("password", stage.server.password())];
    let url = stage.repository.https_url().replace(".git", "-other.git");
    let settings = read(&url, &secret, Some(stage.server.ca_pem()), &work).unwrap();
    let publisher = publisher(settings, &work);
    let error = publisher
        .publish(Edit::new(&[("a", "1")], &[]))
        .await
        .unwrap_err();
    assert!(matches!(error, GitError::Authentication(_)), "{error:?}");
}

#[tokio::test]
async fn a_hook_that_declines_is_terminal_and_quoted() {
    let stage = Https::start(fast_forwards_only());
    hook(
        &stage.repository,
        "#!/bin/sh\necho 'branch is protected' >&2\nexit 1\n",
    );
    let publisher = stage.publisher("one");
    let error = publisher
        .publish(Edit::new(&[("a", "1")], &[]))
        .await
        .unwrap_err();
    assert!(matches!(error, GitError::Rejected(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("pre-receive hook declined") && text.contains("branch is protected"),
        "{text}"
    );
}

fn hook(repository: &Served, script: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    let hook = repository.path().join("hooks").join("pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, script).unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[tokio::test]
async fn a_mirror_that_breaks_is_fetched_anew() {
    let stage = Https::start(fast_forwards_only());
    let publisher = stage.publisher("one");
    publisher
        .publish(Edit::new(&[("a/x", "1"), ("b/y", "1")], &[]))
        .await
        .unwrap();
    let mirror = mirror_of(&stage.work.path().join("one"));
    // Every object the mirror holds turns to rubbish.
    for entry in walk(&mirror.join("objects")) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&entry, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&entry, "rubbish").unwrap();
    }
    publisher
        .publish(Edit::new(&[("a/x", "2")], &[]))
        .await
        .unwrap();
    assert_eq!(files(&stage.repository, "main").len(), 2);
    // A mirror that is gone altogether is no obstacle either.
    std::fs::remove_dir_all(&mirror).unwrap();
    publisher
        .publish(Edit::new(&[("a/x", "3")], &[]))
        .await
        .unwrap();
    assert_eq!(count(&stage.repository, "main"), 3);
}

fn mirror_of(work: &Path) -> PathBuf {
    std::fs::read_dir(work)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap()
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .flat_map(|path| {
            if path.is_dir() {
                walk(&path)
            } else {
                vec![path]
            }
        })
        .collect()
}

#[tokio::test]
async fn a_mirror_holds_no_history_and_git_finds_nothing_wrong_with_it() {
    let stage = Https::start(fast_forwards_only());
    let first = stage.publisher("one");
    for n in 0..5 {
        first
            .publish(Edit::new(&[("a", &n.to_string())], &[]))
            .await
            .unwrap();
    }
    let second = stage.publisher("two");
    second.publish(Edit::new(&[("b", "1")], &[])).await.unwrap();
    first
        .publish(Edit::new(&[("a", "new")], &[]))
        .await
        .unwrap();
    second.publish(Edit::new(&[("b", "2")], &[])).await.unwrap();
    let mirror = mirror_of(&stage.work.path().join("two"));
    let git = |args: &[&str]| {
        let mut command = stage.server.git_command();
        let output = command
            .arg("--git-dir")
            .arg(&mirror)
            .args(args)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success(),
            "{args:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text.trim().to_owned()
    };
    git(&["fsck", "--strict"]);
    // Of eight commits: the one fetched first, its own, the one fetched then, its own.
    assert_eq!(git(&["rev-list", "--count", "main"]), "2");
    assert_eq!(count(&stage.repository, "main"), 8);
    // Nothing on disk knows the password.
    for path in walk(stage.work.path()) {
        let content = std::fs::read(&path).unwrap();
        let secret = stage.server.password().as_bytes();
        assert!(
            !content.windows(secret.len()).any(|window| window == secret),
            "{path:?}"
        );
    }
}

#[tokio::test]
async fn ssh_end_to_end() {
    let https = Https::start(fast_forwards_only());
    let ssh = SshServer::start().unwrap();
    let url = https.repository.ssh_url(&ssh);
    let key = ssh.client_key().unwrap();
    let known = ssh.known_hosts();
    let work = https.work.path().join("ssh");
    let settings = read(
        &url,
        &[("ssh-privatekey", &key), ("known_hosts", &known)],
        None,
        &work,
    );
    let publisher = self::publisher(settings.unwrap(), &work);
    publisher.probe().await.unwrap();
    publisher
        .publish(Edit::new(&[("a", "1")], &[]))
        .await
        .unwrap();
    foreign_commit(&https.repository, "theirs", "x");
    publisher
        .publish(Edit::new(&[("a", "2")], &[]))
        .await
        .unwrap();
    assert_eq!(files(&https.repository, "main").len(), 2);
    assert_eq!(count(&https.repository, "main"), 3);
    let big = "0123456789abcdef".repeat(300_000);
    publisher
        .publish(Edit::new(&[("big", &big)], &[]))
        .await
        .unwrap();

    // Another key, an unknown host, another host key.
    let other = other_key(https.work.path());
    for (key, known, part) in [
        (
            other.0.as_str(),
            known.clone(),
            "does not accept the SSH key",
        ),
        (&key, known.replace("127.0.0.1", "elsewhere"), "no line for"),
        (
            &key,
            known_as(&known, &other.1),
            "is not the one in known_hosts",
        ),
    ] {
        let secret = [("ssh-privatekey", key), ("known_hosts", &known)];
        let settings = read(&url, &secret, None, &work).unwrap();
        let error = self::publisher(settings, &work).probe().await.unwrap_err();
        assert!(matches!(error, GitError::Authentication(_)), "{error:?}");
        assert!(error.to_string().contains(part), "{error}");
    }
    let missing = url.replace(".git", "-none.git");
    let secret = [("ssh-privatekey", key.as_str()), ("known_hosts", &known)];
    let settings = read(&missing, &secret, None, &work).unwrap();
    let error = self::publisher(settings, &work).probe().await.unwrap_err();
    assert!(matches!(error, GitError::Authentication(_)), "{error:?}");
}

#[tokio::test]
async fn a_signing_key_in_the_secret_signs_commits() {
    let stage = Https::start(fast_forwards_only());
    let work = stage.work.path().join("one");
    let (private, public) = other_key(stage.work.path());
    let secret = [
        ("username", USER),
        ("password", stage.server.password()),
        ("signing-key", private.as_str()),
    ];
    let ca = stage.server.ca_pem();
    let settings = read(stage.repository.https_url(), &secret, Some(ca), &work).unwrap();
    let publisher = publisher(settings, &work);
    for content in ["1", "2"] {
        publisher
            .publish(Edit::new(&[("a", content)], &[]))
            .await
            .unwrap();
    }
    let signers = stage.work.path().join("signers");
    std::fs::write(&signers, format!("kollect@kollect.dev {public}")).unwrap();
    let signers = format!("gpg.ssh.allowedSignersFile={}", signers.display());
    for commit in ["main", "main~1"] {
        let args = [
            "-c",
            "gpg.format=ssh",
            "-c",
            &signers,
            "verify-commit",
            commit,
        ];
        stage.repository.git(&args).unwrap();
    }
    files(&stage.repository, "main");
}

/// A fresh key: private text and public text.
fn other_key(directory: &Path) -> (String, String) {
    let file = directory.join("other_key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(made.success());
    let public = std::fs::read_to_string(file.with_extension("pub")).unwrap();
    (std::fs::read_to_string(file).unwrap(), public)
}

fn known_as(known: &str, public: &str) -> String {
    let host = known.split_whitespace().next().unwrap();
    format!("{host} {public}")
}

#[test]
fn an_encrypted_key_is_refused_with_advice() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "hunter2", "-f"])
        .arg(&file)
        .status()
        .unwrap();
    assert!(made.success());
    let key = std::fs::read_to_string(file).unwrap();
    let secret = [("ssh-privatekey", key.as_str()), ("known_hosts", "x y")];
    let error = read(
        "ssh://git@git.example/r.git",
        &secret,
        None,
        directory.path(),
    )
    .unwrap_err();
    assert!(error.to_string().contains("passphrase"), "{error}");
}

#[tokio::test]
async fn a_directory_end_to_end() {
    let stage = Https::start(fast_forwards_only());
    let work = stage.work.path().join("file");
    let url = format!("file://{}", stage.repository.path().display());
    let settings = read(&url, &[], None, &work).unwrap();
    let publisher = publisher(settings, &work);
    publisher.probe().await.unwrap();
    publisher
        .publish(Edit::new(&[("a", "1"), ("b/c", "1")], &[]))
        .await
        .unwrap();
    let repository = stage.repository.clone();
    let edit = Edit::new(&[("a", "2")], &["b/c"])
        .meanwhile(move || foreign_commit(&repository, "theirs", "x"));
    publisher.publish(edit).await.unwrap();
    let expected = [("a", "2"), ("theirs", "x")];
    let expected = expected.map(|(path, content)| (path.to_owned(), content.to_owned()));
    assert_eq!(files(&stage.repository, "main"), expected);
    assert_eq!(count(&stage.repository, "main"), 3);

    let nowhere = read("file:///nowhere/r.git", &[], None, &work).unwrap();
    let error = self::publisher(nowhere, &work).probe().await.unwrap_err();
    assert!(matches!(error, GitError::Configuration(_)), "{error:?}");
}
