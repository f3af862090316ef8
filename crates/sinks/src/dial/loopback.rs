//! A listener on loopback in front of the dialler, for clients that open their sockets themselves.
//!
//! Everything that runs for it ends when its value is dropped: the tasks of its connections belong
//! to the task that accepts them, and that one belongs to the value.

use std::{
    collections::BTreeSet,
    future::Future,
    io,
    net::{Ipv4Addr, SocketAddr, SocketAddrV4},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, split},
    net::{TcpListener, TcpStream},
    task::{self, AbortHandle, JoinSet},
    time::{sleep, timeout},
};

use super::own_process;
use crate::error::SinkError;

/// How many connections one listener serves at a time; more of them wait in the system's queue. A
/// client has a few per server.
const CONNECTIONS: usize = 128;
/// The pause after the system could not accept, such as without free file descriptors.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a server may go on after the client has said its last.
pub(super) const FAREWELL: Duration = Duration::from_secs(5);
/// How many bytes of a failure are kept: names come from servers too.
const LONGEST_FAILURE: usize = 1024;

/// The ports of all listeners of this process.
static OURS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Whether an address leads to a listener of ours.
pub(super) fn is_ours(address: SocketAddr) -> bool {
    let ip = address.ip().to_canonical();
    (ip.is_loopback() || ip.is_unspecified())
        && OURS
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(&address.port())
}

/// Who may use a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Callers {
    /// Whoever connects; they have to prove themselves in the protocol.
    Anyone,
    /// This process alone.
    OwnProcess,
}

/// A listener on loopback that serves until it is dropped.
#[derive(Debug)]
pub(super) struct Loopback {
    address: SocketAddrV4,
    failure: LastFailure,
    accepting: AbortHandle,
}

impl Loopback {
    /// Listens on a free port and serves every connection by `serve`.
    pub(super) async fn open<S, F>(callers: Callers, serve: S) -> Result<Self, SinkError>
    where
        S: Fn(TcpStream, LastFailure) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let cannot = |error: io::Error| {
            SinkError::transient(format!("cannot listen on loopback for the client: {error}"))
        };
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
            .await
            .map_err(cannot)?;
        let port = listener.local_addr().map_err(cannot)?.port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        OURS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(port);
        let failure = LastFailure::default();
        let door = Door {
            listener,
            address,
            callers,
            failure: failure.clone(),
        };
        let accepting = tokio::spawn(door.accept(serve)).abort_handle();
        Ok(Self {
            address,
            failure,
            accepting,
        })
    }

    pub(super) fn address(&self) -> SocketAddrV4 {
        self.address
    }

    pub(super) fn last_failure(&self) -> Option<Failure> {
        self.failure.get()
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.accepting.abort();
        OURS.lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&self.address.port());
    }
}

/// What the accepting task needs.
struct Door {
    listener: TcpListener,
    address: SocketAddrV4,
    callers: Callers,
    failure: LastFailure,
}

impl Door {
    async fn accept<S, F>(self, serve: S)
    where
        S: Fn(TcpStream, LastFailure) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let serve = Arc::new(serve);
        // Dropped with this task, and all connections with it.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept(), if connections.len() < CONNECTIONS => {
                    let Ok((stream, caller)) = accepted else {
                        sleep(PAUSE).await;
                        continue;
                    };
                    let admitted = self.admits(caller);
                    let (serve, failure) = (Arc::clone(&serve), self.failure.clone());
                    connections.spawn(async move {
                        match admitted.await {
                            Ok(true) => serve(stream, failure).await,
                            Ok(false) => tracing::debug!("a stranger was turned away from a sink's listener"),
                            Err(error) => failure.set("", SinkError::terminal(format!(
                                "cannot tell who uses the sink's listener on loopback: {error}"
                            ))),
                        }
                    });
                }
            }
        }
    }

    /// Whether a caller may go on.
    fn admits(&self, caller: SocketAddr) -> impl Future<Output = io::Result<bool>> + use<> {
        let (callers, listener) = (self.callers, self.address);
        async move {
            match (callers, caller) {
                (Callers::Anyone, _) => Ok(true),
                (Callers::OwnProcess, SocketAddr::V4(caller)) => {
                    task::spawn_blocking(move || own_process::is_caller(caller, listener))
                        .await
                        .map_err(io::Error::other)?
                }
                (Callers::OwnProcess, SocketAddr::V6(_)) => Ok(false),
            }
        }
    }
}

