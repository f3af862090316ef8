//! What makes sending rows unnecessary that are there already: digests by shard.
//!
//! The server adds up a hash of key and content of every row, by shard ([`Digests`]); this process
//! adds up a hash of its own of the rows that it delivered ([`Contents`]). Neither can compute the
//! other's, but whenever a delivery has left a shard with a content, both are known, and what
//! belongs together once belongs together for ever ([`Known`]): whatever failed, restarted or was
//! restored since, a shard whose two numbers are those again needs no rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher as _, RandomState},
};

use kollect_inventory::Row;

/// The digits that tell shards apart; any other character counts as none of them.
pub(super) const DIGITS: &str = "0123456789abcdef";
/// What the place of a digit, counted from one, is multiplied with.
pub(super) const BASE: u16 = 17;

/// The shard of a row, by the last two characters of its uid. The server computes the same
/// (`sql/digest.rs`).
fn shard(uid: &str) -> u16 {
    let place = |character: Option<char>| match character {
        // As the server finds nothing at the beginning of everything.
        None => 1,
        Some(digit) => DIGITS
            .find(digit)
            .and_then(|at| u16::try_from(at + 1).ok())
            .unwrap_or(0),
    };
    let mut backwards = uid.chars().rev();
    let last = backwards.next();
    let before = backwards.next().or(last);
    BASE * place(before) + place(last)
}

/// The shard of a row.
pub(super) fn shard_of(row: &Row) -> u16 {
    shard(&row.uid().text())
}

/// What the server says of one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Digest {
    rows: i64,
    hash: i128,
}

/// What the server says of a partition, by shard. Empty shards are not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Digests(BTreeMap<u16, Digest>);

impl Digests {
    /// Reads `shard:rows:hash,…`. Nothing if it is anything else: servers answer with whatever they
    /// like.
    pub(super) fn read(text: &str) -> Option<Self> {
        let mut digests = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let mut numbers = part.split(':');
            let number = numbers.next()?.parse().ok()?;
            let rows = numbers.next()?.parse().ok()?;
            let hash = numbers.next()?.parse().ok()?;
            digests.add(number, Digest { rows, hash });
        }
        Some(digests)
    }

    fn add(&mut self, shard: u16, change: Digest) {
        let digest = self.0.entry(shard).or_default();
        digest.rows = digest.rows.wrapping_add(change.rows);
        digest.hash = digest.hash.wrapping_add(change.hash);
        if *digest == Digest::default() {
            self.0.remove(&shard);
        }
    }

    /// Follows changes.
    pub(super) fn follow(&mut self, changes: &Self) {
        for (shard, change) in &changes.0 {
            self.add(*shard, *change);
        }
    }

    /// How many rows there are.
    pub(super) fn rows(&self) -> i64 {
        let rows = self.0.values().map(|digest| digest.rows);
        rows.fold(0, i64::saturating_add)
    }
}

/// What rows are to this process, by shard: sums of their hashes. A sum of zero is not in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Contents(BTreeMap<u16, u64>);

/// Hashes rows: equal for equal ones, in one process.
#[derive(Debug, Default)]
pub(super) struct RowNumbers(RandomState);

impl RowNumbers {
    fn number(&self, row: &Row) -> u64 {
        let origin = row.origin();
        self.0.hash_one((
            origin.target_namespace(),
            origin.target_name(),
            origin.namespace(),
            (origin.group(), origin.version(), origin.kind()),
            (row.name(), row.uid()),
            row.content_hash(),
        ))
    }

    /// What these rows are.
    pub(super) fn contents<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> Contents {
        let mut contents = Contents::default();
        for row in rows {
            contents.add(shard_of(row), self.number(row));
        }
        contents
    }

    /// What is left after some rows went and some came.
    pub(super) fn follow<'r>(
        &self,
        contents: &mut Contents,
        gone: impl Iterator<Item = &'r Row>,
        come: impl Iterator<Item = &'r Row>,
    ) {
        for row in gone {
            contents.add(shard_of(row), self.number(row).wrapping_neg());
        }
        for row in come {
            contents.add(shard_of(row), self.number(row));
        }
    }
}

