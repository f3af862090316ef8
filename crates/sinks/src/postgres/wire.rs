//! What a server may say.
//!
//! The driver believes its server: it holds whatever is sent, hashes a password as often as it is
//! told, and looks up every type that is named to it. A server may be anybody's, so both directions
//! of a connection pass a [`Meter`], which reads the frames of the protocol and nothing else. The
//! limits are far above what a sink ever asks for: it reads counts, flags and the columns of its
//! table, never rows.

use std::{
    collections::HashSet,
    hash::{DefaultHasher, Hash, Hasher},
};

/// The longest message. The longest that a server has reason to send is an error: a sentence with
/// its details.
const MESSAGE: usize = 1 << 20;
/// The longest message that describes something: parameters, columns, a login.
const DESCRIPTION: usize = 64 << 10;
/// What may arrive until the login is done. It takes about a kilobyte.
const LOGIN: usize = 256 << 10;
/// What may arrive in answer to one request, notices included.
const ANSWER: usize = 4 << 20;
/// How many parameters a server may report. It has fifteen; extensions and poolers add some.
const PARAMETERS: usize = 256;
/// How often a password is hashed at most. Servers ask for 4,096 unless told otherwise; a hundred
/// thousand take a tenth of a second, in which nothing else gets on.
const ITERATIONS: u64 = 100_000;
/// Statements that may be run between two simple queries. A sink runs less than ten; the driver
/// adds one for every type it does not know, and one more for each type inside that type.
const STATEMENTS: usize = 32;

const SSL_REQUEST: u32 = 80_877_103;
const TLS_HANDSHAKE: u8 = 22;

/// What a server did that no server of a sink has reason to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Breach {
    #[error("what answers there does not speak PostgreSQL's protocol")]
    NotPostgres,
    #[error("the server sent a message of more than 1 MiB")]
    Message,
    #[error("the server sent a description of more than 64 KiB")]
    Description,
    #[error("the server sent more than 256 KiB before the login was done")]
    Login,
    #[error("the server sent more than 4 MiB in answer to one request")]
    Answer,
    #[error("the server reports more than 256 parameters")]
    Parameters,
    #[error(
        "the server wants the password hashed more than 100000 times; lower its scram_iterations and set the password again"
    )]
    Iterations,
    #[error("the server uses types that have to be looked up without end")]
    Types,
}

/// Reads along.
#[derive(Debug, Default)]
pub(super) struct Meter {
    sent: Sent,
    phase: Phase,
    incoming: Frames,
    /// Bytes since the last request; before the login is done, since the beginning.
    arrived: usize,
    logged_in: bool,
    statements: usize,
    /// The process that answers, as the server says.
    process: Option<i32>,
    /// Hashes of the names of parameters.
    parameters: HashSet<u64>,
}

/// What the server sends at present.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Messages.
    #[default]
    Messages,
    /// One byte: whether it encrypts.
    Choice,
    /// Something encrypted, which is read where it is decrypted.
    Encrypted,
}

/// What was sent so far.
#[derive(Debug)]
enum Sent {
    /// The beginning: a length and a code tell what it is, the kind of message is not said.
    Opening(Vec<u8>),
    /// Messages.
    Messages(Frames),
}

impl Default for Sent {
    fn default() -> Self {
        Sent::Opening(Vec::new())
    }
}

impl Meter {
    /// Takes note of bytes that went to the server.
    pub(super) fn sent(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        if self.logged_in {
            self.arrived = 0;
        }
        if self.phase == Phase::Encrypted {
            return Ok(());
        }
        if let Sent::Opening(opening) = &mut self.sent {
            let missing = 8 - opening.len();
            let (head, rest) = bytes.split_at(missing.min(bytes.len()));
            opening.extend_from_slice(head);
            bytes = rest;
            if opening.first() == Some(&TLS_HANDSHAKE) {
                self.phase = Phase::Encrypted;
                return Ok(());
            }
            let Some((length, code)) = opening.split_first_chunk().and_then(|(length, rest)| {
                let code = rest.first_chunk()?;
                Some((u32::from_be_bytes(*length), u32::from_be_bytes(*code)))
            }) else {
                return Ok(());
            };
            if code == SSL_REQUEST {
                opening.clear();
                self.phase = Phase::Choice;
                return Ok(());
            }
            let body = (length as usize).saturating_sub(8);
            self.sent = Sent::Messages(Frames::in_body_of(body));
        }
        let Sent::Messages(frames) = &mut self.sent else {
            return Ok(());
        };
        let statements = &mut self.statements;
        frames.feed(
            bytes,
            |tag, _| {
                match tag {
                    b'B' => *statements += 1,
                    b'Q' => *statements = 0,
                    _ => {}
                }
                if *statements > STATEMENTS {
                    return Err(Breach::Types);
                }
                Ok(false)
            },
            |_, _| Ok(()),
        )
    }

    /// The process that answers, once the server has said so.
    pub(super) fn process(&self) -> Option<i32> {
        self.process
    }

