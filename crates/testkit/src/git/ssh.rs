//! OpenSSH's server, restricted to git.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::account::Account;
use crate::process::Program;
use crate::run_dir::RunDir;
use crate::service::Service;
use crate::{debian, ports};

/// An SSH server that lets one key run git and nothing else.
///
/// Logins are as the user who runs the tests, since an unprivileged server cannot become anybody
/// else; the forced command keeps the key from being a shell.
pub struct SshServer {
    // Before the directory, so that the server is gone when its files are removed.
    server: Service,
    port: u16,
    user: String,
    host_key: String,
    run: RunDir,
}

impl SshServer {
    /// Starts it. Every repository is reachable, by [`ssh_url`](super::Repository::ssh_url).
    pub fn start() -> Result<Self> {
        let sshd = debian::ensure("openssh-server", || {
            debian::first_file(["/usr/sbin/sshd".into()])
        })?;
        let me = Account::current()?;
        let run = RunDir::new("ssh")?;
        let host_key = generate_key(&run.join("host_key"))?;
        let client_key = generate_key(&run.join("client_key"))?;
        let authorized = format!(
            "restrict,command=\"git-shell -c \\\"$SSH_ORIGINAL_COMMAND\\\"\" {client_key}\n"
        );
        run.write_private("authorized_keys", authorized)?;
        let port = ports::free()?;
        let config = run.write_private("sshd_config", configuration(run.path(), port))?;
        if me.is_root() {
            // Normally made by the service script, which does not run here.
            fs::create_dir_all("/run/sshd").context("cannot create /run/sshd")?;
        }
        // The server starts itself again for each connection, hence the absolute path.
        let program = Program::new("sshd", sshd)
            .arg("-D")
            .arg("-e")
            .arg("-f")
            .arg(config);
        let server = Service::start(program, run.path(), move || greets(port))?;
        Ok(Self {
            server,
            port,
            user: me.name,
            host_key,
            run,
        })
    }

    /// `ssh://<user>@127.0.0.1:<port>`.
    pub fn url(&self) -> String {
        format!("ssh://{}@127.0.0.1:{}", self.user, self.port)
    }

    /// The private key that may log in, in OpenSSH format.
    pub fn client_key(&self) -> Result<String> {
        Ok(fs::read_to_string(self.client_key_file())?)
    }

    /// [`client_key`](Self::client_key) as a file.
    pub fn client_key_file(&self) -> PathBuf {
        self.run.join("client_key")
    }

    /// The line that pins the host key in a `known_hosts` file.
    pub fn known_hosts(&self) -> String {
        format!("[127.0.0.1]:{} {}\n", self.port, self.host_key)
    }

    /// A value for `GIT_SSH_COMMAND` that uses `key` and trusts only this server.
    pub fn ssh_command(&self, key: &Path) -> Result<String> {
        let known = self.run.write_private("known_hosts", self.known_hosts())?;
        Ok(format!(
            "ssh -F /dev/null -i {} -o IdentitiesOnly=yes -o BatchMode=yes \
             -o StrictHostKeyChecking=yes -o UserKnownHostsFile={}",
            key.display(),
            known.display()
        ))
    }

    /// The server process, to take away and bring back.
    pub fn server(&mut self) -> &mut Service {
        &mut self.server
    }
}

/// Creates an Ed25519 key at `path` and returns its public half, type and value.
fn generate_key(path: &Path) -> Result<String> {
    let output = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "kollect-test", "-f"])
        .arg(path)
        .output()
        .context("cannot run ssh-keygen: install openssh-client")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "ssh-keygen failed: {}",
        stderr.trim_end()
    );
    let public = fs::read_to_string(path.with_extension("pub"))?;
    let mut words = public.split_whitespace();
    let (kind, value) = (words.next(), words.next());
    Ok(format!(
        "{} {}",
        kind.unwrap_or_default(),
        value.context("an empty public key")?
    ))
}

fn configuration(dir: &Path, port: u16) -> String {
    let dir = dir.display();
    format!(
        "ListenAddress 127.0.0.1\n\
         Port {port}\n\
         HostKey {dir}/host_key\n\
         AuthorizedKeysFile {dir}/authorized_keys\n\
         PidFile none\n\
         UsePAM no\n\
         # The key file lies in a temporary directory that others may pass through.\n\
         StrictModes no\n\
         PasswordAuthentication no\n\
         KbdInteractiveAuthentication no\n\
         PermitRootLogin forced-commands-only\n\
         AcceptEnv GIT_PROTOCOL\n"
    )
}

fn greets(port: u16) -> Result<()> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut banner = String::new();
    BufReader::new(stream).read_line(&mut banner)?;
    ensure!(
        banner.starts_with("SSH-2.0-"),
        "unexpected greeting {banner:?}"
    );
    Ok(())
}
