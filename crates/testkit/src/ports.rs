//! Free loopback ports.
//!
//! Ports come from a range below the one the kernel uses for outgoing connections: asking for
//! port 0 hands out a number that any client may take again before the server binds it.
//! The range also leaves room above for servers that open a second port at a fixed distance.

use std::hash::{BuildHasher, RandomState};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result};

const FIRST: u16 = 20_000;
const COUNT: u16 = 10_000;

/// A port on 127.0.0.1 that nobody listens on, different at every call in this process.
pub fn free() -> Result<u16> {
    // A random start keeps parallel test processes apart.
    static NEXT: LazyLock<AtomicU32> = LazyLock::new(|| {
        let random = RandomState::new().hash_one(std::process::id());
        AtomicU32::new(u32::try_from(random % u64::from(COUNT)).unwrap_or(0))
    });
    (0..COUNT)
        .map(|_| {
            let step = NEXT.fetch_add(1, Ordering::Relaxed) % u32::from(COUNT);
            FIRST + u16::try_from(step).unwrap_or(0)
        })
        .find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok())
        .with_context(|| format!("no free port between {FIRST} and {}", FIRST + COUNT))
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
