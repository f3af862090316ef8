//! Record batches (version 2 of the format): what is written to partitions and read from them.

use super::{
    compression::Codec,
    wire::{In, Malformed, Out},
};

/// Bytes of a batch around its records.
pub(super) const OVERHEAD: usize = 61;
/// Bytes of a batch before what its checksum covers.
const BEFORE_CHECKSUM: usize = 17;
/// Marks a batch that the broker wrote for transactions.
const CONTROL: i16 = 0x20;

/// Headers of a record.
pub(super) type Headers = [(&'static str, String)];

/// Records on their way to one partition.
#[derive(Debug, Default)]
pub(super) struct Batch {
    records: Out,
    count: i32,
}

/// Who sends a batch, and as which of theirs; the broker recognises repeats by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) id: i64,
    pub(super) epoch: i16,
    pub(super) sequence: i32,
}

impl Stamp {
    /// Nobody in particular: repeats are not recognised.
    pub(super) const NOBODY: Self = Self {
        id: -1,
        epoch: -1,
        sequence: -1,
    };
}

impl Batch {
    pub(super) fn count(&self) -> i32 {
        self.count
    }

    /// Its size before it is compressed.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        OVERHEAD + self.records.0.len()
    }

    pub(super) fn push(&mut self, key: &str, value: Option<&[u8]>, headers: &Headers) {
        let mut record = Out::default();
        record.i8(0);
        // All records of a batch have its time.
        record.varint(0);
        record.varint(self.count.into());
        record.varbytes(Some(key.as_bytes()));
        record.varbytes(value);
        record.varint(i64::try_from(headers.len()).expect("a few headers"));
        for (name, value) in headers {
            record.varbytes(Some(name.as_bytes()));
            record.varbytes(Some(value.as_bytes()));
        }
        self.records.varbytes(Some(&record.0));
        self.count += 1;
    }

    /// The batch as it is sent. `time` is in milliseconds.
    pub(super) fn encode(self, codec: Codec, time: i64, stamp: Stamp) -> Vec<u8> {
        let count = self.count;
        let records = codec.pack(self.records.0);
        let mut body = Out::default();
        body.i16(codec as i16);
        body.i32(count - 1);
        body.i64(time);
        body.i64(time);
        body.i64(stamp.id);
        body.i16(stamp.epoch);
        body.i32(stamp.sequence);
        body.i32(count);
        body.0.extend(records);
        let mut batch = Out::default();
        batch.i64(0);
        batch.len(body.0.len() + 9);
        batch.i32(-1);
        batch.i8(2);
        batch.0.extend(crc32c::crc32c(&body.0).to_be_bytes());
        batch.0.extend(body.0);
        batch.0
    }
}

/// A record that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) key: Option<&'a [u8]>,
    pub(super) value: Option<&'a [u8]>,
    headers: Vec<(&'a [u8], Option<&'a [u8]>)>,
}

impl<'a> Record<'a> {
    /// The value of the last header with this name, if it is text.
    pub(super) fn header(&self, name: &str) -> Option<&'a str> {
        let named = |(known, _): &&(&[u8], _)| *known == name.as_bytes();
        let (_, value) = self.headers.iter().rev().find(named)?;
        std::str::from_utf8((*value)?).ok()
    }
}

