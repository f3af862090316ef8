//! Connections: bounded in number and time, ended in good order.

use std::{
    future::Future,
    io,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{StatusCode, header, request::Parts};
use http_body_util::Full;
use hyper::{
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{address::Bound, certificate::Certificate, places::Places};

/// How long a caller may take for the TLS handshake.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a request under way may take when the connection has to end.
const GRACE: Duration = Duration::from_secs(5);
/// The head of a request is not longer.
const HEAD: usize = 16 * 1024;

/// What is answered.
pub type Response = http::Response<Full<Bytes>>;

/// How connections are treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many are open at the same time.
    pub connections: usize,
    /// How long a caller may take for the head of a request, the next one included.
    pub head: Duration,
    /// A connection is closed after this time and may be opened anew: nobody holds a place for
    /// ever. Nothing for callers whose requests must not be lost: one that is under way while the
    /// connection closes is.
    pub lifetime: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            head: PATIENCE,
            lifetime: Some(Duration::from_mins(5)),
        }
    }
}

/// Answers requests.
pub trait Answer: Send + Sync + 'static {
    /// The answer to a request with this head. Who has no interest in the body does not read it.
    fn answer(&self, request: &Parts, body: Incoming) -> impl Future<Output = Response> + Send;

    /// How connections are treated.
    fn limits(&self) -> Limits {
        Limits::default()
    }
}

/// A plain text.
pub(crate) fn text(status: StatusCode, body: impl Into<String>) -> Response {
    let mut response = Response::new(Full::new(Bytes::from(body.into())));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    let plain = header::HeaderValue::from_static("text/plain; charset=utf-8");
    headers.insert(header::CONTENT_TYPE, plain);
    let exactly = header::HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, exactly);
    response
}

/// Serves until `stop`, and then until requests under way are answered. With a certificate the
/// connections are encrypted.
///
/// Everybody is accepted at once. When all places are taken, somebody who keeps one without asking
/// for anything loses it: whoever opens connections and says nothing, or says it slowly, harms
/// himself and not the kubelet.
pub async fn serve(
    bound: impl Into<Arc<Bound>>,
    certificate: Option<Arc<Certificate>>,
    answer: Arc<impl Answer>,
    stop: CancellationToken,
) {
    let bound = bound.into();
    let mut connections = JoinSet::new();
    let mut places = Places::new(answer.limits().connections);
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = bound.listener.accept() => accepted,
        };
        // Ended ones are forgotten; one that panicked has harmed nobody else.
        while let Some(ended) = connections.try_join_next_with_id() {
            places.leave(ended.map_or_else(|error| error.id(), |(id, ())| id));
        }
        match accepted {
            Ok((stream, peer)) => {
                let (certificate, answer) = (certificate.clone(), Arc::clone(&answer));
                let (stop, busy) = (stop.clone(), Arc::new(AtomicBool::new(false)));
                let answering = Arc::clone(&busy);
                let task = connections.spawn(async move {
                    let answer = Noting { answer, answering };
                    connection(stream, certificate.as_deref(), &answer, &stop).await;
                });
                places.take(task.id(), peer.ip(), busy, task);
            }
            Err(error) => {
                tracing::warn!(%error, address = %bound.address, "cannot accept a connection");
                // As when no file descriptor is left: going on at once would fail again.
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
    drop(bound);
    while connections.join_next().await.is_some() {}
}

/// Notes whether a request is being answered.
struct Noting<A> {
    answer: Arc<A>,
    answering: Arc<AtomicBool>,
}

impl<A: Answer> Answer for Noting<A> {
    async fn answer(&self, request: &Parts, body: Incoming) -> Response {
        self.answering.store(true, Ordering::Relaxed);
        let response = self.answer.answer(request, body).await;
        self.answering.store(false, Ordering::Relaxed);
        response
    }

    fn limits(&self) -> Limits {
        self.answer.limits()
    }
}

async fn connection(
    stream: TcpStream,
    certificate: Option<&Certificate>,
    answer: &impl Answer,
    stop: &CancellationToken,
) {
    let result = match certificate {
        None => requests(stream, answer, stop).await,
        Some(certificate) => {
            let acceptor = TlsAcceptor::from(certificate.current());
            match timeout(PATIENCE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => requests(stream, answer, stop).await,
                Ok(Err(error)) => Err(error.into()),
                Err(_) => Err("no TLS handshake".into()),
            }
        }
    };
    if let Err(error) = result {
        tracing::debug!(error, "a connection ended early");
    }
}

async fn requests(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answer: &impl Answer,
    stop: &CancellationToken,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let service = service_fn(async |request: http::Request<Incoming>| {
        let (head, body) = request.into_parts();
        Ok::<_, io::Error>(answer.answer(&head, body).await)
    });
    let limits = answer.limits();
    let lifetime = async {
        match limits.lifetime {
            Some(lifetime) => sleep(lifetime).await,
            None => std::future::pending().await,
        }
    };
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return Ok(result?),
        () = stop.cancelled() => {}
        () = lifetime => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(timeout(GRACE, connection).await??)
}
