//! What can go wrong between a sink and its brokers, with the class that each means.

use std::{io, time::Duration};

use super::{
    code::{Code, Meaning},
    sasl::Misstep,
    settings::Broker,
};
use crate::error::SinkError;

/// Why a request has no good answer.
#[derive(Debug)]
pub(super) enum Fault {
    /// No connection, or not with whom it should be. Has its class already.
    Connect(SinkError),
    /// The broker's part of a login is worth nothing.
    Misstep(Misstep),
    /// The broker refuses who we are.
    Login { broker: Broker, code: Code },
    /// The broker knows other ways to log in.
    Mechanism {
        offered: Vec<String>,
        wanted: &'static str,
    },
    /// The broker hung up when it was asked how to log in.
    NoSasl { broker: Broker },
    /// The connection ended.
    Broken { broker: Broker, error: io::Error },
    /// No answer in time.
    Silent { broker: Broker, limit: Duration },
    /// An answer that makes no sense.
    Garbled { broker: Broker },
    /// A partition has no leader at the moment, or nobody knows it.
    NoLeader { partition: i32 },
    /// The broker said no.
    Refused(Code),
}

impl Fault {
    /// Whether it is no use to ask another broker the same.
    pub(super) fn is_final(&self) -> bool {
        match self {
            Fault::Connect(error) => matches!(error, SinkError::Terminal(_)),
            Fault::Login { .. } | Fault::Mechanism { .. } | Fault::Misstep(_) => true,
            _ => false,
        }
    }

    /// Whether a connection that had been used before may be to blame: brokers close idle ones.
    pub(super) fn is_stale_connection(&self) -> bool {
        matches!(self, Fault::Broken { .. })
    }

    /// For people, with the class that decides what happens next. `topic` is the sink's.
    pub(super) fn explain(self, stage: &str, topic: &str) -> SinkError {
        match self {
            Fault::Connect(error) => error.at("kafka connect"),
            Fault::Misstep(misstep) => misstep.into(),
            Fault::Login { broker, code } if code.meaning() == Meaning::Wrong => {
                SinkError::terminal(format!(
                    "kafka SASL: broker {broker} rejects the credentials: {code}; check username, password \
                     and spec.kafka.saslMechanism"
                ))
            }
            Fault::Login { broker, code } => SinkError::transient(format!(
                "kafka SASL: broker {broker} could not check the credentials: {code}"
            )),
            Fault::Mechanism { offered, wanted } => SinkError::terminal(format!(
                "kafka SASL: the broker does not offer {wanted}, but {}; set \
                 spec.kafka.saslMechanism",
                listed(&offered)
            )),
            Fault::NoSasl { broker } => SinkError::transient(format!(
                "kafka SASL: broker {broker} hung up when it was asked how to log in; if it goes on, its \
                 listener may want TLS (spec.tls) or no login at all"
            )),
            Fault::Broken { broker, error } => SinkError::transient(format!(
                "broker {broker} ended the connection: {error}; if it goes on, its listener may want TLS \
                 (spec.tls) or a login (spec.kafka.secretRef)"
            ))
            .at(stage),
            Fault::Silent { broker, limit } => SinkError::transient(format!(
                "no answer of broker {broker} within {} s",
                limit.as_secs()
            ))
            .at(stage),
            Fault::Garbled { broker } => SinkError::transient(format!(
                "broker {broker} sent an answer that cannot be read; check that it is a Kafka broker of \
                 version 2.4 or later, and whether its listener wants TLS (spec.tls)"
            ))
            .at(stage),
            Fault::NoLeader { partition } => SinkError::transient(format!(
                "partition {partition} of topic {topic:?} has no leader at the moment"
            ))
            .at(stage),
            Fault::Refused(code) => refused(code, topic).at(stage),
        }
    }
}

fn refused(code: Code, topic: &str) -> SinkError {
    match code.meaning() {
        Meaning::NoTopic => SinkError::terminal(format!(
            "topic {topic:?} does not exist; create it, or set provisioning.mode to ensure"
        )),
        Meaning::Forbidden => SinkError::Forbidden(format!(
            "topic {topic:?}: {code}; grant the sink's user Write and Describe on it (and Create for \
             provisioning.mode ensure)"
        )),
        Meaning::Wrong | Meaning::TooLarge => {
            SinkError::terminal(format!("topic {topic:?}: {code}"))
        }
        _ => SinkError::transient(format!("topic {topic:?}: {code}")),
    }
}

/// A few words of a broker, which may send any number of any length.
fn listed(words: &[String]) -> String {
    let words: Vec<String> = words
        .iter()
        .take(8)
        .map(|word| {
            word.chars()
                .filter(char::is_ascii_graphic)
                .take(32)
                .collect()
        })
        .collect();
    words.join(", ")
}