/// Reads all complete batches of an answer and returns the offset after them; none if there was no
/// complete batch. A batch that is cut off at the end is left for the next time.
pub(super) fn read(
    mut bytes: &[u8],
    mut each: impl FnMut(&Record<'_>),
) -> Result<Option<i64>, Malformed> {
    let mut next = None;
    loop {
        let mut head = In(bytes);
        let (Ok(base), Ok(length)) = (head.i64(), head.i32()) else {
            return Ok(next);
        };
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        let Ok(batch) = head.take(length) else {
            return Ok(next);
        };
        bytes = head.0;
        next = Some(after(base, batch, &mut each)?);
    }
}

fn after(base: i64, batch: &[u8], each: &mut impl FnMut(&Record<'_>)) -> Result<i64, Malformed> {
    let mut head = In(batch);
    head.i32()?;
    if head.i8()? != 2 {
        // Written by a client of ten years ago, and so not by us.
        return base.checked_add(1).ok_or(Malformed);
    }
    let checksum = head.u32()?;
    debug_assert_eq!(batch.len() - head.0.len() + 12, BEFORE_CHECKSUM + 4);
    if crc32c::crc32c(head.0) != checksum {
        return Err(Malformed);
    }
    let attributes = head.i16()?;
    let last = head.i32()?;
    let next = base
        .checked_add(i64::from(last))
        .and_then(|last| last.checked_add(1))
        .filter(|_| last >= 0)
        .ok_or(Malformed)?;
    head.take(8 + 8 + 8 + 2 + 4)?;
    let count = head.i32()?;
    if attributes & CONTROL != 0 {
        return Ok(next);
    }
    let codec = Codec::of_attributes(attributes)?;
    let unpacked;
    let mut records = if codec == Codec::None {
        head
    } else {
        unpacked = codec.unpack(head.0)?;
        In(&unpacked)
    };
    for _ in 0..count {
        each(&record(records.varbytes()?.ok_or(Malformed)?)?);
    }
    Ok(next)
}

fn record(bytes: &[u8]) -> Result<Record<'_>, Malformed> {
    let mut rest = In(bytes);
    rest.i8()?;
    rest.varint()?;
    rest.varint()?;
    let (key, value) = (rest.varbytes()?, rest.varbytes()?);
    let mut headers = Vec::new();
    for _ in 0..rest.varint()? {
        headers.push((rest.varbytes()?.ok_or(Malformed)?, rest.varbytes()?));
    }
    Ok(Record {
        key,
        value,
        headers,
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn batch(records: &[(String, Option<Vec<u8>>)]) -> Batch {
        let mut batch = Batch::default();
        for (key, value) in records {
            let headers = [("Kollect-Event", "upsert".to_owned())];
            batch.push(key, value.as_deref(), &headers);
        }
        batch
    }

    fn keys(bytes: &[u8]) -> Result<(Vec<String>, Option<i64>), Malformed> {
        let mut keys = Vec::new();
        let next = read(bytes, |record| {
            let key = record.key.unwrap_or_default();
            keys.push(String::from_utf8_lossy(key).into_owned());
        })?;
        Ok((keys, next))
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            records in prop::collection::vec((".{0,20}", prop::option::of(prop::collection::vec(any::<u8>(), 0..200))), 1..40),
            codec in prop::sample::select(vec![Codec::None, Codec::Gzip, Codec::Snappy, Codec::Zstd]),
        ) {
            let full = batch(&records);
            let (size, count) = (full.size(), full.count());
            let bytes = full.encode(codec, 17, Stamp::NOBODY);
            prop_assert!(codec != Codec::None || bytes.len() == size);
            let mut found = Vec::new();
            let next = read(&bytes, |record| {
                let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                assert_eq!(record.header("Kollect-Event"), Some("upsert"));
                assert_eq!(record.header("Kollect-Hash"), None);
                found.push((key, record.value.map(<[u8]>::to_vec)));
            });
            prop_assert_eq!(found, records);
            prop_assert_eq!(next, Ok(Some(i64::from(count))));
        }

        #[test]
        fn nothing_a_broker_sends_is_fatal(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = keys(&bytes);
        }

        #[test]
        fn a_flipped_bit_is_noticed(at in 21_usize..90, bit in 0..8) {
            let records: Vec<_> = (0..3).map(|n| (format!("key-{n}"), Some(vec![7; 9]))).collect();
            let mut bytes = batch(&records).encode(Codec::None, 1, Stamp::NOBODY);
            bytes[at] ^= 1_u8 << bit;
            prop_assert_eq!(keys(&bytes), Err(Malformed));
        }
    }

    #[test]
    fn a_batch_that_is_cut_off_waits() {
        let one = batch(&[("a".to_owned(), None)]).encode(Codec::None, 1, Stamp::NOBODY);
        let two = [one.as_slice(), &one].concat();
        assert_eq!(
            keys(&two[..two.len() - 1]).unwrap(),
            (vec!["a".into()], Some(1))
        );
        assert_eq!(keys(&one[..30]).unwrap(), (vec![], None));
    }

    /// Compaction leaves batches without records, and transactions leave markers: both move on.
    #[test]
    fn empty_batches_and_markers_move_on() {
        let mut body = Out::default();
        body.i16(CONTROL);
        body.i32(4);
        body.0.extend([0; 30]);
        body.i32(1);
        let mut marker = Out::default();
        marker.i64(10);
        marker.len(body.0.len() + 9);
        marker.i32(0);
        marker.i8(2);
        marker.0.extend(crc32c::crc32c(&body.0).to_be_bytes());
        marker.0.extend(body.0);
        assert_eq!(keys(&marker.0).unwrap(), (vec![], Some(15)));
    }
}
