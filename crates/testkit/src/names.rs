//! Names that do not collide and secrets that cannot be guessed.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read as _;

use anyhow::{Context, Result};

/// A name that no other test of any process uses: `prefix`, a hyphen and random digits.
pub fn unique(prefix: &str) -> String {
    // Every `RandomState` is keyed differently; no generator crate is needed for that.
    format!("{prefix}-{:016x}", RandomState::new().hash_one(prefix))
}

/// A token or password. Loopback is shared by all users of a machine, so it must be random.
pub fn secret() -> Result<String> {
    let mut bytes = [0_u8; 16];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut bytes))
        .context("cannot read /dev/urandom")?;
    Ok(hex(&bytes))
}

/// Two lower-case digits per byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)])
        .collect()
}