    /// Judges bytes that came from the server, before anybody else sees them.
    pub(super) fn received(&mut self, mut bytes: &[u8]) -> Result<(), Breach> {
        match (self.phase, bytes) {
            (Phase::Encrypted, _) | (_, []) => return Ok(()),
            (Phase::Choice, [b'S', ..]) => {
                self.phase = Phase::Encrypted;
                return Ok(());
            }
            (Phase::Choice, [_, rest @ ..]) => {
                self.phase = Phase::Messages;
                bytes = rest;
            }
            (Phase::Messages, _) => {}
        }
        self.arrived = self.arrived.saturating_add(bytes.len());
        let (logged_in, parameters) = (&mut self.logged_in, &mut self.parameters);
        let process = &mut self.process;
        self.incoming.feed(bytes, judge_header, |tag, body| {
            match tag {
                b'Z' => *logged_in = true,
                b'R' => judge_authentication(body)?,
                b'K' => *process = body.first_chunk().map(|number| i32::from_be_bytes(*number)),
                b'S' => {
                    let name = body.split(|byte| *byte == 0).next().unwrap_or_default();
                    let mut hasher = DefaultHasher::new();
                    name.hash(&mut hasher);
                    parameters.insert(hasher.finish());
                    if parameters.len() > PARAMETERS {
                        return Err(Breach::Parameters);
                    }
                }
                _ => {}
            }
            Ok(())
        })?;
        match self.logged_in {
            false if self.arrived > LOGIN => Err(Breach::Login),
            true if self.arrived > ANSWER => Err(Breach::Answer),
            _ => Ok(()),
        }
    }
}

/// Whether a message may be that long, and whether its body is looked at.
fn judge_header(tag: u8, body: usize) -> Result<bool, Breach> {
    if !tag.is_ascii_alphanumeric() {
        return Err(Breach::NotPostgres);
    }
    if body > MESSAGE {
        return Err(Breach::Message);
    }
    // Authentication, parameters, columns, COPY, keys, versions.
    let describes = matches!(
        tag,
        b'R' | b'S' | b'T' | b't' | b'G' | b'H' | b'W' | b'K' | b'v'
    );
    if describes && body > DESCRIPTION {
        return Err(Breach::Description);
    }
    Ok(matches!(tag, b'R' | b'S' | b'K'))
}

/// Looks for the number of iterations in `r=…,s=…,i=4096`.
fn judge_authentication(body: &[u8]) -> Result<(), Breach> {
    let Some((&[0, 0, 0, 11], challenge)) = body.split_first_chunk() else {
        return Ok(());
    };
    for attribute in challenge.split(|byte| *byte == b',') {
        let Some(digits) = attribute.strip_prefix(b"i=") else {
            continue;
        };
        let number = std::str::from_utf8(digits).ok().map(str::parse::<u64>);
        // What is no number, the driver refuses by itself.
        if let Some(Ok(number)) = number
            && number > ITERATIONS
        {
            return Err(Breach::Iterations);
        }
    }
    Ok(())
}

/// One direction of a connection as messages: a letter, a length, a body.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; 5],
    /// Bytes of the header that are there.
    have: usize,
    /// Bytes of the body that are missing; the header is complete if there is a body.
    missing: usize,
    /// The body, if it is looked at.
    kept: Option<Vec<u8>>,
}

impl Frames {
    /// In the middle of a message of no kind.
    fn in_body_of(missing: usize) -> Self {
        Self {
            missing,
            ..Self::default()
        }
    }

