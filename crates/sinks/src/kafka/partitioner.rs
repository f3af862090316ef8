//! Which partition a key belongs to: as the Java client says, so that joins with other topics work.

/// The partition of a key among so many.
pub(super) fn partition(key: &[u8], partitions: usize) -> usize {
    // The sign is cut off, not turned.
    (murmur2(key) & 0x7fff_ffff) as usize % partitions.max(1)
}

/// MurmurHash2 with the seed of the Java client.
fn murmur2(data: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = 0x9747_b28c ^ length;
    let (words, rest) = data.as_chunks::<4>();
    for word in words {
        let mut k = u32::from_le_bytes(*word).wrapping_mul(M);
        k ^= k >> 24;
        hash = hash.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the Java client's own tests use, and some of `Utils.murmur2` of
    /// kafka-clients 4.1.0.
    #[test]
    fn agrees_with_the_java_client() {
        for line in include_str!("../../tests/data/kafka/murmur2.csv").lines() {
            let (key, hash) = line.rsplit_once(',').unwrap();
            let hash: i32 = hash.parse().unwrap();
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn partitions_are_never_negative() {
        // Its hash is negative.
        assert!(murmur2(b"21").cast_signed() < 0);
        assert_eq!(partition(b"21", 10), 0);
        assert_eq!(partition(b"anything", 1), 0);
        assert_eq!(partition(b"anything", 0), 0);
    }
}
