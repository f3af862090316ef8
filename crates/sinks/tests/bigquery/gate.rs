//! What stands in front of an emulator so that it behaves like the service where it does not: a token
//! service that checks signatures, requests that are refused without a token, and the right word for
//! a job that is there already. It remembers every request, and fails on demand.

use std::{
    collections::BTreeSet,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, client, server, service::service_fn};
use hyper_util::rt::TokioIo;
use kollect_testkit::names::secret;
use ring::signature::{KeyPair, RSA_PKCS1_2048_8192_SHA256, RsaKeyPair, UnparsedPublicKey};
use rustls::pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

/// Made for these tests; they open nothing.
pub(crate) const KEY: &str = include_str!("../data/google/key.pem");
pub(crate) const OTHER_KEY: &str = include_str!("../data/google/other-key.pem");

/// A request that was let through.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

impl Seen {
    /// The statement of a job that changes something.
    pub(crate) fn change(&self) -> Option<&str> {
        let text = self.body["configuration"]["query"]["query"].as_str()?;
        let begins = |word: &str| text.starts_with(word);
        ["DELETE", "INSERT", "MERGE"]
            .iter()
            .any(|word| begins(word))
            .then_some(text)
    }
}

/// What happens to a request instead of the usual.
#[derive(Debug, Clone)]
pub(crate) enum Trouble {
    /// This answer; the request goes nowhere.
    Answer(u16, Value),
    /// It is carried out, and its answer never comes.
    LoseAnswer,
    /// The connection ends, and it is not carried out.
    Vanish,
}

impl Trouble {
    /// An error as the service writes them.
    pub(crate) fn refusal(status: u16, reason: &str) -> Self {
        let error = json!({"reason": reason, "message": "quoting 'a value'"});
        Self::Answer(
            status,
            json!({"error": {"code": status, "message": "quoting 'a value'", "errors": [error]}}),
        )
    }
}

type Rule = Box<dyn FnMut(&Seen) -> Option<Trouble> + Send>;

#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    emulator: u16,
    tokens: Mutex<BTreeSet<String>>,
    issued: Mutex<usize>,
    seen: Mutex<Vec<Seen>>,
    rules: Mutex<Vec<Rule>>,
    /// Changing statements under way, and the most of them at a time.
    under_way: AtomicUsize,
    at_once: AtomicUsize,
}

impl Gate {
    /// In front of an emulator, for as long as the runtime of the test lives.
    pub(crate) async fn before(emulator: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let gate = Self {
            port: listener.local_addr().expect("an address").port(),
            shared: Arc::new(Shared {
                emulator,
                tokens: Mutex::default(),
                issued: Mutex::default(),
                seen: Mutex::default(),
                rules: Mutex::default(),
                under_way: AtomicUsize::new(0),
                at_once: AtomicUsize::new(0),
            }),
        };
        let shared = Arc::clone(&gate.shared);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let shared = Arc::clone(&shared);
                tokio::spawn(async move {
                    let service = service_fn(move |request| handle(Arc::clone(&shared), request));
                    let _ = server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        gate
    }

    /// All requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().unwrap().clone()
    }

    /// The statements so far that change something.
    pub(crate) fn changes(&self) -> Vec<String> {
        let seen = self.seen();
        let texts = seen.iter().filter_map(Seen::change);
        texts.map(str::to_owned).collect()
    }

    pub(crate) fn forget(&self) {
        self.shared.seen.lock().unwrap().clear();
    }

    /// Asks this rule for every request from now on, after earlier rules.
    pub(crate) fn rule(&self, rule: impl FnMut(&Seen) -> Option<Trouble> + Send + 'static) {
        self.shared.rules.lock().unwrap().push(Box::new(rule));
    }

    /// From now on everything is as usual.
    pub(crate) fn calm(&self) {
        self.shared.rules.lock().unwrap().clear();
    }

    /// No token is good any more.
    pub(crate) fn expire(&self) {
        self.shared.tokens.lock().unwrap().clear();
    }

    /// The most changing statements that were under way at a time.
    pub(crate) fn at_once(&self) -> usize {
        self.shared.at_once.load(Ordering::SeqCst)
    }

    /// How many tokens were given out.
    pub(crate) fn issued(&self) -> usize {
        *self.shared.issued.lock().unwrap()
    }
}

/// An error on purpose, which ends the connection.
#[derive(Debug, thiserror::Error)]
#[error("on purpose")]
struct Gone;

async fn handle(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Gone> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.map_err(|_| Gone)?.to_bytes();
    if head.uri.path() == "/token" {
        return Ok(shared.token(&body));
    }
    let bearer = head.headers.get(header::AUTHORIZATION);
    let bearer = bearer.and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let known = bearer.is_some_and(|token| shared.tokens.lock().unwrap().contains(token));
    if !known {
        let error = json!({"reason": "authError"});
        return Ok(answer(
            401,
            &json!({"error": {"code": 401, "errors": [error]}}),
        ));
    }
    let seen = Seen {
        method: head.method,
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or_default(),
    };
    shared.seen.lock().unwrap().push(seen.clone());
    let trouble = {
        let mut rules = shared.rules.lock().unwrap();
        rules.iter_mut().find_map(|rule| rule(&seen))
    };
    match trouble {
        Some(Trouble::Answer(status, body)) => Ok(answer(status, &body)),
        Some(Trouble::Vanish) => Err(Gone),
        Some(Trouble::LoseAnswer) => {
            let _ = forward(shared.emulator, &seen, body).await;
            Err(Gone)
        }
        None => {
            // Whatever becomes of whoever asked: a job goes on.
            let job = tokio::spawn(async move {
                if seen.change().is_none() {
                    return forward(shared.emulator, &seen, body).await;
                }
                let now = shared.under_way.fetch_add(1, Ordering::SeqCst) + 1;
                shared.at_once.fetch_max(now, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(2)).await;
                let count = count(shared.emulator, &seen).await;
                let answer = forward(shared.emulator, &seen, body).await;
                let answer = match (answer, count) {
                    (Some(answer), Some(count)) => counted(answer, &count).await,
                    (answer, _) => answer,
                };
                shared.under_way.fetch_sub(1, Ordering::SeqCst);
                answer
            });
            job.await.ok().flatten().ok_or(Gone)
        }
    }
}

impl Shared {
    /// A token for a statement that the known key signed.
    fn token(&self, body: &[u8]) -> Response<Full<Bytes>> {
        let refused = || {
            answer(
                400,
                &json!({"error": "invalid_grant", "error_description": "no"}),
            )
        };
        let text = String::from_utf8_lossy(body);
        let statement = text
            .split('&')
            .find_map(|pair| pair.strip_prefix("assertion="));
        let Some((signed, signature)) = statement.and_then(|text| text.rsplit_once('.')) else {
            return refused();
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(KEY.as_bytes()).expect("a key");
        let pair = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()).expect("a key");
        let public = UnparsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, pair.public_key());
        let signature = BASE64_URL_SAFE_NO_PAD.decode(signature).unwrap_or_default();
        if public.verify(signed.as_bytes(), &signature).is_err() {
            return refused();
        }
        let token = secret().expect("a token");
        self.tokens.lock().unwrap().insert(token.clone());
        *self.issued.lock().unwrap() += 1;
        let granted = json!({"access_token": token, "expires_in": 3599, "token_type": "Bearer"});
        answer(200, &granted)
    }
}

