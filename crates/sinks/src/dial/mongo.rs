//! The wire between MongoDB's client and a server, watched from the middle.
//!
//! The client believes what a server says about itself, the largest message included, and makes
//! room for whatever length the next message announces. So the listener that carries its
//! connections reads along: a message longer than any honest one ends the connection before the
//! client has heard of it. While a connection is only used to say hello and to log in, as the ones
//! that watch a server are for all of their life, messages are short: a hello names the members
//! of a set, and the client would open connections to each of thousands. A member that is no host
//! but a socket in the file system would be opened past the listener, so no hello may name one.
//!
//! TLS begins and ends here too, under the policy of every other backend; the client's own TLS takes
//! authorities from files only, and has an opinion of its own about which ones to trust.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use memchr::memmem;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The length and three more numbers, in front of every message.
const HEADER: usize = 16;
/// Flags of a message, and the kind of its first section.
const BEFORE_COMMAND: usize = 5;
/// How much of a message is looked at: its command's name is in there.
const LOOK: usize = 64;
/// Today's messages, and the kind that a client opens with while it knows nothing of the server.
const OP_MSG: i32 = 2013;
const OP_QUERY: i32 = 2004;

/// The longest answer of a server that was asked to do something: a document of the largest size
/// that servers store, and what is around it.
const LONGEST: u32 = 17 << 20;
/// The longest answer to a hello or a step of a login. A set has fifty members at most.
const LONGEST_OF_HANDSHAKE: u32 = 16 << 10;
/// How the client knows that a member is no host: its name ends like this.
const SOCKET: &[u8] = b".sock\0";
/// The commands of a connection that is not used for anything yet.
const HANDSHAKE: [&[u8]; 6] = [
    b"hello",
    b"isMaster",
    b"ismaster",
    b"saslStart",
    b"saslContinue",
    b"authenticate",
];

/// A message that no honest server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    /// Its length is impossible.
    #[error("the server's answer is no message of MongoDB")]
    Nonsense,
    /// It names a socket of this machine as a server.
    #[error("the server names a socket of the operator's own machine as a member of its set")]
    LocalSocket,
    /// It is too long for what was asked.
    #[error("the server's answer is longer than {0} bytes, which no answer of MongoDB is")]
    TooLong(u32),
}

/// Carries what the server says, message by message. `working` tells whether the client has asked
/// for more than a hello; `honest` is told of the first message that is one.
pub(super) async fn back<R, W>(
    mut server: R,
    mut client: W,
    working: &AtomicBool,
    honest: impl FnOnce(),
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut honest = Some(honest);
    let mut header = [0; HEADER];
    loop {
        if !full(&mut server, &mut header).await? {
            return client.shutdown().await;
        }
        let length = length(&header);
        let limit = if working.load(Ordering::Acquire) {
            LONGEST
        } else {
            LONGEST_OF_HANDSHAKE
        };
        let rest = judged(length, limit).map_err(io::Error::other)?;
        let mut body = (&mut server).take(rest.into());
        if limit == LONGEST {
            client.write_all(&header).await?;
            if tokio::io::copy(&mut body, &mut client).await? < rest.into() {
                return client.shutdown().await;
            }
        } else {
            let mut hello = Vec::new();
            if body.read_to_end(&mut hello).await? < rest as usize {
                return client.shutdown().await;
            }
            if memmem::find(&hello, SOCKET).is_some() {
                return Err(io::Error::other(Breach::LocalSocket));
            }
            client.write_all(&header).await?;
            client.write_all(&hello).await?;
        }
        client.flush().await?;
        if let Some(honest) = honest.take() {
            honest();
        }
    }
}

/// Carries what the client says, and notes when it begins to work.
pub(super) async fn there<R, W>(
    mut client: R,
    mut server: W,
    working: Arc<AtomicBool>,
) -> io::Result<()>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let mut header = [0; HEADER];
    let mut start = [0; LOOK];
    loop {
        if !full(&mut client, &mut header).await? {
            return server.shutdown().await;
        }
        // Our own client; what it sends has the size that we gave it.
        let Some(rest) = (length(&header) as usize).checked_sub(HEADER) else {
            return Err(io::Error::other(Breach::Nonsense));
        };
        let looked = rest.min(LOOK);
        if !full(&mut client, &mut start[..looked]).await? {
            return server.shutdown().await;
        }
        if !is_handshake(&header, &start[..looked]) {
            working.store(true, Ordering::Release);
        }
        server.write_all(&header).await?;
        server.write_all(&start[..looked]).await?;
        let left = (rest - looked) as u64;
        if tokio::io::copy(&mut (&mut client).take(left), &mut server).await? < left {
            return server.shutdown().await;
        }
        server.flush().await?;
    }
}

/// Fills the buffer; false if the other side is done before anything came.
async fn full<R: AsyncRead + Unpin>(reader: &mut R, buffer: &mut [u8]) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]).await? {
            0 if filled == 0 => return Ok(false),
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => filled += count,
        }
    }
    Ok(true)
}

fn number(bytes: &[u8]) -> i32 {
    i32::from_le_bytes(std::array::from_fn(|at| bytes[at]))
}

