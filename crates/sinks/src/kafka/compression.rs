//! Compressed record batches.
//!
//! We write what the sink is told to; we read whatever is in the topic, since brokers may recompress
//! and others may write there. What comes out is limited: a few bytes can promise gigabytes.

use std::io::{Read, Write};

use flate2::{read::MultiGzDecoder, write::GzEncoder};

use super::wire::{In, Malformed};

/// The most bytes that one batch may hold once it is unpacked.
pub(super) const UNPACKED: usize = 64 << 20;
/// The largest window of zstd, as a power of two: the one that its own tools stop at.
const WINDOW: u32 = 27;
/// What the Java library puts in front of snappy.
const XERIAL: &[u8] = &[0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];

/// How a batch is compressed, by its number in the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    pub(super) fn of_attributes(attributes: i16) -> Result<Self, Malformed> {
        [Self::None, Self::Gzip, Self::Snappy, Self::Lz4, Self::Zstd]
            .into_iter()
            .find(|codec| *codec as i16 == attributes & 7)
            .ok_or(Malformed)
    }

    /// Compresses the records of a batch. Snappy in one raw block: the Java client reads both forms.
    pub(super) fn pack(self, records: Vec<u8>) -> Vec<u8> {
        let packed = match self {
            // LZ4 is never asked for: the field of the sink does not know it.
            Codec::None | Codec::Lz4 => return records,
            Codec::Gzip => {
                let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::default());
                let written = encoder.write_all(&records);
                written.and_then(|()| encoder.finish())
            }
            Codec::Snappy => snap::raw::Encoder::new()
                .compress_vec(&records)
                .map_err(std::io::Error::other),
            Codec::Zstd => zstd::bulk::compress(&records, 0),
        };
        packed.expect("compression into memory does not fail")
    }

    pub(super) fn unpack(self, packed: &[u8]) -> Result<Vec<u8>, Malformed> {
        match self {
            Codec::None => Ok(packed.to_vec()),
            Codec::Gzip => limited(MultiGzDecoder::new(packed)),
            Codec::Snappy => snappy(packed),
            Codec::Lz4 => limited(lz4::Decoder::new(packed).map_err(|_| Malformed)?),
            Codec::Zstd => {
                let mut decoder = zstd::Decoder::new(packed).map_err(|_| Malformed)?;
                decoder.window_log_max(WINDOW).map_err(|_| Malformed)?;
                limited(decoder)
            }
        }
    }
}

fn limited(reader: impl Read) -> Result<Vec<u8>, Malformed> {
    let mut unpacked = Vec::new();
    let limit = UNPACKED as u64 + 1;
    let read = reader.take(limit).read_to_end(&mut unpacked);
    match read {
        Ok(_) if unpacked.len() <= UNPACKED => Ok(unpacked),
        _ => Err(Malformed),
    }
}

/// Raw, or the blocks of the Java library.
fn snappy(packed: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut unpacked = Vec::new();
    let mut block = |block: &[u8]| {
        let length = snap::raw::decompress_len(block).map_err(|_| Malformed)?;
        if unpacked.len() + length > UNPACKED {
            return Err(Malformed);
        }
        let more = snap::raw::Decoder::new().decompress_vec(block);
        unpacked.extend(more.map_err(|_| Malformed)?);
        Ok(())
    };
    match packed.strip_prefix(XERIAL) {
        None => block(packed)?,
        Some(framed) => {
            let mut rest = In(framed);
            rest.i32()?;
            rest.i32()?;
            while !rest.0.is_empty() {
                block(rest.nullable_bytes()?.ok_or(Malformed)?)?;
            }
        }
    }
    Ok(unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_back() {
        let text = b"rows and rows and rows and rows ".repeat(100);
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Zstd] {
            let packed = codec.pack(text.clone());
            assert!(codec == Codec::None || packed.len() < text.len() / 2);
            assert_eq!(codec.unpack(&packed).unwrap(), text, "{codec:?}");
            let half = &packed[..packed.len() / 2];
            assert!(
                codec == Codec::None || codec.unpack(half).is_err(),
                "{codec:?}"
            );
        }
    }

    #[test]
    fn blocks_of_the_java_library_are_read() {
        let mut framed = XERIAL.to_vec();
        framed.extend([0, 0, 0, 1, 0, 0, 0, 1]);
        for piece in [&b"one "[..], b"two"] {
            let packed = Codec::Snappy.pack(piece.to_vec());
            framed.extend(u32::try_from(packed.len()).unwrap().to_be_bytes());
            framed.extend(packed);
        }
        assert_eq!(Codec::Snappy.unpack(&framed).unwrap(), b"one two");
    }

    /// A few kilobytes that promise more than is taken.
    #[test]
    fn bombs_are_refused() {
        let bomb = vec![0; UNPACKED + 1];
        for codec in [Codec::Gzip, Codec::Snappy, Codec::Zstd] {
            let packed = codec.pack(bomb.clone());
            assert_eq!(codec.unpack(&packed), Err(Malformed), "{codec:?}");
        }
    }
}
