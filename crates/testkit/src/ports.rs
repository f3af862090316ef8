//! Free loopback ports.
//!
//! Ports come from a range below the one the kernel uses for outgoing connections: asking for
//! port 0 hands out a number that any client may take again before the server binds it.
//! The range also leaves room above for servers that open a second port at a fixed distance.
//!
//! A port that was handed out belongs to its process until that ends, also while nothing listens on
//! it: a server that is taken away and brought back finds its place as it left it.

use std::fs::{self, File};
use std::hash::{BuildHasher, RandomState};
use std::io::ErrorKind;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::run_dir;

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// How long starting a program takes on a busy machine.
const STARTING: Duration = Duration::from_secs(5);

/// The locks of our ports; the kernel releases them however we die.
static OURS: Mutex<Vec<File>> = Mutex::new(Vec::new());

/// A port on 127.0.0.1 that nobody listens on and nobody else is given while this process lives.
pub fn free() -> Result<u16> {
    // A random start keeps parallel test processes apart.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let random = RandomState::new().hash_one(std::process::id());
        AtomicU32::new(u32::try_from(random % u64::from(COUNT)).unwrap_or(0))
    });
    let places = run_dir::base()?.join(".ports");
    fs::create_dir_all(&places).context("cannot keep track of ports")?;
    (0..COUNT)
        .map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(COUNT);
            FIRST + u16::try_from(step).unwrap_or(0)
        })
        .find(|port| {
            reserve(&places, *port) && TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok()
        })
        .with_context(|| format!("no free port between {FIRST} and {}", FIRST + COUNT))
}

/// Listens on a port of this process.
///
/// A program that is being started holds everything that was open at that moment, until it has
/// become itself; a listener that was just closed is in the way for as long.
pub fn listen(port: u16) -> Result<TcpListener> {
    let started = Instant::now();
    loop {
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
            Err(error) if error.kind() == ErrorKind::AddrInUse && started.elapsed() < STARTING => {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result.with_context(|| format!("cannot listen on port {port}")),
        }
    }
}

/// Takes a port for this process, unless another one has it.
fn reserve(places: &Path, port: u16) -> bool {
    let Ok(place) = File::create(places.join(port.to_string())) else {
        return false;
    };
    let taken = place.try_lock().is_ok();
    if taken {
        OURS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(place);
    }
    taken
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, TcpListener};

    #[test]
    fn ports_are_distinct_and_can_be_bound() {
        let ports: HashSet<u16> = (0..50).map(|_| super::free().unwrap()).collect();
        assert_eq!(ports.len(), 50);
        for port in ports {
            TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
}
