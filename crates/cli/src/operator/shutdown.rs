//! The end of the process: in order if it can be, in time in any case.
//!
//! ```text
//! signal ─> work ends ─────────> lease released ─> exit
//!   │          WORK                  (LEASE)        ^
//!   └─ watchdog ───────────────────────── LIMIT ────┘
//! ```

use std::{io, thread, time::Duration};

use tokio_util::sync::CancellationToken;

/// How long work under way may take to end. What has not ended then is given up, and the lease is
/// left to expire: who knows what that work still writes.
pub(super) const WORK: Duration = Duration::from_secs(12);
/// The process ends no later than this after the signal, whoever holds it.
const LIMIT: Duration = Duration::from_secs(18);

/// Cancels `stop` on the first signal and sees to it that the process ends; the second one ends it
/// at once.
///
/// Fails where signals cannot be handled at all.
pub(super) fn on_signal(stop: CancellationToken) -> io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        next().await;
        tracing::info!("stopping");
        watchdog(LIMIT);
        stop.cancel();
        next().await;
        std::process::exit(1);
    });
    Ok(())
}

/// Ends the process after this time. A thread of its own, because everything else may hang.
pub(super) fn watchdog(limit: Duration) {
    let end = move || {
        thread::sleep(limit);
        tracing::error!(
            "still not stopped after {} s; ending the process, the lease will expire",
            limit.as_secs()
        );
        std::process::exit(1);
    };
    let thread = thread::Builder::new().name("watchdog".to_owned());
    if let Err(error) = thread.stack_size(256 * 1024).spawn(end) {
        tracing::warn!(%error, "no watchdog: the process may take longer to end");
    }
}

#[cfg(test)]
mod tests {
    use std::{process::Command, time::Instant};

    use super::*;

    const INSIDE: &str = "KOLLECT_TEST_WATCHDOG";

    #[test]
    fn a11_the_watchdog_ends_a_process_whose_every_thread_hangs() {
        if std::env::var_os(INSIDE).is_some() {
            // This is the child: it never ends by itself.
            watchdog(Duration::from_secs(1));
            thread::sleep(Duration::from_hours(1));
        }
        let begun = Instant::now();
        let name =
            "operator::shutdown::tests::a11_the_watchdog_ends_a_process_whose_every_thread_hangs";
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        let output = child.args(["--exact", name]).env(INSIDE, "1").output();
        let output = output.expect("a child");
        assert_eq!(output.status.code(), Some(1));
        assert!(begun.elapsed() >= Duration::from_secs(1));
        assert!(begun.elapsed() < Duration::from_mins(2));
    }
}
