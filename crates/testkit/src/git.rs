//! Git repositories served over HTTPS and SSH by git itself.
//!
//! Clients meet the real protocol: git's own `http-backend` and `git-shell` do the work, this
//! module only carries bytes and checks who asks. Repositories are bare directories, so tests
//! assert on them with plain git.

mod https;
mod ssh;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::names::{secret, unique};
use crate::run_dir::RunDir;

pub use ssh::SshServer;

/// The user that the HTTPS server knows.
pub const USER: &str = "kollect";

/// Bare repositories behind HTTPS with basic authentication; an [`SshServer`] serves them too.
pub struct GitServer {
    https: https::HttpsServer,
    password: String,
    run: RunDir,
}

/// A bare repository for one test.
#[derive(Debug, Clone)]
pub struct Repository {
    path: PathBuf,
    https_url: String,
}

/// How a repository treats pushes.
#[derive(Debug, Clone, Copy, Default)]
pub struct RepositoryOptions {
    /// Refuse pushes that rewrite a branch.
    pub deny_non_fast_forwards: bool,
}

impl GitServer {
    /// Starts an HTTPS server without repositories.
    pub fn start() -> Result<Self> {
        let run = RunDir::new("git")?;
        let root = run.join("repositories");
        std::fs::create_dir(&root)?;
        let password = secret()?;
        let https = https::HttpsServer::start(&root, USER, &password)?;
        run.write_private("ca.crt", https.ca_pem())?;
        Ok(Self {
            https,
            password,
            run,
        })
    }

    /// Creates an empty bare repository with branch `main`; its name starts with `prefix`.
    pub fn create_repo(&self, prefix: &str) -> Result<Repository> {
        self.create_repo_with(prefix, RepositoryOptions::default())
    }

    /// Creates an empty bare repository with branch `main`.
    pub fn create_repo_with(&self, prefix: &str, options: RepositoryOptions) -> Result<Repository> {
        let name = format!("{}.git", unique(prefix));
        let path = self.run.join("repositories").join(&name);
        let repository = Repository {
            https_url: self.https.url(&name),
            path,
        };
        let path = repository.path.to_string_lossy().into_owned();
        git(&["init", "--quiet", "--bare", "--initial-branch=main", &path])?;
        // Pushing over HTTP is off unless a repository allows it.
        repository.git(&["config", "http.receivepack", "true"])?;
        let deny = options.deny_non_fast_forwards.to_string();
        repository.git(&["config", "receive.denyNonFastForwards", &deny])?;
        Ok(repository)
    }

    /// The password of [`USER`].
    pub fn password(&self) -> &str {
        &self.password
    }

    /// The authority that signed the HTTPS server's certificate.
    pub fn ca_pem(&self) -> &str {
        self.https.ca_pem()
    }

    /// [`ca_pem`](Self::ca_pem) as a file.
    pub fn ca_file(&self) -> PathBuf {
        self.run.join("ca.crt")
    }

    /// A git command that trusts this server and ignores the configuration of the machine.
    pub fn git_command(&self) -> Command {
        let mut command = plain_git();
        command.env("GIT_SSL_CAINFO", self.ca_file());
        command
    }
}

impl Repository {
    /// The bare repository on disk.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// `https://127.0.0.1:<port>/<name>.git`, without credentials.
    pub fn https_url(&self) -> &str {
        &self.https_url
    }

    /// The same with credentials.
    pub fn https_url_as(&self, user: &str, password: &str) -> String {
        self.https_url
            .replacen("https://", &format!("https://{user}:{password}@"), 1)
    }

    /// `ssh://<user>@127.0.0.1:<port>/<path>`.
    pub fn ssh_url(&self, server: &SshServer) -> String {
        format!("{}{}", server.url(), self.path.display())
    }

    /// Runs git in the bare repository, for assertions.
    pub fn git(&self, args: &[&str]) -> Result<String> {
        let path = self.path.to_string_lossy();
        let mut all = vec!["--git-dir", &path];
        all.extend(args);
        git(&all)
    }
}

fn plain_git() -> Command {
    let mut command = Command::new("git");
    command
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_AUTHOR_NAME", "Kollect Test")
        .env("GIT_AUTHOR_EMAIL", "test@kollect.invalid")
        .env("GIT_COMMITTER_NAME", "Kollect Test")
        .env("GIT_COMMITTER_EMAIL", "test@kollect.invalid")
        .stdin(Stdio::null());
    command
}

fn git(args: &[&str]) -> Result<String> {
    let output = plain_git().args(args).output().context("cannot run git")?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        bail!("git {} failed: {}", args.join(" "), stderr.trim_end());
    }
    Ok(String::from_utf8_lossy(&output.stdout)
        .trim_end()
        .to_owned())
}
