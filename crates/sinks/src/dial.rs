//! The only way to a server.
//!
//! Whoever may write a sink must not be able to make the operator connect to loopback, to a
//! metadata service or to networks it was not opened to. Admission judges what a manifest says,
//! but a name may resolve to anything, and to something else a second later. So every connection
//! of every backend is opened here: names are resolved for each connection, every address of the
//! answer is judged, and the socket goes to exactly the address that was judged. TLS names, HTTP
//! hosts and SSH host keys keep the name.
//!
//! # Clients that open their own sockets
//!
//! A check before such a client connects would leave a gap: it resolves again, and the answer may
//! have changed. So they get their connections from here too, each in the way that it allows:
//!
//! | Client | Way |
//! | --- | --- |
//! | Postgres, Git, Kafka, BigQuery | take a [`TcpStream`], or use our [HTTP client](crate::http) |
//! | S3, GCS, Azure (`object_store`) | takes an HTTP client: ours, see [`crate::http::object_store`] |
//! | MongoDB (`mongodb`) | takes a SOCKS5 proxy: [`socks`], one per sink |
//! | NATS (`async-nats`) | takes nothing: [`nats`], a door per server on loopback that dials, does TLS and carries the bytes |
//!
//! Why NATS has a door of its own: `async-nats` takes neither a dialler nor a resolver nor a proxy.
//! Giving it the judged address instead of the name, with a verifier that checks the name, closes
//! the gap, but TLS then announces no server name, which servers behind a router by name need, and
//! a server that moves is never found again. A changed copy of the library would have to be carried
//! along for ever. The door resolves and judges for each connection, announces and checks the name
//! with the [TLS of every other backend](crate::tls), and says why it failed. Its price: between
//! client and door, within this process, the protocol is plain. Only this process is let in.
//!
//! One suite runs all kinds against the same forbidden places and against names that change their
//! address: `tests/dialling`.

mod loopback;
mod mongo;
pub mod nats;
mod own_process;
pub mod socks;
#[cfg(test)]
pub(crate) mod tests;

use std::{
    fmt, io,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::{
    address::{self, AddressPolicy},
    rules::endpoint,
    sink::SinkType,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::{net::TcpStream, time::timeout};

use crate::{error::SinkError, share::Shares};

/// How long one address may take to answer.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a name may take to resolve.
const RESOLVE: Duration = Duration::from_secs(10);
/// How long all addresses of a name together may take.
const ALL_ADDRESSES: Duration = Duration::from_secs(30);

/// How many addresses of a name are judged and tried. Servers behind more are behind a balancer; an
/// answer with thousands is an attempt to keep somebody busy.
const ADDRESSES: usize = 16;
/// How long sent bytes may stay unacknowledged, or unsent because the other side takes nothing.
const UNACKNOWLEDGED: Duration = Duration::from_secs(90);

/// A lookup that hangs keeps its thread, deadline or not. So each user of the dialler has a few at
/// a time, and waits for its own ones alone.
static LOOKUPS: Shares = Shares::new(4);

/// Turns names into addresses: the system's resolver in production, a table in tests.
#[async_trait]
pub trait Resolve: Send + Sync + fmt::Debug {
    /// The addresses of a host name, in the order in which they should be tried.
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The resolver of the operating system.
#[derive(Debug)]
struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let answer = tokio::net::lookup_host((host, 0)).await?;
        Ok(answer.map(|address| address.ip()).collect())
    }
}

/// Opens connections within an address policy. Clones share everything.
#[derive(Debug, Clone)]
pub struct Dialer {
    policy: Arc<AddressPolicy>,
    resolver: Arc<dyn Resolve>,
    /// Whose connections these are; nobody's in particular if empty.
    user: Arc<str>,
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// The host may never be reached, whatever it resolves to. DNS was not asked.
    #[error("sink host {host:?} is forbidden: it is local, private or a platform service")]
    ForbiddenHost {
        /// The host, normalised.
        host: String,
    },
    /// An address of the answer may not be reached; therefore none of them was tried.
    #[error(
        "sink host {host:?} resolved to a forbidden address: IP {address} is not globally routable and not opened by the operator's administrator"
    )]
    ForbiddenAddress {
        /// The host, normalised.
        host: String,
        /// The first forbidden address.
        address: IpAddr,
    },
    /// The name has no address, or nobody could tell.
    #[error("cannot resolve sink host {host:?}: {source}")]
    Resolve {
        /// The host, normalised.
        host: String,
        /// What the resolver said.
        source: io::Error,
    },
    /// No address answered.
    #[error("dial sink host {host:?}: {}", list(failures))]
    Connect {
        /// The host, normalised.
        host: String,
        /// What happened at each address.
        failures: Vec<(SocketAddr, io::Error)>,
    },
}

