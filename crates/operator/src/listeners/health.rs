//! Answers to probes.

use std::sync::Arc;

use http::{Method, StatusCode, request::Parts};

use super::server::{Answer, Response, text};
use crate::metrics::{Observed, Readiness};

/// Probes of a running operator.
pub struct Health {
    /// Where readiness is published.
    pub observed: Arc<Observed>,
}

impl Answer for Health {
    async fn answer(&self, request: &Parts) -> Response {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        let verbose = request.uri.query().unwrap_or_default();
        let verbose = verbose
            .split('&')
            .any(|part| part.split('=').next() == Some("verbose"));
        let scene = self.observed.scene();
        let (status, body) = probe(request.uri.path(), verbose, &scene.readiness);
        text(status, body)
    }
}

/// The answer to a probe of this path.
pub fn probe(path: &str, verbose: bool, readiness: &Readiness) -> (StatusCode, String) {
    let (check, missing) = match path.trim_end_matches('/') {
        // That somebody answers is all there is to being alive.
        "/healthz" | "/healthz/healthz" => ("healthz", None),
        "/readyz" | "/readyz/readyz" => ("readyz", readiness.missing()),
        _ => return (StatusCode::NOT_FOUND, "not found\n".to_owned()),
    };
    match (missing, verbose) {
        (None, false) => (StatusCode::OK, "ok".to_owned()),
        (None, true) => (
            StatusCode::OK,
            format!("[+]{check} ok\n{check} check passed\n"),
        ),
        (Some(why), _) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("[-]{check} failed: {why}\n{check} check failed\n"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_say_what_is_missing() {
        let listing = Readiness::Listing("kollecttargets: 403".to_owned());
        let ready = Readiness::Ready;
        let failed = "[-]readyz failed: the configuration is not listed yet: kollecttargets: 403\n\
                      readyz check failed\n";
        for (path, verbose, readiness, status, body) in [
            ("/healthz", false, &listing, 200, "ok"),
            ("/healthz/", false, &listing, 200, "ok"),
            (
                "/healthz",
                true,
                &listing,
                200,
                "[+]healthz ok\nhealthz check passed\n",
            ),
            ("/readyz", false, &listing, 503, failed),
            ("/readyz", true, &listing, 503, failed),
            ("/readyz/readyz", false, &ready, 200, "ok"),
            (
                "/readyz",
                true,
                &ready,
                200,
                "[+]readyz ok\nreadyz check passed\n",
            ),
            ("/readyz/healthz", false, &ready, 404, "not found\n"),
            ("/", false, &ready, 404, "not found\n"),
        ] {
            let answer = probe(path, verbose, readiness);
            assert_eq!((answer.0.as_u16(), &*answer.1), (status, body), "{path}");
        }
    }
}
