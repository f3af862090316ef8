//! A request in, an answer out: bounded in size and time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use http::{HeaderValue, Method, StatusCode, header, request::Parts};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use kollect_admission::{
    Denied, Found, Judgement, NotKnown, Request,
    authorship::{self, Mode},
    hooks::Hook,
    judge::look,
    review,
};
use kollect_api::{GroupVersionKind, rules};
use kollect_watch::discovery;
use tokio::time::timeout;

use super::{author::Authors, kinds::Kinds, known::Known};
use crate::{
    configuration::Configuration,
    listeners::{Answer, Limits, Response, server::text},
    metrics::{Observed, admissions::Outcome},
};

/// What the API server takes for an object; what it sends here is a little longer, or holds the old
/// object as well. Objects of ours have a few kilobytes.
const LONGEST_BODY: usize = 3 << 20;
/// So much of a body that is too long is read on, so that the caller reads the answer.
const DRAINED: usize = 16 << 20;
/// What all bodies together may hold at a time.
const ALL_BODIES: usize = 64 << 20;
/// How long a caller may take for a body.
const READING: Duration = Duration::from_secs(4);
/// How long everything that has to be asked may take. Together with the reading it is less than the
/// ten seconds that the API server waits.
const ASKING: Duration = Duration::from_secs(4);
/// API servers open a connection for each request under way.
const CONNECTIONS: usize = 512;
/// Longer than API servers keep a connection that nothing happens on (90 s): if we closed it, a
/// request that is just being sent would be lost, and with it somebody's change.
const IDLE: Duration = Duration::from_mins(3);

/// The webhooks.
pub struct Webhooks {
    configuration: Arc<Configuration>,
    rules: rules::Settings,
    authors: Authors,
    kinds: Arc<Kinds>,
    observed: Arc<Observed>,
    /// Bytes of bodies that are being read or judged.
    held: AtomicUsize,
}

/// Why a body was not read.
enum Unread {
    /// It is longer than it may be; this is how it begins.
    TooLong(Vec<u8>),
    /// There are too many others.
    Busy,
    /// The caller went, or was slow.
    Broken(&'static str),
}

impl Webhooks {
    /// Judges by `rules` and by what `configuration` knows.
    pub fn new(
        configuration: Arc<Configuration>,
        rules: rules::Settings,
        authors: Authors,
        observed: Arc<Observed>,
    ) -> Self {
        Self {
            configuration,
            rules,
            kinds: Arc::clone(authors.kinds()),
            authors,
            observed,
            held: AtomicUsize::new(0),
        }
    }

    async fn respond(&self, hook: &'static Hook, body: Incoming) -> (Response, Outcome) {
        let body = match self.read(body).await {
            Ok(body) => body,
            Err(unread) => return refuse_body(hook, &unread),
        };
        let request = match Request::read(&body.bytes) {
            Ok(request) => request,
            Err(error) => {
                let answer = text(StatusCode::BAD_REQUEST, format!("{error}\n"));
                return (answer, Outcome::Malformed);
            }
        };
        drop(body);
        let judgement = match request.misdirected(hook) {
            Some(why) => Judgement::denied(Denied::Malformed(why)),
            None => self.judge(&request).await,
        };
        let outcome = match &judgement.denied {
            None if judgement.warnings.is_empty() => Outcome::Allowed,
            None => Outcome::Warned,
            Some(Denied::Malformed(_) | Denied::TooLarge(_)) => Outcome::Malformed,
            Some(Denied::NotKnown(_)) => Outcome::NotKnown,
            Some(Denied::Rules(_) | Denied::Author(_)) => Outcome::Denied,
        };
        (json(&review::answer(&request.uid, &judgement)), outcome)
    }

    async fn judge(&self, request: &Request) -> Judgement {
        let known = Known {
            configuration: &self.configuration,
            kind: self.kind(request).await,
        };
        let judged = look(request, &self.rules, &known);
        let (judgement, object) = (judged.judgement, judged.object);
        let Some(object) = object.filter(|_| self.authors.mode() != Mode::Off) else {
            return judgement;
        };
        let asking = self
            .authors
            .ask(&object, &request.user_info, &self.configuration);
        let finding = timeout(ASKING, asking).await.unwrap_or_else(|_| {
            let why = format!("no answer within {} s", ASKING.as_secs());
            authorship::Finding::NotKnown(why)
        });
        let named = format!("{} {:?}", object.kind(), object.name());
        let (mode, user) = (self.authors.mode(), &request.user_info);
        authorship::conclude(judgement, mode, &named, user, &finding)
    }

