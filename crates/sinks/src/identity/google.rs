//! Access tokens of Google for service account keys.
//!
//! A key signs a statement of who asks for what, and the token service gives a token for it. Google's
//! own library for this (`google-cloud-auth`) opens its connections by itself, past the address
//! policy, and has no door for a client of ours; what is left to do is one signature and one request.

#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

use base64::{Engine, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{Method, Request, StatusCode, Uri, header};
use jiff::Timestamp;
use ring::{
    rand::SystemRandom,
    signature::{RSA_PKCS1_SHA256, RsaKeyPair},
};
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout};

use crate::{
    error::SinkError,
    http::{self as client, HttpClient},
    secret::SecretText,
};

/// How long a statement is good for, and the longest life of a token.
const LIFE: Duration = Duration::from_hours(1);
/// A token that ends within this time is not used any more.
const EARLY: Duration = Duration::from_mins(5);
/// How long the token service may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes of its answer.
const ANSWER: usize = 64 << 10;
/// The longest token that is carried along.
const TOKEN: usize = 16 << 10;

/// A service account key, ready to sign.
pub(crate) struct ServiceAccountKey {
    account: String,
    key_id: Option<String>,
    pair: RsaKeyPair,
    token_uri: Uri,
}

/// What is wrong with a key. Says where, and never what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum KeyError {
    #[error("it is no JSON object with the fields of a key file")]
    Json,
    #[error("its type is not service_account; other kinds of credentials are not accepted")]
    Kind,
    #[error("client_email is missing")]
    Account,
    #[error("private_key is no RSA key in PKCS #8 PEM")]
    Key,
    #[error("token_uri is no https URL")]
    Address,
}

/// The fields of a key file that are used.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    client_email: String,
    private_key_id: Option<String>,
    #[serde(default)]
    private_key: String,
    token_uri: Option<String>,
}

/// Google's token service.
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";

#[derive(Serialize)]
struct Header<'h> {
    alg: &'static str,
    typ: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'h str>,
}

#[derive(Serialize)]
struct Claims<'c> {
    iss: &'c str,
    scope: &'c str,
    aud: &'c str,
    iat: i64,
    exp: i64,
}

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: Option<u64>,
}

impl ServiceAccountKey {
    /// Reads a key file. Plain `http` is taken only where the caller says so.
    pub(crate) fn parse(text: &str, plain: bool) -> Result<Self, KeyError> {
        let file: KeyFile = serde_json::from_str(text).map_err(|_| KeyError::Json)?;
        if file.kind.trim() != "service_account" {
            return Err(KeyError::Kind);
        }
        let account = file.client_email.trim();
        if account.is_empty() {
            return Err(KeyError::Account);
        }
        let key = PrivateKeyDer::from_pem_slice(file.private_key.as_bytes());
        let pair = match key.map_err(|_| KeyError::Key)? {
            PrivateKeyDer::Pkcs8(der) => RsaKeyPair::from_pkcs8(der.secret_pkcs8_der()),
            PrivateKeyDer::Pkcs1(der) => RsaKeyPair::from_der(der.secret_pkcs1_der()),
            _ => return Err(KeyError::Key),
        };
        let address = file.token_uri.as_deref().map(str::trim);
        let address = address.filter(|address| !address.is_empty());
        let token_uri: Uri = address
            .unwrap_or(TOKEN_URI)
            .parse()
            .map_err(|_| KeyError::Address)?;
        let scheme = token_uri.scheme_str();
        if token_uri.host().is_none()
            || !(scheme == Some("https") || (plain && scheme == Some("http")))
        {
            return Err(KeyError::Address);
        }
        Ok(Self {
            account: account.to_owned(),
            key_id: file.private_key_id.filter(|id| !id.is_empty()),
            pair: pair.map_err(|_| KeyError::Key)?,
            token_uri,
        })
    }

    /// A signed statement (a JWT) that this account asks for this scope now.
    fn statement(&self, scope: &str, now: Timestamp) -> Result<String, SinkError> {
        let header = Header {
            alg: "RS256",
            typ: "JWT",
            kid: self.key_id.as_deref(),
        };
        let issued = now.as_second();
        let claims = Claims {
            iss: &self.account,
            scope,
            aud: &self.token_uri.to_string(),
            iat: issued,
            exp: issued.saturating_add_unsigned(LIFE.as_secs()),
        };
        let mut text = String::new();
        for part in [serde_json::to_vec(&header), serde_json::to_vec(&claims)] {
            let part = part.map_err(|_| unsigned())?;
            if !text.is_empty() {
                text.push('.');
            }
            BASE64_URL_SAFE_NO_PAD.encode_string(part, &mut text);
        }
        let mut signature = vec![0; self.pair.public().modulus_len()];
        self.pair
            .sign(
                &RSA_PKCS1_SHA256,
                &SystemRandom::new(),
                text.as_bytes(),
                &mut signature,
            )
            .map_err(|_| unsigned())?;
        text.push('.');
        BASE64_URL_SAFE_NO_PAD.encode_string(signature, &mut text);
        Ok(text)
    }
}

