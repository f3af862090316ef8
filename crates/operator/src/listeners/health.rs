//! Answers to probes.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode, request::Parts};
use hyper::body::Incoming;

use super::server::{Answer, Response, text};
use crate::{
    keeper::Stuck,
    metrics::{Observed, Readiness},
};

/// A process that was stopped as a whole, as a debugger does, has timers that are due: its loops
/// have moved again after this time.
const SECOND_LOOK: Duration = Duration::from_millis(500);

/// Probes of a running operator.
pub struct Health {
    /// Where readiness is published.
    pub observed: Arc<Observed>,
}

impl Answer for Health {
    async fn answer(&self, request: &Parts, _: Incoming) -> Response {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET is allowed\n");
        }
        let verbose = request.uri.query().unwrap_or_default();
        let verbose = verbose
            .split('&')
            .any(|part| part.split('=').next() == Some("verbose"));
        let mut stuck = self.observed.keeper.stuck();
        if !stuck.is_empty() {
            tokio::time::sleep(SECOND_LOOK).await;
            stuck = self.observed.keeper.stuck();
        }
        let readiness = self.observed.readiness();
        let (status, body) = probe(request.uri.path(), verbose, &readiness, &stuck);
        text(status, body)
    }
}

/// The answer to a probe of this path.
pub fn probe(
    path: &str,
    verbose: bool,
    readiness: &Readiness,
    stuck: &[Stuck],
) -> (StatusCode, String) {
    let (check, missing) = match path.trim_end_matches('/') {
        "/healthz" | "/healthz/healthz" => ("healthz", standstill(stuck)),
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

/// What stands still, if anything does. That somebody answers is not all there is to being alive.
fn standstill(stuck: &[Stuck]) -> Option<String> {
    let all = stuck.iter().map(|stuck| {
        let (task, seconds) = (stuck.task, stuck.since.as_secs());
        format!("the control loop {task} has not moved for {seconds} s")
    });
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join("; "))
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
            let answer = probe(path, verbose, readiness, &[]);
            assert_eq!((answer.0.as_u16(), &*answer.1), (status, body), "{path}");
        }
    }

    #[test]
    fn a11_a_loop_that_stands_still_is_named() {
        let stuck = [Stuck {
            task: "inventories",
            since: Duration::from_secs(75),
        }];
        let (status, body) = probe("/healthz", false, &Readiness::Ready, &stuck);
        assert_eq!(status, 503);
        assert_eq!(
            body,
            "[-]healthz failed: the control loop inventories has not moved for 75 s\n\
             healthz check failed\n"
        );
        let (status, _) = probe("/readyz", false, &Readiness::Ready, &stuck);
        assert_eq!(status, 200, "a restart is decided by liveness alone");
    }
}
