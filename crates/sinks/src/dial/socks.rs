//! A SOCKS5 listener for clients that open their own sockets but can be sent through a proxy.
//!
//! The client gives the host of every connection, also of servers that it learned of from other
//! servers, to this listener, which dials it under the address policy: the client itself never
//! resolves anything and never connects to anything but loopback. TLS runs between client and
//! server through it, so certificates are checked against the name.
//!
//! What was found in the sources of the two clients:
//!
//! * `mongodb` 3.9 sends names as names and shows a user and a password (RFC 1929). The password of
//!   a listener is made for it alone; a caller without it gets nowhere. Whoever builds the client
//!   has to set `socks5_proxy` after parsing a connection string, which may name a proxy itself,
//!   and has to refuse `ServerAddress::Unix`, which is opened past every proxy. A replica set may
//!   name such a path as its member too; the container of the operator has none to offer.
//!   `mongodb+srv://` asks the system's name servers for SRV and TXT records directly. That opens
//!   no connection to what they say: the targets are dialled by name, here, like all others.
//! * `rskafka` 0.6 sends names as names, but cannot show a password. A listener for it admits
//!   connections of this process alone: the kernel tells which process holds the other end (see
//!   `own_process`).
//!
//! Only `CONNECT` is served.

use std::{fmt, io, net::SocketAddrV4, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom, SystemRandom};
use subtle::ConstantTimeEq;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    DialError, Dialer,
    loopback::{Callers, LastFailure, Loopback, relay},
};
use crate::{error::SinkError, secret::SecretText};

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
    /// For a client that can show a password, such as `mongodb`.
    pub async fn with_password(dialer: Dialer) -> Result<Self, SinkError> {
        let mut secret = [0; 32];
        SystemRandom::new()
            .fill(&mut secret)
            .map_err(|_| SinkError::transient("the system gives no random numbers"))?;
        let password = SecretText::from(URL_SAFE_NO_PAD.encode(secret));
        Self::open(dialer, Callers::Anyone, Some(password)).await
    }

    /// For a client that cannot, such as `rskafka`: only connections of this process are served.
    pub async fn for_own_process(dialer: Dialer) -> Result<Self, SinkError> {
        Self::open(dialer, Callers::OwnProcess, None).await
    }

    async fn open(
        dialer: Dialer,
        callers: Callers,
        password: Option<SecretText>,
    ) -> Result<Self, SinkError> {
        let server = Arc::new(Server {
            dialer,
            password: password.clone(),
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
        self.loopback.last_failure()
    }
}

/// What serves the connections of one listener.
struct Server {
    dialer: Dialer,
    password: Option<SecretText>,
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
                failure.set(&target.host, error.into());
                // The client may have gone; then it needs no answer.
                let _ = answer(&mut stream, reply).await;
                return;
            }
        };
        failure.healed(&target.host);
        if stream.set_nodelay(true).is_ok() && answer(&mut stream, Reply::Connected).await.is_ok() {
            relay(stream, server).await;
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
