//! New objects on their way to a server.
//!
//! Objects go straight into a pack, one after the other: a first export of a hundred thousand files
//! costs one file on disk, not a hundred thousand, and no more memory than the object at hand.
//!
//! A large directory that changed in one place would be sent as a whole, so it is described by its
//! difference to the version that the server has; servers complete such packs themselves.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufWriter, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::FileExt as _,
    path::Path,
    sync::Arc,
};

use bytes::Bytes;
use flate2::{Compression, write::ZlibEncoder};
use git2::{ObjectType, Odb, Oid};
use ring::digest;

use super::error::GitError;

/// How many bytes are read at a time.
const PIECE: usize = 64 * 1024;
/// Up to this many objects are kept beside the pack, to be stored one by one.
const FEW: usize = 64;
/// Kinds of entries in a pack.
const COMMIT: u8 = 1;
const TREE: u8 = 2;
const BLOB: u8 = 3;
const DIFFERENCE: u8 = 7;
/// Objects below this size are sent as they are.
const WORTH_A_DELTA: usize = 4 * 1024;

/// Writes a pack.
pub(super) struct PackWriter {
    file: BufWriter<File>,
    encoder: ZlibEncoder<Vec<u8>>,
    seen: HashSet<Oid>,
    /// The objects themselves, as long as there are few.
    few: Option<Vec<Object>>,
}

/// An object as it is.
type Object = (ObjectType, Vec<u8>);

/// A finished pack. Its file has no name, so nothing is left behind whatever happens.
#[derive(Debug, Clone)]
pub(super) struct Pack {
    file: Arc<File>,
    length: u64,
    #[cfg(test)]
    objects: u32,
    few: Option<Arc<[Object]>>,
}

impl PackWriter {
    /// Begins a pack in a directory.
    pub(super) fn create(directory: &Path) -> Result<Self, GitError> {
        let mut file = BufWriter::with_capacity(PIECE, tempfile::tempfile_in(directory)?);
        // The number of objects is known at the end.
        file.write_all(&[0; 12])?;
        Ok(Self {
            file,
            encoder: ZlibEncoder::new(Vec::new(), Compression::fast()),
            seen: HashSet::new(),
            few: Some(Vec::new()),
        })
    }

    /// Adds an object unless it is there already.
    pub(super) fn add(&mut self, kind: ObjectType, content: &[u8]) -> Result<Oid, GitError> {
        self.add_after(kind, content, None)
    }

    /// Adds an object of which the server has an earlier version.
    pub(super) fn add_after(
        &mut self,
        kind: ObjectType,
        content: &[u8],
        earlier: Option<(Oid, &[u8])>,
    ) -> Result<Oid, GitError> {
        let id = Oid::hash_object(kind, content)?;
        self.add_named(id, kind, content, earlier)?;
        Ok(id)
    }

    /// Adds an object whose name is known.
    pub(super) fn add_named(
        &mut self,
        id: Oid,
        kind: ObjectType,
        content: &[u8],
        earlier: Option<(Oid, &[u8])>,
    ) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        let delta = earlier
            .filter(|_| content.len() >= WORTH_A_DELTA)
            .map(|(base, before)| (base, difference(before, content)))
            .filter(|(_, delta)| delta.len() < content.len() / 2);
        match delta {
            Some((base, delta)) => self.entry(DIFFERENCE, &delta, base.as_bytes())?,
            None => {
                let kind = match kind {
                    ObjectType::Commit => COMMIT,
                    ObjectType::Tree => TREE,
                    _ => BLOB,
                };
                self.entry(kind, content, &[])?;
            }
        }
        self.few = self.few.take().filter(|few| few.len() < FEW);
        if let Some(few) = &mut self.few {
            few.push((kind, content.to_vec()));
        }
        Ok(())
    }

    /// Adds a file that is too large to be held in memory, piece by piece.
    pub(super) fn add_large(
        &mut self,
        id: Oid,
        length: u64,
        pieces: impl Iterator<Item = Vec<u8>>,
    ) -> Result<(), GitError> {
        if !self.seen.insert(id) {
            return Ok(());
        }
        self.few = None;
        self.entry_head(BLOB, length, &[])?;
        for piece in pieces {
            self.encoder.write_all(&piece)?;
            let compressed = self.encoder.get_mut();
            self.file.write_all(compressed)?;
            compressed.clear();
        }
        self.entry_end()?;
        Ok(())
    }

    fn entry(&mut self, kind: u8, content: &[u8], base: &[u8]) -> io::Result<()> {
        self.entry_head(kind, content.len() as u64, base)?;
        self.encoder.write_all(content)?;
        self.entry_end()
    }

    /// Four bits of the length beside the kind, then seven at a time.
    fn entry_head(&mut self, kind: u8, length: u64, base: &[u8]) -> io::Result<()> {
        let mut rest = length >> 4;
        let mut byte = kind << 4 | low_bits(length, 4);
        while rest > 0 {
            self.file.write_all(&[byte | 0x80])?;
            byte = low_bits(rest, 7);
            rest >>= 7;
        }
        self.file.write_all(&[byte])?;
        self.file.write_all(base)
    }

    fn entry_end(&mut self) -> io::Result<()> {
        let mut compressed = self.encoder.reset(Vec::new())?;
        self.file.write_all(&compressed)?;
        // The next object uses the same memory.
        compressed.clear();
        *self.encoder.get_mut() = compressed;
        Ok(())
    }

    /// Ends the pack.
    pub(super) fn finish(self) -> Result<Pack, GitError> {
        let objects = u32::try_from(self.seen.len())
            .map_err(|_| GitError::Configuration("too many objects for one push".into()))?;
        let mut file = self
            .file
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(b"PACK\0\0\0\x02")?;
        file.write_all(&objects.to_be_bytes())?;
        file.seek(SeekFrom::Start(0))?;
        let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
        let mut buffer = vec![0; PIECE];
        let mut length = 0;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            digest.update(&buffer[..read]);
            length += read as u64;
        }
        let trailer = digest.finish();
        file.write_all(trailer.as_ref())?;
        Ok(Pack {
            file: Arc::new(file),
            length: length + trailer.as_ref().len() as u64,
            #[cfg(test)]
            objects,
            few: self.few.map(Into::into),
        })
    }
}

