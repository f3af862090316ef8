//! A pack on its way from a server into a mirror: first into a file without a name, as fast or slow
//! as the network brings it, then into the object database in one go.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{Read as _, Seek as _, SeekFrom, Write as _},
};

use git2::Oid;

use super::{
    error::GitError,
    incoming::Inspection,
    limits::FetchLimits,
    mirror::Mirror,
    protocol::Fetched,
    workers::{blocking, blocking_large},
};

/// How much is gathered before it is looked at and written.
const GATHERED: usize = 256 * 1024;
/// Packs that unpack to more than this are large.
const LARGE: u64 = 64 << 20;

/// A pack so far.
struct Spool {
    file: File,
    inspection: Inspection,
}

impl Spool {
    /// Takes the next bytes. Blocking.
    fn take(&mut self, bytes: &[u8]) -> Result<(), GitError> {
        self.inspection.take(bytes)?;
        Ok(self.file.write_all(bytes)?)
    }

    /// Puts the pack into the object database of a mirror. Blocking.
    fn store(mut self, mirror: &Mirror, shallow: &[Oid], tip: Oid) -> Result<(), GitError> {
        self.file.seek(SeekFrom::Start(0))?;
        let repository = mirror.open()?;
        let odb = repository.odb()?;
        let mut writer = odb.packwriter()?;
        let mut buffer = vec![0; GATHERED];
        loop {
            let read = self.file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            writer.write_all(&buffer[..read])?;
        }
        writer.commit()?;
        // Before the reference, so that a history without a beginning is never taken for broken.
        mirror.set_shallow(shallow)?;
        mirror.advance(&repository, tip)
    }
}

/// Takes a pack into the mirror. If it does not come whole, the mirror stays as it was.
pub(super) async fn receive(
    mirror: &Mirror,
    mut fetched: Fetched,
    tip: Oid,
    shallow: Vec<Oid>,
    limits: FetchLimits,
) -> Result<(), GitError> {
    let mut commits: BTreeSet<Oid> = shallow.into_iter().collect();
    for id in &fetched.unshallow {
        commits.remove(id);
    }
    commits.extend(&fetched.shallow);
    let shallow: Vec<Oid> = commits.into_iter().collect();

    let mut spool = Spool {
        file: tempfile::tempfile_in(mirror.path())?,
        inspection: Inspection::new(limits),
    };
    let mut gathered = Vec::new();
    loop {
        let piece = fetched.pack().await?;
        gathered.extend_from_slice(piece.as_deref().unwrap_or_default());
        if gathered.len() >= GATHERED || piece.is_none() {
            let bytes = std::mem::take(&mut gathered);
            // Not among the workers: how long this goes on is up to the server.
            let kept = mirror.clone();
            spool = tokio::task::spawn_blocking(move || {
                let _kept = kept;
                spool.take(&bytes).map(|()| spool)
            })
            .await
            .map_err(std::io::Error::other)??;
        }
        if piece.is_none() {
            break;
        }
    }
    spool.inspection.finish()?;
    let large = spool.inspection.unpacked() > LARGE;
    let store = move |mirror: &Mirror| spool.store(mirror, &shallow, tip);
    if large {
        blocking_large(mirror, store).await
    } else {
        blocking(mirror, store).await
    }
}