/// Why the client behind a listener could not be connected. The clients do not pass the reason on.
#[derive(Debug, Clone, Default)]
pub(super) struct LastFailure(Arc<Mutex<Option<Failure>>>);

/// Why a host could not be reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The host, as the client named it.
    pub host: String,
    /// What stood in the way.
    pub obstacle: Obstacle,
    /// The failure with its class. Its text names the host.
    pub error: SinkError,
}

/// What stands between a client and its server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The address policy.
    Policy,
    /// The network, or nobody listens.
    Network,
    /// Certificates, or a server that does not speak TLS.
    Tls,
    /// A server that breaks the rules of its protocol.
    Server,
}

impl LastFailure {
    /// Remembers a failure with the host it is about. A failure that may heal does not displace one
    /// that needs a change: the latter is the news.
    pub(super) fn set(&self, host: &str, error: SinkError) {
        self.set_as(Obstacle::Network, host, error);
    }

    /// Remembers a failure and what the obstacle was.
    pub(super) fn set_as(&self, obstacle: Obstacle, host: &str, error: SinkError) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let heals = matches!(error, SinkError::Transient(_));
        let displaced = match &*slot {
            Some(known) => {
                known.host == host || !heals || matches!(known.error, SinkError::Transient(_))
            }
            None => true,
        };
        if displaced {
            *slot = Some(Failure {
                host: host.to_owned(),
                obstacle,
                error: error.map_message(shortened),
            });
        }
    }

    /// Forgets the failure of a host that works now.
    pub(super) fn healed(&self, host: &str) {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slot.as_ref().is_some_and(|known| known.host == host) {
            *slot = None;
        }
    }

    fn get(&self) -> Option<Failure> {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        slot.clone()
    }
}

fn shortened(text: String) -> String {
    if text.len() <= LONGEST_FAILURE {
        return text;
    }
    format!("{}…", &text[..text.floor_char_boundary(LONGEST_FAILURE)])
}

