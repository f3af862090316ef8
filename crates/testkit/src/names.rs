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
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
