//! Sizes and deadlines of a source.

use std::time::Duration;

use super::backoff::{Backoff, about};

/// Sizes and deadlines. The defaults suit a cluster of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchSettings {
    /// How listings are asked for, where the API server leaves the choice.
    pub listing: ListingMode,
    /// Objects per page of a paged listing.
    pub page_size: u32,
    /// The largest object in bytes; larger ones are skipped and reported. The store of a
    /// Kubernetes API server takes objects of at most 1.5 MiB, but other servers can be behind it.
    pub object_limit: usize,
    /// How long the server keeps a stream open, give or take a quarter. Rights are checked when a
    /// stream is opened, so this also bounds how long a withdrawn right goes unnoticed.
    pub stream: Duration,
    /// The same for a stream that begins with a listing, which has to end in that time.
    pub listing_stream: Duration,
    /// How long a stream may be silent before it is taken for dead. Servers send a bookmark about
    /// every minute.
    pub silence: Duration,
    /// How long the server may take to begin an answer, or to continue a list.
    pub answer: Duration,
    /// Waits between failing tries.
    pub backoff: Backoff,
    /// About how long to wait where only a change of rights or an installation can help.
    pub slow_retry: Duration,
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            listing: ListingMode::Paged,
            page_size: 500,
            object_limit: 16 * 1024 * 1024,
            stream: Duration::from_mins(5),
            listing_stream: Duration::from_mins(40),
            silence: Duration::from_secs(150),
            answer: Duration::from_mins(1),
            backoff: Backoff::default(),
            slow_retry: Duration::from_secs(30),
        }
    }
}

/// Two ways to read all objects. Neither is ever held as a whole: pages are taken apart as they
/// arrive. An API server writes a page in little more than half the time it needs for the same
/// objects as single events, so pages are the default; a stream is what is left when pages expire
/// before they are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListingMode {
    /// As the beginning of the watch stream: the server sends from its cache and keeps no copy.
    Streamed,
    /// In pages, before the watch.
    Paged,
}

impl WatchSettings {
    /// The `timeoutSeconds` of a stream. Differs from stream to stream, so that streams opened
    /// together do not all end together.
    pub(super) fn stream_seconds(&self, with_listing: bool, random: f64) -> u64 {
        let duration = if with_listing {
            self.listing_stream
        } else {
            self.stream
        };
        about(duration, random).as_secs().max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_end_at_different_times() {
        let settings = WatchSettings::default();
        assert_eq!(settings.stream_seconds(false, 0.0), 225);
        assert_eq!(settings.stream_seconds(false, 1.0), 375);
        assert_eq!(settings.stream_seconds(true, 0.5), 2400);
        let hasty = WatchSettings {
            stream: Duration::ZERO,
            ..settings
        };
        assert_eq!(
            hasty.stream_seconds(false, 0.0),
            1,
            "0 would mean the server's default"
        );
    }
}
