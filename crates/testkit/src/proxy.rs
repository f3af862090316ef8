//! A bad network on demand: a TCP proxy on loopback that can refuse, hang, cut and slow down.
//!
//! A server that is stopped tells its clients; a network that fails often does not. Clients that
//! go through a [`Proxy`] meet both, while the server behind it goes on for everybody else.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::ports;

/// How much is carried at once; small, so that slowness is even.
const CHUNK: usize = 16 * 1024;

/// Forwards connections to a server, as well as it is told to. Ends with its connections on drop.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
    acceptor: Mutex<Option<Acceptor>>,
}

struct Acceptor {
    thread: JoinHandle<()>,
    stop: Arc<AtomicBool>,
}

struct Shared {
    server: SocketAddr,
    traffic: Mutex<Traffic>,
    changed: Condvar,
}

/// What holds for all connections.
#[derive(Default)]
struct Traffic {
    stalled: bool,
    bytes_per_second: Option<u32>,
    connections: HashMap<u64, Connection>,
    opened: u64,
    carried: u64,
}

struct Connection {
    ends: [TcpStream; 2],
    /// Directions in which something may still come.
    directions: u8,
}

impl Proxy {
    /// A proxy on a free loopback port for the server at this address.
    pub fn to(server: impl ToSocketAddrs) -> Result<Self> {
        Self::on(ports::free()?, server)
    }

    /// A proxy on this port of ours, for servers that tell their clients where to go.
    pub fn on(port: u16, server: impl ToSocketAddrs) -> Result<Self> {
        let server = server
            .to_socket_addrs()?
            .next()
            .context("the server's address is empty")?;
        let proxy = Self {
            port,
            shared: Arc::new(Shared {
                server,
                traffic: Mutex::default(),
                changed: Condvar::new(),
            }),
            acceptor: Mutex::new(None),
        };
        proxy.accept()?;
        Ok(proxy)
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Accepts connections, as in the beginning; does nothing while it does.
    pub fn accept(&self) -> Result<()> {
        let mut acceptor = lock(&self.acceptor);
        if acceptor.is_some() {
            return Ok(());
        }
        let listener = ports::listen(self.port)?;
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopping) = (Arc::clone(&self.shared), Arc::clone(&stop));
        let thread = thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if stopping.load(Ordering::SeqCst) {
                    break;
                }
                // A server that is gone shows as a connection that ends at once.
                let _ = shared.open(client);
            }
        });
        *acceptor = Some(Acceptor { thread, stop });
        Ok(())
    }

    /// Ends all connections and refuses new ones, as a host without the server does.
    pub fn refuse(&self) {
        if let Some(acceptor) = lock(&self.acceptor).take() {
            acceptor.stop.store(true, Ordering::SeqCst);
            // Wakes the thread, which then closes the listener.
            let _ = TcpStream::connect(self.address());
            let _ = acceptor.thread.join();
        }
        self.cut();
    }

    /// Ends all connections; new ones are welcome.
    pub fn cut(&self) {
        let connections = std::mem::take(&mut self.shared.traffic().connections);
        for end in connections.values().flat_map(|connection| &connection.ends) {
            // It may have ended by itself.
            let _ = end.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
    }

    /// Carries nothing while `on`; connections stay open, new ones are accepted and hang too.
    /// Afterwards everything that was held back arrives.
    pub fn stall(&self, on: bool) {
        self.shared.traffic().stalled = on;
        self.shared.changed.notify_all();
    }

    /// Carries at most so many bytes per second, per connection and direction; none means as fast
    /// as possible.
    pub fn throttle(&self, bytes_per_second: Option<u32>) {
        self.shared.traffic().bytes_per_second = bytes_per_second.map(|limit| limit.max(1));
    }

    /// How many bytes were carried so far, in both directions.
    pub fn carried(&self) -> u64 {
        self.shared.traffic().carried
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.traffic().connections.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.refuse();
    }
}

impl Shared {
    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        lock(&self.traffic)
    }

    /// Connects a client with the server.
    fn open(self: &Arc<Self>, client: TcpStream) -> Result<()> {
        let server = TcpStream::connect(self.server)?;
        for end in [&client, &server] {
            end.set_nodelay(true)?;
        }
        let number = {
            let mut traffic = self.traffic();
            traffic.opened += 1;
            let number = traffic.opened;
            let connection = Connection {
                ends: [client.try_clone()?, server.try_clone()?],
                directions: 2,
            };
            traffic.connections.insert(number, connection);
            number
        };
        let back = (server.try_clone()?, client.try_clone()?);
        for (from, to) in [(client, server), back] {
            let shared = Arc::clone(self);
            thread::spawn(move || shared.carry(number, from, to));
        }
        Ok(())
    }

    /// Carries bytes in one direction until an end.
    fn carry(&self, number: u64, mut from: TcpStream, mut to: TcpStream) {
        let mut buffer = vec![0; CHUNK];
        loop {
            // Slow connections carry small pieces, or they would be slow only in jumps.
            let piece = match self.traffic().bytes_per_second {
                Some(limit) => CHUNK.min(limit as usize / 20 + 1),
                None => CHUNK,
            };
            let read = from.read(&mut buffer[..piece]).unwrap_or(0);
            self.traffic().carried += read as u64;
            let Some(pause) = self.pass(number, read) else {
                return;
            };
            thread::sleep(pause);
            if read == 0 || to.write_all(&buffer[..read]).is_err() {
                break;
            }
        }
        // This direction is done; the other one may go on.
        let _ = to.shutdown(Shutdown::Write);
        let connections = &mut self.traffic().connections;
        if let Some(connection) = connections.get_mut(&number) {
            connection.directions -= 1;
            if connection.directions == 0 {
                connections.remove(&number);
            }
        }
    }

    /// Waits until bytes may pass and says how long they take; nothing if the connection was cut.
    fn pass(&self, number: u64, bytes: usize) -> Option<Duration> {
        let mut traffic = self.traffic();
        while traffic.stalled && traffic.connections.contains_key(&number) {
            let waiting = self.changed.wait(traffic);
            traffic = waiting.unwrap_or_else(PoisonError::into_inner);
        }
        traffic.connections.contains_key(&number).then(|| {
            traffic.bytes_per_second.map_or(Duration::ZERO, |limit| {
                Duration::from_secs(1) * u32::try_from(bytes).unwrap_or(u32::MAX) / limit
            })
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
