//! What is released, made from what was built: nothing here compiles anything.
//!
//! Everything is reproducible. Names are sorted, times are the one time of the release
//! ([`Moment`]), owners are root, and compression writes no time of its own: the same program and the
//! same files give the same bytes on any machine.
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`tar`] | archives with nothing in them that depends on the day |
//! | [`root_fs`] | the files of the image: the program, the libraries it needs, and little else |
//! | [`oci`] | an image of them as an archive that container engines load |
//! | [`sbom`] | what the program is made of, as CycloneDX |
//! | [`release`] | all files of a release and their checksums |
//! | [`signing`] | how they are signed, as the environment says |

pub mod oci;
pub mod release;
pub mod root_fs;
pub mod sbom;
pub mod signing;
pub mod tar;

use std::io::Write as _;

use anyhow::{Context as _, Result};
use flate2::{Compression, GzBuilder};
use sha2::{Digest as _, Sha256};

/// The one time that everything of a release carries, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(pub u64);

impl Moment {
    /// As texts carry it.
    pub fn text(self) -> Result<String> {
        let second = i64::try_from(self.0).context("the time of the release is too far away")?;
        Ok(jiff::Timestamp::from_second(second)?.to_string())
    }
}

/// Compresses, the same way each time.
pub fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut writer = GzBuilder::new()
        .mtime(0)
        // Unknown: what made it must not show.
        .operating_system(255)
        .write(Vec::new(), Compression::new(6));
    writer.write_all(bytes)?;
    Ok(writer.finish()?)
}

/// SHA-256 in lower-case hex.
pub fn sha256(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in Sha256::digest(bytes) {
        text += &format!("{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Moment, gzip, sha256};

    #[test]
    fn nothing_depends_on_the_day() {
        assert_eq!(Moment(0).text().unwrap(), "1970-01-01T00:00:00Z");
        assert_eq!(gzip(b"abc").unwrap(), gzip(b"abc").unwrap());
        assert_eq!(gzip(b"abc").unwrap()[4..10], [0, 0, 0, 0, 0, 255]);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(sha256(b""), empty);
    }
}
