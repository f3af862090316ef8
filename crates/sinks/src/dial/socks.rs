//! A SOCKS5 listener for clients that open their own sockets but can be sent through a proxy.
//!
//! The client gives the host of every connection, also of servers that it learned of from other
//! servers, to this listener, which dials it under the address policy: the client itself never
//! resolves anything and never connects to anything but loopback. TLS runs between client and
//! server through it, so certificates are checked against the name, or between it and the server,
//! where it also reads along (`mongo`).
//!
//! Two kinds of clients:
//!
//! * `mongodb` 3.9 sends names as names and shows a user and a password (RFC 1929). The password of
//!   a listener is made for it alone; a caller without it gets nowhere. Whoever builds the client
//!   has to set `socks5_proxy` after parsing a connection string, which may name a proxy itself,
//!   and has to refuse `ServerAddress::Unix`, which is opened past every proxy. A replica set that
//!   names such a path as its member is left (`mongo`).
//!   `mongodb+srv://` asks the system's name servers for SRV and TXT records directly. That opens
//!   no connection to what they say: the targets are dialled by name, here, like all others.
//! * Some cannot show a password (`rskafka` 0.6 was one). A listener for them admits connections of
//!   this process alone: the kernel tells which process holds the other end (see `own_process`).
//!
//! Only `CONNECT` is served.

use std::{
    fmt, io,
    net::SocketAddrV4,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use rustls::ClientConfig;
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, split},
    net::TcpStream,
    time::timeout,
};

use super::{
    DialError, Dialer,
    loopback::{Callers, FAREWELL, LastFailure, Loopback, relay},
    mongo,
};
use crate::{error::SinkError, secret::SecretText, tls};

pub use super::loopback::{Failure, Obstacle};

#[cfg(test)]
mod tests;

/// How long a client may take to say where it wants to go. It is in this process.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// The user of every listener; the password is what counts.
const USER: &str = "kollect";

const VERSION: u8 = 5;
const NO_PASSWORD: u8 = 0;
const PASSWORD: u8 = 2;
const NOTHING_ACCEPTABLE: u8 = 0xff;
/// Of the exchange of passwords.
const PASSWORD_VERSION: u8 = 1;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// A SOCKS5 proxy on loopback that dials within the address policy. It ends, with all connections
/// through it, when it is dropped: keep it for as long as the client.
#[derive(Debug)]
pub struct SocksGuard {
    loopback: Loopback,
    password: Option<SecretText>,
}

/// What a client shows to the proxy.
#[derive(Debug, Clone)]
pub struct ProxyLogin {
    /// The user.
    pub user: &'static str,
    /// The password, made for one listener.
    pub password: SecretText,
}

impl SocksGuard {
    /// For a client that can show a password.
    #[cfg(test)]
    pub(crate) async fn with_password(dialer: Dialer) -> Result<Self, SinkError> {
        let password = password()?;
        Self::open(dialer, Callers::Anyone, Some(password), Wire::Bytes).await
    }

    /// For the client of MongoDB: the proxy does TLS, if there is a configuration for it, and ends
    /// connections to servers that send what no server sends.
    pub async fn for_mongo(
        dialer: Dialer,
        tls: Option<Arc<ClientConfig>>,
    ) -> Result<Self, SinkError> {
        let password = Some(password()?);
        Self::open(dialer, Callers::Anyone, password, Wire::Mongo(tls)).await
    }

    /// For a client that cannot: only connections of this process are served.
    pub async fn for_own_process(dialer: Dialer) -> Result<Self, SinkError> {
        Self::open(dialer, Callers::OwnProcess, None, Wire::Bytes).await
    }

    async fn open(
        dialer: Dialer,
        callers: Callers,
        password: Option<SecretText>,
        wire: Wire,
    ) -> Result<Self, SinkError> {
        let server = Arc::new(Server {
            dialer,
            password: password.clone(),
            wire,
        });
        let serve = move |stream, failure| Arc::clone(&server).serve(stream, failure);
        Ok(Self {
            loopback: Loopback::open(callers, serve).await?,
            password,
        })
    }

    /// Where the proxy listens.
    pub fn address(&self) -> SocketAddrV4 {
        self.loopback.address()
    }

    /// What the client has to show; nothing if it cannot show anything.
    pub fn login(&self) -> Option<ProxyLogin> {
        self.password.clone().map(|password| ProxyLogin {
            user: USER,
            password,
        })
    }

