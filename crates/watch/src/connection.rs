//! The way to the API server: few connections, and few requests at a time.
//!
//! An API server is shared by everybody in a cluster. A client that opens a connection for each
//! watch, or sends everything it has at once, is felt by all of them. So:
//!
//! ```text
//! request ─ kind ─ Gate: so many of a kind at a time ─ Pressure: is it pushing back? ─ Lanes: HTTP/2
//! ```
//!
//! - Requests travel over HTTP/2: one connection carries many watches. Reading and writing have
//!   connections of their own, so that neither waits behind the other's bytes (`lanes`). A server
//!   that does not speak HTTP/2 (a proxy, perhaps) is spoken to as before, in HTTP/1.1.
//! - Of reads, writes and reviews there may be so many at a time each, and those beyond wait in line.
//!   None of them can use up what another needs (`gate`). Requests about leases never wait, and
//!   have a connection of their own.
//! - A server that answers 429 or 504 again and again is left alone for a while, then asked one thing
//!   at a time until it answers (`pressure`).
//!
//! How much is under way and waits is counted for the whole process ([`load`]).

mod body;
mod gate;
mod kind;
mod lanes;
pub mod load;
mod pressure;

use std::{
    error::Error,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Request, Response, header::RETRY_AFTER};
use kube::{
    Client, Config,
    client::{Body, ClientBuilder, ConfigExt as _},
};
use tower_service::Service;

use self::{
    body::CountedBody,
    gate::Gate,
    kind::Kind,
    lanes::{Connectors, Http1, Lanes},
    pressure::{Pressures, Verdict},
};

/// Any error.
type BoxError = Box<dyn Error + Send + Sync>;

/// A client that lives in the runtime that calls this. Make one per runtime: a connection is driven
/// where it was opened.
///
/// `default_retry` of the configuration has no effect: nothing is ever sent twice.
pub fn client(config: Config) -> Result<Client, kube::Error> {
    // Ways that only the library knows.
    if config.proxy_url.is_some() {
        return Client::try_from(config);
    }
    let connectors = Connectors::new(&config)?;
    let way = Way(Arc::new(Shared {
        leases: connectors.http1(),
        reading: Lanes::new(&config.cluster_url, connectors.clone()),
        writing: Lanes::new(&config.cluster_url, connectors),
        gate: Gate::default(),
        pressures: Pressures::default(),
    }));
    let builder = ClientBuilder::new(way, config.default_namespace.clone());
    let builder = builder.with_layer(&config.extra_headers_layer()?);
    let base = config.base_uri_layer();
    Ok(match config.auth_layer()? {
        Some(auth) => builder.with_layer(&auth).with_layer(&base).build(),
        None => builder.with_layer(&base).build(),
    })
}

/// Sends requests. Clones share everything.
#[derive(Clone)]
struct Way(Arc<Shared>);

struct Shared {
    /// Not over HTTP/2: a request that is given up takes its connection with it, so the next one
    /// never waits for a connection that is dead.
    leases: Http1,
    reading: Lanes,
    writing: Lanes,
    gate: Gate,
    pressures: Pressures,
}

impl Service<Request<Body>> for Way {
    type Response = Response<CountedBody>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { shared.send(request).await })
    }
}

impl Shared {
    async fn send(&self, request: Request<Body>) -> Result<Response<CountedBody>, BoxError> {
        let kind = Kind::of(request.method(), request.uri());
        if kind == Kind::Lease {
            let counted = load::UnderWay::begin(kind);
            let response = self.leases.request(request).await?;
            return Ok(response.map(|body| CountedBody::incoming(body).until_read(counted)));
        }
        let pressure = self.pressures.of(kind, request.uri().path());
        // Whoever is refused anyway need not wait in line.
        if let Some(wait) = pressure.closed_for() {
            return Ok(pressure::refusal(wait));
        }
        let turn = self.gate.enter(kind).await;
        let attempt = match pressure.begin() {
            Verdict::Refused(wait) => return Ok(pressure::refusal(wait)),
            Verdict::Passed(attempt) => attempt,
        };
        let lanes = if kind.reads() {
            &self.reading
        } else {
            &self.writing
        };
        let response = lanes.send(request).await?;
        let retry_after = response.headers().get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        attempt.answered(response.status(), retry_after);
        // A watch that is open asks for nothing any more.
        Ok(if kind == Kind::Watch {
            drop(turn);
            let counted = load::UnderWay::begin(kind);
            response.map(|body| body.until_read(counted))
        } else {
            response.map(|body| body.until_read(turn))
        })
    }
}
