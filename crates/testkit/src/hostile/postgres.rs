//! PostgreSQL's protocol, by somebody who talks too much or not at all.

use std::io::{self, BufReader, Read, Write};

use super::wire::{Wire, endless};

/// What is wrong with a database. All but the first two let everybody in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PostgresManner {
    /// Takes the greeting and never answers it.
    SilentAtLogin,
    /// Sends notices for ever instead of letting anybody in.
    NoticesAtLogin,
    /// Never answers a query.
    SilentAtQueries,
    /// Answers every query with an error of 20 MB, full of what looks like credentials.
    LargeErrors,
    /// Answers every query with notices for ever.
    EndlessNotices,
    /// Answers every query with more and more settings of the session.
    EndlessSettings,
}

const LARGE: usize = 20_000_000;

/// Codes in the place of a protocol version.
const CANCEL: u32 = 80_877_102;
const TLS: u32 = 80_877_103;
const GSS: u32 = 80_877_104;

/// Speaks on one connection.
pub(super) fn serve(wire: &mut Wire, manner: PostgresManner) -> io::Result<()> {
    let mut reader = BufReader::new(wire);
    loop {
        let greeting = body(&mut reader)?;
        let code = greeting.get(..4).map(number);
        match code {
            Some(TLS | GSS) => reader.get_mut().write_all(b"N")?,
            None | Some(CANCEL) => return Ok(()),
            Some(_) => break,
        }
    }
    match manner {
        PostgresManner::SilentAtLogin => return reader.get_mut().ignore(),
        PostgresManner::NoticesAtLogin => {
            // In, but not done: clients take notices only after this.
            reader.get_mut().write_all(&accepted())?;
            return endless(reader.get_mut(), &notice());
        }
        _ => reader.get_mut().write_all(&welcome())?,
    }
    loop {
        let mut kind = [0];
        reader.read_exact(&mut kind)?;
        body(&mut reader)?;
        // An answer is due after a simple query and at the end of an extended one.
        match kind[0] {
            b'X' => return Ok(()),
            b'Q' | b'S' => answer(reader.get_mut(), manner)?,
            _ => {}
        }
    }
}

fn answer(out: &mut Wire, manner: PostgresManner) -> io::Result<()> {
    match manner {
        PostgresManner::LargeErrors => {
            let secret = "password=hunter2 postgres://admin:hunter2@10.0.0.1/x ";
            let text = secret.repeat(LARGE / secret.len());
            out.write_all(&message(b'E', &fields("ERROR", "XX000", &text)))?;
            out.write_all(&message(b'Z', b"I"))
        }
        PostgresManner::EndlessNotices => endless(out, &notice()),
        PostgresManner::EndlessSettings => {
            for count in 0_u64.. {
                let setting = format!("setting_{count}\0{}\0", "v".repeat(1_000));
                out.write_all(&message(b'S', setting.as_bytes()))?;
            }
            Ok(())
        }
        _ => out.ignore(),
    }
}

/// The password, if there was one, is good.
fn accepted() -> Vec<u8> {
    message(b'R', &0_u32.to_be_bytes())
}

/// Everything up to the first question.
fn welcome() -> Vec<u8> {
    let mut out = accepted();
    for (name, value) in [
        ("server_version", "17.0"),
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("standard_conforming_strings", "on"),
        ("TimeZone", "UTC"),
    ] {
        out.extend(message(b'S', format!("{name}\0{value}\0").as_bytes()));
    }
    out.extend(message(b'K', &[0, 0, 0, 1, 0, 0, 0, 2]));
    out.extend(message(b'Z', b"I"));
    out
}

fn notice() -> Vec<u8> {
    let text = "one more thing ".repeat(500);
    message(b'N', &fields("NOTICE", "00000", &text))
}

/// The fields of an error or notice.
fn fields(severity: &str, code: &str, text: &str) -> Vec<u8> {
    format!("S{severity}\0V{severity}\0C{code}\0M{text}\0\0").into_bytes()
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    let mut out = vec![kind];
    out.extend(length.to_be_bytes());
    out.extend(body);
    out
}

/// What follows a length, which counts itself.
fn body(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    reader.read_exact(&mut length)?;
    let length = u64::from(number(&length)).saturating_sub(4);
    let mut body = Vec::new();
    reader.take(length).read_to_end(&mut body)?;
    Ok(body)
}

fn number(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .take(4)
        .fold(0, |sum, byte| (sum << 8) | u32::from(*byte))
}
