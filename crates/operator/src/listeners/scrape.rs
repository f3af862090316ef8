//! Answers to scrapers.

use std::sync::Arc;

use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use hyper::body::Incoming;

use super::{
    guard::{Guard, Refusal},
    server::{Answer, Response, text},
};
use crate::metrics::Metrics;

/// The type of the page.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The page of metrics, for those who may read it.
pub struct Scrape {
    /// The page.
    pub metrics: Arc<Metrics>,
    /// Who may read it; everybody without one.
    pub guard: Option<Guard>,
}

impl Answer for Scrape {
    async fn answer(&self, request: &Parts, _: Incoming) -> Response {
        if request.uri.path() != "/metrics" {
            return text(StatusCode::NOT_FOUND, "not found\n");
        }
        if let Some(guard) = &self.guard
            && let Err(refusal) = guard.admit(request).await
        {
            return refused(&refusal);
        }
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        let metrics = Arc::clone(&self.metrics);
        // Large targets take a while to look through.
        match tokio::task::spawn_blocking(move || metrics.render()).await {
            Ok(page) => {
                let mut response = text(StatusCode::OK, page);
                let kind = HeaderValue::from_static(OPEN_METRICS);
                response.headers_mut().insert(header::CONTENT_TYPE, kind);
                response
            }
            Err(error) => {
                tracing::error!(%error, "cannot compute metrics");
                text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "cannot compute metrics; see the log\n",
                )
            }
        }
    }
}

fn refused(refusal: &Refusal) -> Response {
    match refusal {
        Refusal::Unauthenticated => {
            let mut response = text(StatusCode::UNAUTHORIZED, refusal.to_string());
            let bearer = HeaderValue::from_static("Bearer");
            let headers = response.headers_mut();
            headers.insert(header::WWW_AUTHENTICATE, bearer);
            response
        }
        Refusal::Denied { .. } => text(StatusCode::FORBIDDEN, refusal.to_string()),
        // What the API server says is for the operator's owner, not for a caller we do not know.
        Refusal::Unavailable { review, .. } => {
            tracing::warn!(error = %refusal, "cannot tell who may read the metrics");
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("{review} failed; see the log\n"),
            )
        }
    }
}
