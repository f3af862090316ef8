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
use hyper::{body::Bytes, server::conn::http1, service::service_fn};
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

/// How many connections are open at the same time.
const CONNECTIONS: usize = 64;
/// How long a caller may take for the TLS handshake, and for the head of a request.
const PATIENCE: Duration = Duration::from_secs(5);
/// A connection is closed after this time and may be opened anew: nobody holds a place for ever.
const LIFETIME: Duration = Duration::from_mins(5);
/// How long a request under way may take when the connection has to end.
const GRACE: Duration = Duration::from_secs(5);
/// The head of a request is not longer.
const HEAD: usize = 16 * 1024;

/// What is answered.
pub type Response = http::Response<Full<Bytes>>;

/// Answers requests. Bodies are of no interest to anything served here and are not read.
pub trait Answer: Send + Sync + 'static {
    /// The answer to a request with this head.
    fn answer(&self, request: &Parts) -> impl Future<Output = Response> + Send;
}

/// A plain text.
pub(super) fn text(status: StatusCode, body: impl Into<String>) -> Response {
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
    let mut places = Places::new(CONNECTIONS);
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
    async fn answer(&self, request: &Parts) -> Response {
        self.answering.store(true, Ordering::Relaxed);
        let response = self.answer.answer(request).await;
        self.answering.store(false, Ordering::Relaxed);
        response
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
    let service = service_fn(async |request: http::Request<hyper::body::Incoming>| {
        let (head, _) = request.into_parts();
        Ok::<_, io::Error>(answer.answer(&head).await)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_buf_size(HEAD)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    tokio::select! {
        result = connection.as_mut() => return Ok(result?),
        () = stop.cancelled() => {}
        () = sleep(LIFETIME) => {}
    }
    connection.as_mut().graceful_shutdown();
    Ok(timeout(GRACE, connection).await??)
}
