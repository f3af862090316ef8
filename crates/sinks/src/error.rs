//! What can go wrong at a sink.
//!
//! The class decides what happens next, so it is part of the type; the text is for people. Texts
//! name stages, objects and fields, never collected values, credentials or the place of a server
//! that only a Secret knows.

/// Why a sink could not do what it was asked to.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SinkError {
    /// May heal by itself: network, time-out, overload, a server that restarts.
    #[error("{0}")]
    Transient(String),
    /// Needs a change by a person: wrong table, rejected credentials, an invalid setting.
    #[error("{0}")]
    Terminal(String),
    /// The backend denies access to what it knows; somebody may grant it any time.
    #[error("{0}")]
    Forbidden(String),
    /// The backend no longer holds what this sink last left there (its table was recreated, its
    /// repository replaced), so changes cannot be applied: the next delivery has to be a full one,
    /// at once.
    #[error("{0}")]
    OutOfStep(String),
}

impl SinkError {
    /// A failure that may heal by itself.
    pub fn transient(message: impl Into<String>) -> Self {
        SinkError::Transient(message.into())
    }

    /// A failure that needs a change.
    pub fn terminal(message: impl Into<String>) -> Self {
        SinkError::Terminal(message.into())
    }

    /// The text alone.
    pub fn message(&self) -> &str {
        let (SinkError::Transient(text)
        | SinkError::Terminal(text)
        | SinkError::Forbidden(text)
        | SinkError::OutOfStep(text)) = self;
        text
    }

    /// The same failure with another text.
    #[must_use]
    pub fn map_message(self, change: impl FnOnce(String) -> String) -> Self {
        match self {
            SinkError::Transient(text) => SinkError::Transient(change(text)),
            SinkError::Terminal(text) => SinkError::Terminal(change(text)),
            SinkError::Forbidden(text) => SinkError::Forbidden(change(text)),
            SinkError::OutOfStep(text) => SinkError::OutOfStep(change(text)),
        }
    }

    /// The same failure with a stage in front, such as `postgres upsert`.
    #[must_use]
    pub fn at(self, stage: &str) -> Self {
        self.map_message(|text| format!("{stage}: {text}"))
    }
}