fn unsigned() -> SinkError {
    SinkError::terminal("the key cannot sign; create a new one and put it into the Secret")
}

impl fmt::Debug for ServiceAccountKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccountKey").finish_non_exhaustive()
    }
}

/// Tokens for one scope, one at a time.
#[derive(Debug)]
pub(crate) struct Tokens {
    key: ServiceAccountKey,
    scope: &'static str,
    client: HttpClient,
    cached: tokio::sync::Mutex<Option<Token>>,
}

#[derive(Debug, Clone)]
struct Token {
    text: SecretText,
    /// From then on another one is asked for.
    until: Instant,
}

impl Tokens {
    pub(crate) fn new(key: ServiceAccountKey, scope: &'static str, client: HttpClient) -> Self {
        Self {
            key,
            scope,
            client,
            cached: tokio::sync::Mutex::default(),
        }
    }

    /// A token that is good for a while. Whoever comes meanwhile waits for the same one.
    pub(crate) async fn token(&self) -> Result<SecretText, SinkError> {
        let mut cached = self.cached.lock().await;
        if let Some(token) = cached.as_ref().filter(|token| token.until > Instant::now()) {
            return Ok(token.text.clone());
        }
        *cached = None;
        let asked = Instant::now();
        let granted = timeout(PATIENCE, self.ask()).await.unwrap_or_else(|_| {
            let limit = PATIENCE.as_secs();
            Err(SinkError::transient(format!(
                "the token service gave no answer within {limit} s"
            )))
        })?;
        let token = Token {
            until: asked + lasting(granted.expires_in),
            text: granted.access_token.into(),
        };
        Ok(cached.insert(token).text.clone())
    }

    /// The server does not take this token: the next one is a new one.
    pub(crate) async fn forget(&self, token: &SecretText) {
        let mut cached = self.cached.lock().await;
        if cached.as_ref().is_some_and(|known| known.text == *token) {
            *cached = None;
        }
    }

    async fn ask(&self) -> Result<Granted, SinkError> {
        let statement = self.key.statement(self.scope, Timestamp::now())?;
        // Base64 for URLs needs no escapes.
        let body = format!(
            "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={statement}"
        );
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.key.token_uri)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .header(header::ACCEPT, "application/json")
            .body(client::full(body))
            .map_err(|_| SinkError::terminal("token_uri of the key makes no valid request"))?;
        let response = self.client.send(request).await?;
        let status = response.status();
        let text = client::read(response.into_body(), ANSWER).await?;
        if !status.is_success() {
            return Err(refused(status, &text));
        }
        let granted: Option<Granted> = serde_json::from_slice(&text).ok();
        granted
            .filter(|granted| is_token(&granted.access_token))
            .ok_or_else(|| SinkError::transient("the token service's answer holds no token"))
    }
}

/// Whether a text can stand in a header.
fn is_token(text: &str) -> bool {
    !text.is_empty() && text.len() <= TOKEN && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// For how long a token is used.
fn lasting(expires_in: Option<u64>) -> Duration {
    let life = Duration::from_secs(expires_in.unwrap_or(LIFE.as_secs())).min(LIFE);
    // Of a short life at least half is used.
    life.saturating_sub(EARLY).max(life / 2)
}

/// What a refusal of the token service means. Its sentence is not repeated: it may name the account.
fn refused(status: StatusCode, body: &[u8]) -> SinkError {
    #[derive(Deserialize)]
    struct Refusal {
        error: String,
    }
    let word = serde_json::from_slice(body)
        .ok()
        .map(|refusal: Refusal| refusal.error)
        .filter(|word| {
            word.len() < 40 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
        });
    let word = word.as_deref().unwrap_or("no reason");
    match status.as_u16() {
        400 | 401 | 403 => SinkError::terminal(format!(
            "authentication failed ({word}): the token service does not accept the service account \
             key; put a valid one into the Secret, enable the account, or correct the clock of the \
             operator's node: exports go on when the Secret changes or a probe succeeds"
        )),
        404 => SinkError::terminal(
            "authentication failed: there is no token service at token_uri of the key; download the \
             key again",
        ),
        status => SinkError::transient(format!("the token service answered {status} ({word})")),
    }
}
