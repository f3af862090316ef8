//! Connections to one server, over HTTP/2 where it speaks that.
//!
//! A connection carries so many requests at a time, watches included, as any API server allows;
//! another one is opened when all are full. One whose server says nothing any more is given up
//! within half a minute: it is asked for a sign of life every now and then.
//!
//! The window of a connection is as large as those of all its streams together. So one that is read
//! slowly, or not at all, never holds up the others.

use std::{
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, Uri, uri::Scheme};
use hyper::client::conn::http2;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{
        Client as Http1Client,
        connect::{Connection as _, HttpConnector},
    },
    rt::{TokioExecutor, TokioTimer},
};
use kube::{
    Config,
    client::{Body, ConfigExt as _},
};
use tokio::time::timeout;
use tower_service::Service as _;

use super::{BoxError, body::CountedBody};

/// How long it may take to connect, with everything that belongs to it.
const CONNECT: Duration = Duration::from_secs(15);
/// Requests on one connection at a time. API servers take a hundred.
const STREAMS: usize = 90;
/// What may be on its way of one answer.
const STREAM_WINDOW: u32 = 256 << 10;
/// What may be on its way of all of them.
const CONNECTION_WINDOW: u32 = STREAM_WINDOW * 96;
/// Larger pieces are less work for both sides.
const FRAME: u32 = 64 << 10;
/// How often a server is asked for a sign of life, and how long it may take.
const SIGN_OF_LIFE: Duration = Duration::from_secs(10);
/// Connections in HTTP/1.1 that are kept while nobody needs them.
const IDLE: usize = 4;
/// A connection may end just when it is used.
const ATTEMPTS: usize = 3;

type Connector = HttpsConnector<HttpConnector>;

/// A client of its own, over HTTP/1.1.
pub(super) type Http1 = Http1Client<Connector, Body>;

/// How connections are opened.
#[derive(Clone)]
pub(super) struct Connectors {
    /// Offers HTTP/2, and takes HTTP/1.1.
    any: Connector,
    http1: Connector,
}

impl Connectors {
    pub(super) fn new(config: &Config) -> Result<Self, kube::Error> {
        Ok(Self {
            any: connector(config)?,
            http1: config.rustls_https_connector_with_connector(sockets())?,
        })
    }

    /// A client that opens another connection when an answer is not waited for any longer, because
    /// nothing else can use the old one.
    pub(super) fn http1(&self) -> Http1 {
        Http1Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_max_idle_per_host(IDLE)
            .build(self.http1.clone())
    }
}

fn sockets() -> HttpConnector {
    let mut sockets = HttpConnector::new();
    sockets.enforce_http(false);
    sockets.set_nodelay(true);
    sockets.set_keepalive(Some(Duration::from_mins(1)));
    sockets.set_connect_timeout(Some(CONNECT));
    sockets
}

fn connector(config: &Config) -> Result<Connector, kube::Error> {
    let builder = HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config()?)
        .https_or_http();
    let builder = match &config.tls_server_name {
        None => builder,
        Some(name) => {
            let name = name.clone().try_into();
            let name = name.map_err(|error| kube::Error::Service(Box::new(error)))?;
            builder.with_server_name_resolver(FixedServerNameResolver::new(name))
        }
    };
    Ok(builder.enable_all_versions().wrap_connector(sockets()))
}

/// The connections of one purpose.
pub(super) struct Lanes {
    server: Uri,
    connectors: Connectors,
    open: Mutex<Vec<Lane>>,
    /// One connection is opened at a time: whoever comes meanwhile may share it.
    connecting: tokio::sync::Mutex<()>,
    /// For servers that do not speak HTTP/2.
    http1: OnceLock<Http1>,
}

#[derive(Clone)]
struct Lane {
    sender: http2::SendRequest<Body>,
    streams: Arc<AtomicUsize>,
}

