//! One connection of a client: its requests, one after the other, and their fate.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::{RecvFlags, recv};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use serde_json::json;

use super::{Effect, Request, Shared};
use crate::http::{Head, read_line};

/// How often a silent connection is looked after.
const LOOK: Duration = Duration::from_millis(200);

type FromClient<'s> = BufReader<Patient<'s, StreamOwned<ServerConnection, TcpStream>>>;
type FromServer<'s> = BufReader<Patient<'s, StreamOwned<ClientConnection, TcpStream>>>;

/// Reads across time-outs as long as somebody wants to go on.
struct Patient<'s, S> {
    stream: S,
    goes_on: Box<dyn Fn() -> bool + 's>,
}

impl<S: Read> Read for Patient<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.stream.read(buffer) {
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
                    ) && (self.goes_on)() => {}
                read => return read,
            }
        }
    }
}

/// Whether more requests may come on a connection.
#[derive(Debug, PartialEq, Eq)]
enum Then {
    Next,
    Close,
}

impl Shared {
    /// Serves one client until either side has enough.
    pub(super) fn serve(&self, number: u64, client: TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        client.set_read_timeout(Some(LOOK))?;
        let raw = client.try_clone()?;
        self.state()
            .open
            .insert(number, (None, client.try_clone()?));
        let result = self.converse(number, client, &raw);
        self.state().open.remove(&number);
        result
    }

    fn converse(&self, number: u64, client: TcpStream, raw: &TcpStream) -> io::Result<()> {
        let connection =
            ServerConnection::new(Arc::clone(&self.server_tls)).map_err(io::Error::other)?;
        let mut client = BufReader::new(Patient {
            stream: StreamOwned::new(connection, client),
            goes_on: Box::new(|| self.goes_on()),
        });
        let mut server = None;
        while let Some(head) = Head::read(&mut client)? {
            let body = head.body(&mut client)?.unwrap_or_default();
            let mut words = head.start.split(' ');
            let method = words.next().unwrap_or_default();
            let request = Request::parse(method, words.next().unwrap_or_default());
            self.busy(number, Some(request.clone()));
            let then = self.answer(&head, &body, &request, &mut client, &mut server, raw)?;
            self.busy(number, None);
            if then == Then::Close || says_close(&head) {
                break;
            }
        }
        let stream = &mut client.get_mut().stream;
        stream.conn.send_close_notify();
        stream.flush()
    }

    fn busy(&self, number: u64, request: Option<Request>) {
        if let Some((slot, _)) = self.state().open.get_mut(&number) {
            *slot = request;
        }
    }

    fn goes_on(&self) -> bool {
        !self.stopping.load(Ordering::SeqCst)
    }

