//! HTTP/1.1, as little as test servers need: one request per connection, bodies in memory.
//!
//! It serves two ends: [`Client`] asks servers whether they are ready and sets up fixtures, and
//! the Git server reads requests with [`Head`]. A full HTTP stack would be async and would be
//! compiled before anything else for the sake of a dozen requests.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

const TIMEOUT: Duration = Duration::from_secs(30);

/// The start line and fields of a request or response.
#[derive(Debug)]
pub struct Head {
    /// The request or status line.
    pub start: String,
    fields: Vec<(String, String)>,
}

impl Head {
    /// Reads up to the empty line; `None` when the peer closed before sending anything.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let Some(start) = read_line(reader)? else {
            return Ok(None);
        };
        let mut fields = Vec::new();
        while let Some(line) = read_line(reader)?.filter(|line| !line.is_empty()) {
            let (name, value) = line
                .split_once(':')
                .ok_or_else(|| malformed("header field"))?;
            fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok(Some(Self { start, fields }))
    }

    /// All fields, as they came.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &str)> {
        self.fields
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a field, by case-insensitive name.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self
            .fields
            .iter()
            .find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// The body that follows, if its length is announced in either of the two ways.
    pub fn body(&self, reader: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
        let chunked = self
            .get("transfer-encoding")
            .is_some_and(|v| v.eq_ignore_ascii_case("chunked"));
        if chunked {
            return read_chunks(reader).map(Some);
        }
        let Some(length) = self.get("content-length") else {
            return Ok(None);
        };
        let mut body = vec![0; length.parse().map_err(|_| malformed("content-length"))?];
        reader.read_exact(&mut body)?;
        Ok(Some(body))
    }
}

pub(crate) fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    line.truncate(line.trim_end_matches(['\r', '\n']).len());
    Ok(Some(line))
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?.ok_or_else(|| malformed("chunk"))?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| malformed("chunk size"))?;
        let read = reader.take(size).read_to_end(&mut body)?;
        if read as u64 != size {
            return Err(malformed("chunk"));
        }
        // The line end after the data, or after the last chunk the end of the (empty) trailer.
        while read_line(reader)?.is_some_and(|line| size == 0 && !line.is_empty()) {}
        if size == 0 {
            return Ok(body);
        }
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed {what}"))
}

/// A client for one server on loopback.
#[derive(Clone)]
pub struct Client {
    port: u16,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<String>,
    /// Further fields, each with its line end.
    fields: String,
}

/// What the server answered.
#[derive(Debug)]
pub struct Response {
    /// The status code.
    pub status: u16,
    /// The status line and the fields.
    pub head: Head,
    /// The body.
    pub body: Vec<u8>,
}

impl Client {
    /// For `http://127.0.0.1:<port>`.
    pub fn plain(port: u16) -> Self {
        Self {
            port,
            tls: None,
            authorization: None,
            fields: String::new(),
        }
    }

    /// For `https://127.0.0.1:<port>`, trusting only the authorities in `ca_pem`.
    pub fn tls(port: u16, ca_pem: &str) -> Result<Self> {
        Ok(Self {
            port,
            tls: Some(trusting(ca_pem)?),
            authorization: None,
            fields: String::new(),
        })
    }

    /// Sends this bearer token with every request.
    #[must_use]
    pub fn bearer(mut self, token: &str) -> Self {
        self.authorization = Some(format!("Bearer {token}"));
        self
    }

    /// Sends this field with every request.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.fields.push_str(&format!("{name}: {value}\r\n"));
        self
    }

    /// Sends one request and reads the whole answer.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response> {
        self.exchange(method, path, body)
            .with_context(|| format!("{method} 127.0.0.1:{}{path}", self.port))
    }

    /// `GET`, expecting success and JSON.
    pub fn get(&self, path: &str) -> Result<Value> {
        self.request("GET", path, None)?.json()
    }

    /// `POST` of JSON, expecting success and JSON.
    pub fn post(&self, path: &str, body: &Value) -> Result<Value> {
        self.request("POST", path, Some(body))?
            .json()
            .with_context(|| format!("POST {path}"))
    }

    /// `POST` that announces a body of this length and never sends it.
    pub fn announce(&self, path: &str, length: usize) -> Result<Response> {
        let message = self.message("POST", path, None);
        let message = String::from_utf8(message)?;
        let message = message.replace("Content-Length: 0", &format!("Content-Length: {length}"));
        self.send(message.as_bytes())
    }

    fn exchange(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response> {
        self.send(&self.message(method, path, body))
    }

    fn send(&self, message: &[u8]) -> Result<Response> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        stream.set_write_timeout(Some(TIMEOUT))?;
        match &self.tls {
            None => converse(stream, message),
            Some(config) => {
                let name = ServerName::from(Ipv4Addr::LOCALHOST);
                let connection = ClientConnection::new(Arc::clone(config), name)?;
                converse(StreamOwned::new(connection, stream), message)
            }
        }
    }

    fn message(&self, method: &str, path: &str, body: Option<&Value>) -> Vec<u8> {
        // An empty body is of no type.
        let kind = body.map_or("", |_| "Content-Type: application/json\r\n");
        let body = body.map(Value::to_string).unwrap_or_default();
        let authorization = self.authorization.as_ref();
        let authorization = authorization
            .map(|value| format!("Authorization: {value}\r\n"))
            .unwrap_or_default();
        let fields = &self.fields;
        format!(
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nConnection: close\r\n{authorization}{fields}\
             Accept: application/json\r\n{kind}Content-Length: {}\r\n\r\n{body}",
            self.port,
            body.len()
        )
        .into_bytes()
    }
}