impl Pack {
    /// The number of bytes.
    pub(super) fn len(&self) -> u64 {
        self.length
    }

    /// The number of objects.
    #[cfg(test)]
    pub(super) fn objects(&self) -> u32 {
        self.objects
    }

    /// Some bytes at an offset, or nothing at the end.
    pub(super) fn piece(&self, offset: u64) -> io::Result<Option<Bytes>> {
        let left = self.length.saturating_sub(offset);
        if left == 0 {
            return Ok(None);
        }
        let mut buffer = vec![0; PIECE.min(usize::try_from(left).unwrap_or(PIECE))];
        self.file.read_exact_at(&mut buffer, offset)?;
        Ok(Some(buffer.into()))
    }

    /// Stores the objects in an object database: few of them one by one, since every pack slows down
    /// all later look-ups, many of them as the pack they are.
    pub(super) fn store(&self, odb: &Odb<'_>) -> Result<(), GitError> {
        if let Some(few) = &self.few {
            for (kind, content) in few.iter() {
                odb.write(*kind, content)?;
            }
            return Ok(());
        }
        let mut writer = odb.packwriter()?;
        let mut offset = 0;
        while let Some(piece) = self.piece(offset)? {
            writer.write_all(&piece)?;
            offset += piece.len() as u64;
        }
        writer.commit()?;
        Ok(())
    }
}

/// The name of a file that is too large to be held in memory, and its length.
pub(super) fn name_of_large(
    pieces: impl Fn() -> Box<dyn Iterator<Item = Vec<u8>> + Send>,
) -> Result<(Oid, u64), GitError> {
    let length: u64 = pieces().map(|piece| piece.len() as u64).sum();
    let mut digest = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    digest.update(format!("blob {length}\0").as_bytes());
    for piece in pieces() {
        digest.update(&piece);
    }
    Ok((Oid::from_bytes(digest.finish().as_ref())?, length))
}

/// `after` as instructions on `before`: the common beginning, what is new, the common end.
fn difference(before: &[u8], after: &[u8]) -> Vec<u8> {
    let shorter = before.len().min(after.len());
    let head = before.iter().zip(after).take_while(|(a, b)| a == b).count();
    let tail = before[head..]
        .iter()
        .rev()
        .zip(after[head..].iter().rev())
        .take(shorter - head)
        .take_while(|(a, b)| a == b)
        .count();
    let mut delta = Vec::new();
    for length in [before.len(), after.len()] {
        let mut rest = length as u64;
        while rest > 0x7f {
            delta.push(low_bits(rest, 7) | 0x80);
            rest >>= 7;
        }
        delta.push(low_bits(rest, 7));
    }
    copy(&mut delta, 0, head);
    for literal in after[head..after.len() - tail].chunks(0x7f) {
        delta.push(low_bits(literal.len() as u64, 7));
        delta.extend_from_slice(literal);
    }
    copy(&mut delta, before.len() - tail, tail);
    delta
}

/// Instructions to copy a range, at most 65,535 bytes each. Offsets take four bytes at most.
fn copy(delta: &mut Vec<u8>, mut offset: usize, mut length: usize) {
    while length > 0 {
        let piece = length.min(0xffff);
        let at = delta.len();
        delta.push(0x80);
        for (bit, byte) in offset.to_le_bytes().into_iter().take(4).enumerate() {
            if byte != 0 {
                delta[at] |= 1 << bit;
                delta.push(byte);
            }
        }
        for (bit, byte) in piece.to_le_bytes().into_iter().take(2).enumerate() {
            if byte != 0 {
                delta[at] |= 0x10 << bit;
                delta.push(byte);
            }
        }
        offset += piece;
        length -= piece;
    }
}

/// The lowest bits of a number, at most seven.
fn low_bits(number: u64, bits: u32) -> u8 {
    u8::try_from(number & ((1 << bits) - 1)).expect("at most seven bits")
}