    /// Does with one request what the rules say.
    fn answer<'s>(
        &'s self,
        head: &Head,
        body: &[u8],
        request: &Request,
        client: &mut FromClient<'_>,
        server: &mut Option<FromServer<'s>>,
        raw: &'s TcpStream,
    ) -> io::Result<Then> {
        loop {
            let effect = self.effect(request, body);
            let out = &mut client.get_mut().stream;
            return match effect {
                Some(Effect::Silence) => {
                    self.count(request, 0);
                    while self.is_silenced(request) {
                        if !self.goes_on() || is_gone(raw) {
                            return Ok(Then::Close);
                        }
                        thread::sleep(LOOK / 4);
                    }
                    // Somebody may have laid down another rule meanwhile.
                    continue;
                }
                Some(Effect::Status(status)) => self.refuse(request, status, None, out),
                Some(Effect::RetryAfter(status, after)) => {
                    self.refuse(request, status, Some(after), out)
                }
                Some(Effect::Answer(status, text)) => {
                    self.count(request, status);
                    write_answer(out, status, None, text.as_bytes())
                }
                Some(Effect::Garbage) => {
                    self.count(request, 200);
                    write_answer(out, 200, None, b"{\"kind\":\x00\xffGARBAGE<html>")
                }
                Some(Effect::Cut) => {
                    self.count(request, 0);
                    Ok(Then::Close)
                }
                Some(Effect::Delay(time)) => {
                    let until = Instant::now() + time;
                    while Instant::now() < until && self.goes_on() {
                        thread::sleep(LOOK.min(until.saturating_duration_since(Instant::now())));
                    }
                    self.pass_on(head, body, request, out, server, raw, false)
                }
                Some(Effect::Half) => self.pass_on(head, body, request, out, server, raw, true),
                None => self.pass_on(head, body, request, out, server, raw, false),
            };
        }
    }

    fn refuse(
        &self,
        request: &Request,
        status: u16,
        after: Option<u32>,
        out: &mut impl Write,
    ) -> io::Result<Then> {
        self.count(request, status);
        write_answer(out, status, after, &refusal(request, status, after))
    }

    /// Asks the real server and passes its answer on, as it comes.
    #[expect(clippy::too_many_arguments, reason = "both ends of a connection")]
    fn pass_on<'s>(
        &'s self,
        head: &Head,
        body: &[u8],
        request: &Request,
        out: &mut impl Write,
        server: &mut Option<FromServer<'s>>,
        raw: &'s TcpStream,
        half: bool,
    ) -> io::Result<Then> {
        let message = message(head, body);
        let Some(answer) = self.ask(&message, server, raw)? else {
            self.count(request, 0);
            return Ok(Then::Close);
        };
        let from = server.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let status = answer.start.split(' ').nth(1);
        let status = status.and_then(|code| code.parse().ok()).unwrap_or(0);
        self.count(request, status);
        let mut text = format!("{}\r\n", answer.start);
        for (name, value) in answer.fields() {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        text.push_str("\r\n");
        out.write_all(text.as_bytes())?;
        out.flush()?;
        let is_chunked = answer
            .get("transfer-encoding")
            .is_some_and(|value| value.eq_ignore_ascii_case("chunked"));
        let length = answer.get("content-length").and_then(|v| v.parse().ok());
        if is_chunked {
            loop {
                let line = read_line(from)?.ok_or(io::ErrorKind::UnexpectedEof)?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = usize::from_str_radix(size, 16).map_err(io::Error::other)?;
                let mut chunk = vec![0; size + 2];
                from.read_exact(&mut chunk)?;
                if request.is_watch() && !self.until_speaking(request, raw) {
                    return Ok(Then::Close);
                }
                out.write_all(format!("{line}\r\n").as_bytes())?;
                if half && size > 0 {
                    out.write_all(&chunk[..size / 2])?;
                    return Ok(Then::Close);
                }
                out.write_all(&chunk)?;
                out.flush()?;
                if size == 0 {
                    break;
                }
            }
        } else if let Some(length) = length {
            let length = if half { length / 2 } else { length };
            io::copy(&mut from.take(length), out)?;
            out.flush()?;
            if half {
                return Ok(Then::Close);
            }
        } else if !matches!(status, 204 | 304) {
            io::copy(from, out)?;
            return Ok(Then::Close);
        }
        if says_close(&answer) {
            *server = None;
        }
        Ok(Then::Next)
    }

    /// Sends a request to the real server, on the connection that is there or on a new one.
    fn ask<'s>(
        &'s self,
        message: &[u8],
        server: &mut Option<FromServer<'s>>,
        raw: &'s TcpStream,
    ) -> io::Result<Option<Head>> {
        if let Some(known) = server {
            let sent = known.get_mut().stream.write_all(message);
            // A connection that lay idle may have been closed; then nothing was done either.
            if let Ok(Some(answer)) = sent.and_then(|()| Head::read(known)) {
                return Ok(Some(answer));
            }
        }
        *server = None;
        let Ok(stream) = TcpStream::connect(self.upstream) else {
            return Ok(None);
        };
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let name = ServerName::from(Ipv4Addr::LOCALHOST);
        let connection =
            ClientConnection::new(Arc::clone(&self.client_tls), name).map_err(io::Error::other)?;
        let mut fresh = BufReader::new(Patient {
            stream: StreamOwned::new(connection, stream),
            goes_on: Box::new(move || self.goes_on() && !is_gone(raw)),
        });
        // The handshake waits for the server too; it must not end in a time-out of ours.
        while fresh.get_ref().stream.conn.is_handshaking() {
            let own = &mut fresh.get_mut().stream;
            match own.conn.complete_io(&mut own.sock) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && self.goes_on() => {}
                Err(error) => return Err(error),
                Ok(_) => {}
            }
        }
        fresh.get_mut().stream.write_all(message)?;
        fresh.get_mut().stream.flush()?;
        let answer = Head::read(&mut fresh)?;
        *server = Some(fresh);
        Ok(answer)
    }

    /// Waits while a stream is silenced. Returns whether it goes on after that.
    fn until_speaking(&self, request: &Request, raw: &TcpStream) -> bool {
        while self.is_silenced(request) {
            if !self.goes_on() || is_gone(raw) {
                return false;
            }
            thread::sleep(LOOK / 4);
        }
        true
    }
}