    /// Why the client could not be connected, with the class that the client's own error lost: a
    /// refusal by the policy is terminal. Ask only after the client failed to connect; a failure is
    /// forgotten when its host is reached again.
    pub fn last_failure(&self) -> Option<SinkError> {
        self.obstacle().map(|failure| failure.error)
    }

    /// The same, with the host and what stood in the way, for whoever must not name the host.
    pub fn obstacle(&self) -> Option<Failure> {
        self.loopback.last_failure()
    }
}

/// What serves the connections of one listener.
struct Server {
    dialer: Dialer,
    password: Option<SecretText>,
    wire: Wire,
}

/// What is carried between client and server.
enum Wire {
    /// Bytes, whatever they mean.
    Bytes,
    /// Messages of MongoDB, encrypted between proxy and server if there is a configuration for it.
    Mongo(Option<Arc<ClientConfig>>),
}

/// A password for one listener.
fn password() -> Result<SecretText, SinkError> {
    let mut secret = [0; 32];
    SystemRandom::new()
        .fill(&mut secret)
        .map_err(|_| SinkError::transient("the system gives no random numbers"))?;
    Ok(SecretText::from(URL_SAFE_NO_PAD.encode(secret)))
}

/// Where a client wants to go.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    host: String,
    port: u16,
}

/// Why a client did not get to say where it wants to go.
#[derive(Debug, thiserror::Error)]
enum Misstep {
    #[error("the client broke off: {0}")]
    Io(#[from] io::Error),
    #[error("the client does not speak SOCKS5")]
    Version,
    #[error("the client offers no way to authenticate that is asked for")]
    Method,
    #[error("the client shows a wrong password")]
    Password,
    #[error("only CONNECT is served")]
    Command,
    #[error("the client names no host that can be dialled")]
    Address,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reply {
    Connected = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    CommandNotSupported = 7,
    AddressTypeNotSupported = 8,
}

impl Server {
    async fn serve(self: Arc<Self>, mut stream: TcpStream, failure: LastFailure) {
        let target = match timeout(HANDSHAKE, self.handshake(&mut stream)).await {
            Ok(Ok(target)) => target,
            Ok(Err(misstep)) => {
                tracing::debug!(%misstep, "a connection to a sink's proxy was refused");
                return;
            }
            Err(_) => return,
        };
        let server = match self.dialer.connect(&target.host, target.port).await {
            Ok(server) => server,
            Err(error) => {
                let reply = Reply::to(&error);
                let obstacle = if error.is_forbidden() {
                    Obstacle::Policy
                } else {
                    Obstacle::Network
                };
                failure.set_as(obstacle, &target.host, error.into());
                // The client may have gone; then it needs no answer.
                let _ = answer(&mut stream, reply).await;
                return;
            }
        };
        match &self.wire {
            Wire::Bytes => {
                failure.healed(&target.host);
                if greet(&mut stream).await {
                    relay(stream, server).await;
                }
            }
            Wire::Mongo(None) => carry_mongo(stream, server, &target.host, &failure).await,
            Wire::Mongo(Some(config)) => {
                match tls::handshake(Arc::clone(config), &target.host, server).await {
                    Ok(server) => carry_mongo(stream, server, &target.host, &failure).await,
                    Err(error) => {
                        failure.set_as(Obstacle::Tls, &target.host, error);
                        let _ = answer(&mut stream, Reply::GeneralFailure).await;
                    }
                }
            }
        }
    }

    /// Everything up to the request; refusals are answered here.
    async fn handshake<S>(&self, stream: &mut S) -> Result<Target, Misstep>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.authenticate(stream).await?;
        let target = request(stream).await;
        let reply = match target {
            Err(Misstep::Command) => Reply::CommandNotSupported,
            Err(Misstep::Address) => Reply::AddressTypeNotSupported,
            target => return target,
        };
        answer(stream, reply).await?;
        target
    }

    async fn authenticate<S>(&self, stream: &mut S) -> Result<(), Misstep>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        if stream.read_u8().await? != VERSION {
            return Err(Misstep::Version);
        }
        let offered = text(stream).await?;
        let method = match &self.password {
            Some(_) => PASSWORD,
            None => NO_PASSWORD,
        };
        if !offered.contains(&method) {
            stream.write_all(&[VERSION, NOTHING_ACCEPTABLE]).await?;
            return Err(Misstep::Method);
        }
        stream.write_all(&[VERSION, method]).await?;
        let Some(password) = &self.password else {
            return Ok(());
        };
        if stream.read_u8().await? != PASSWORD_VERSION {
            return Err(Misstep::Version);
        }
        let (user, shown) = (text(stream).await?, text(stream).await?);
        // Takes as long for a password that is nearly right as for any other.
        let right = user.ct_eq(USER.as_bytes()) & shown.ct_eq(password.expose().as_bytes());
        let verdict = u8::from(!bool::from(right));
        stream.write_all(&[PASSWORD_VERSION, verdict]).await?;
        if verdict == 0 {
            Ok(())
        } else {
            Err(Misstep::Password)
        }
    }
}

