//! What a cloud does about identity: token services, and a door that asks for tokens.
//!
//! | Asked like | Gives |
//! | --- | --- |
//! | Google's token service (`/token`), its metadata server | tokens |
//! | Azure's token service (`/<tenant>/oauth2/v2.0/token`), its instance metadata | tokens |
//! | AWS's token service (`/`, a web identity), the agent for pods (`/agent`), instance metadata | keys |
//!
//! Everything else is for the server behind it, and passed on if it carries a token that was given
//! here. Whatever is asked is remembered.

use std::io::{BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::Result;
use serde_json::{Value, json};

use crate::http::Head;
use crate::names::unique;

/// A cloud in front of a server.
pub struct Cloud {
    port: u16,
    state: Arc<State>,
}

struct State {
    server: Option<u16>,
    /// What is added to the query of requests that are passed on, in place of their token.
    query: String,
    /// The keys that are given to who may have them: access and secret.
    keys: (String, String),
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// Tokens that are good.
    tokens: Vec<String>,
    /// How long tokens live, in seconds.
    life: u64,
    /// Whether anybody is given anything.
    refuses: bool,
    asked: Vec<Asked>,
}

/// A question that was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Method and path, with the query.
    pub line: String,
    /// The body, as text.
    pub body: String,
    /// The field `Authorization`.
    pub authorization: String,
}

impl Cloud {
    /// A cloud without a server behind it, which gives keys of AWS.
    pub fn with_keys(access: &str, secret: &str) -> Result<Self> {
        Self::new(None, "", (access.to_owned(), secret.to_owned()))
    }

    /// A cloud in front of a server on this port.
    pub fn in_front_of(server: u16) -> Result<Self> {
        Self::new(Some(server), "", (String::new(), String::new()))
    }

    /// A cloud in front of a server that takes a signature in the query instead of tokens.
    pub fn signing(server: u16, query: &str) -> Result<Self> {
        Self::new(Some(server), query, (String::new(), String::new()))
    }

    fn new(server: Option<u16>, query: &str, keys: (String, String)) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let port = listener.local_addr()?.port();
        let state = Arc::new(State {
            server,
            query: query.to_owned(),
            keys,
            known: Mutex::new(Known {
                life: 3600,
                ..Known::default()
            }),
        });
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&shared);
                thread::spawn(move || serve(&client, &state));
            }
        });
        Ok(Self { port, state })
    }

    /// Where it is.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// No token that was given is good any more.
    pub fn revoke(&self) {
        self.state.known().tokens.clear();
    }

    /// Whether nobody is given anything from now on.
    pub fn refuse(&self, refuses: bool) {
        self.state.known().refuses = refuses;
    }

    /// What was asked about identity.
    pub fn asked(&self) -> Vec<Asked> {
        self.state.known().asked.clone()
    }
}

impl State {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A token, as JSON says it.
    fn token(&self, expires_in: impl FnOnce(u64) -> Value) -> Answer {
        let mut known = self.known();
        let token = format!("ya29.{}", unique("token"));
        known.tokens.push(token.clone());
        let life = expires_in(known.life);
        Answer::json(&json!({"access_token": token, "expires_in": life, "token_type": "Bearer"}))
    }

    fn keys(&self) -> Answer {
        let (access, secret) = &self.keys;
        Answer::json(&json!({
            "AccessKeyId": access, "SecretAccessKey": secret,
            "Expiration": "2099-01-01T00:00:00Z", "Code": "Success",
        }))
    }

