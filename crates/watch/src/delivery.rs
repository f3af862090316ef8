//! What a consumer is told, and in which order.

use std::future::Future;
use std::time::Duration;

use super::decode::DecodeError;
use super::identity::ObjectIdentity;

/// Takes what a source delivers.
///
/// A source waits for each delivery to be taken before it reads on, so a slow consumer slows the
/// stream instead of filling memory. A delivery in progress is always finished, also when the
/// source is stopped: a consumer that can block without end has to notice the stop itself.
pub trait Consumer<T>: Send + 'static {
    /// Takes one delivery.
    fn take(&mut self, delivery: WatchDelivery<T>) -> impl Future<Output = ()> + Send;
}

/// One step of what happens in the cluster, as far as one source sees it.
///
/// The contract, with rows as what the consumer keeps of objects:
///
/// * [`ListingStarted`](Self::ListingStarted) begins a new generation. Rows stay; those whose
///   object does not come again are swept at [`ListingFinished`](Self::ListingFinished). A
///   listing that breaks off starts again, and only the last start counts.
/// * Between listings every change arrives once and in the order of the API server. After an
///   interruption some may arrive again.
/// * Rows are complete from the first [`ListingFinished`](Self::ListingFinished) on, and again
///   after each later one.
/// * After an interruption of the class [`Forbidden`](InterruptionClass::Forbidden) or
///   [`NotInstalled`](InterruptionClass::NotInstalled) the next thing is a listing, so a consumer may drop
///   its rows then. After all others rows are to be kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchDelivery<T> {
    /// A listing begins to arrive.
    ListingStarted,
    /// An object exists in this state.
    Object(T),
    /// An object does not exist any more, or stopped to match the label selector.
    Gone {
        /// Which object.
        identity: ObjectIdentity,
        /// The version of its deletion.
        resource_version: String,
    },
    /// An object exists, but nothing is known of its state.
    Unreadable(Unreadable),
    /// All objects have been delivered.
    ListingFinished {
        /// The state of the cluster that is now complete.
        resource_version: String,
    },
    /// Everything up to this version has been delivered.
    Progress {
        /// The version.
        resource_version: String,
    },
    /// Nothing arrives for now.
    Interrupted(Interruption),
    /// Changes arrive again after an interruption, if need be after a listing.
    Resumed,
}

/// An object that could not be decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which object, where even that could be read.
    pub identity: Option<ObjectIdentity>,
    /// Why.
    pub error: DecodeError,
}

/// Why nothing arrives, and until when.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interruption {
    /// What sort of trouble it is.
    pub class: InterruptionClass,
    /// When the source tries again.
    pub retry_in: Duration,
    /// How many tries in a row have failed. One refusal can be an API server that has not loaded
    /// its roles yet; several are an answer.
    pub failures: u32,
    /// What the API server or the network said. Holds nothing of any object.
    pub message: String,
}

/// The sorts of trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InterruptionClass {
    /// 403: the right to list or watch is missing.
    Forbidden,
    /// 401: the API server does not know who asks. Says nothing about rights.
    Unauthenticated,
    /// 404: the API server has no such resource.
    NotInstalled,
    /// 410: the history that would be needed to go on is gone; a new listing follows.
    Expired,
    /// 429: the API server wants fewer requests.
    Throttled,
    /// 5xx, or no answer at all.
    Unavailable,
    /// Any other answer that a repetition will hardly change.
    Rejected,
    /// The answer could not be understood; a new listing follows.
    Garbled,
}

impl InterruptionClass {
    /// A word for labels and logs.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Forbidden => "forbidden",
            Self::Unauthenticated => "unauthenticated",
            Self::NotInstalled => "not_installed",
            Self::Expired => "expired",
            Self::Throttled => "throttled",
            Self::Unavailable => "unavailable",
            Self::Rejected => "rejected",
            Self::Garbled => "garbled",
        }
    }
}
