//! Requests of our own, where the library has none: with a deadline, a limit for the answer, and a
//! second and third attempt where doing a thing twice is doing it once.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, header};
use tokio::time::{sleep, timeout};

use crate::{
    error::SinkError,
    http::{self as client, HttpClient},
};

/// Pauses before further attempts.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_millis(700)];

/// Sends requests.
#[derive(Debug, Clone)]
pub(super) struct Rest {
    pub(super) client: HttpClient,
    /// For a whole exchange.
    pub(super) patience: Duration,
}

/// A request that can be sent again.
#[derive(Debug, Clone)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    /// Whether it does no harm a second time.
    pub(super) again: bool,
    /// Most bytes of the answer.
    pub(super) limit: usize,
}

/// An answer.
#[derive(Debug, Clone)]
pub(super) struct Reply {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Call {
    pub(super) fn new(method: Method, url: String) -> Self {
        let again = matches!(method, Method::GET | Method::HEAD | Method::DELETE);
        Self {
            method,
            url,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            again,
            limit: 64 << 10,
        }
    }

    /// Adds a header. What no header can hold is left out, which a server then complains about.
    #[must_use]
    pub(super) fn header(mut self, name: &'static str, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(HeaderName::from_static(name), value);
        }
        self
    }

    #[must_use]
    pub(super) fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }

    #[must_use]
    pub(super) fn again(mut self) -> Self {
        self.again = true;
        self
    }

    #[must_use]
    pub(super) fn limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    fn request(&self) -> Result<Request<client::Body>, SinkError> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.url)
            .header(header::CONTENT_LENGTH, self.body.len());
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        request
            .body(client::full(self.body.clone()))
            .map_err(|_| SinkError::terminal("the endpoint makes no valid request"))
    }
}

impl Reply {
    /// A header as text.
    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The body as text, as far as it is.
    pub(super) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Rest {
    /// Whatever the server answers, at last.
    pub(super) async fn send(&self, call: &Call) -> Result<Reply, SinkError> {
        let mut pauses = PAUSES.iter().filter(|_| call.again);
        loop {
            let reply = self.once(call).await;
            let busy = match &reply {
                Ok(reply) => reply.status.is_server_error() || reply.status.as_u16() == 429,
                Err(error) => matches!(error, SinkError::Transient(_)),
            };
            match pauses.next() {
                Some(pause) if busy => sleep(*pause).await,
                _ => return reply,
            }
        }
    }

    async fn once(&self, call: &Call) -> Result<Reply, SinkError> {
        let request = call.request()?;
        let exchange = async {
            let response = self.client.send(request).await?;
            let (head, body) = response.into_parts();
            let body = client::read(body, call.limit).await?;
            Ok(Reply {
                status: head.status,
                headers: head.headers,
                body,
            })
        };
        timeout(self.patience, exchange).await.unwrap_or_else(|_| {
            let limit = self.patience.as_secs();
            Err(SinkError::transient(format!("no answer within {limit} s")))
        })
    }
}