    /// The answer to a question about identity; nothing for anything else.
    fn answer(&self, head: &Head, body: &str) -> Option<Answer> {
        let mut words = head.start.split(' ');
        let (method, target) = (words.next()?, words.next()?);
        let path = target.split('?').next()?;
        let has = |name: &str, value: &str| head.get(name) == Some(value);
        let seconds = Value::from;
        let text = |life: u64| Value::from(life.to_string());
        let when = |right: bool, answer: &dyn Fn() -> Answer| {
            if right {
                answer()
            } else {
                Answer::new("403 Forbidden", r#"{"error":"access_denied"}"#)
            }
        };
        let answer = match (method, path) {
            ("POST", "/token") => when(body.contains("assertion=ey"), &|| self.token(seconds)),
            ("GET", "/computeMetadata/v1/instance/service-accounts/default/token") => {
                when(has("metadata-flavor", "Google"), &|| self.token(seconds))
            }
            ("GET", "/metadata/identity/oauth2/token") => {
                when(has("metadata", "true"), &|| self.token(text))
            }
            ("POST", path) if path.ends_with("/oauth2/v2.0/token") => {
                when(body.contains("client_assertion=pod-token"), &|| {
                    self.token(seconds)
                })
            }
            ("POST", "/") if body.contains("AssumeRoleWithWebIdentity") => {
                when(body.contains("WebIdentityToken=pod-token"), &|| {
                    let (access, secret) = &self.keys;
                    Answer::new(
                        "200 OK",
                        &format!(
                            "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult>\
                             <Credentials><AccessKeyId>{access}</AccessKeyId>\
                             <SecretAccessKey>{secret}</SecretAccessKey>\
                             <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>\
                             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
                        ),
                    )
                })
            }
            ("GET", "/agent") => when(has("authorization", "pod-token"), &|| self.keys()),
            ("PUT", "/latest/api/token") => Answer::new("200 OK", "session-of-instance"),
            ("GET", path) if path.starts_with("/latest/meta-data/iam/security-credentials/") => {
                let role = path.ends_with("/the-role");
                when(
                    has("x-aws-ec2-metadata-token", "session-of-instance"),
                    &|| {
                        if role {
                            self.keys()
                        } else {
                            Answer::new("200 OK", "the-role")
                        }
                    },
                )
            }
            _ => return None,
        };
        let refuses = self.known().refuses;
        Some(if refuses {
            Answer::new("403 Forbidden", r#"{"error":"access_denied"}"#)
        } else {
            answer
        })
    }
}

/// Status and body.
struct Answer(String, String);

impl Answer {
    fn new(status: &str, body: &str) -> Self {
        Self(status.to_owned(), body.to_owned())
    }

    fn json(body: &Value) -> Self {
        Self("200 OK".to_owned(), body.to_string())
    }
}

/// One request per connection.
fn serve(client: &TcpStream, state: &State) -> Option<()> {
    let mut reader = BufReader::new(client);
    let head = Head::read(&mut reader).ok()??;
    let body = head.body(&mut reader).ok()?.unwrap_or_default();
    let text = String::from_utf8_lossy(&body);
    let answer = if let Some(Answer(status, text_back)) = state.answer(&head, &text) {
        state.known().asked.push(Asked {
            line: head.start.clone(),
            body: text.into_owned(),
            authorization: head.get("authorization").unwrap_or_default().to_owned(),
        });
        plain(&status, &text_back)
    } else {
        let token = head
            .get("authorization")
            .and_then(|value| value.strip_prefix("Bearer "));
        let good = token.is_some_and(|token| state.known().tokens.iter().any(|one| one == token));
        match state.server {
            Some(server) if good => pass(server, &state.query, &head, &body)?,
            _ => plain(
                "401 Unauthorized",
                r#"{"error":{"code":401,"errors":[{"reason":"authError"}]}}"#,
            ),
        }
    };
    let mut client = client;
    client.write_all(&answer).ok()?;
    let _ = client.shutdown(Shutdown::Write);
    Some(())
}

fn plain(status: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}

/// What the server behind answers.
fn pass(server: u16, query: &str, head: &Head, body: &[u8]) -> Option<Vec<u8>> {
    let mut upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).ok()?;
    let mut own = vec![
        "connection",
        "content-length",
        "transfer-encoding",
        "expect",
    ];
    let mut request = if query.is_empty() {
        format!("{}\r\n", head.start)
    } else {
        own.push("authorization");
        let (rest, version) = head.start.rsplit_once(' ')?;
        let joint = if rest.contains('?') { '&' } else { '?' };
        format!("{rest}{joint}{query} {version}\r\n")
    };
    for (name, value) in head.fields() {
        if !own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    let length = body.len();
    request.push_str(&format!(
        "Connection: close\r\nContent-Length: {length}\r\n\r\n"
    ));
    upstream.write_all(request.as_bytes()).ok()?;
    upstream.write_all(body).ok()?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer).ok()?;
    Some(answer)
}
