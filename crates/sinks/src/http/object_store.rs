//! Object stores through our HTTP client.
//!
//! `object_store` takes a connector that makes its HTTP client. With this one every request of an
//! S3, GCS or Azure store, also one for a token, is dialled and judged like all others: addresses
//! that stand in a URL too, which a resolver would never see. Redirects are answers and not
//! followed, and the proxies of `ClientOptions` and of the environment are not used. Bodies are
//! streamed both ways.
//!
//! A store without credentials asks the metadata service of its cloud for some, and is refused
//! here like everybody else. Its endpoint has to be a URL as the `url` crate reads it, which is for
//! whoever builds the store to check: `object_store` 0.14 panics when it signs a request to
//! something else, such as an IPv6 address with a zone.

use std::{error::Error, io, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures::{Stream, stream};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use object_store::{
    ClientOptions,
    client::{
        HttpClient as StoreClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest,
        HttpResponse, HttpResponseBody, HttpService,
    },
};
use tokio::time::timeout;

use super::HttpClient;
use crate::error::SinkError;

/// Gives object stores our HTTP client.
#[derive(Debug, Clone)]
pub struct GuardedConnector {
    client: HttpClient,
    patience: Duration,
}

impl GuardedConnector {
    /// A connector for the stores of one sink. A server has `patience` to take a request and to
    /// begin its answer, and again for each piece of the answer.
    pub fn new(client: HttpClient, patience: Duration) -> Self {
        Self { client, patience }
    }
}

impl HttpConnector for GuardedConnector {
    fn connect(&self, _options: &ClientOptions) -> object_store::Result<StoreClient> {
        Ok(StoreClient::new(self.clone()))
    }
}

#[async_trait]
impl HttpService for GuardedConnector {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let request = request.map(|body| body.map_err(io::Error::other).boxed());
        let response = timeout(self.patience, self.client.send(request))
            .await
            .map_err(|_| silent(self.patience))?
            .map_err(failed)?;
        Ok(
            response
                .map(|body| HttpResponseBody::new(StreamBody::new(pieces(body, self.patience)))),
        )
    }
}

/// An answer piece by piece, and no longer than `patience` without one.
fn pieces(
    body: Incoming,
    patience: Duration,
) -> impl Stream<Item = Result<Frame<Bytes>, HttpError>> + Send + Sync {
    stream::try_unfold(body, move |mut body| async move {
        match timeout(patience, body.frame()).await {
            Ok(None) => Ok(None),
            Ok(Some(Ok(piece))) => Ok(Some((piece, body))),
            Ok(Some(Err(error))) => Err(HttpError::new(HttpErrorKind::Interrupted, error)),
            Err(_) => Err(silent(patience)),
        }
    })
}

/// A failed exchange as the store sees it. What a person has to change is not tried again. The rest
/// is, unless it might be done twice: the exchange may have broken at its end.
fn failed(error: SinkError) -> HttpError {
    let kind = match error {
        SinkError::Transient(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, error)
}

fn silent(patience: Duration) -> HttpError {
    let text = format!("no answer within {} s", patience.as_secs());
    HttpError::new(HttpErrorKind::Timeout, SinkError::transient(text))
}

/// A failure of ours as the store passes it on; [`cause`] finds it again.
pub(crate) fn given(error: SinkError) -> object_store::Error {
    object_store::Error::Generic {
        store: "kollect",
        source: Box::new(error),
    }
}

/// What our client said inside a store's error, with its class. None if the server answered.
pub fn cause(error: &object_store::Error) -> Option<SinkError> {
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(current) = cause {
        if let Some(found) = current.downcast_ref::<SinkError>() {
            return Some(found.clone());
        }
        cause = current.source();
    }
    None
}