/// The length of a message, header included.
fn length(header: &[u8; HEADER]) -> u32 {
    u32::try_from(number(&header[..4])).unwrap_or(0)
}

/// What follows the header of a message of this length.
fn judged(length: u32, limit: u32) -> Result<u32, Breach> {
    if length > limit {
        return Err(Breach::TooLong(limit));
    }
    length
        .checked_sub(u32::try_from(HEADER).unwrap_or(0))
        .ok_or(Breach::Nonsense)
}

/// Whether a message of the client belongs to the handshake.
fn is_handshake(header: &[u8; HEADER], start: &[u8]) -> bool {
    match number(&header[12..]) {
        // The client uses it for its first hello alone.
        OP_QUERY => true,
        OP_MSG => {
            // Behind the length of the command's document and the type of its first field.
            let name = start.get(BEFORE_COMMAND + 5..).unwrap_or_default();
            let end = name.iter().position(|byte| *byte == 0);
            end.is_some_and(|end| HANDSHAKE.contains(&&name[..end]))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(operation: i32, command: &str, length: i32) -> (Vec<u8>, [u8; HEADER]) {
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend([0; 8]);
        bytes.extend(operation.to_le_bytes());
        let header = std::array::from_fn(|at| bytes[at]);
        // Flags, kind of section, length of the document, type of the field.
        bytes.extend([0; 10]);
        bytes.extend(command.as_bytes());
        bytes.extend([0; 64]);
        (bytes, header)
    }

    #[test]
    fn only_hellos_and_logins_are_handshakes() {
        for (operation, command, expected) in [
            (OP_MSG, "hello", true),
            (OP_MSG, "isMaster", true),
            (OP_MSG, "saslContinue", true),
            (OP_MSG, "authenticate", true),
            (OP_QUERY, "", true),
            (OP_MSG, "helloo", false),
            (OP_MSG, "find", false),
            (OP_MSG, "update", false),
            (OP_MSG, "ping", false),
            (2012, "hello", false),
        ] {
            let (bytes, header) = message(operation, command, 100);
            assert_eq!(
                is_handshake(&header, &bytes[HEADER..]),
                expected,
                "{command}"
            );
        }
        let (_, header) = message(OP_MSG, "hello", 100);
        assert!(!is_handshake(&header, &[0; 3]), "cut off");
    }

    #[test]
    fn lengths_are_judged_before_anything_is_carried() {
        let limit = LONGEST_OF_HANDSHAKE;
        for (length, expected) in [
            (16, Ok(0)),
            (limit, Ok(limit - 16)),
            (limit + 1, Err(Breach::TooLong(limit))),
            (15, Err(Breach::Nonsense)),
            (0, Err(Breach::Nonsense)),
        ] {
            assert_eq!(judged(length, limit), expected, "{length}");
        }
        let (_, header) = message(OP_MSG, "hello", -1);
        assert_eq!(length(&header), 0);
    }

    #[tokio::test]
    async fn an_answer_may_be_long_only_after_a_question() {
        let long = i32::try_from(LONGEST_OF_HANDSHAKE + 1).unwrap();
        let (mut bytes, _) = message(OP_MSG, "x", long);
        bytes.resize(long.unsigned_abs() as usize, 0);
        for (working, passes) in [(true, true), (false, false)] {
            let mut heard = Vec::new();
            let result = back(&bytes[..], &mut heard, &AtomicBool::new(working), || {}).await;
            assert_eq!(result.is_ok(), passes, "{result:?}");
            assert_eq!(heard.len(), if passes { bytes.len() } else { 0 });
        }
    }

    #[tokio::test]
    async fn a_member_is_no_socket() {
        for (member, passes) in [("db.example:27017", true), ("/run/x.sock", false)] {
            let mut bytes = message(OP_MSG, "x", 0).0;
            bytes.extend(member.as_bytes());
            bytes.push(0);
            let length = i32::try_from(bytes.len()).unwrap();
            bytes[..4].copy_from_slice(&length.to_le_bytes());
            let mut heard = Vec::new();
            let result = back(&bytes[..], &mut heard, &AtomicBool::new(false), || {}).await;
            assert_eq!(result.is_ok(), passes, "{member}: {result:?}");
            assert_eq!(heard.is_empty(), !passes, "{member}");
        }
    }

    #[tokio::test]
    async fn a_client_begins_to_work_with_its_first_command() {
        let working = Arc::new(AtomicBool::new(false));
        let mut said = Vec::new();
        let length = |command: &str| i32::try_from(HEADER + 10 + command.len() + 64).unwrap();
        for (command, expected) in [
            ("hello", false),
            ("saslStart", false),
            ("find", true),
            ("hello", true),
        ] {
            let (bytes, _) = message(OP_MSG, command, length(command));
            there(&bytes[..], &mut said, Arc::clone(&working))
                .await
                .unwrap();
            assert_eq!(working.load(Ordering::Acquire), expected, "{command}");
        }
        assert_eq!(
            said.len(),
            ["hello", "saslStart", "find", "hello"]
                .map(|c| usize::try_from(length(c)).unwrap())
                .iter()
                .sum::<usize>()
        );
    }
}
