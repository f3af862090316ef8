//! Requests to the service: a deadline and a limit for every answer, a token in front, and a few
//! attempts where a repetition cannot do harm.

use std::{fmt, time::Duration};

use http::{Method, Request, StatusCode, header};
use serde::de::DeserializeOwned;
use tokio::time::{sleep, timeout};

use super::fault::{Fault, refused};
use crate::{
    error::SinkError,
    http::{self as client, HttpClient},
    identity::google::Tokens,
};

/// How long one request may take. The service holds an answer back for ten seconds at most.
const PATIENCE: Duration = Duration::from_mins(1);
/// Most bytes of an answer.
const ANSWER: usize = 32 << 20;
/// How often a request is sent, and the first pause in between.
const ATTEMPTS: u32 = 4;
const PAUSE: Duration = Duration::from_millis(250);

/// Where the service is, and who asks.
pub(super) struct Api {
    http: HttpClient,
    /// Up to and including the version.
    base: String,
    /// None at an emulator, which knows nobody.
    tokens: Option<Tokens>,
}

/// A request, ready to be sent more than once.
pub(super) struct Call {
    method: Method,
    path: String,
    body: Option<bytes::Bytes>,
}

impl Call {
    pub(super) fn get(path: impl Into<String>) -> Self {
        Self {
            method: Method::GET,
            path: path.into(),
            body: None,
        }
    }

    /// A request whose repetition does no harm: what it makes has a name.
    pub(super) fn post(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self {
            method: Method::POST,
            path: path.into(),
            body: Some(body.into()),
        }
    }

    pub(super) fn patch(path: impl Into<String>, body: Vec<u8>) -> Self {
        Self {
            method: Method::PATCH,
            ..Self::post(path, body)
        }
    }
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").finish_non_exhaustive()
    }
}

impl Api {
    pub(super) fn new(http: HttpClient, base: String, tokens: Option<Tokens>) -> Self {
        Self { http, base, tokens }
    }

    /// Sends a request until it is answered, a few times.
    pub(super) async fn send<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Fault> {
        let mut pause = PAUSE;
        let mut attempt = 1;
        loop {
            let fault = match self.authorized(call).await {
                Ok(answer) => return Ok(answer),
                Err(fault) => fault,
            };
            if !fault.again() || attempt == ATTEMPTS {
                return Err(fault);
            }
            attempt += 1;
            sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
            pause *= 2;
        }
    }

    /// One attempt; a token that is not taken any more is replaced once.
    async fn authorized<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Fault> {
        let Some(tokens) = &self.tokens else {
            return self.once(call, None).await;
        };
        let token = tokens.token().await?;
        match self.once(call, Some(token.expose())).await {
            Err(fault) if fault.status == Some(401) => {
                tokens.forget(&token).await;
                let token = tokens.token().await?;
                self.once(call, Some(token.expose())).await
            }
            other => other,
        }
    }

    async fn once<T: DeserializeOwned>(
        &self,
        call: &Call,
        token: Option<&str>,
    ) -> Result<T, Fault> {
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(format!("{}{}", self.base, call.path))
            .header(header::ACCEPT, "application/json");
        if let Some(token) = token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let body = match &call.body {
            Some(body) => {
                request = request.header(header::CONTENT_TYPE, "application/json");
                client::full(body.clone())
            }
            None => client::empty(),
        };
        let request = request
            .body(body)
            .map_err(|_| SinkError::terminal("the names of the table make no valid request"))?;
        let exchange = async {
            let response = self.http.send(request).await?;
            let status = response.status();
            let body = client::read(response.into_body(), ANSWER).await?;
            Ok((status, body))
        };
        let answered = timeout(PATIENCE, exchange).await.unwrap_or_else(|_| {
            let limit = PATIENCE.as_secs();
            Err(SinkError::transient(format!(
                "the service gave no answer within {limit} s"
            )))
        });
        let (status, body) = answered.map_err(Fault::unanswered)?;
        if !status.is_success() || status == StatusCode::NO_CONTENT {
            return Err(refused(status, &body));
        }
        serde_json::from_slice(&body).map_err(|_| Fault {
            open: true,
            ..SinkError::transient("the service's answer is not what was asked for").into()
        })
    }
}