/// TLS to servers whose certificate one of these authorities signed.
pub(crate) fn trusting(ca_pem: &str) -> Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for cert in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(cert.context("the certificate authority is not PEM")?)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}

fn converse(mut stream: impl Read + Write, message: &[u8]) -> Result<Response> {
    stream.write_all(message)?;
    stream.flush()?;
    let mut reader = BufReader::new(stream);
    let head = Head::read(&mut reader)?.context("the server closed without an answer")?;
    let status = head
        .start
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok());
    let status = status.with_context(|| format!("malformed status line {:?}", head.start))?;
    let body = if let Some(body) = head.body(&mut reader)? {
        body
    } else {
        let mut rest = Vec::new();
        reader.read_to_end(&mut rest)?;
        rest
    };
    Ok(Response { status, head, body })
}

impl Response {
    /// What the server warns of, without the code and the agent in front of each.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = self
            .head
            .fields()
            .filter(|(name, _)| name.eq_ignore_ascii_case("warning"));
        let texts = warnings.filter_map(|(_, value)| {
            let text = value.split_once('"')?.1.strip_suffix('"')?;
            Some(text.replace("\\\"", "\"").replace("\\\\", "\\"))
        });
        texts.collect()
    }

    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The body of a successful answer; otherwise an error with the server's own message.
    pub fn json(&self) -> Result<Value> {
        let value = serde_json::from_slice::<Value>(&self.body);
        if self.is_success() {
            return value.context("the answer is not JSON");
        }
        // A Kubernetes Status object says in `message` what is wrong.
        let message = value
            .ok()
            .and_then(|value| value["message"].as_str().map(str::to_owned));
        let text = message.unwrap_or_else(|| String::from_utf8_lossy(&self.body).into_owned());
        bail!("status {}: {}", self.status, text.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::Head;

    fn read(message: &str) -> (Head, Option<Vec<u8>>) {
        let mut reader = message.as_bytes();
        let head = Head::read(&mut reader).unwrap().unwrap();
        let body = head.body(&mut reader).unwrap();
        (head, body)
    }

    #[test]
    fn bodies_by_length_and_by_chunks() {
        let by_length = "POST /a HTTP/1.1\r\nContent-Length: 5\r\nX: y: z\r\n\r\nhello, ignored";
        let (head, body) = read(by_length);
        assert_eq!(head.start, "POST /a HTTP/1.1");
        assert_eq!(head.get("x"), Some("y: z"));
        assert_eq!(body.unwrap(), b"hello");

        let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                       5;note=1\r\nhello\r\nB\r\n, chunked\r\n\r\n0\r\nTrailer: t\r\n\r\n";
        assert_eq!(read(chunked).1.unwrap(), b"hello, chunked\r\n");

        assert_eq!(read("GET / HTTP/1.1\r\n\r\n").1, None);
    }

    #[test]
    fn cut_messages_are_errors() {
        for message in [
            "A\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
            "A\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            "A\r\nContent-Length: 5\r\n\r\nhel",
            "A\r\nContent-Length: many\r\n\r\n",
        ] {
            let mut reader = message.as_bytes();
            let head = Head::read(&mut reader).unwrap().unwrap();
            assert!(head.body(&mut reader).is_err(), "{message:?}");
        }
        assert!(Head::read(&mut "A\r\nno colon\r\n\r\n".as_bytes()).is_err());
        assert!(Head::read(&mut "".as_bytes()).unwrap().is_none());
    }
}
