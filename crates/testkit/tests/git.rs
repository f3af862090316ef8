//! Git over HTTPS and SSH with the real client.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, anyhow};
use kollect_testkit::git::{RepositoryOptions, SshServer, USER};
use kollect_testkit::{GitServer, RunDir};

/// Runs a client command and returns its error output when it fails.
fn run(mut command: Command, args: &[&str]) -> Result<()> {
    let output = command.args(args).output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(anyhow!("{}", String::from_utf8_lossy(&output.stderr)))
}

/// A clone, made with `command` so that it trusts and authenticates as that does.
struct WorkTree<'a> {
    dir: String,
    command: &'a dyn Fn() -> Command,
}

impl<'a> WorkTree<'a> {
    fn clone(
        run_dir: &RunDir,
        name: &str,
        url: &str,
        command: &'a dyn Fn() -> Command,
    ) -> Result<Self> {
        let dir = run_dir.join(name).to_string_lossy().into_owned();
        run(command(), &["clone", "--quiet", url, &dir])?;
        Ok(Self { dir, command })
    }

    fn git(&self, args: &[&str]) -> Result<()> {
        let mut all = vec!["-C", self.dir.as_str()];
        all.extend(args);
        run((self.command)(), &all)
    }

    fn commit(&self, file: &str, content: &[u8]) -> Result<()> {
        fs::write(Path::new(&self.dir).join(file), content)?;
        self.git(&["add", "."])?;
        self.git(&["commit", "--quiet", "-m", file])
    }
}

/// Bytes that do not compress, so that a push is as large as it says.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    std::iter::repeat_with(next).take(length).collect()
}

#[test]
fn https_clone_and_push() -> Result<()> {
    let server = GitServer::start()?;
    let run_dir = RunDir::new("git-client")?;
    let repository = server.create_repo("site")?;
    let url = repository.https_url_as(USER, server.password());
    let command = || server.git_command();

    let work = WorkTree::clone(&run_dir, "work", &url, &command)?;
    work.commit("README", b"hello\n")?;
    work.git(&["push", "--quiet", "origin", "HEAD:main"])?;
    assert_eq!(repository.git(&["show", "main:README"])?, "hello");

    // Above 1 MB git sends the body in chunks.
    work.commit("large", &noise(3_000_000))?;
    work.git(&["push", "--quiet", "origin", "HEAD:main"])?;
    assert_eq!(
        repository.git(&["cat-file", "-s", "main:large"])?,
        "3000000"
    );

    let again = WorkTree::clone(&run_dir, "again", &url, &command)?;
    assert_eq!(
        fs::read(Path::new(&again.dir).join("large"))?,
        noise(3_000_000)
    );
    Ok(())
}

/// A fetch that names many commits is large enough for git to compress the request.
#[test]
fn https_compressed_requests() -> Result<()> {
    let server = GitServer::start()?;
    let run_dir = RunDir::new("git-client")?;
    let repository = server.create_repo("refs")?;
    let url = repository.https_url_as(USER, server.password());
    let command = || server.git_command();
    let work = WorkTree::clone(&run_dir, "work", &url, &command)?;
    for number in 0..40 {
        work.commit("file", format!("{number}").as_bytes())?;
        work.git(&["branch", &format!("b{number}")])?;
    }
    work.git(&["push", "--quiet", "--all", "origin"])?;
    work.git(&["push", "--quiet", "origin", "HEAD:main"])?;
    let trace = run_dir.join("trace");
    let traced = || {
        let mut command = server.git_command();
        command.env("GIT_TRACE_CURL", &trace);
        command
    };
    WorkTree::clone(&run_dir, "again", &url, &traced)?;
    let trace = fs::read_to_string(&trace)?.to_lowercase();
    assert!(
        trace.contains("content-encoding: gzip"),
        "the case under test took place"
    );
    assert!(trace.contains("git-protocol: version=2"));
    Ok(())
}