#[cfg(test)]
mod tests {
    use git2::Repository;
    use proptest::prelude::*;

    use super::*;

    fn repository() -> (tempfile::TempDir, Repository) {
        let directory = tempfile::tempdir().unwrap();
        let repository = Repository::init_bare(directory.path()).unwrap();
        (directory, repository)
    }

    #[test]
    fn git_reads_what_was_written() {
        for count in [1_usize, 3, FEW, FEW + 1, 500] {
            let (directory, repository) = repository();
            let mut writer = PackWriter::create(directory.path()).unwrap();
            let contents: Vec<Vec<u8>> = (0..count)
                .map(|n| format!("{n}").repeat(n * 7 % 300).into_bytes())
                .collect();
            let ids: Vec<Oid> = contents
                .iter()
                .map(|content| writer.add(ObjectType::Blob, content).unwrap())
                .collect();
            let pack = writer.finish().unwrap();
            pack.store(&repository.odb().unwrap()).unwrap();
            let fresh = Repository::open(directory.path()).unwrap();
            for (id, content) in ids.iter().zip(&contents) {
                assert_eq!(fresh.find_blob(*id).unwrap().content(), content);
            }
        }
    }

    #[test]
    fn a_large_object_is_sent_as_a_difference() {
        let (directory, repository) = repository();
        let odb = repository.odb().unwrap();
        let before: Vec<u8> = (0..200_000_u32)
            .flat_map(|n| (n * 7919).to_le_bytes())
            .collect();
        let mut after = before.clone();
        after.splice(300_000..300_010, *b"something new");
        let base = odb.write(ObjectType::Blob, &before).unwrap();
        let mut writer = PackWriter::create(directory.path()).unwrap();
        let id = writer
            .add_after(ObjectType::Blob, &after, Some((base, &before)))
            .unwrap();
        for n in 0..FEW {
            writer.add(ObjectType::Blob, &n.to_le_bytes()).unwrap();
        }
        let pack = writer.finish().unwrap();
        assert!(pack.len() < 3_000, "{}", pack.len());
        pack.store(&odb).unwrap();
        let fresh = Repository::open(directory.path()).unwrap();
        assert_eq!(fresh.find_blob(id).unwrap().content(), after);
    }

    #[test]
    fn a_large_file_is_never_held_as_a_whole() {
        let (directory, repository) = repository();
        let pieces = || -> Box<dyn Iterator<Item = Vec<u8>> + Send> {
            Box::new((0..100_u32).map(|n| n.to_string().repeat(1_000).into_bytes()))
        };
        let whole: Vec<u8> = pieces().flatten().collect();
        let (id, length) = name_of_large(pieces).unwrap();
        assert_eq!(id, Oid::hash_object(ObjectType::Blob, &whole).unwrap());
        let mut writer = PackWriter::create(directory.path()).unwrap();
        writer.add(ObjectType::Blob, b"before").unwrap();
        writer.add_large(id, length, pieces()).unwrap();
        let last = writer.add(ObjectType::Blob, b"after").unwrap();
        writer
            .finish()
            .unwrap()
            .store(&repository.odb().unwrap())
            .unwrap();
        let fresh = Repository::open(directory.path()).unwrap();
        assert_eq!(fresh.find_blob(id).unwrap().content(), whole);
        assert_eq!(fresh.find_blob(last).unwrap().content(), b"after");
    }

    /// Follows instructions as a server does.
    fn followed(before: &[u8], delta: &[u8]) -> Vec<u8> {
        let mut rest = delta;
        let mut take = || {
            let (first, others) = rest.split_first().unwrap();
            rest = others;
            *first
        };
        for _ in 0..2 {
            while take() & 0x80 != 0 {}
        }
        let mut out = Vec::new();
        while let Some((&code, others)) = rest.split_first() {
            rest = others;
            if code & 0x80 == 0 {
                let (literal, others) = rest.split_at(code.into());
                out.extend_from_slice(literal);
                rest = others;
                continue;
            }
            let mut number = |bits: std::ops::Range<u32>| {
                let mut value = 0;
                for bit in bits.clone() {
                    if code & (1 << bit) != 0 {
                        value |= usize::from(rest[0]) << ((bit - bits.start) * 8);
                        rest = &rest[1..];
                    }
                }
                value
            };
            let (offset, length) = (number(0..4), number(4..7));
            out.extend_from_slice(&before[offset..offset + length]);
        }
        out
    }

    proptest! {
        #[test]
        fn differences_lead_to_the_new_version(
            before in prop::collection::vec(0_u8..4, 0..400),
            cut in 0_usize..400,
            gone in 0_usize..50,
            new in prop::collection::vec(0_u8..4, 0..300),
        ) {
            let mut after = before.clone();
            let cut = cut.min(after.len());
            let end = (cut + gone).min(after.len());
            after.splice(cut..end, new);
            prop_assert_eq!(followed(&before, &difference(&before, &after)), after);
        }
    }
}
