//! Servers that mean harm: they answer too slowly, too much, or not at all.
//!
//! What a sink is pointed at belongs to whoever wrote its address, so a client must have a limit for
//! everything such a server may do. Each [`Hostile`] does one of these things, to every connection,
//! and is scripted rather than real: no real server can be brought to it.
//!
//! | server | what it does |
//! | --- | --- |
//! | [`Hostile::silent`] | accepts and says nothing |
//! | [`Hostile::git`] | speaks Git's smart protocol over HTTPS in a [`GitManner`] |
//! | [`Hostile::postgres`] | lets everybody in and then has a [`PostgresManner`] |
//!
//! None of them needs its client to give up: a connection ends by itself after [`LIFE`] or
//! [`MOST_BYTES`], and all of them end when the server is dropped.

mod git;
mod postgres;
mod wire;

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

pub use self::git::GitManner;
pub use self::postgres::PostgresManner;
use self::wire::Wire;
use crate::pki::Authority;

/// How long a connection lasts at most.
pub const LIFE: Duration = Duration::from_mins(10);

/// How much a connection is sent at most: more than anybody should keep of an answer.
pub const MOST_BYTES: u64 = 1 << 30;

/// A hostile server on loopback, until it is dropped.
pub struct Hostile {
    port: u16,
    ca_pem: Option<String>,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    stopping: AtomicBool,
    accepted: AtomicUsize,
    sent: Arc<AtomicU64>,
    open: Mutex<HashMap<usize, TcpStream>>,
}

impl Hostile {
    /// Accepts connections and never says a word.
    pub fn silent() -> Result<Self> {
        Self::start(Wire::ignore)
    }

    /// A Git server behind HTTPS, whose certificate is signed by [`ca_pem`](Self::ca_pem). Every
    /// path is a repository, every user may do everything.
    pub fn git(manner: GitManner) -> Result<Self> {
        let authority = Authority::new("kollect hostile git")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let tls = identity.server_config()?;
        let mut server = Self::start(move |wire| git::serve(wire, &tls, manner))?;
        server.ca_pem = Some(authority.pem());
        Ok(server)
    }

    /// A database that lets in any user with any password, without TLS.
    pub fn postgres(manner: PostgresManner) -> Result<Self> {
        Self::start(move |wire| postgres::serve(wire, manner))
    }

    /// The port it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// The authority that signed its certificate; of a Git server.
    pub fn ca_pem(&self) -> Option<&str> {
        self.ca_pem.as_deref()
    }

    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// How many bytes were sent on all connections together, before any encryption.
    pub fn sent(&self) -> u64 {
        self.shared.sent.load(Ordering::Relaxed)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    fn start(serve: impl Fn(&mut Wire) -> io::Result<()> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared::default());
        let (accepting, serve) = (Arc::clone(&shared), Arc::new(serve));
        let acceptor = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if accepting.stopping.load(Ordering::SeqCst) {
                    break;
                }
                let number = accepting.accepted.fetch_add(1, Ordering::Relaxed);
                let Ok(handle) = stream.try_clone() else {
                    continue;
                };
                accepting.open().insert(number, handle);
                let (shared, serve) = (Arc::clone(&accepting), Arc::clone(&serve));
                thread::spawn(move || {
                    // A client that has enough and goes away is what everybody hopes for.
                    let _ = Wire::new(stream, Arc::clone(&shared.sent))
                        .and_then(|mut wire| serve(&mut wire));
                    if let Some(handle) = shared.open().remove(&number) {
                        let _ = handle.shutdown(Shutdown::Both);
                    }
                });
            }
        });
        Ok(Self {
            port,
            ca_pem: None,
            shared,
            acceptor: Some(acceptor),
        })
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, HashMap<usize, TcpStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor so that it sees the flag.
        let _ = TcpStream::connect(self.address());
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        for handle in self.shared.open().values() {
            let _ = handle.shutdown(Shutdown::Both);
        }
    }
}

impl Wire {
    /// Takes what comes and says nothing, until the other end leaves.
    fn ignore(&mut self) -> io::Result<()> {
        let mut nothing = [0; 4096];
        while self.read(&mut nothing)? > 0 {}
        Ok(())
    }
}
