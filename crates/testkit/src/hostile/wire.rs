//! A connection that ends by itself, whatever is done with it.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{LIFE, MOST_BYTES};

/// How long a slow server waits between two bytes.
const DRIP: Duration = Duration::from_secs(1);

/// One connection, with the limits that keep a test from running for ever.
pub(super) struct Wire {
    stream: TcpStream,
    until: Instant,
    left: u64,
    sent: Arc<AtomicU64>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, sent: Arc<AtomicU64>) -> io::Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LIFE))?;
        stream.set_write_timeout(Some(LIFE))?;
        Ok(Self {
            stream,
            until: Instant::now() + LIFE,
            left: MOST_BYTES,
            sent,
        })
    }
}

impl Read for Wire {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        alive(self.until)?;
        self.stream.read(buffer)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        alive(self.until)?;
        if self.left == 0 {
            return Err(io::Error::other("enough was sent"));
        }
        let written = self.stream.write(bytes)?;
        self.left = self.left.saturating_sub(written as u64);
        self.sent.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn alive(until: Instant) -> io::Result<()> {
    if Instant::now() < until {
        Ok(())
    } else {
        Err(io::ErrorKind::TimedOut.into())
    }
}

/// Sends one byte per second.
pub(super) fn drip(out: &mut impl Write, bytes: impl IntoIterator<Item = u8>) -> io::Result<()> {
    for byte in bytes {
        out.write_all(&[byte])?;
        out.flush()?;
        thread::sleep(DRIP);
    }
    Ok(())
}

/// Sends the same piece again and again, until the wire ends.
pub(super) fn endless(out: &mut impl Write, piece: &[u8]) -> io::Result<()> {
    // Large writes: what matters is how much arrives, not how it was cut.
    let block = piece.repeat(64 * 1024 / piece.len().max(1) + 1);
    loop {
        out.write_all(&block)?;
    }
}
