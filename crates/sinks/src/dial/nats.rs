//! A door on loopback to one NATS server, for a client that cannot be told how to connect.
//!
//! `async-nats` connects to the door as if it were a server without TLS. For each of its
//! connections, also when it reconnects, the door dials the real server under the address policy,
//! does TLS with the server's real name, and then carries the bytes. The one message that it
//! changes is the server's first, `INFO`: what it says about TLS is done already, and the other
//! servers of the cluster that it lists are not for the client to connect to. (The client reads
//! that list in the first `INFO` only; set `ignore_discovered_servers` all the same.)
//!
//! Only this process is let in (see `own_process`), so whoever else is in the pod can neither use
//! the connection nor its credentials.

use std::{io, sync::Arc, time::Duration};

use rustls::ClientConfig;
use serde_json::{Map, Value};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{
    Dialer,
    loopback::{Callers, LastFailure, Loopback, relay},
};
use crate::{
    error::SinkError,
    tls::{self, Trust},
};

#[cfg(test)]
mod tests;

/// How long a server may take to introduce itself.
const INTRODUCTION: Duration = Duration::from_secs(10);
/// How long its introduction may be; it lists the servers of a cluster.
const LONGEST_INTRODUCTION: usize = 64 * 1024;
/// What the client is not told: TLS is done here, and other servers are dialled by nobody.
const KEPT_BACK: [&str; 5] = [
    "tls_required",
    "tls_available",
    "tls_verify",
    "connect_urls",
    "ws_connect_urls",
];

/// When TLS starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NatsTls {
    /// If the server asks for it: `nats://`.
    IfAsked,
    /// Always, after the server's introduction: `tls://`.
    Required,
    /// Always, before the server says anything.
    First,
}

/// One server of a NATS sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatsServer {
    /// Its name or address, as the sink says it.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// When TLS starts.
    pub tls: NatsTls,
}

/// A door to one NATS server. It closes, with all connections through it, when it is dropped: keep
/// it for as long as the client.
#[derive(Debug)]
pub struct NatsGuard {
    loopback: Loopback,
}

impl NatsGuard {
    /// Opens a door to a server. Nothing is dialled yet.
    pub async fn open(
        dialer: Dialer,
        trust: &Trust,
        server: NatsServer,
    ) -> Result<Self, SinkError> {
        Self::open_with(dialer, Arc::new(trust.client_config()?), server).await
    }

    /// The same for a TLS client that was set up before.
    pub async fn open_with(
        dialer: Dialer,
        config: Arc<ClientConfig>,
        server: NatsServer,
    ) -> Result<Self, SinkError> {
        let way = Arc::new(Way {
            dialer,
            config,
            server,
        });
        let serve = move |stream, failure| Arc::clone(&way).serve(stream, failure);
        Ok(Self {
            loopback: Loopback::open(Callers::OwnProcess, serve).await?,
        })
    }

    /// What the client connects to.
    pub fn url(&self) -> String {
        format!("nats://{}", self.loopback.address())
    }

    /// Why the client could not be connected, with its class; the client knows only that the door
    /// closed. Forgotten when the server is reached again.
    pub fn last_failure(&self) -> Option<SinkError> {
        self.loopback.last_failure().map(|failure| failure.error)
    }
}

/// The way to one server.
struct Way {
    dialer: Dialer,
    config: Arc<ClientConfig>,
    server: NatsServer,
}

/// A connection to a server that has introduced itself.
enum Server {
    Plain(TcpStream),
    Encrypted(Box<tokio_rustls::client::TlsStream<TcpStream>>),
}

/// The server's first message, and what came right after it.
struct Introduction {
    info: Map<String, Value>,
    rest: Vec<u8>,
}

