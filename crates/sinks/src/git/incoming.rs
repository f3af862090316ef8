//! A look at a pack as it arrives, before anything else touches it.
//!
//! A pack of a megabyte can unpack to terabytes. So its entries are walked while they come in:
//! how many there are, how large each says it is, how large it really is, and what the differences
//! among them lead to. Nothing is kept but a window of the inflater.

use flate2::{Decompress, FlushDecompress, Status};

use super::{error::GitError, limits::FetchLimits};

/// Bytes that are inflated at a time, only to be counted.
const SCRATCH: usize = 32 * 1024;
/// Two lengths stand in front of a difference, of at most ten bytes each.
const LENGTHS: usize = 20;
/// Bytes of a checksum and of an object's name.
const NAME: usize = 20;

/// Walks the entries of a pack.
pub(super) struct Inspection {
    limits: FetchLimits,
    state: State,
    /// Objects that are still to come.
    left: u32,
    received: u64,
    unpacked: u64,
    inflater: Decompress,
    scratch: Box<[u8]>,
}

enum State {
    /// The signature, the version and the number of objects.
    Start(Vec<u8>),
    /// Kind and length of an entry.
    Head { kind: u8, length: u64, shift: u32 },
    /// Where the base of a difference is: an offset of unknown length.
    Offset { length: u64 },
    /// Which object is the base of a difference.
    Base { length: u64, missing: usize },
    /// Deflated bytes.
    Content {
        length: u64,
        seen: u64,
        /// The beginning of a difference, which says what it leads to.
        lengths: Option<Vec<u8>>,
    },
    /// The checksum.
    End { missing: usize },
}

impl Inspection {
    pub(super) fn new(limits: FetchLimits) -> Self {
        Self {
            limits,
            state: State::Start(Vec::new()),
            left: 0,
            received: 0,
            unpacked: 0,
            inflater: Decompress::new(true),
            scratch: vec![0; SCRATCH].into(),
        }
    }

    /// Bytes of all objects that were seen, unpacked.
    pub(super) fn unpacked(&self) -> u64 {
        self.unpacked
    }

    /// Looks at the next bytes.
    pub(super) fn take(&mut self, mut bytes: &[u8]) -> Result<(), GitError> {
        self.received += bytes.len() as u64;
        if self.received > self.limits.pack {
            return Err(too_much("the repository's newest commit", self.limits.pack));
        }
        while !bytes.is_empty() {
            bytes = self.step(bytes)?;
        }
        Ok(())
    }

    /// Whether the pack is whole.
    pub(super) fn finish(&self) -> Result<(), GitError> {
        match self.state {
            State::End { missing: 0 } => Ok(()),
            _ => Err(GitError::garbled("ended too early")),
        }
    }