/// One request on a connection.
struct Stream(Arc<AtomicUsize>);

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A way for one request.
enum Way {
    Http2(http2::SendRequest<Body>, Stream),
    Http1(Box<Http1>),
}

impl Lanes {
    pub(super) fn new(server: &Uri, connectors: Connectors) -> Self {
        let lanes = Self {
            server: server.clone(),
            connectors,
            open: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
            http1: OnceLock::new(),
        };
        if server.scheme() != Some(&Scheme::HTTPS) {
            lanes.speak_http1();
        }
        lanes
    }

    /// Sends a request and waits for the answer to begin. The caller has the deadline.
    pub(super) async fn send(
        &self,
        mut request: Request<Body>,
    ) -> Result<Response<CountedBody>, BoxError> {
        let mut attempt = 1;
        loop {
            match self.way().await? {
                Way::Http1(client) => {
                    let response = client.request(request).await?;
                    return Ok(response.map(CountedBody::incoming));
                }
                Way::Http2(mut sender, stream) => {
                    let mut error = match sender.try_send_request(request).await {
                        Ok(response) => {
                            return Ok(
                                response.map(|body| CountedBody::incoming(body).until_read(stream))
                            );
                        }
                        Err(error) => error,
                    };
                    // What was not sent may be sent another way.
                    match error.take_message() {
                        Some(unsent) if attempt < ATTEMPTS => request = unsent,
                        Some(_) | None => return Err(error.into_error().into()),
                    }
                    attempt += 1;
                }
            }
        }
    }

    async fn way(&self) -> Result<Way, BoxError> {
        if let Some(way) = self.open_way() {
            return Ok(way);
        }
        let _alone = self.connecting.lock().await;
        if let Some(way) = self.open_way() {
            return Ok(way);
        }
        match timeout(CONNECT, self.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(format!(
                "no connection to the API server within {} s",
                CONNECT.as_secs()
            )
            .into()),
        }
    }

    /// A way that is there already.
    fn open_way(&self) -> Option<Way> {
        if let Some(client) = self.http1.get() {
            return Some(Way::Http1(Box::new(client.clone())));
        }
        let mut lanes = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let busy = |lane: &&Lane| lane.streams.load(Ordering::Relaxed);
        // Of those that nobody uses, one is enough.
        let mut spare = false;
        lanes.retain(|lane| {
            !lane.sender.is_closed() && (busy(&lane) > 0 || !std::mem::replace(&mut spare, true))
        });
        // The fullest that has room: those that were needed for a while become empty, and end.
        let lane = lanes.iter().filter(|lane| busy(lane) < STREAMS);
        lane.max_by_key(busy).map(Lane::way)
    }

    async fn connect(&self) -> Result<Way, BoxError> {
        let socket = self
            .connectors
            .any
            .clone()
            .call(self.server.clone())
            .await?;
        if !socket.connected().is_negotiated_h2() {
            tracing::debug!("the API server does not speak HTTP/2; HTTP/1.1 it is");
            return Ok(Way::Http1(Box::new(self.speak_http1())));
        }
        let (sender, connection) = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_frame_size(FRAME)
            .keep_alive_interval(SIGN_OF_LIFE)
            .keep_alive_timeout(SIGN_OF_LIFE)
            .keep_alive_while_idle(true)
            .handshake(socket)
            .await?;
        // Ends with the last sender. Why it ended reaches whoever waits for an answer.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let lane = Lane {
            sender,
            streams: Arc::default(),
        };
        let way = lane.way();
        let mut lanes = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        lanes.push(lane);
        Ok(way)
    }

    fn speak_http1(&self) -> Http1 {
        self.http1.get_or_init(|| self.connectors.http1()).clone()
    }
}

impl Lane {
    fn way(&self) -> Way {
        self.streams.fetch_add(1, Ordering::Relaxed);
        Way::Http2(self.sender.clone(), Stream(Arc::clone(&self.streams)))
    }
}