fn list(failures: &[(SocketAddr, io::Error)]) -> String {
    failures
        .iter()
        .map(|(address, error)| format!("{address}: {error}"))
        .collect::<Vec<_>>()
        .join("; ")
}

impl DialError {
    /// Whether the policy said no, as opposed to the network.
    pub fn is_forbidden(&self) -> bool {
        matches!(
            self,
            DialError::ForbiddenHost { .. } | DialError::ForbiddenAddress { .. }
        )
    }
}

/// What kept a connection from being opened, without a word about where it would have led.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Obstacle {
    /// The address policy.
    Policy,
    /// The name is not known.
    NoSuchHost,
    /// Nobody could say whether the name is known.
    NoLookup,
    /// The server, or a firewall, does not take connections at this port.
    Refused,
    /// Nobody answered in time.
    TimedOut,
    /// There is no way there.
    Unreachable,
    /// Something else.
    Other,
}

impl Obstacle {
    /// What is said about it.
    pub fn text(self) -> &'static str {
        match self {
            Self::Policy => "the address policy forbids the server's address",
            Self::NoSuchHost => {
                "no such host: the server's name is not known to DNS; check its spelling"
            }
            Self::NoLookup => "the server's name could not be looked up: DNS does not answer",
            Self::Refused => {
                "connection refused: nothing listens at the server's port, or a firewall says no"
            }
            Self::TimedOut => "timed out: the server's address does not answer",
            Self::Unreachable => "unreachable: there is no route to the server's address",
            Self::Other => "the connection could not be opened",
        }
    }

    fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Self::Unreachable,
            _ => Self::Other,
        }
    }

    /// What a resolver's error means. The system's has no kinds, only words.
    fn of_lookup(error: &io::Error) -> Self {
        const UNKNOWN: [&str; 3] = [
            "Name or service not known",
            "No address associated with hostname",
            "nodename nor servname provided",
        ];
        let text = error.to_string();
        if error.kind() == io::ErrorKind::NotFound || UNKNOWN.iter().any(|one| text.contains(one)) {
            Self::NoSuchHost
        } else {
            Self::NoLookup
        }
    }
}

impl DialError {
    /// What was in the way. Of several addresses the last one counts.
    pub fn obstacle(&self) -> Obstacle {
        match self {
            Self::ForbiddenHost { .. } | Self::ForbiddenAddress { .. } => Obstacle::Policy,
            Self::Resolve { source, .. } => Obstacle::of_lookup(source),
            Self::Connect { failures, .. } => failures
                .last()
                .map_or(Obstacle::Other, |(_, error)| Obstacle::of(error)),
        }
    }
}

impl From<DialError> for SinkError {
    fn from(error: DialError) -> Self {
        if error.is_forbidden() {
            SinkError::terminal(error.to_string())
        } else {
            SinkError::transient(error.to_string())
        }
    }
}

impl Dialer {
    /// A dialler with the system's resolver.
    pub fn new(policy: AddressPolicy) -> Self {
        Self::with_resolver(policy, Arc::new(SystemResolver))
    }

    /// A dialler with another resolver.
    pub fn with_resolver(policy: AddressPolicy, resolver: Arc<dyn Resolve>) -> Self {
        Self {
            policy: Arc::new(policy),
            resolver,
            user: Arc::default(),
        }
    }

    /// The same dialler for somebody, such as a namespace, whose slow name servers are to be
    /// nobody else's business.
    #[must_use]
    pub fn on_behalf_of(&self, user: &str) -> Self {
        Self {
            user: user.into(),
            ..self.clone()
        }
    }

    /// Whose connections these are.
    #[cfg(any(feature = "bigquery", feature = "postgres"))]
    pub(crate) fn user(&self) -> &Arc<str> {
        &self.user
    }