    /// Looks at some bytes and returns the rest.
    fn step<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], GitError> {
        let (first, rest) = (bytes[0], &bytes[1..]);
        match &mut self.state {
            State::Start(start) => {
                start.push(first);
                if let [b'P', b'A', b'C', b'K', 0, 0, 0, 2 | 3, a, b, c, d] = start[..] {
                    self.left = u32::from_be_bytes([a, b, c, d]);
                    if self.left > self.limits.objects {
                        return Err(too_much(
                            "the number of objects in the repository",
                            self.limits.objects.into(),
                        ));
                    }
                    self.next_entry();
                } else if start.len() >= 12 {
                    return Err(no_pack());
                }
                Ok(rest)
            }
            State::Head {
                kind,
                length,
                shift,
            } => {
                if *shift == 0 {
                    (*kind, *length, *shift) = (first >> 4 & 7, u64::from(first & 15), 4);
                } else {
                    *length |= more_bits(first, *shift)?;
                    *shift += 7;
                }
                if first & 0x80 == 0 {
                    let (kind, length) = (*kind, *length);
                    self.begin(kind, length)?;
                }
                Ok(rest)
            }
            State::Offset { length } => {
                if first & 0x80 == 0 {
                    let length = *length;
                    self.content(length, Some(Vec::new()));
                }
                Ok(rest)
            }
            State::Base { length, missing } => {
                *missing -= 1;
                if *missing == 0 {
                    let length = *length;
                    self.content(length, Some(Vec::new()));
                }
                Ok(rest)
            }
            State::Content { .. } => self.inflate(bytes),
            State::End { missing } => {
                *missing = missing.checked_sub(1).ok_or_else(no_pack)?;
                Ok(rest)
            }
        }
    }

    fn next_entry(&mut self) {
        self.state = match self.left.checked_sub(1) {
            None => State::End { missing: NAME },
            Some(left) => {
                self.left = left;
                State::Head {
                    kind: 0,
                    length: 0,
                    shift: 0,
                }
            }
        };
    }

    fn begin(&mut self, kind: u8, length: u64) -> Result<(), GitError> {
        if length > self.limits.object {
            return Err(too_much("an object of the repository", self.limits.object));
        }
        match kind {
            1..=4 => {
                self.count(length)?;
                self.content(length, None);
            }
            6 => self.state = State::Offset { length },
            7 => {
                self.state = State::Base {
                    length,
                    missing: NAME,
                };
            }
            _ => return Err(no_pack()),
        }
        Ok(())
    }

    fn content(&mut self, length: u64, lengths: Option<Vec<u8>>) {
        self.inflater.reset(true);
        self.state = State::Content {
            length,
            seen: 0,
            lengths,
        };
    }

    fn count(&mut self, bytes: u64) -> Result<(), GitError> {
        self.unpacked = self.unpacked.saturating_add(bytes);
        if self.unpacked > self.limits.unpacked {
            return Err(too_much(
                "the repository's newest commit, unpacked,",
                self.limits.unpacked,
            ));
        }
        Ok(())
    }

    fn inflate<'b>(&mut self, bytes: &'b [u8]) -> Result<&'b [u8], GitError> {
        let State::Content {
            length,
            seen,
            lengths,
        } = &mut self.state
        else {
            return Err(no_pack());
        };
        let (before_in, before_out) = (self.inflater.total_in(), self.inflater.total_out());
        let status = self
            .inflater
            .decompress(bytes, &mut self.scratch, FlushDecompress::None)
            .map_err(|_| no_pack())?;
        let taken = difference(self.inflater.total_in(), before_in);
        let made = difference(self.inflater.total_out(), before_out);
        *seen += made as u64;
        let stuck = taken == 0 && made == 0 && status != Status::StreamEnd;
        if *seen > *length || stuck {
            return Err(no_pack());
        }
        if let Some(lengths) = lengths {
            let wanted = LENGTHS.saturating_sub(lengths.len()).min(made);
            lengths.extend_from_slice(&self.scratch[..wanted]);
        }
        if status == Status::StreamEnd {
            if seen != length {
                return Err(no_pack());
            }
            if let Some(lengths) = lengths.take() {
                let result = result_length(&lengths).ok_or_else(no_pack)?;
                if result > self.limits.object {
                    return Err(too_much("an object of the repository", self.limits.object));
                }
                self.count(result)?;
            }
            self.next_entry();
        }
        Ok(&bytes[taken..])
    }
}

fn difference(after: u64, before: u64) -> usize {
    usize::try_from(after - before).unwrap_or(usize::MAX)
}

/// The length of what a difference leads to: the second of the two lengths in front.
fn result_length(bytes: &[u8]) -> Option<u64> {
    let mut bytes = bytes.iter();
    let mut length = || {
        let (mut length, mut shift) = (0, 0);
        loop {
            let byte = *bytes.next()?;
            length |= more_bits(byte, shift).ok()?;
            shift += 7;
            if byte & 0x80 == 0 {
                return Some(length);
            }
        }
    };
    length()?;
    length()
}

/// Seven bits further up in a length.
fn more_bits(byte: u8, shift: u32) -> Result<u64, GitError> {
    let bits = u64::from(byte & 0x7f);
    let moved = bits.checked_shl(shift).filter(|_| shift <= 56);
    moved.ok_or_else(no_pack)
}

fn no_pack() -> GitError {
    GitError::garbled("is no pack")
}

