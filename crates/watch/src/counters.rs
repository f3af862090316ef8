//! What a source counts, for the operator to publish.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why all objects are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingCause {
    /// The source is new.
    Initial,
    /// The history needed to go on was gone.
    Expired,
    /// The listing before broke off.
    Unfinished,
    /// Somebody asked for it, as after a change of what is decoded.
    Requested,
    /// The right to read had been missing.
    Forbidden,
    /// The resource had not been installed.
    NotInstalled,
    /// The API server had rejected the request.
    Rejected,
    /// The stream could not be understood.
    Garbled,
}

impl ListingCause {
    /// All causes, in the order of the counters.
    pub const ALL: [Self; 8] = [
        Self::Initial,
        Self::Expired,
        Self::Unfinished,
        Self::Requested,
        Self::Forbidden,
        Self::NotInstalled,
        Self::Rejected,
        Self::Garbled,
    ];

    /// A word for labels and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Expired => "expired",
            Self::Unfinished => "unfinished",
            Self::Requested => "requested",
            Self::Forbidden => "forbidden",
            Self::NotInstalled => "not_installed",
            Self::Rejected => "rejected",
            Self::Garbled => "garbled",
        }
    }
}

/// Counts that only grow. Read at any time, from anywhere.
#[derive(Debug, Default)]
pub struct WatchCounters {
    reconnects: AtomicU64,
    listings: [AtomicU64; ListingCause::ALL.len()],
    events: AtomicU64,
    bytes: AtomicU64,
    unreadable: AtomicU64,
}

impl WatchCounters {
    /// Requests that had to be made because the one before ended.
    pub fn reconnects(&self) -> u64 {
        self.reconnects.load(Ordering::Relaxed)
    }

    /// Listings that were started for this cause.
    pub fn listings(&self, cause: ListingCause) -> u64 {
        self.listings[cause as usize].load(Ordering::Relaxed)
    }

    /// Objects and deletions that arrived, also those that could not be read.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Bytes of lists and streams that arrived.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Objects that could not be decoded.
    pub fn unreadable(&self) -> u64 {
        self.unreadable.load(Ordering::Relaxed)
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn listing(&self, cause: ListingCause) {
        self.listings[cause as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn event(&self) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn unread(&self) {
        self.unreadable.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_its_own_counter() {
        let counters = WatchCounters::default();
        for (count, cause) in ListingCause::ALL.into_iter().enumerate() {
            for _ in 0..count {
                counters.listing(cause);
            }
        }
        for (count, cause) in (0_u64..).zip(ListingCause::ALL) {
            assert_eq!(counters.listings(cause), count, "{}", cause.as_str());
        }
    }
}