    /// Whether both lead to the same places, on whosever behalf.
    #[cfg(feature = "postgres")]
    pub(crate) fn leads_where(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.policy, &other.policy) && Arc::ptr_eq(&self.resolver, &other.resolver)
    }

    /// The addresses of a host, all of them allowed. For clients that open sockets themselves:
    /// give them these and never the name, since a second lookup may answer differently.
    pub async fn addresses(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, DialError> {
        let host = address::normalize(host);
        if host.is_empty() || !self.policy.allows_host(&host) {
            return Err(DialError::ForbiddenHost { host });
        }
        // Literal addresses were judged with the host. Their unusual notations are read here too,
        // so that no resolver gets to read them in another way.
        if let Some(literal) = address::literal(&host) {
            return Ok(vec![SocketAddr::new(literal.to_canonical(), port)]);
        }
        let answer = match timeout(RESOLVE, self.look_up(&host)).await {
            Ok(Ok(answer)) if answer.is_empty() => Err(io::Error::new(
                io::ErrorKind::NotFound,
                "the name has no address",
            )),
            Ok(answer) => answer,
            Err(_) => Err(no_answer(RESOLVE)),
        };
        let mut answer = match answer {
            Ok(answer) => answer,
            Err(source) => return Err(DialError::Resolve { host, source }),
        };
        answer.truncate(ADDRESSES);
        if let Some(address) = answer
            .iter()
            .find(|address| !self.policy.allows_resolved(&host, **address))
        {
            let address = *address;
            return Err(DialError::ForbiddenAddress { host, address });
        }
        let mut addresses = Vec::with_capacity(answer.len());
        for address in answer {
            let address = SocketAddr::new(address.to_canonical(), port);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        Ok(addresses)
    }

    /// Asks the resolver when it is this user's turn. The turn ends with the lookup, not with the
    /// patience of whoever waits for it.
    async fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let turn = LOOKUPS.of(&self.user).acquire_owned().await;
        let turn = turn.map_err(io::Error::other)?;
        let (resolver, host) = (Arc::clone(&self.resolver), host.to_owned());
        let lookup = tokio::spawn(async move {
            let _turn = turn;
            resolver.resolve(&host).await
        });
        lookup.await.map_err(io::Error::other)?
    }

    /// A connection to the first address of the host that answers.
    pub async fn connect(&self, host: &str, port: u16) -> Result<TcpStream, DialError> {
        let addresses = self.addresses(host, port).await?;
        let mut failures = Vec::new();
        let first = async {
            for address in &addresses {
                match open(*address).await {
                    Ok(stream) => return Some(stream),
                    Err(error) => failures.push((*address, error)),
                }
            }
            None
        };
        match timeout(ALL_ADDRESSES, first).await {
            Ok(Some(stream)) => return Ok(stream),
            Ok(None) => {}
            Err(_) => {
                let untried = addresses[failures.len()..].iter();
                failures.extend(untried.map(|address| (*address, no_answer(ALL_ADDRESSES))));
            }
        }
        Err(DialError::Connect {
            host: address::normalize(host),
            failures,
        })
    }

    /// Judges an endpoint as admission does, for objects that were stored without it: its literal
    /// hosts, its scheme, and whether it is a path on the operator's own disk.
    pub fn check_endpoint(
        &self,
        sink_type: SinkType,
        endpoint: &str,
        local_repositories: bool,
    ) -> Result<(), SinkError> {
        endpoint::check(sink_type, endpoint, &self.policy, local_repositories)
            .map_err(|error| SinkError::terminal(error.to_string()))
    }
}

async fn open(address: SocketAddr) -> io::Result<TcpStream> {
    // They let this process in, whoever of it calls: one sink would come out of another's door.
    if loopback::is_ours(address) {
        let text = "this is a listener of the operator itself";
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let stream = timeout(CONNECT, TcpStream::connect(address))
        .await
        .map_err(|_| no_answer(CONNECT))??;
    stream.set_nodelay(true)?;
    // A server that vanished without a word, or takes nothing any more, is noticed soon; the
    // system's default would be two hours for one and for ever for the other.
    let keepalive = TcpKeepalive::new()
        .with_time(Duration::from_secs(30))
        .with_interval(Duration::from_secs(10))
        .with_retries(3);
    let socket = SockRef::from(&stream);
    socket.set_tcp_keepalive(&keepalive)?;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
    Ok(stream)
}

fn no_answer(limit: Duration) -> io::Error {
    let text = format!("no answer within {} s", limit.as_secs());
    io::Error::new(io::ErrorKind::TimedOut, text)
}
