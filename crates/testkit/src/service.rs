//! A server that can be stopped and started again, for tests that take it away.

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::process::{Process, Program, START_LIMIT, Signal};

type Check = Box<dyn Fn() -> Result<()> + Send + Sync>;

/// A [`Program`] with its readiness check.
pub struct Service {
    program: Program,
    log_dir: PathBuf,
    ready: Check,
    shutdown: Signal,
    process: Option<Process>,
}

impl Service {
    /// Starts `program` and waits until `ready` succeeds.
    pub fn start(
        program: Program,
        log_dir: impl Into<PathBuf>,
        ready: impl Fn() -> Result<()> + Send + Sync + 'static,
    ) -> Result<Self> {
        let mut service = Self {
            program,
            log_dir: log_dir.into(),
            ready: Box::new(ready),
            shutdown: Signal::TERM,
            process: None,
        };
        service.resume()?;
        Ok(service)
    }

    /// The signal that asks for an orderly end, where it is not `TERM`.
    #[must_use]
    pub fn shutdown_signal(mut self, signal: Signal) -> Self {
        self.shutdown = signal;
        self
    }

    /// Starts it again with its old data and port; does nothing while it runs.
    pub fn resume(&mut self) -> Result<()> {
        if self.process.as_mut().is_some_and(Process::is_running) {
            return Ok(());
        }
        let mut process = self.program.spawn(&self.log_dir)?;
        process.wait_ready(START_LIMIT, || (self.ready)())?;
        self.process = Some(process);
        Ok(())
    }

    /// Lets it end in good order: connections are closed, data is written.
    pub fn stop(&mut self) -> Result<()> {
        self.end(self.shutdown)
    }

    /// Takes it away as a crash or power cut would.
    pub fn kill(&mut self) -> Result<()> {
        self.end(Signal::KILL)
    }

    /// Ends it with this signal.
    pub fn end(&mut self, signal: Signal) -> Result<()> {
        let mut process = self.process.take().context("it does not run")?;
        process.stop(signal)?;
        Ok(())
    }

    /// Whether it runs.
    pub fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(Process::is_running)
    }

    /// Its process id while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Process::pid)
    }
}
