//! The API server as sources see it: requests with deadlines, and what it was found to be able to.

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use http::header::{ACCEPT, ACCEPT_ENCODING, RETRY_AFTER};
use http_body_util::{BodyDataStream, BodyExt as _, Collected, Limited};
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use super::course::Ending;
use super::refusal::Refusal;
use crate::request::WatchSubject;
use crate::resource::Resource;

/// The text of a refusal is not longer than this; the rest is not read.
const REFUSAL_LIMIT: usize = 64 * 1024;

/// An API server, shared by all sources that watch it.
///
/// The client should be made with `default_retry` off in its configuration. Otherwise it repeats
/// throttled requests by itself, without regard to what the server asked for, and without anybody
/// being told.
pub struct ApiServer {
    client: Client,
    /// Groups and versions that refuse streamed listings. Not one flag for the server: some groups
    /// are served by others behind it. Kept until the process ends; a server that learned it in
    /// the meantime is merely used the other way.
    paged: Mutex<BTreeSet<(String, String)>>,
    /// Is told of watches that panicked.
    keeper: OnceLock<WatchKeeper>,
}

/// Is told which watch panicked, and after which time it begins anew.
type WatchKeeper = Box<dyn Fn(&WatchSubject, Duration) + Send + Sync>;

/// The body of a successful answer, as it arrives.
pub(super) struct Answer(BodyDataStream<Body>);

impl ApiServer {
    /// The server that `client` talks to.
    pub fn new(client: Client) -> Arc<Self> {
        Arc::new(Self {
            client,
            paged: Mutex::default(),
            keeper: OnceLock::new(),
        })
    }

    /// Tells `keeper` of watches of this server whose decoder or consumer panicked, and after which
    /// time they begin anew. Only the first one is told.
    pub fn kept_by(&self, keeper: impl Fn(&WatchSubject, Duration) + Send + Sync + 'static) {
        let _ = self.keeper.set(Box::new(keeper));
    }

    pub(super) fn panicked(&self, subject: &WatchSubject, wait: Duration) {
        if let Some(keeper) = self.keeper.get() {
            keeper(subject, wait);
        }
    }

    /// Whether this resource is worth asking for as a streamed listing.
    pub fn streams(&self, resource: &Resource) -> bool {
        let paged = self.paged.lock().unwrap_or_else(PoisonError::into_inner);
        !paged.contains(&(resource.group.clone(), resource.version.clone()))
    }

    pub(super) fn refuses_streaming(&self, resource: &Resource) {
        let mut paged = self.paged.lock().unwrap_or_else(PoisonError::into_inner);
        paged.insert((resource.group.clone(), resource.version.clone()));
    }

    /// Sends a request and waits for the answer to begin.
    pub(super) async fn open(
        &self,
        uri: &str,
        accept: &str,
        deadline: Duration,
    ) -> Result<Answer, Ending> {
        let request = http::Request::get(uri)
            .header(ACCEPT, accept)
            // Each event would be compressed by itself, which costs both sides more than it saves.
            .header(ACCEPT_ENCODING, "identity")
            .body(Body::empty())
            .map_err(|error| Ending::Broken(chain(&error)))?;
        let response = timeout(deadline, self.client.send(request))
            .await
            .map_err(|_| Ending::Silent)?
            .map_err(|error| Ending::Broken(chain(&error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(Answer(response.into_body().into_data_stream()));
        }
        let (head, body) = response.into_parts();
        let retry_after = head.headers.get(RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok());
        // A refusal whose text cannot be had is still a refusal.
        let text = timeout(deadline, Limited::new(body, REFUSAL_LIMIT).collect()).await;
        let text = text.ok().and_then(Result::ok).map(Collected::to_bytes);
        let refusal = Refusal::from_answer(
            status.as_u16(),
            retry_after,
            text.as_deref().unwrap_or_default(),
        );
        Err(Ending::Refused(refusal))
    }
}

impl Answer {
    /// The next bytes, or nothing at the end.
    pub(super) async fn read(&mut self, deadline: Duration) -> Result<Option<Bytes>, Ending> {
        match timeout(deadline, self.0.next()).await {
            Err(_) => Err(Ending::Silent),
            Ok(None) => Ok(None),
            Ok(Some(Ok(bytes))) => Ok(Some(bytes)),
            Ok(Some(Err(error))) => Err(Ending::Broken(chain(&error))),
        }
    }
}

/// An error with its causes; the outer text alone mostly says only that something failed.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let inner = error.to_string();
        if !text.ends_with(&inner) {
            text.push_str(": ");
            text.push_str(&inner);
        }
        cause = error.source();
    }
    text
}
