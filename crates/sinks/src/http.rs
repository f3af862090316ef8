//! HTTP through the guarded dialler.
//!
//! Every connection is opened by the [`Dialer`] and judged there. Redirects are answers like any
//! other: what a sink was not pointed at is not asked. Proxies of the environment are not used: a
//! proxy would connect to whatever it is told. HTTP/1.1 only, which every server speaks.

mod connector;
#[cfg(feature = "object-store")]
pub mod object_store;
mod tasks;
#[cfg(test)]
mod tests;
pub(crate) mod text;

use std::{error::Error, fmt, io, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Empty, Full, Limited, combinators::BoxBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{self, Client},
    rt::TokioTimer,
};

use self::{
    connector::Connector,
    tasks::{Executor, Tasks},
};
use crate::{dial::Dialer, error::SinkError, tls::Trust};

/// How long an unused connection is kept. Short, so that a name is resolved again soon.
const IDLE: Duration = Duration::from_secs(30);
/// How many unused connections are kept per server.
const IDLE_CONNECTIONS: usize = 4;

/// The body of a request, possibly streamed.
pub type Body = BoxBody<Bytes, io::Error>;

/// No body.
pub fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// A body that is there already.
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into())
        .map_err(|never| match never {})
        .boxed()
}

/// An HTTP client for one sink. Clones share connections, and no connection outlives them.
#[derive(Clone)]
pub struct HttpClient(Arc<Shared>);

struct Shared {
    client: Client<Connector, Body>,
    _tasks: Arc<Tasks>,
}

impl HttpClient {
    /// A client that dials with `dialer` and believes in `trust`.
    pub fn new(dialer: Dialer, trust: &Trust) -> Result<Self, SinkError> {
        let tasks = Arc::new(Tasks::default());
        let client = Client::builder(Executor(Arc::downgrade(&tasks)))
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE)
            .pool_max_idle_per_host(IDLE_CONNECTIONS)
            .build(Connector::new(dialer, trust)?);
        Ok(Self(Arc::new(Shared {
            client,
            _tasks: tasks,
        })))
    }

    /// Sends a request. Whatever the server says is an answer, also a redirect or an error status.
    pub async fn send(&self, request: Request<Body>) -> Result<Response<Incoming>, SinkError> {
        let Some(host) = request.uri().host().map(str::to_owned) else {
            return Err(SinkError::terminal(
                "the URL names no host; write it like https://host/path",
            ));
        };
        // They would not be sent, and show in every trace of the libraries below.
        if request
            .uri()
            .authority()
            .is_some_and(|a| a.as_str().contains('@'))
        {
            return Err(SinkError::terminal(
                "the URL holds a user or a password; put them into the Secret of the sink",
            ));
        }
        self.0
            .client
            .request(request)
            .await
            .map_err(|error| failure(&host, &error))
    }
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClient").finish_non_exhaustive()
    }
}

/// The whole body of an answer, unless it is longer than expected.
pub async fn read(body: Incoming, limit: usize) -> Result<Bytes, SinkError> {
    match Limited::new(body, limit).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => Err(SinkError::terminal(
            format!("the server's answer is longer than {limit} bytes"),
        )),
        Err(error) => Err(SinkError::transient(format!(
            "the server's answer broke off: {}",
            chain(error.as_ref())
        ))),
    }
}

/// A failed exchange in words. What the connector found out keeps its class; everything else is
/// the network, or a server that went away. The path and query of a URL are not repeated: they may
/// hold tokens.
fn failure(host: &str, error: &legacy::Error) -> SinkError {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(found) = current.downcast_ref::<SinkError>() {
            return found.clone();
        }
        cause = current.source();
    }
    SinkError::transient(format!("http exchange with {host:?}: {}", chain(error)))
}

/// An error with all its causes.
fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(current) = cause {
        text.push_str(": ");
        text.push_str(&current.to_string());
        cause = current.source();
    }
    text
}