/// Whether a client that waits for an answer has gone. It has nothing to say while it waits, so
/// anything that arrives is a farewell.
fn is_gone(client: &TcpStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    let mut byte = [0_u8; 1];
    !matches!(
        recv(client, byte.as_mut_slice(), flags),
        Err(rustix::io::Errno::AGAIN)
    )
}

fn says_close(head: &Head) -> bool {
    head.get("connection")
        .is_some_and(|value| value.eq_ignore_ascii_case("close"))
}

/// A request as it goes to the real server: the same, but the body has its length.
fn message(head: &Head, body: &[u8]) -> Vec<u8> {
    let mut text = format!("{}\r\n", head.start);
    let own = [
        "connection",
        "content-length",
        "transfer-encoding",
        "expect",
    ];
    for (name, value) in head.fields() {
        if !own.iter().any(|known| name.eq_ignore_ascii_case(known)) {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    text.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
    [text.as_bytes(), body].concat()
}

fn write_answer(
    out: &mut impl Write,
    status: u16,
    after: Option<u32>,
    body: &[u8],
) -> io::Result<Then> {
    let after = after.map_or_else(String::new, |after| format!("Retry-After: {after}\r\n"));
    let head = format!(
        "HTTP/1.1 {status} Trouble\r\nContent-Type: application/json\r\n{after}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    out.write_all(head.as_bytes())?;
    out.write_all(body)?;
    out.flush()?;
    Ok(Then::Next)
}

/// What an API server says in such a case.
fn refusal(request: &Request, status: u16, after: Option<u32>) -> Vec<u8> {
    let Request {
        verb,
        group,
        resource,
        namespace,
        name,
    } = request;
    let place = if namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{namespace}\"")
    };
    let (reason, message) = match status {
        403 => (
            "Forbidden",
            format!(
                "{resource} is forbidden: User \"somebody\" cannot {verb} resource \"{resource}\" \
                 in API group \"{group}\" {place}"
            ),
        ),
        404 => (
            "NotFound",
            "the server could not find the requested resource".to_owned(),
        ),
        410 => ("Expired", "too old resource version: 1 (2)".to_owned()),
        429 => ("TooManyRequests", "too many requests".to_owned()),
        504 => ("Timeout", "the request timed out".to_owned()),
        503 => ("ServiceUnavailable", "the server is unavailable".to_owned()),
        _ => ("InternalError", "an error on the server".to_owned()),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": status, "reason": reason, "message": message,
        "details": {"kind": resource, "name": name, "retryAfterSeconds": after},
    });
    status.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_goes_on_with_the_length_of_its_body() {
        let text = "POST /a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\n\
                    Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n";
        let mut reader: &[u8] = text.as_bytes();
        let head = Head::read(&mut reader).unwrap().unwrap();
        let body = head.body(&mut reader).unwrap().unwrap();
        assert_eq!(
            String::from_utf8(message(&head, &body)).unwrap(),
            "POST /a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer t\r\nContent-Length: 2\r\n\r\n{}"
        );
    }
}
