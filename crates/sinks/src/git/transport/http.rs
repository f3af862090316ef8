//! Git over HTTP.

use std::fmt;

use ::http::{HeaderValue, Method, Request, Response, StatusCode, header};
use async_trait::async_trait;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use futures::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};

use super::Line;
use crate::{
    git::{
        error::GitError,
        limits::Clock,
        pack::Pack,
        pkt::{Allowance, Pkt, PktReader, Source},
        protocol::Service,
    },
    http::{Body, HttpClient, empty, full},
    secret::SecretText,
};

/// Some servers treat clients differently that do not call themselves git.
const USER_AGENT: &str = concat!("git/2 kollect/", env!("CARGO_PKG_VERSION"));

/// User and password for a server.
#[derive(Debug, Clone)]
pub(in crate::git) struct Basic {
    pub(in crate::git) user: String,
    pub(in crate::git) password: SecretText,
}

impl Basic {
    /// The value of the `Authorization` header.
    pub(in crate::git) fn header(&self) -> Result<HeaderValue, GitError> {
        let pair = format!("{}:{}", self.user, self.password.expose());
        let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))
            .map_err(|_| GitError::Configuration("the credentials cannot be sent".into()))?;
        value.set_sensitive(true);
        Ok(value)
    }
}

/// How to reach a repository over HTTP. Credentials go with every request: they are for this server
/// and no other, because redirects are not followed.
#[derive(Clone)]
pub(in crate::git) struct HttpTransport {
    pub(in crate::git) client: HttpClient,
    /// Without a slash at the end.
    pub(in crate::git) url: String,
    pub(in crate::git) authorization: Option<HeaderValue>,
}

impl fmt::Debug for HttpTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpTransport")
            .field("url", &self.url)
            .finish_non_exhaustive()
    }
}

impl HttpTransport {
    /// Asks a service for what it has.
    pub(super) async fn open(
        &self,
        service: Service,
        allowance: Allowance,
    ) -> Result<(PktReader, Line), GitError> {
        let path = format!("info/refs?service={}", service.name());
        let request = self.request(Method::GET, &path);
        let request = request.body(empty()).map_err(|_| bad_url())?;
        let answer = self.answer(request).await?;
        let expected = format!("application/x-{}-advertisement", service.name());
        let mut lines = body(answer, &expected, allowance)?;
        // The service repeats its name in front.
        match lines.expect().await? {
            Pkt::Data(line) if line.starts_with(b"# service=") => {}
            _ => return Err(GitError::garbled("is not the Git protocol")),
        }
        while lines.expect().await? != Pkt::Flush {}
        let line = Line::Http(HttpLine {
            transport: self.clone(),
            service,
        });
        Ok((lines, line))
    }

    fn request(&self, method: Method, path: &str) -> ::http::request::Builder {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{}/{path}", self.url))
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(value) = &self.authorization {
            request = request.header(header::AUTHORIZATION, value);
        }
        request
    }

    async fn answer(&self, request: Request<Body>) -> Result<Response<Incoming>, GitError> {
        let answer = self.client.send(request).await.map_err(GitError::Sink)?;
        match answer.status() {
            StatusCode::OK => Ok(answer),
            status => Err(refused(status)),
        }
    }
}

/// The way to a service that was asked before.
pub(in crate::git) struct HttpLine {
    transport: HttpTransport,
    service: Service,
}

impl HttpLine {
    /// Sends a request and returns the answer.
    pub(super) async fn ask(
        self,
        head: Vec<u8>,
        pack: Option<Pack>,
        allowance: Allowance,
        clock: Clock,
    ) -> Result<PktReader, GitError> {
        let service = self.service.name();
        let length = head.len() as u64 + pack.as_ref().map_or(0, Pack::len);
        let request = self
            .transport
            .request(Method::POST, service)
            .header(
                header::CONTENT_TYPE,
                format!("application/x-{service}-request"),
            )
            .header(header::ACCEPT, format!("application/x-{service}-result"))
            // Said in advance because not every proxy takes a body of unknown length.
            .header(header::CONTENT_LENGTH, length)
            .body(match pack {
                None => full(head),
                Some(pack) => streamed(head.into(), pack, clock),
            })
            .map_err(|_| bad_url())?;
        let answer = self.transport.answer(request).await?;
        body(
            answer,
            &format!("application/x-{service}-result"),
            allowance,
        )
    }
}