fn answer(status: u16, body: &Value) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.to_string().into()))
        .expect("an answer")
}

/// How many rows a statement is about to delete, which the emulator does not say afterwards.
async fn count(port: u16, seen: &Seen) -> Option<String> {
    let text = seen.change().filter(|text| !text.contains("@rows"))?;
    let text = text.strip_prefix("DELETE FROM")?;
    let query = &seen.body["configuration"]["query"];
    let question = json!({
        "query": format!("SELECT CAST(COUNT(*) AS STRING) FROM{text}"),
        "useLegacySql": false,
        "parameterMode": "NAMED",
        "queryParameters": query["queryParameters"],
    });
    let asked = Seen {
        path: seen.path.replace("/jobs", "/queries"),
        ..seen.clone()
    };
    let answer = forward(port, &asked, question.to_string().into()).await?;
    let body = answer.into_body().collect().await.ok()?.to_bytes();
    let body: Value = serde_json::from_slice(&body).ok()?;
    body["rows"][0]["f"][0]["v"].as_str().map(str::to_owned)
}

/// The answer with that number in it.
async fn counted(answer: Response<Full<Bytes>>, count: &str) -> Option<Response<Full<Bytes>>> {
    let (head, body) = answer.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let mut job: Value = serde_json::from_slice(&body).ok()?;
    if head.status.is_success() {
        job["statistics"]["query"]["dmlStats"] = json!({"deletedRowCount": count});
    }
    Some(self::answer(head.status.as_u16(), &job))
}

async fn forward(port: u16, seen: &Seen, body: Bytes) -> Option<Response<Full<Bytes>>> {
    let stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    let (mut sender, connection) = client::conn::http1::handshake(TokioIo::new(stream))
        .await
        .ok()?;
    tokio::spawn(connection);
    let request = Request::builder()
        .method(seen.method.clone())
        .uri(format!("{}?{}", seen.path, seen.query))
        .header(header::HOST, "127.0.0.1")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .ok()?;
    let (head, body) = sender.send_request(request).await.ok()?.into_parts();
    let body = body.collect().await.ok()?.to_bytes();
    let taken = head.status == StatusCode::BAD_REQUEST
        && String::from_utf8_lossy(&body).contains("is already created");
    if taken && seen.path.ends_with("/jobs") {
        let error = json!({"reason": "duplicate", "message": "Already Exists: Job"});
        return Some(answer(
            409,
            &json!({"error": {"code": 409, "errors": [error]}}),
        ));
    }
    Some(Response::from_parts(head, Full::new(body)))
}