    /// Reads on. `begin` is asked about each message, and whether its body is kept for `end`.
    fn feed(
        &mut self,
        mut bytes: &[u8],
        mut begin: impl FnMut(u8, usize) -> Result<bool, Breach>,
        mut end: impl FnMut(u8, &[u8]) -> Result<(), Breach>,
    ) -> Result<(), Breach> {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let (body, rest) = bytes.split_at(self.missing.min(bytes.len()));
                if let Some(kept) = &mut self.kept {
                    kept.extend_from_slice(body);
                }
                self.missing -= body.len();
                bytes = rest;
                if self.missing == 0 {
                    let kept = self.kept.take().unwrap_or_default();
                    end(self.header[0], &kept)?;
                }
                continue;
            }
            self.header[self.have] = bytes[0];
            self.have += 1;
            bytes = &bytes[1..];
            if self.have < self.header.len() {
                continue;
            }
            self.have = 0;
            let [tag, length @ ..] = self.header;
            // The length counts itself.
            let body = (u32::from_be_bytes(length) as usize)
                .checked_sub(4)
                .ok_or(Breach::NotPostgres)?;
            self.kept = begin(tag, body)?.then(Vec::new);
            self.missing = body;
            if body == 0 {
                self.kept = None;
                end(tag, &[])?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag][..], &length, body].concat()
    }

    fn startup() -> Vec<u8> {
        let body = b"user\0u\0\0";
        let length = u32::try_from(body.len() + 8).unwrap().to_be_bytes();
        [&length[..], &[0, 3, 0, 0], body].concat()
    }

    fn challenge(iterations: &str) -> Vec<u8> {
        let text = format!("r=nonce,s=c2FsdA==,i={iterations}");
        message(b'R', &[&[0, 0, 0, 11], text.as_bytes()].concat())
    }

    fn ready() -> Vec<u8> {
        message(b'Z', b"I")
    }

    /// A meter after a login.
    fn in_session() -> Meter {
        let mut meter = Meter::default();
        meter.sent(&startup()).unwrap();
        meter.received(&message(b'R', &[0; 4])).unwrap();
        meter.received(&ready()).unwrap();
        meter
    }

    /// The same verdict whether bytes come one by one or all at once.
    fn verdict(make: impl Fn() -> Meter, bytes: &[u8]) -> Result<(), Breach> {
        let at_once = make().received(bytes);
        let mut meter = make();
        let one_by_one = bytes.iter().try_for_each(|byte| meter.received(&[*byte]));
        assert_eq!(at_once, one_by_one);
        at_once
    }

    #[test]
    fn a6_messages_and_answers_have_a_length() {
        let long = |tag: u8, body: usize| {
            let length = u32::try_from(body + 4).unwrap().to_be_bytes();
            [&[tag][..], &length].concat()
        };
        for (bytes, expected) in [
            (long(b'E', MESSAGE), Ok(())),
            (long(b'E', MESSAGE + 1), Err(Breach::Message)),
            (long(b'N', 20 << 20), Err(Breach::Message)),
            (long(b'D', MESSAGE + 1), Err(Breach::Message)),
            (long(b'T', DESCRIPTION + 1), Err(Breach::Description)),
            (long(b't', DESCRIPTION), Ok(())),
            (vec![b'E', 0, 0, 0, 3], Err(Breach::NotPostgres)),
            (vec![0, 0, 0, 0, 9], Err(Breach::NotPostgres)),
            (b"HTTP/1.1 400 Bad Request".to_vec(), Err(Breach::Message)),
            (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), Err(Breach::Message)),
        ] {
            assert_eq!(verdict(in_session, &bytes), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a6_floods_end_before_and_after_the_login() {
        for message in [
            message(b'N', &[b'x'; 1000]),
            message(b'S', b"name\0value\0"),
        ] {
            let mut meter = Meter::default();
            meter.sent(&startup()).unwrap();
            let breach = (0..1_000_000).find_map(|_| meter.received(&message).err());
            assert_eq!(breach, Some(Breach::Login));
            let mut meter = in_session();
            let breach = (0..1_000_000).find_map(|_| meter.received(&message).err());
            assert_eq!(breach, Some(Breach::Answer));
        }
        // Requests begin a new answer, so a long session is no flood.
        let mut meter = in_session();
        for _ in 0..50 {
            meter.sent(&message(b'Q', b"SELECT 1\0")).unwrap();
            meter
                .received(&message(b'N', &vec![b'x'; MESSAGE]))
                .unwrap();
        }
        let mut meter = in_session();
        let breach = (0..1_000_000).find_map(|number| {
            meter.sent(&message(b'Q', b"\0")).unwrap();
            let parameter = message(b'S', format!("p{number}\0v\0").as_bytes());
            meter.received(&parameter).err()
        });
        assert_eq!(breach, Some(Breach::Parameters));
    }

    #[test]
    fn a6_passwords_are_not_hashed_for_ever() {
        let fresh = || {
            let mut meter = Meter::default();
            meter.sent(&startup()).unwrap();
            meter
        };
        for (iterations, expected) in [
            ("4096", Ok(())),
            ("100000", Ok(())),
            ("100001", Err(Breach::Iterations)),
            ("4294967295", Err(Breach::Iterations)),
            ("many", Ok(())),
        ] {
            assert_eq!(verdict(fresh, &challenge(iterations)), expected);
        }
    }

    #[test]
    fn a6_types_inside_types_end() {
        let mut meter = in_session();
        let bind = message(b'B', b"\0s1\0");
        for _ in 0..20 {
            meter.sent(&message(b'Q', b"BEGIN\0")).unwrap();
            for _ in 0..STATEMENTS {
                meter.sent(&bind).unwrap();
            }
        }
        assert_eq!(meter.sent(&bind), Err(Breach::Types));
    }

    #[test]
    fn encrypted_bytes_are_read_elsewhere() {
        let request: Vec<u8> = [8_u32, SSL_REQUEST]
            .iter()
            .flat_map(|number| number.to_be_bytes())
            .collect();
        let noise = [0xff; 4096];
        // Asked for, and given.
        let mut meter = Meter::default();
        meter.sent(&request[..3]).unwrap();
        meter.sent(&request[3..]).unwrap();
        meter.received(b"S").unwrap();
        for _ in 0..5000 {
            meter.received(&noise).unwrap();
            meter.sent(&noise).unwrap();
        }
        // From the first byte on.
        let mut meter = Meter::default();
        meter.sent(&[TLS_HANDSHAKE, 3, 1]).unwrap();
        meter.received(&noise).unwrap();
        // Asked for, and refused: what follows is read.
        let mut meter = Meter::default();
        meter.sent(&request).unwrap();
        meter.received(b"N").unwrap();
        meter.sent(&startup()).unwrap();
        assert_eq!(
            meter.received(&challenge("999999")),
            Err(Breach::Iterations)
        );
    }
}