/// Carries bytes both ways until both ends are done, or a moment longer than the client is: a server
/// that does not hang up must not keep the connection. One that breaks is no news here: both ends
/// see it.
pub(super) async fn relay<S>(client: TcpStream, server: S)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = split(server);
    let there = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let back = async {
        copy(&mut from_server, &mut to_client).await?;
        to_client.shutdown().await
    };
    tokio::pin!(there, back);
    let result = tokio::select! {
        done = &mut there => match done {
            Ok(()) => timeout(FAREWELL, back).await.unwrap_or(Ok(())),
            broken => broken,
        },
        done = &mut back => match done {
            Ok(()) => there.await,
            broken => broken,
        },
    };
    if let Err(error) = result {
        tracing::debug!(%error, "a connection of a sink broke");
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::address::AddressPolicy;
    use tokio::io::AsyncReadExt;

    use super::*;
    use crate::dial::Dialer;

    async fn echo(mut stream: TcpStream, _failure: LastFailure) {
        let (mut from, mut to) = stream.split();
        let _ = tokio::io::copy(&mut from, &mut to).await;
    }

    async fn answers(stream: &mut TcpStream) -> bool {
        let mut byte = [0];
        stream.write_all(b"x").await.is_ok() && stream.read_exact(&mut byte).await.is_ok()
    }

    #[tokio::test]
    async fn everything_ends_with_the_value() {
        let loopback = Loopback::open(Callers::OwnProcess, echo).await.unwrap();
        let address = loopback.address();
        assert!(address.ip().is_loopback());
        let mut open = TcpStream::connect(address).await.unwrap();
        assert!(answers(&mut open).await);
        drop(loopback);
        assert!(!answers(&mut open).await, "an open connection ends");
        while TcpStream::connect(address).await.is_ok() {
            task::yield_now().await;
        }
    }

    /// Of two sinks of one process, one does not come out of the other's door.
    #[tokio::test]
    async fn the_dialler_does_not_lead_to_our_own_listeners() {
        let loopback = Loopback::open(Callers::OwnProcess, echo).await.unwrap();
        let port = loopback.address().port();
        let dialer = Dialer::new(AddressPolicy {
            allowed_networks: vec!["0.0.0.0/0".parse().unwrap(), "::/0".parse().unwrap()],
            ..AddressPolicy::default()
        });
        for host in ["127.0.0.1", "0.0.0.0", "::ffff:127.0.0.1"] {
            let error = dialer.connect(host, port).await.unwrap_err();
            assert!(
                error.to_string().contains("operator itself"),
                "{host}: {error}"
            );
        }
        drop(loopback);
        assert!(!is_ours(SocketAddr::from((Ipv4Addr::LOCALHOST, port))));
    }

    /// The client is gone, the server goes on for ever: the connection ends all the same.
    #[tokio::test]
    async fn a_relay_ends_soon_after_the_client() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let (accepted, _) = listener.accept().await.unwrap();
        let (mut server, far_side) = tokio::io::duplex(64);
        let relay = tokio::spawn(relay(accepted, far_side));
        client.write_all(b"bye").await.unwrap();
        client.shutdown().await.unwrap();
        let mut said = [0; 3];
        server.read_exact(&mut said).await.unwrap();
        // What the server still has to say in time is heard.
        server.write_all(b"ok").await.unwrap();
        let mut heard = [0; 2];
        client.read_exact(&mut heard).await.unwrap();
        timeout(Duration::from_mins(1), relay)
            .await
            .expect("it ends by itself")
            .unwrap();
        assert_eq!(server.read(&mut said).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn more_connections_than_allowed_have_to_wait() {
        let loopback = Loopback::open(Callers::Anyone, echo).await.unwrap();
        let mut open = Vec::new();
        for _ in 0..CONNECTIONS {
            let mut stream = TcpStream::connect(loopback.address()).await.unwrap();
            assert!(answers(&mut stream).await);
            open.push(stream);
        }
        let mut waiting = TcpStream::connect(loopback.address()).await.unwrap();
        let early = tokio::time::timeout(Duration::from_millis(100), answers(&mut waiting)).await;
        assert!(early.is_err(), "one more than allowed was served");
        drop(open.pop());
        let mut byte = [0];
        waiting.read_exact(&mut byte).await.unwrap();
    }

    #[test]
    fn what_needs_a_change_is_remembered() {
        let failure = LastFailure::default();
        let (heals, stays) = (SinkError::transient("heals"), SinkError::terminal("stays"));
        failure.set("a", heals.clone());
        assert_eq!(failure.get().map(|known| known.error), Some(heals.clone()));
        failure.set("b", stays.clone());
        failure.set("a", heals.clone());
        assert_eq!(failure.get().map(|known| known.error), Some(stays.clone()));
        failure.healed("a");
        assert_eq!(failure.get().map(|known| known.error), Some(stays));
        failure.set("b", heals.clone());
        assert_eq!(failure.get().map(|known| known.error), Some(heals));
        failure.healed("b");
        assert_eq!(failure.get().map(|known| known.error), None);
    }

    #[test]
    fn failures_have_a_length() {
        let failure = LastFailure::default();
        failure.set("a", SinkError::terminal("é".repeat(LONGEST_FAILURE)));
        let text = failure
            .get()
            .map(|known| known.error)
            .unwrap()
            .message()
            .to_owned();
        assert_eq!(text, format!("{}…", "é".repeat(LONGEST_FAILURE / 2)));
    }
}
