//! What a broker answers when it does not do what it was asked to.

use std::fmt;

/// An error code of the protocol. Zero is no error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Code(pub(super) i16);

/// What to do about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// It passes: a leader moves, a replica is missing, the broker is busy.
    Passing,
    /// Another broker is meant; who leads has to be asked again.
    Elsewhere,
    /// Nobody knows whether it was done.
    Doubtful,
    /// What was sent is larger than the broker takes.
    TooLarge,
    /// The broker does not know the sender any more; a new number helps.
    Stranger,
    /// It was done before.
    Repeated,
    /// The topic is not there.
    NoTopic,
    /// Somebody has to grant it.
    Forbidden,
    /// Somebody has to change something.
    Wrong,
}

impl Code {
    pub(super) const NONE: Self = Self(0);
    pub(super) const OFFSET_OUT_OF_RANGE: Self = Self(1);
    pub(super) const TOPIC_ALREADY_EXISTS: Self = Self(36);
    pub(super) const SASL_AUTHENTICATION_FAILED: Self = Self(58);
    pub(super) const UNSUPPORTED_SASL_MECHANISM: Self = Self(33);

    pub(super) fn is_error(self) -> bool {
        self != Self::NONE
    }

    pub(super) fn check(self) -> Result<(), Self> {
        if self.is_error() { Err(self) } else { Ok(()) }
    }

    pub(super) fn meaning(self) -> Meaning {
        match self.0 {
            3 | 100 => Meaning::NoTopic,
            5 | 6 | 8 | 9 | 41 | 72 | 74 | 75 => Meaning::Elsewhere,
            7 | 13 | 20 => Meaning::Doubtful,
            10 | 18 => Meaning::TooLarge,
            45 | 47 | 59 | 49 => Meaning::Stranger,
            46 => Meaning::Repeated,
            29 | 30 | 31 | 53 | 65 => Meaning::Forbidden,
            17 | 32..=35 | 37..=40 | 42..=44 | 54 | 58 | 76 | 87 => Meaning::Wrong,
            _ => Meaning::Passing,
        }
    }

    fn name(self) -> &'static str {
        match self.0 {
            -1 => "UNKNOWN_SERVER_ERROR",
            1 => "OFFSET_OUT_OF_RANGE",
            2 => "CORRUPT_MESSAGE",
            3 => "UNKNOWN_TOPIC_OR_PARTITION",
            5 => "LEADER_NOT_AVAILABLE",
            6 => "NOT_LEADER_OR_FOLLOWER",
            7 => "REQUEST_TIMED_OUT",
            10 => "MESSAGE_TOO_LARGE",
            17 => "INVALID_TOPIC_EXCEPTION",
            18 => "RECORD_LIST_TOO_LARGE",
            19 => "NOT_ENOUGH_REPLICAS",
            20 => "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
            29 => "TOPIC_AUTHORIZATION_FAILED",
            31 => "CLUSTER_AUTHORIZATION_FAILED",
            33 => "UNSUPPORTED_SASL_MECHANISM",
            35 => "UNSUPPORTED_VERSION",
            36 => "TOPIC_ALREADY_EXISTS",
            37 => "INVALID_PARTITIONS",
            38 => "INVALID_REPLICATION_FACTOR",
            40 => "INVALID_CONFIG",
            44 => "POLICY_VIOLATION",
            45 => "OUT_OF_ORDER_SEQUENCE_NUMBER",
            47 => "INVALID_PRODUCER_EPOCH",
            56 => "KAFKA_STORAGE_ERROR",
            58 => "SASL_AUTHENTICATION_FAILED",
            59 => "UNKNOWN_PRODUCER_ID",
            76 => "UNSUPPORTED_COMPRESSION_TYPE",
            87 => "INVALID_RECORD",
            89 => "THROTTLING_QUOTA_EXCEEDED",
            _ => "",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            "" => write!(f, "error {}", self.0),
            name => write!(f, "{name} (error {})", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_lead_to_what_helps() {
        for (code, meaning) in [
            (3, Meaning::NoTopic),
            (6, Meaning::Elsewhere),
            (7, Meaning::Doubtful),
            (10, Meaning::TooLarge),
            (19, Meaning::Passing),
            (29, Meaning::Forbidden),
            (44, Meaning::Wrong),
            (45, Meaning::Stranger),
            (46, Meaning::Repeated),
            (58, Meaning::Wrong),
            (-1, Meaning::Passing),
            // What later versions may bring.
            (999, Meaning::Passing),
        ] {
            assert_eq!(Code(code).meaning(), meaning, "{code}");
        }
        assert_eq!(Code(10).to_string(), "MESSAGE_TOO_LARGE (error 10)");
        assert_eq!(Code(999).to_string(), "error 999");
    }
}
