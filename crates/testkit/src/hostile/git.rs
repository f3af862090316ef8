//! Git's smart protocol over HTTPS, by somebody who does not want it to end.

use std::io::{self, BufReader, Write};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, Stream};

use super::wire::{Wire, drip, endless};
use crate::http::Head;

/// What is wrong with a Git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitManner {
    /// Answers at once, but sends the list of refs one byte per second: there is always progress
    /// and never an end.
    Drip,
    /// Lists refs for ever.
    EndlessRefs,
    /// An empty repository that takes any push and reports on it for ever.
    EndlessReport,
    /// The same, but the report is remarks for people (`remote: …`).
    EndlessRemarks,
}

const ZERO: &str = "0000000000000000000000000000000000000000";
const CAPABILITIES: &str = "report-status side-band-64k shallow ofs-delta object-format=sha1";

/// Answers the requests of one connection.
pub(super) fn serve(wire: &mut Wire, tls: &Arc<ServerConfig>, manner: GitManner) -> io::Result<()> {
    let mut connection = ServerConnection::new(Arc::clone(tls)).map_err(io::Error::other)?;
    let mut reader = BufReader::new(Stream::new(&mut connection, wire));
    while let Some(head) = Head::read(&mut reader)? {
        head.body(&mut reader)?;
        let out = reader.get_mut();
        let service = if head.start.contains("git-receive-pack") {
            "git-receive-pack"
        } else {
            "git-upload-pack"
        };
        if head.start.starts_with("POST ") {
            report(out, service, manner)?;
        } else {
            advertise(out, service, manner)?;
        }
        out.flush()?;
    }
    Ok(())
}

/// Says which refs there are.
fn advertise(out: &mut impl Write, service: &str, manner: GitManner) -> io::Result<()> {
    let kind = format!("application/x-{service}-advertisement");
    let mut body = pkt(format!("# service={service}\n").as_bytes());
    body.extend(b"0000");
    body.extend(pkt(
        format!("{ZERO} capabilities^{{}}\0{CAPABILITIES}\n").as_bytes()
    ));
    match manner {
        GitManner::Drip => {
            begin(out, &kind, None)?;
            let more = pkt(format!("{ZERO} refs/heads/slow\n").as_bytes());
            drip(out, body.into_iter().chain(more.into_iter().cycle()))
        }
        GitManner::EndlessRefs => {
            begin(out, &kind, None)?;
            out.write_all(&body)?;
            let one = "1".repeat(40);
            endless(out, &pkt(format!("{one} refs/heads/again\n").as_bytes()))
        }
        GitManner::EndlessReport | GitManner::EndlessRemarks => {
            body.extend(b"0000");
            begin(out, &kind, Some(body.len()))?;
            out.write_all(&body)
        }
    }
}

/// Says what became of a push, or hands out nothing to a fetch.
fn report(out: &mut impl Write, service: &str, manner: GitManner) -> io::Result<()> {
    begin(out, &format!("application/x-{service}-result"), None)?;
    match manner {
        GitManner::EndlessRemarks => endless(out, &band(2, b"still working on it\n")),
        _ => {
            out.write_all(&band(1, &pkt(b"unpack ok\n")))?;
            let line = pkt(format!("ok refs/heads/{}\n", "x".repeat(60_000)).as_bytes());
            endless(out, &band(1, &line))
        }
    }
}

fn begin(out: &mut impl Write, kind: &str, length: Option<usize>) -> io::Result<()> {
    let length = length.map_or_else(
        // The body ends with the connection.
        || "Connection: close".to_owned(),
        |length| format!("Content-Length: {length}"),
    );
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nCache-Control: no-cache\r\n{length}\r\n\r\n"
    );
    out.write_all(head.as_bytes())?;
    out.flush()
}

/// A line of the protocol: its length, then itself.
fn pkt(line: &[u8]) -> Vec<u8> {
    let mut out = format!("{:04x}", line.len() + 4).into_bytes();
    out.extend(line);
    out
}

/// A line of a multiplexed answer.
fn band(number: u8, bytes: &[u8]) -> Vec<u8> {
    pkt(&[&[number], bytes].concat())
}
