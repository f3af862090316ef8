//! Digests that say whether content is the same.
//!
//! | Digest | Over |
//! | --- | --- |
//! | content fingerprint, the `checksum` of a document | the compact JSON array of the rows in canonical order |
//! | parts digest | the checksum of each part in order, one per line |
//! | rollup digest | `<namespace>:<fingerprint>` of each shard in namespace order, one per line |
//!
//! All are SHA-256. Times, generations and part numbers never enter, so equal content has equal
//! digests whenever and by whomever it is exported.

use std::fmt;

use sha2::{Digest, Sha256};

use crate::canonical::Out;
use crate::row::Row;

/// A SHA-256 digest; shown as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The parts digest.
    pub fn of_parts(checksums: impl IntoIterator<Item = Fingerprint>) -> Self {
        let mut digest = Hashing::default();
        for checksum in checksums {
            digest.put(checksum.hex().as_str());
            digest.put("\n");
        }
        digest.finish()
    }

    /// The rollup digest; shards come in namespace order.
    pub fn of_shards<'a>(shards: impl IntoIterator<Item = (&'a str, Fingerprint)>) -> Self {
        let mut digest = Hashing::default();
        for (namespace, fingerprint) in shards {
            digest.put(namespace);
            digest.put(":");
            digest.put(fingerprint.hex().as_str());
            digest.put("\n");
        }
        digest.finish()
    }

    /// The raw digest.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The 64 hexadecimal digits, without allocating.
    pub(crate) fn hex(self) -> Hex {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; HEX_LENGTH];
        for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *pair = [
                DIGITS[usize::from(byte >> 4)],
                DIGITS[usize::from(byte & 15)],
            ];
        }
        Hex(text)
    }
}

/// Characters of a digest as text.
const HEX_LENGTH: usize = 64;

pub(crate) struct Hex([u8; HEX_LENGTH]);

impl Hex {
    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hexadecimal digits are ASCII")
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.hex().as_str())
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Digests an `items` array row by row; nothing but one block of text is ever in memory.
#[derive(Debug, Default)]
pub struct ItemsDigest {
    hashing: Hashing,
    rows: usize,
}

impl ItemsDigest {
    /// The digest of no rows so far.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the next row in canonical order.
    pub fn row(&mut self, row: &Row) {
        self.hashing.put(if self.rows == 0 { "[" } else { "," });
        row.write_json(&mut self.hashing);
        self.rows += 1;
    }

    /// The content fingerprint, and the length in bytes of the array it covers.
    pub fn finish(mut self) -> (Fingerprint, u64) {
        self.hashing.put(if self.rows == 0 { "[]" } else { "]" });
        let length = self.hashing.length();
        (self.hashing.finish(), length)
    }
}

/// Collects text into blocks, because hashing many tiny pieces costs more than copying them.
#[derive(Debug, Default)]
struct Hashing {
    block: Vec<u8>,
    hasher: Sha256,
    hashed: u64,
}

impl Hashing {
    const BLOCK: usize = 8 * 1024;

    fn length(&self) -> u64 {
        self.hashed + self.block.len() as u64
    }

    fn flush(&mut self) {
        self.hasher.update(&self.block);
        self.hashed += self.block.len() as u64;
        self.block.clear();
    }

    fn finish(mut self) -> Fingerprint {
        self.flush();
        Fingerprint(self.hasher.finalize().into())
    }
}

impl Out for Hashing {
    #[inline]
    fn put(&mut self, text: &str) {
        self.block.put(text);
        if self.block.len() >= Self::BLOCK {
            self.flush();
        }
    }
}