/// Tells the client that it is connected; false if it has gone.
async fn greet(stream: &mut TcpStream) -> bool {
    stream.set_nodelay(true).is_ok() && answer(stream, Reply::Connected).await.is_ok()
}

/// Carries messages until one side is done, and a moment longer; a server that breaks the rules
/// is remembered as a failure that needs a person.
async fn carry_mongo<S>(mut client: TcpStream, server: S, host: &str, failure: &LastFailure)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if !greet(&mut client).await {
        return;
    }
    let working = Arc::new(AtomicBool::new(false));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = split(server);
    let there = mongo::there(from_client, to_server, Arc::clone(&working));
    let honest = || failure.healed(host);
    let back = mongo::back(from_server, to_client, &working, honest);
    tokio::pin!(there, back);
    let result = tokio::select! {
        done = &mut there => match done {
            Ok(()) => timeout(FAREWELL, back).await.unwrap_or(Ok(())),
            broken => broken,
        },
        // Without a server nothing can be said to it.
        done = &mut back => done,
    };
    let Err(error) = result else { return };
    let breach = error.get_ref().and_then(|inner| inner.downcast_ref());
    match breach {
        Some::<&mongo::Breach>(breach) => {
            let error = SinkError::terminal(breach.to_string());
            failure.set_as(Obstacle::Server, host, error);
        }
        None => tracing::debug!(%error, "a connection of a sink broke"),
    }
}

/// A text with its length in front, at most 255 bytes.
async fn text<S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; stream.read_u8().await?.into()];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

async fn request<S: AsyncRead + Unpin>(stream: &mut S) -> Result<Target, Misstep> {
    let [version, command, _reserved, kind] = array(stream).await?;
    if version != VERSION {
        return Err(Misstep::Version);
    }
    if command != CONNECT {
        return Err(Misstep::Command);
    }
    let host = match kind {
        IPV4 => std::net::Ipv4Addr::from(array(stream).await?).to_string(),
        IPV6 => std::net::Ipv6Addr::from(array::<16, _>(stream).await?).to_string(),
        NAME => String::from_utf8(text(stream).await?).map_err(|_| Misstep::Address)?,
        _ => return Err(Misstep::Address),
    };
    let port = stream.read_u16().await?;
    Ok(Target { host, port })
}

async fn array<const N: usize, S: AsyncRead + Unpin>(stream: &mut S) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).await?;
    Ok(bytes)
}

/// Answers a request. The address in it means something to other commands only.
async fn answer<S: AsyncWrite + Unpin>(stream: &mut S, reply: Reply) -> io::Result<()> {
    let bytes = [VERSION, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0];
    stream.write_all(&bytes).await
}

impl Reply {
    /// The answer that fits a failed dial.
    fn to(error: &DialError) -> Self {
        match error {
            DialError::ForbiddenHost { .. } | DialError::ForbiddenAddress { .. } => {
                Reply::NotAllowed
            }
            DialError::Resolve { .. } => Reply::HostUnreachable,
            DialError::Connect { failures, .. } => {
                let all = |wanted: &[io::ErrorKind]| {
                    failures
                        .iter()
                        .all(|(_, error)| wanted.contains(&error.kind()))
                };
                if all(&[io::ErrorKind::ConnectionRefused]) {
                    Reply::ConnectionRefused
                } else if all(&[
                    io::ErrorKind::TimedOut,
                    io::ErrorKind::HostUnreachable,
                    io::ErrorKind::NetworkUnreachable,
                ]) {
                    Reply::HostUnreachable
                } else {
                    Reply::GeneralFailure
                }
            }
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}
