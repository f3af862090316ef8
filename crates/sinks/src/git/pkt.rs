//! The lines of Git's wire protocol: four hexadecimal digits of length, then as many bytes.

use async_trait::async_trait;
use bytes::{Buf as _, Bytes, BytesMut};

use super::{
    error::{GitError, complaint},
    limits::{Clock, Pace},
};

/// The longest line, its length digits included.
const LONGEST: usize = 65_520;

/// Where bytes come from.
#[async_trait]
pub(super) trait Source: Send {
    /// The next bytes, or nothing at the end.
    async fn chunk(&mut self) -> Result<Option<Bytes>, GitError>;
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pkt {
    /// A line with content.
    Data(Bytes),
    /// The end of a section.
    Flush,
}

/// What may be read before something else is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowance {
    /// Names it in errors.
    pub(super) what: &'static str,
    /// In bytes.
    pub(super) most: u64,
    /// How slow it may come.
    pub(super) pace: Pace,
}

/// Reads lines.
pub(super) struct PktReader {
    source: Box<dyn Source>,
    buffer: BytesMut,
    allowance: Allowance,
    left: u64,
    clock: Clock,
}

impl PktReader {
    pub(super) fn new(source: impl Source + 'static, allowance: Allowance) -> Self {
        Self {
            source: Box::new(source),
            buffer: BytesMut::new(),
            left: allowance.most,
            clock: Clock::start(allowance.what, allowance.pace),
            allowance,
        }
    }

    /// From here on something else is read.
    pub(super) fn allow(&mut self, allowance: Allowance) {
        self.left = allowance.most;
        self.clock = Clock::start(allowance.what, allowance.pace);
        self.allowance = allowance;
    }

    /// The next line, or nothing if the bytes end between two lines.
    pub(super) async fn next(&mut self) -> Result<Option<Pkt>, GitError> {
        if !self.fill(4).await? {
            return if self.buffer.is_empty() {
                Ok(None)
            } else {
                Err(cut())
            };
        }
        let digits = std::str::from_utf8(&self.buffer[..4]).ok();
        let length = digits.and_then(|digits| usize::from_str_radix(digits, 16).ok());
        self.buffer.advance(4);
        match length {
            Some(0) => Ok(Some(Pkt::Flush)),
            Some(length @ 4..=LONGEST) => {
                if !self.fill(length - 4).await? {
                    return Err(cut());
                }
                let line = self.buffer.split_to(length - 4).freeze();
                match line.strip_prefix(b"ERR ") {
                    Some(text) => Err(complaint(&String::from_utf8_lossy(text))),
                    None => Ok(Some(Pkt::Data(line))),
                }
            }
            _ => Err(GitError::garbled("is not the Git protocol")),
        }
    }

    /// The next line, which has to be there.
    pub(super) async fn expect(&mut self) -> Result<Pkt, GitError> {
        self.next().await?.ok_or_else(cut)
    }

    /// Whether at least `wanted` bytes are buffered or could be read.
    async fn fill(&mut self, wanted: usize) -> Result<bool, GitError> {
        while self.buffer.len() < wanted {
            match self.clock.keep(self.source.chunk()).await? {
                Some(bytes) => {
                    let Allowance { what, most, .. } = self.allowance;
                    self.left = self
                        .left
                        .checked_sub(bytes.len() as u64)
                        .ok_or_else(|| GitError::excess(what, most))?;
                    self.clock.moved(bytes.len());
                    self.buffer.extend_from_slice(&bytes);
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }
}

fn cut() -> GitError {
    GitError::garbled("ended too early")
}

/// Appends one line.
pub(super) fn put(out: &mut Vec<u8>, line: &[u8]) {
    debug_assert!(line.len() + 4 <= LONGEST);
    out.extend_from_slice(format!("{:04x}", line.len() + 4).as_bytes());
    out.extend_from_slice(line);
}

/// Appends the end of a section.
pub(super) fn put_flush(out: &mut Vec<u8>) {
    out.extend_from_slice(b"0000");
}

/// Lines that lie in memory, for tests and for lines inside lines.
struct Chunks(std::vec::IntoIter<Bytes>);

/// Reads lines that were received before.
pub(super) fn received(chunks: Vec<Bytes>) -> PktReader {
    let allowance = Allowance {
        what: "what was received",
        most: u64::MAX,
        pace: Pace {
            grace: std::time::Duration::from_mins(1),
            bytes_per_second: 1,
        },
    };
    PktReader::new(Chunks(chunks.into_iter()), allowance)
}

#[async_trait]
impl Source for Chunks {
    async fn chunk(&mut self) -> Result<Option<Bytes>, GitError> {
        Ok(self.0.next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8], piece: usize) -> Result<Vec<Pkt>, GitError> {
        let chunks: Vec<Bytes> = bytes.chunks(piece).map(Bytes::copy_from_slice).collect();
        let mut reader = received(chunks);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await? {
            lines.push(line);
        }
        Ok(lines)
    }

    #[tokio::test]
    async fn lines_survive_any_cut_of_the_stream() {
        let mut bytes = Vec::new();
        put(&mut bytes, b"hello\n");
        put(&mut bytes, b"");
        put_flush(&mut bytes);
        put(&mut bytes, &vec![7; LONGEST - 4]);
        for piece in [1, 2, 3, 5, 4096, 100_000] {
            let lines = read(&bytes, piece).await.unwrap();
            assert_eq!(lines.len(), 4);
            assert_eq!(lines[0], Pkt::Data(Bytes::from_static(b"hello\n")));
            assert_eq!(lines[1], Pkt::Data(Bytes::new()));
            assert_eq!(lines[2], Pkt::Flush);
        }
    }

    #[tokio::test]
    async fn a5_lines_without_end_are_cut() {
        let mut line = Vec::new();
        put(&mut line, b"progress");
        let mut reader = received(vec![Bytes::from(line); 1000]);
        reader.allow(Allowance {
            what: "the answer",
            most: 1200,
            ..reader.allowance
        });
        let mut lines = 0;
        let error = loop {
            match reader.next().await {
                Ok(_) => lines += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(lines, 100);
        assert!(matches!(error, GitError::Excess { .. }), "{error:?}");
    }

    #[tokio::test]
    async fn what_is_no_line_is_an_error() {
        for bytes in [
            &b"<html>"[..],
            b"0003",
            b"ffff",
            b"0009abc",
            b"00",
            b"\xff\xff\xff\xff",
        ] {
            assert!(read(bytes, 64).await.is_err(), "{bytes:?}");
        }
        let error = read(b"0016ERR access denied\n", 64).await.unwrap_err();
        assert!(matches!(error, GitError::Authentication(_)), "{error:?}");
    }
}
