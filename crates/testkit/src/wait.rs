//! Waiting for what a server does soon but not at once.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;

const LIMIT: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);

/// Repeats `check` until it succeeds; after 30 s its last error is returned, saying `what` did not
/// come.
pub fn eventually<T>(what: &str, mut check: impl FnMut() -> Result<T>) -> Result<T> {
    let started = Instant::now();
    loop {
        match check() {
            Ok(value) => return Ok(value),
            Err(error) if started.elapsed() > LIMIT => {
                return Err(error.context(format!("{what} did not come within {LIMIT:?}")));
            }
            Err(_) => thread::sleep(POLL),
        }
    }
}