fn too_much(what: &str, limit: u64) -> GitError {
    GitError::excess(what, limit)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::{Compression, write::ZlibEncoder};
    use git2::ObjectType;

    use super::*;
    use crate::git::{limits::Limits, pack::PackWriter};

    fn limits() -> FetchLimits {
        Limits::default().fetch
    }

    fn look(pack: &[u8], piece: usize, limits: FetchLimits) -> Result<u64, GitError> {
        let mut inspection = Inspection::new(limits);
        for piece in pack.chunks(piece) {
            inspection.take(piece)?;
        }
        inspection.finish()?;
        Ok(inspection.unpacked())
    }

    /// A pack of entries: kind, length as it is said, and content.
    fn pack(objects: u32, entries: &[(u8, u64, &[u8])]) -> Vec<u8> {
        let mut pack = b"PACK\0\0\0\x02".to_vec();
        pack.extend(objects.to_be_bytes());
        for (kind, length, content) in entries {
            let mut rest = length >> 4;
            let mut byte = kind << 4 | u8::try_from(length & 15).unwrap();
            while rest > 0 {
                pack.push(byte | 0x80);
                byte = u8::try_from(rest & 0x7f).unwrap();
                rest >>= 7;
            }
            pack.push(byte);
            match kind {
                6 => pack.extend([0x81, 0x01]),
                7 => pack.extend([7; 20]),
                _ => {}
            }
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(content).unwrap();
            pack.extend(encoder.finish().unwrap());
        }
        pack.extend([0; 20]);
        pack
    }

    /// What we write ourselves passes, however it is cut.
    #[test]
    fn packs_pass_in_any_pieces() {
        let directory = tempfile::tempdir().unwrap();
        let mut writer = PackWriter::create(directory.path()).unwrap();
        let before: Vec<u8> = (0..20_000_u32).flat_map(u32::to_be_bytes).collect();
        let mut after = before.clone();
        after[40_000] ^= 1;
        let base = writer.add(ObjectType::Tree, &before).unwrap();
        let earlier = Some((base, &before[..]));
        writer.add_after(ObjectType::Tree, &after, earlier).unwrap();
        writer.add(ObjectType::Blob, b"").unwrap();
        writer.add(ObjectType::Commit, b"tree").unwrap();
        let written = writer.finish().unwrap();
        let mut bytes = Vec::new();
        while let Some(piece) = written.piece(bytes.len() as u64).unwrap() {
            bytes.extend_from_slice(&piece);
        }
        for piece in [1, 3, 1000, bytes.len()] {
            let unpacked = look(&bytes, piece, limits()).unwrap();
            assert_eq!(unpacked, 160_004, "{piece}");
        }
        for cut in [0, 5, 12, 13, 100, bytes.len() - 1] {
            assert!(look(&bytes[..cut], 64, limits()).is_err(), "{cut}");
        }
    }

    #[test]
    fn a5_a_pack_that_unpacks_to_too_much_is_refused() {
        let small = FetchLimits {
            pack: 100_000,
            objects: 3,
            object: 1_000_000,
            unpacked: 2_000_000,
        };
        let zeros = vec![0; 900_000];
        // Base of 100 bytes, result of two gigabytes.
        let bomb = [100, 0x80, 0x80, 0x80, 0x80, 0x08, 1];
        let cases: [(&str, Vec<u8>); 5] = [
            ("said to be large", pack(1, &[(3, 2 << 30, b"x")])),
            ("many objects", pack(4, &[])),
            ("large together", pack(3, &[(3, 900_000, &zeros[..]); 3])),
            ("a difference to something large", pack(1, &[(6, 7, &bomb)])),
            ("the same by name", pack(1, &[(7, 7, &bomb)])),
        ];
        for (what, pack) in cases {
            let error = look(&pack, 4096, small).unwrap_err();
            assert!(
                matches!(error, GitError::Excess { .. }),
                "{what}: {error:?}"
            );
        }
        let narrow = FetchLimits { pack: 100, ..small };
        let error = look(&pack(1, &[(3, 900_000, &zeros)]), 64, narrow).unwrap_err();
        assert!(matches!(error, GitError::Excess { .. }), "{error:?}");
        // More than it says, less than it says, and nonsense.
        for pack in [
            pack(1, &[(3, 10, &zeros)]),
            pack(1, &[(3, 900_001, &zeros)]),
            pack(1, &[(5, 1, b"x")]),
            pack(1, &[(6, 1, b"\xff")]),
            b"<html>not found</html>".to_vec(),
        ] {
            let error = look(&pack, 4096, small).unwrap_err();
            assert!(matches!(error, GitError::Transport(_)), "{error:?}");
        }
    }
}
