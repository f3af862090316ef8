//! Supervised programs: they cannot outlive us, their log is kept, and "started" means "answers".
//!
//! Three ends are covered. Dropping a [`Process`] stops it; a panic unwinds and so drops it; and
//! when this process is killed, the kernel sends the child its death signal. The last needs a
//! call between fork and exec, which safe Rust has no room for, so programs are started through
//! `setpriv` of util-linux, which sets the signal and then becomes the program (same pid).

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
pub use rustix::process::Signal;
use rustix::process::{Pid, kill_process};

use crate::account::Account;

/// How long a server may take to answer after its start. Generous, because the machine may be
/// compiling something else at the same time.
pub const START_LIMIT: Duration = Duration::from_mins(1);

const STOP_LIMIT: Duration = Duration::from_secs(15);
const POLL: Duration = Duration::from_millis(25);
const LOG_TAIL: usize = 20;

/// A program to start.
#[derive(Debug, Clone)]
pub struct Program {
    name: String,
    path: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    user: Option<Account>,
    death_signal: Signal,
}

impl Program {
    /// The program at `path`; `name` names its log and appears in messages.
    pub fn new(name: &str, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.to_owned(),
            path: path.into(),
            args: Vec::new(),
            env: Vec::new(),
            user: None,
            death_signal: Signal::KILL,
        }
    }

    /// Adds one argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<OsString>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    #[must_use]
    pub fn args_of(mut self, args: &[&str]) -> Self {
        self.args.extend(args.iter().map(OsString::from));
        self
    }

    /// Adds `--name=value`.
    #[must_use]
    pub fn flag(self, name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut flag = OsString::from(format!("--{name}="));
        flag.push(value);
        self.arg(flag)
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs it as another user; only root can.
    #[must_use]
    pub fn run_as(mut self, user: &Account) -> Self {
        self.user = Some(user.clone());
        self
    }

    /// The signal that ends it on drop and when we die. Default: `KILL`, since the data is
    /// thrown away anyway.
    #[must_use]
    pub fn death_signal(mut self, signal: Signal) -> Self {
        self.death_signal = signal;
        self
    }

    /// Starts it with its output appended to `<name>.log` in `log_dir`.
    pub fn spawn(&self, log_dir: &Path) -> Result<Process> {
        let log = log_dir.join(format!("{}.log", self.name));
        let output = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        let mut command = self.command()?;
        command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        // Ctrl-C in a terminal reaches the foreground group; servers must not get it before we
        // have decided how to stop them.
        command.process_group(0);
        let child = spawn_from_keeper(command)
            .with_context(|| format!("cannot start {} ({})", self.name, self.path.display()))?;
        Ok(Process {
            name: self.name.clone(),
            child,
            log,
            death_signal: self.death_signal,
            started: Instant::now(),
        })
    }

    /// Runs it to its end and returns what it printed; fails when it fails.
    pub fn run(&self) -> Result<String> {
        let output = self
            .command()?
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {} ({})", self.name, self.path.display()))?;
        if !output.status.success() {
            let stderr = String::from_utf8_lossy(&output.stderr);
            bail!(
                "{} failed ({}): {}",
                self.name,
                output.status,
                stderr.trim_end()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn command(&self) -> Result<Command> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", signal_name(self.death_signal)?]);
        if let Some(user) = &self.user {
            command
                .arg(format!("--reuid={}", user.uid))
                .arg(format!("--regid={}", user.gid));
            // Nothing of root must remain with the server.
            command.args(["--init-groups", "--inh-caps=-all"]);
        }
        command.arg("--").arg(&self.path).args(&self.args);
        command.envs(self.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }
}

/// A running program. Stopped on drop.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
    death_signal: Signal,
    started: Instant,
}

impl Process {
    /// Waits until `ready` succeeds.
    ///
    /// Fails at once when the program exits, and after `limit` otherwise; the message holds the
    /// last answer of `ready` and the end of the log.
    pub fn wait_ready(
        &mut self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<()>,
    ) -> Result<()> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(self.failure(&format!("exited ({status}) before it was ready")));
            }
            let Err(error) = ready() else { return Ok(()) };
            if self.started.elapsed() > limit {
                return Err(self.failure(&format!(
                    "was not ready after {}s: {error:#}",
                    limit.as_secs()
                )));
            }
            thread::sleep(POLL);
        }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// The file that collects its output.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// Ends it with `signal` and waits for the end; after 15 s without effect it is killed.
    pub fn stop(&mut self, signal: Signal) -> Result<ExitStatus> {
        self.stop_within(signal, STOP_LIMIT)
    }

    /// Ends it with `signal` and waits for the end; after `limit` without effect it is killed.
    pub fn stop_within(&mut self, signal: Signal, limit: Duration) -> Result<ExitStatus> {
        // Not waited for yet, so the pid cannot have been given to somebody else.
        if let Some(status) = self.child.try_wait()? {
            return Ok(status);
        }
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot signal {}", self.name))?;
        let asked = Instant::now();
        while asked.elapsed() < limit {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            thread::sleep(POLL);
        }
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    fn failure(&self, what: &str) -> anyhow::Error {
        anyhow!(
            "{} {what}\n--- last lines of {} ---\n{}",
            self.name,
            self.log.display(),
            tail(&self.log, LOG_TAIL)
        )
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Nobody is left to report to; the kernel's death signal is the last resort.
        let _ = self.stop(self.death_signal);
    }
}

/// The last `count` lines of a text file.
pub fn tail(path: &Path, count: usize) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Spawns from a thread that lives as long as the process.
///
/// The death signal follows the *thread* that forked. Tests run on threads that end with the
/// test, so a shared server started by the first test would die under the second one.
fn spawn_from_keeper(command: Command) -> io::Result<Child> {
    type Request = (Command, mpsc::Sender<io::Result<Child>>);
    static KEEPER: LazyLock<mpsc::Sender<Request>> = LazyLock::new(|| {
        let (sender, receiver) = mpsc::channel::<Request>();
        thread::spawn(move || {
            for (mut command, reply) in receiver {
                let _ = reply.send(command.spawn());
            }
        });
        sender
    });
    let gone = || io::Error::other("the thread that starts programs is gone");
    let (reply, answer) = mpsc::channel();
    KEEPER.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

fn signal_name(signal: Signal) -> Result<&'static str> {
    Ok(match signal {
        Signal::KILL => "KILL",
        Signal::TERM => "TERM",
        Signal::INT => "INT",
        Signal::QUIT => "QUIT",
        other => bail!("{other:?} is not a signal that ends a program"),
    })
}