/// A head, then a pack from its file.
fn streamed(head: Bytes, pack: Pack, clock: Clock) -> Body {
    let frames = stream::try_unfold((Some(head), 0_u64), move |(head, offset)| {
        let (pack, clock) = (pack.clone(), clock.clone());
        async move {
            if let Some(head) = head {
                return Ok(Some((Frame::data(head), (None, offset))));
            }
            let piece = tokio::task::spawn_blocking(move || pack.piece(offset))
                .await
                .map_err(std::io::Error::other)??;
            Ok(piece.map(|bytes| {
                clock.moved(bytes.len());
                let next = offset + bytes.len() as u64;
                (Frame::data(bytes), (None, next))
            }))
        }
    });
    BodyExt::boxed(StreamBody::new(frames))
}

/// What an answer other than success means.
fn refused(status: StatusCode) -> GitError {
    let code = status.as_u16();
    match code {
        401 | 403 | 407 => GitError::Authentication(format!(
            "the server answered {code}: it does not accept the credentials of the Secret, or they \
             lack the right to push"
        )),
        404 | 410 => GitError::Authentication(format!(
            "the server answered {code}: there is no such repository, or the credentials of the \
             Secret may not see it"
        )),
        300..=399 => GitError::Configuration(format!(
            "the server answered {code}: the repository is somewhere else, and redirects are not \
             followed; set spec.endpoint to where it is now"
        )),
        413 => GitError::Rejected(format!(
            "the server answered {code}: it does not take pushes of this size"
        )),
        408 | 425 | 429 | 500..=599 => GitError::Transport(format!(
            "the server answered {code}; it is not well or busy"
        )),
        _ => GitError::Configuration(format!(
            "the server answered {code}; spec.endpoint may not be a Git repository"
        )),
    }
}

fn body(
    answer: Response<Incoming>,
    expected: &str,
    allowance: Allowance,
) -> Result<PktReader, GitError> {
    let kind = answer.headers().get(header::CONTENT_TYPE);
    if kind.is_none_or(|kind| kind.as_bytes() != expected.as_bytes()) {
        return Err(GitError::Configuration(
            "the server does not speak Git's smart protocol at spec.endpoint; check the URL".into(),
        ));
    }
    Ok(PktReader::new(BodySource(answer.into_body()), allowance))
}

fn bad_url() -> GitError {
    GitError::Configuration("spec.endpoint has characters that no URL may have".into())
}

struct BodySource(Incoming);

#[async_trait]
impl Source for BodySource {
    async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        loop {
            match self.0.frame().await {
                None => return Ok(None),
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        return Ok(Some(bytes));
                    }
                }
                Some(Err(error)) => {
                    return Err(GitError::Transport(format!(
                        "the answer broke off: {error}"
                    )));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::SinkError;

    #[test]
    fn statuses_have_classes() {
        for (code, terminal) in [
            (301, true),
            (401, true),
            (403, true),
            (404, true),
            (413, true),
            (429, false),
            (500, false),
            (503, false),
        ] {
            let error = SinkError::from(refused(StatusCode::from_u16(code).unwrap()));
            assert_eq!(
                matches!(error, SinkError::Terminal(_)),
                terminal,
                "{code}: {error}"
            );
        }
    }

    /// S04.
    #[test]
    fn credentials_become_a_header_that_cannot_be_printed() {
        let header = Basic {
            user: "x-access-token".into(),
            password: "tok".into(),
        }
        .header()
        .unwrap();
        assert_eq!(header.to_str().unwrap(), "Basic eC1hY2Nlc3MtdG9rZW46dG9r");
        assert_eq!(format!("{header:?}"), "Sensitive");
    }
}
