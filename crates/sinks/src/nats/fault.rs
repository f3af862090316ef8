//! What can go wrong at a NATS server, and what it means.

use crate::error::SinkError;

/// Why something did not go well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Fault {
    /// The connection is gone.
    Lost,
    /// No answer within a time.
    Silent,
    /// The server does not allow it to this user. The text is the server's: it names the subject.
    Denied(String),
    /// Nobody listens: no stream has the subject, or there is no JetStream.
    Nobody,
    /// JetStream says no.
    Refused(Refusal),
    /// Something that was sent cannot be understood.
    Garbled(String),
    /// It is known already what it means.
    Known(SinkError),
}

/// What JetStream says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Its number of this kind of error.
    pub(super) code: u64,
    /// Its words.
    pub(super) text: String,
}

/// Numbers of JetStream.
pub(super) mod code {
    pub(crate) const STREAM_NAME_IN_USE: u64 = 10_058;
    pub(crate) const STREAM_NOT_FOUND: u64 = 10_059;
    pub(crate) const SUBJECTS_OVERLAP: u64 = 10_065;
    pub(crate) const WRONG_LAST_SEQUENCE: u64 = 10_071;
    pub(crate) const NO_MESSAGE: u64 = 10_037;
    /// The stream is of a kind that has no readers like ours (a work queue), or has as many as it may.
    pub(crate) const NO_READERS: [u64; 5] = [10_026, 10_084, 10_099, 10_100, 10_101];
    /// Errors that stay until somebody changes something: no JetStream for the account, the message
    /// too large for the stream, the stream sealed, a name or configuration that is not valid.
    pub(super) const TERMINAL: [u64; 7] = [
        10_039, // JetStream is not enabled for the account
        10_076, // JetStream is not enabled
        10_054, // the message is larger than the stream takes
        10_109, // the stream is sealed
        10_052, // the configuration is not valid
        10_060, // the name does not match the subject
        10_035, // JetStream is required
    ];
}

impl Fault {
    /// What it means for a sink, at some stage.
    pub(super) fn at(self, stage: &str) -> SinkError {
        let error = match self {
            Fault::Lost => SinkError::transient("the connection to the server was lost"),
            Fault::Silent => SinkError::transient("the server does not answer in time"),
            Fault::Denied(text) => SinkError::Forbidden(format!(
                "the server does not allow it to this user ({text}); grant it, or use another user"
            )),
            Fault::Nobody => SinkError::transient(
                "nobody answers: the server has no JetStream for this account, or no stream with the subject",
            ),
            Fault::Refused(Refusal { code, text }) => {
                let text = format!("JetStream says {text:?} ({code})");
                if code::TERMINAL.contains(&code) {
                    SinkError::terminal(text)
                } else {
                    SinkError::transient(text)
                }
            }
            Fault::Garbled(text) => {
                SinkError::transient(format!("the server's answer is not understood: {text}"))
            }
            Fault::Known(error) => error,
        };
        error.at(stage)
    }
}

impl From<SinkError> for Fault {
    fn from(error: SinkError) -> Self {
        Fault::Known(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes() {
        let refused = |code| {
            Fault::Refused(Refusal {
                code,
                text: "words".to_owned(),
            })
        };
        for (fault, expected) in [
            (Fault::Lost, "transient"),
            (Fault::Silent, "transient"),
            (Fault::Nobody, "transient"),
            (Fault::Denied("no".to_owned()), "forbidden"),
            (Fault::Garbled("no".to_owned()), "transient"),
            (refused(10_023), "transient"),
            (refused(10_077), "transient"),
            (refused(10_054), "terminal"),
            (refused(10_109), "terminal"),
            (Fault::Known(SinkError::terminal("x")), "terminal"),
        ] {
            let error = fault.at("nats publish");
            let class = match &error {
                SinkError::Transient(_) => "transient",
                SinkError::Terminal(_) => "terminal",
                SinkError::Forbidden(_) => "forbidden",
                SinkError::OutOfStep(_) => "out of step",
            };
            assert_eq!(class, expected, "{error}");
            assert!(error.message().starts_with("nats publish: "));
        }
    }
}