#[test]
fn https_refuses_strangers_and_unknown_authorities() -> Result<()> {
    let server = GitServer::start()?;
    let run_dir = RunDir::new("git-client")?;
    let repository = server.create_repo("private")?;
    let ls = |command: Command, url: &str| run(command, &["ls-remote", url]);

    ls(
        server.git_command(),
        &repository.https_url_as(USER, server.password()),
    )?;
    let wrong = ls(
        server.git_command(),
        &repository.https_url_as(USER, "wrong"),
    )
    .unwrap_err();
    assert!(
        wrong.to_string().contains("Authentication failed"),
        "{wrong}"
    );
    let nobody = ls(server.git_command(), repository.https_url()).unwrap_err();
    assert!(
        nobody.to_string().contains("could not read Username"),
        "{nobody}"
    );

    let stranger = GitServer::start()?;
    let mut distrusting = server.git_command();
    distrusting.env("GIT_SSL_CAINFO", stranger.ca_file());
    let url = repository.https_url_as(USER, server.password());
    let untrusted = ls(distrusting, &url).unwrap_err();
    assert!(untrusted.to_string().contains("certificate"), "{untrusted}");

    let missing = url.replace("private", "absent");
    assert!(
        ls(server.git_command(), &missing)
            .unwrap_err()
            .to_string()
            .contains("not found")
    );
    drop(run_dir);
    Ok(())
}

#[test]
fn history_can_be_protected() -> Result<()> {
    let server = GitServer::start()?;
    let run_dir = RunDir::new("git-client")?;
    let command = || server.git_command();
    for (deny, refused) in [(true, true), (false, false)] {
        let options = RepositoryOptions {
            deny_non_fast_forwards: deny,
        };
        let repository = server.create_repo_with("protected", options)?;
        let url = repository.https_url_as(USER, server.password());
        let work = WorkTree::clone(&run_dir, &format!("work-{deny}"), &url, &command)?;
        work.commit("a", b"1")?;
        work.git(&["push", "--quiet", "origin", "HEAD:main"])?;
        work.git(&["commit", "--quiet", "--amend", "-m", "rewritten"])?;
        let pushed = work.git(&["push", "--quiet", "--force", "origin", "HEAD:main"]);
        assert_eq!(pushed.is_err(), refused, "denyNonFastForwards={deny}");
    }
    Ok(())
}

#[test]
fn ssh_clone_and_push() -> Result<()> {
    let server = GitServer::start()?;
    let ssh = SshServer::start()?;
    let run_dir = RunDir::new("git-client")?;
    let repository = server.create_repo("ssh")?;
    let url = repository.ssh_url(&ssh);
    let ssh_command = ssh.ssh_command(&ssh.client_key_file())?;
    let command = || {
        let mut command = server.git_command();
        command.env("GIT_SSH_COMMAND", &ssh_command);
        command
    };

    let work = WorkTree::clone(&run_dir, "work", &url, &command)?;
    work.commit("README", b"over ssh\n")?;
    work.git(&["push", "--quiet", "origin", "HEAD:main"])?;
    assert_eq!(repository.git(&["show", "main:README"])?, "over ssh");

    // A key that is not authorised.
    let key = run_dir.join("stranger");
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status()?;
    assert!(made.success());
    let mut stranger = server.git_command();
    stranger.env("GIT_SSH_COMMAND", ssh.ssh_command(&key)?);
    let refused = run(stranger, &["ls-remote", &url]).unwrap_err().to_string();
    assert!(refused.contains("Permission denied"), "{refused}");

    // A server whose host key is not pinned.
    let mut unpinned = server.git_command();
    let other = SshServer::start()?;
    unpinned.env(
        "GIT_SSH_COMMAND",
        other.ssh_command(&ssh.client_key_file())?,
    );
    let refused = run(unpinned, &["ls-remote", &url]).unwrap_err().to_string();
    assert!(
        refused.contains("Host key verification failed"),
        "{refused}"
    );

    // The key runs git and nothing else.
    let output = Command::new("sh")
        .arg("-c")
        .arg(format!(
            "{ssh_command} -p {} {} id",
            port_of(&url),
            login_of(&url)
        ))
        .output()?;
    assert!(!output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("uid="));
    Ok(())
}

fn login_of(url: &str) -> &str {
    url.trim_start_matches("ssh://")
        .split(':')
        .next()
        .unwrap_or_default()
}

fn port_of(url: &str) -> &str {
    url.rsplit(':')
        .next()
        .and_then(|rest| rest.split('/').next())
        .unwrap_or_default()
}