    /// Whether the kind of a profile exists.
    async fn kind(&self, request: &Request) -> Found<()> {
        let object = request.object.as_ref();
        let kind = object.and_then(|object| object.pointer("/spec/targetGVK"));
        let kind: Option<GroupVersionKind> =
            kind.and_then(|kind| serde_json::from_value(kind.clone()).ok());
        let Some(kind) = kind.filter(|_| request.kind.kind == "KollectProfile") else {
            return Found::There(());
        };
        match self.kinds.resolve(&kind).await {
            discovery::Answer::Installed(_) => Found::There(()),
            discovery::Answer::NotInstalled(_) => Found::Missing,
            discovery::Answer::Unreachable(why) => Found::NotKnown(NotKnown(why)),
        }
    }

    async fn read(&self, body: Incoming) -> Result<Body<'_>, Unread> {
        let reading = timeout(READING, self.read_all(body)).await;
        reading.unwrap_or(Err(Unread::Broken("the body did not arrive in time")))
    }

    async fn read_all(&self, mut body: Incoming) -> Result<Body<'_>, Unread> {
        let mut read = Body {
            bytes: Vec::new(),
            counted: 0,
            held: &self.held,
        };
        let mut length = 0;
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Unread::Broken("the body ended early"))?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            length += data.len();
            if length > DRAINED {
                break;
            }
            if length > LONGEST_BODY {
                continue;
            }
            let held = self.held.fetch_add(data.len(), Ordering::Relaxed);
            read.counted += data.len();
            read.bytes.extend_from_slice(&data);
            if held + data.len() > ALL_BODIES {
                return Err(Unread::Busy);
            }
        }
        if length > LONGEST_BODY {
            let beginning = &read.bytes[..read.bytes.len().min(1024)];
            return Err(Unread::TooLong(beginning.to_vec()));
        }
        Ok(read)
    }
}

/// A body while it counts.
struct Body<'h> {
    bytes: Vec<u8>,
    /// How much of it counts.
    counted: usize,
    held: &'h AtomicUsize,
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.counted, Ordering::Relaxed);
    }
}

fn refuse_body(hook: &Hook, unread: &Unread) -> (Response, Outcome) {
    match unread {
        Unread::TooLong(beginning) => {
            let why = format!(
                "this {} is too large: with everything around it a request may have {} MiB",
                hook.kind,
                LONGEST_BODY >> 20
            );
            let answer = match review::uid_of(beginning) {
                Some(uid) => json(&review::answer(
                    &uid,
                    &Judgement::denied(Denied::TooLarge(why)),
                )),
                None => text(StatusCode::PAYLOAD_TOO_LARGE, format!("{why}\n")),
            };
            (answer, Outcome::Malformed)
        }
        Unread::Busy => {
            let why = "too many large requests at a time; try again in a moment\n";
            (
                text(StatusCode::SERVICE_UNAVAILABLE, why),
                Outcome::NotKnown,
            )
        }
        Unread::Broken(why) => (
            text(StatusCode::REQUEST_TIMEOUT, format!("{why}\n")),
            Outcome::Malformed,
        ),
    }
}

impl Answer for Webhooks {
    async fn answer(&self, request: &Parts, body: Incoming) -> Response {
        let Some(hook) = Hook::at(request.uri.path()) else {
            return text(StatusCode::NOT_FOUND, "no webhook answers here\n");
        };
        if request.method != Method::POST {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only POST is allowed\n");
        }
        let begun = Instant::now();
        let (response, outcome) = self.respond(hook, body).await;
        let admissions = &self.observed.admissions;
        admissions.answered(hook.kind, outcome, begun.elapsed());
        response
    }

    fn limits(&self) -> Limits {
        Limits {
            connections: CONNECTIONS,
            head: IDLE,
            lifetime: None,
        }
    }
}

fn json(value: &serde_json::Value) -> Response {
    let mut response = text(StatusCode::OK, value.to_string());
    let kind = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