impl Contents {
    fn add(&mut self, shard: u16, change: u64) {
        let sum = self.0.entry(shard).or_default();
        *sum = sum.wrapping_add(change);
        if *sum == 0 {
            self.0.remove(&shard);
        }
    }
}

/// Numbers that belong together: what this process delivered, and what the server made of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) contents: Contents,
    pub(super) digests: Digests,
}

impl Known {
    /// The shards that have to be sent, if the server has these digests and shall have this content.
    pub(super) fn differing(&self, digests: &Digests, contents: &Contents) -> BTreeSet<u16> {
        let shards = self.digests.0.keys().chain(self.contents.0.keys());
        let shards = shards.chain(digests.0.keys()).chain(contents.0.keys());
        shards
            .copied()
            .filter(|shard| {
                self.digests.0.get(shard) != digests.0.get(shard)
                    || self.contents.0.get(shard) != contents.0.get(shard)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_told_by_the_last_two_characters() {
        for (uid, expected) in [
            ("0e4c3f0a-4f63-4c5e-9b0e-2b1f0c9d8e7f", 17 * 8 + 16),
            ("00", 17 + 1),
            ("ff", 17 * 16 + 16),
            ("a", 17 * 11 + 11),
            ("", 17 + 1),
            ("uid-x7", 8),
            ("uid-7x", 17 * 8),
            ("FF", 0),
            ("ünï", 0),
        ] {
            assert_eq!(shard(uid), expected, "{uid:?}");
        }
    }

    #[test]
    fn what_servers_answer_is_read_or_refused() {
        let read = |text: &str| Digests::read(text).map(|digests| digests.0);
        assert_eq!(read(""), Some(BTreeMap::new()));
        let digest = |rows, hash| Digest { rows, hash };
        assert_eq!(
            read("3:2:-18446744073709551614,288:1:7"),
            Some(BTreeMap::from([
                (3, digest(2, -18_446_744_073_709_551_614)),
                (288, digest(1, 7)),
            ]))
        );
        for nonsense in ["x", "1", "1:2", "1:2:x", "-1:2:3", "70000:1:1", "1:2:1e9"] {
            assert_eq!(read(nonsense), None, "{nonsense}");
        }
        assert_eq!(Digests::read("1:2:3,4:5:6").unwrap().rows(), 7);
    }

    #[test]
    fn only_shards_that_differ_here_or_there_are_sent() {
        let contents = |pairs: &[(u16, u64)]| Contents(pairs.iter().copied().collect());
        let digests = |text: &str| Digests::read(text).unwrap();
        let known = Known {
            contents: contents(&[(1, 10), (2, 20), (3, 30)]),
            digests: digests("1:1:100,2:1:200,3:1:300"),
        };
        for (there, here, expected) in [
            (
                "1:1:100,2:1:200,3:1:300",
                &[(1, 10), (2, 20), (3, 30)][..],
                &[][..],
            ),
            (
                "1:1:101,2:1:200,3:1:300",
                &[(1, 10), (2, 20), (3, 30)],
                &[1],
            ),
            (
                "1:1:100,2:1:200,3:1:300",
                &[(1, 10), (2, 21), (3, 30)],
                &[2],
            ),
            ("1:1:100,2:1:200", &[(1, 10), (2, 20), (3, 30)], &[3]),
            ("1:1:100,2:1:200,3:1:300", &[(1, 10), (2, 20)], &[3]),
            (
                "1:1:100,2:1:200,3:1:300,9:1:1",
                &[(1, 10), (2, 20), (3, 30)],
                &[9],
            ),
            ("", &[], &[1, 2, 3]),
        ] {
            let found = known.differing(&digests(there), &contents(here));
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{there}");
        }
    }

    #[test]
    fn digests_follow_changes() {
        let mut digests = Digests::read("1:2:30,2:1:5").unwrap();
        digests.follow(&Digests::read("1:-1:-10,2:-1:-5,7:1:-3").unwrap());
        assert_eq!(digests, Digests::read("1:1:20,7:1:-3").unwrap());
    }
}