impl Way {
    async fn serve(self: Arc<Self>, client: TcpStream, failure: LastFailure) {
        let host = &self.server.host;
        let met = match self.meet().await {
            Ok(met) => met,
            // The client is still connected: when it is told nothing, the reason is on record.
            Err(error) => return failure.set(host, error),
        };
        failure.healed(host);
        match met {
            (Server::Plain(server), introduction) => pass_on(client, server, introduction).await,
            (Server::Encrypted(server), introduction) => {
                pass_on(client, *server, introduction).await;
            }
        }
    }

    /// Connects to the server and lets it introduce itself, encrypted as the sink asks for it.
    async fn meet(&self) -> Result<(Server, Introduction), SinkError> {
        let NatsServer { host, port, tls } = &self.server;
        let mut server = self.dialer.connect(host, *port).await?;
        if *tls == NatsTls::First {
            let mut server = self.encrypted(server).await?;
            let introduction = self.introduction(&mut server).await?;
            return Ok((Server::Encrypted(Box::new(server)), introduction));
        }
        let introduction = self.introduction(&mut server).await?;
        if *tls == NatsTls::IfAsked && !introduction.asks_for_tls() {
            return Ok((Server::Plain(server), introduction));
        }
        // Whoever is on the way could have put it there, and it would be taken for encrypted.
        if !introduction.rest.is_empty() {
            return Err(SinkError::transient(format!(
                "NATS server {host:?} goes on in plain text where TLS begins"
            )));
        }
        let server = self.encrypted(server).await?;
        Ok((Server::Encrypted(Box::new(server)), introduction))
    }

    async fn encrypted(
        &self,
        server: TcpStream,
    ) -> Result<tokio_rustls::client::TlsStream<TcpStream>, SinkError> {
        tls::handshake(Arc::clone(&self.config), &self.server.host, server).await
    }

    async fn introduction<S>(&self, server: &mut S) -> Result<Introduction, SinkError>
    where
        S: AsyncRead + Unpin,
    {
        let host = &self.server.host;
        let line = match timeout(INTRODUCTION, first_line(server)).await {
            Ok(line) => line,
            Err(_) => Err(io::Error::from(io::ErrorKind::TimedOut)),
        };
        let (line, rest) = line.map_err(|error| {
            SinkError::transient(format!(
                "NATS server {host:?} does not introduce itself: {error}"
            ))
        })?;
        let info = line
            .strip_prefix(b"INFO ")
            .and_then(|json| serde_json::from_slice(json).ok())
            .ok_or_else(|| {
                SinkError::transient(format!("what answers at {host:?} is no NATS server"))
            })?;
        Ok(Introduction { info, rest })
    }
}

impl Introduction {
    fn asks_for_tls(&self) -> bool {
        self.info.get("tls_required") == Some(&Value::Bool(true))
    }

    /// The message as the client gets it, and what came after it.
    fn for_client(mut self) -> Vec<u8> {
        self.info
            .retain(|key, _| !KEPT_BACK.contains(&key.as_str()));
        let mut bytes = format!("INFO {}\r\n", Value::Object(self.info)).into_bytes();
        bytes.extend(self.rest);
        bytes
    }
}

/// Reads up to the first line break; also what came with it after the line.
async fn first_line<S: AsyncRead + Unpin>(server: &mut S) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    loop {
        if let Some(end) = memchr::memmem::find(&bytes, b"\r\n") {
            let rest = bytes.split_off(end + 2);
            bytes.truncate(end);
            return Ok((bytes, rest));
        }
        if bytes.len() > LONGEST_INTRODUCTION {
            let text = format!("its first line is longer than {LONGEST_INTRODUCTION} bytes");
            return Err(io::Error::other(text));
        }
        let mut chunk = [0; 4096];
        match server.read(&mut chunk).await? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => bytes.extend(&chunk[..count]),
        }
    }
}

async fn pass_on<S>(mut client: TcpStream, server: S, introduction: Introduction)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let hello = introduction.for_client();
    // A client that has gone meanwhile is no failure of the server.
    if client.set_nodelay(true).is_ok() && client.write_all(&hello).await.is_ok() {
        relay(client, server).await;
    }
}
