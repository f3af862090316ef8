//! Ctrl-C: whoever works looks at a flag; whoever hangs is not waited for.

use std::{
    future::Future,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result};

use crate::terminal;

/// What shells expect of a program that was interrupted.
pub(crate) const EXIT_CODE: u8 = 130;

/// How long work may take to notice.
const PATIENCE: Duration = Duration::from_millis(500);

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Somebody pressed Ctrl-C.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("interrupted; what was not written yet is as it was")]
pub(crate) struct Interrupted;

/// Ends long work that computes or waits for the disk.
pub(crate) fn check() -> Result<(), Interrupted> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        return Err(Interrupted);
    }
    Ok(())
}

/// Runs something until it ends or somebody presses Ctrl-C.
pub(crate) fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let done = runtime.block_on(async {
        let signal = runtime.spawn(async {
            if tokio::signal::ctrl_c().await.is_err() {
                std::future::pending::<()>().await;
            }
            INTERRUPTED.store(true, Ordering::Relaxed);
            // Reading standard input, or writing into a pipe that nobody reads, may never end. Files are replaced in one step, so what
            // is there is whole.
            tokio::spawn(async {
                tokio::time::sleep(PATIENCE).await;
                terminal::say(&format!("Error: {Interrupted}"));
                std::process::exit(i32::from(EXIT_CODE));
            });
        });
        tokio::select! {
            biased;
            done = work => done,
            _ = signal => Err(Interrupted.into()),
        }
    });
    runtime.shutdown_background();
    done
}

/// Whether an error is that somebody pressed Ctrl-C.
pub(crate) fn is_interruption(error: &anyhow::Error) -> bool {
    error.downcast_ref::<Interrupted>().is_some()
}
