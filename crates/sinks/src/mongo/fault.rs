//! What a server says when it says no.
//!
//! The class of a failure comes from its code. The server's sentence is never repeated: it may quote
//! a document, a user or a host. Code and the name of the code say what people search for.

use mongodb::error::{Error, ErrorKind};

use crate::{
    dial::socks::{Failure, Obstacle},
    error::SinkError,
};

/// A failure, and whether the same command may succeed a moment later.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: SinkError,
    pub(super) again: bool,
    /// Of the server.
    pub(super) code: Option<i32>,
}

impl From<SinkError> for Fault {
    fn from(error: SinkError) -> Self {
        Self {
            error,
            again: false,
            code: None,
        }
    }
}

/// Codes of servers.
pub(super) const UNAUTHORIZED: i32 = 13;
pub(super) const NAMESPACE_NOT_FOUND: i32 = 26;
pub(super) const NAMESPACE_EXISTS: i32 = 48;
pub(super) const DUPLICATE_KEY: i32 = 11_000;
pub(super) const INVALID_DOCUMENT: i32 = 121;
const AUTHENTICATION_FAILED: i32 = 18;
/// The document is too large for the server, by its own count.
pub(super) const TOO_LARGE: [i32; 3] = [10_334, 17_419, 17_420];

/// What a failed call means. `obstacle` is what the guarded door last met.
pub(super) fn fault(stage: &str, error: &Error, obstacle: Option<Failure>) -> Fault {
    match &*error.kind {
        ErrorKind::Authentication { .. } => Fault::from(unauthenticated()),
        ErrorKind::Command(command) if command.code == AUTHENTICATION_FAILED => {
            Fault::from(unauthenticated())
        }
        ErrorKind::Command(command) => Fault {
            error: classed(
                command.code,
                sentence(stage, command.code, &command.code_name),
            ),
            again: heals_at_once(command.code),
            code: Some(command.code),
        },
        ErrorKind::Io(_) | ErrorKind::ConnectionPoolCleared { .. } => Fault {
            error: met(stage, obstacle),
            again: true,
            code: None,
        },
        ErrorKind::ServerSelection { .. }
        | ErrorKind::ProxyConnect { .. }
        | ErrorKind::DnsResolve { .. } => Fault::from(met(stage, obstacle)),
        ErrorKind::InvalidArgument { .. }
        | ErrorKind::IncompatibleServer { .. }
        | ErrorKind::SessionsNotSupported => Fault::from(SinkError::terminal(format!(
            "{stage}: the server is too old or cannot do what a sink needs; use MongoDB 5.0 or newer"
        ))),
        _ => Fault::from(SinkError::transient(format!(
            "{stage}: the server's answer is not what was asked for"
        ))),
    }
}

/// Wrong credentials. Repeating them would only lock the user, so nothing is tried until they
/// change or a probe finds them right.
fn unauthenticated() -> SinkError {
    SinkError::terminal(
        "mongodb connect: authentication failed; correct the connection string in the Secret \
         (user, password, authSource), or the user at the server: exports go on when the Secret \
         changes or a probe succeeds",
    )
}

/// Why there is no connection. Nothing of the connection string is in the text, nor a host that
/// a server named.
pub(super) fn met(stage: &str, obstacle: Option<Failure>) -> SinkError {
    let Some(Failure {
        host,
        obstacle,
        error,
    }) = obstacle
    else {
        return SinkError::transient(format!("{stage}: connection failed"));
    };
    match obstacle {
        Obstacle::Network => SinkError::transient(format!("{stage}: connection failed")),
        Obstacle::Policy => SinkError::terminal(format!(
            "{stage}: connection failed: the address policy forbids the address of a server; the operator's \
             administrator can open it with --allow-sink-networks, --allow-sink-hosts or --allow-private-sinks"
        )),
        Obstacle::Tls | Obstacle::Server => error
            .map_message(|text| {
                let normal = kollect_api::address::normalize(&host);
                text.replace(&format!("{host:?}"), "the server")
                    .replace(&format!("{normal:?}"), "the server")
            })
            .at(&format!("{stage}: connection failed")),
    }
}

/// The class of a code.
pub(super) fn classed(code: i32, text: String) -> SinkError {
    match code {
        // Somebody may grant it any time, and nothing here has to change for that.
        UNAUTHORIZED | 8_000 => SinkError::Forbidden(text),
        // Values and names that the server refuses, validators, unique keys, documents that an
        // index cannot take; commands that it does not know.
        2 | 9 | 14 | 20 | 22 | 52 | 59 | 67 | 72 | 73 | 85 | 86 | 100 | 115 | INVALID_DOCUMENT
        | 166 | 197 | 238 | DUPLICATE_KEY | 10_334 | 16_755 | 17_280 | 17_419 | 17_420 | 40_324
        | 40_415 => SinkError::Terminal(text),
        _ => SinkError::Transient(text),
    }
}

/// Whether a command that failed like this may be repeated at once: connections of the server's
/// own that broke, a primary that is one no longer, a server that shuts down.
fn heals_at_once(code: i32) -> bool {
    matches!(
        code,
        6 | 7
            | 89
            | 91
            | 112
            | 189
            | 262
            | 9_001
            | 10_058
            | 10_107
            | 11_600
            | 11_602
            | 13_435
            | 13_436
    )
}

/// Whether a write that the server could not confirm may be repeated at once.
pub(super) fn unconfirmed_heals(code: i32) -> bool {
    heals_at_once(code)
}

pub(super) fn sentence(stage: &str, code: i32, name: &str) -> String {
    let said = match code {
        UNAUTHORIZED => "the user may not do this; grant readWrite on the database",
        DUPLICATE_KEY => "a unique index has the key already",
        INVALID_DOCUMENT => "document validation failed",
        50 | 262 => "the server took too long",
        64 | 100 => "a majority of the replica set did not confirm the write",
        14_031 => "the server's disk is full",
        _ => "the server refuses",
    };
    // The server may write there whatever it likes.
    let plausible = name.len() <= 48 && name.chars().all(|c| c.is_ascii_alphanumeric());
    match name {
        "" => format!("{stage}: {said} (code {code})"),
        name if plausible => format!("{stage}: {said} (code {code} {name})"),
        _ => format!("{stage}: {said} (code {code})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_codes() {
        for (codes, class) in [
            (&[121, 11_000, 2, 9, 73, 17_420, 100][..], "terminal"),
            (&[13, 8_000], "forbidden"),
            (
                &[10_107, 91, 50, 64, 112, 189, 14_031, 1, 0, -7, 987_654],
                "transient",
            ),
        ] {
            for code in codes {
                let found = match classed(*code, String::new()) {
                    SinkError::Transient(_) => "transient",
                    SinkError::Terminal(_) => "terminal",
                    SinkError::Forbidden(_) => "forbidden",
                    SinkError::OutOfStep(_) => "out of step",
                };
                assert_eq!(found, class, "{code}");
            }
        }
    }

    #[test]
    fn names_of_codes_are_not_believed_blindly() {
        assert!(sentence("s", 1, "InternalError").contains("InternalError"));
        for name in ["see http://evil", "a b", "\u{1b}[31m", &"x".repeat(49)] {
            assert_eq!(sentence("s", 1, name), "s: the server refuses (code 1)");
        }
    }

    #[test]
    fn hosts_are_not_named() {
        let failure = |obstacle, text: &str| Failure {
            host: "DB.example".to_owned(),
            obstacle,
            error: SinkError::terminal(text),
        };
        for (obstacle, text) in [
            (
                Obstacle::Network,
                "dial sink host \"DB.example\": 10.0.0.1:1: refused",
            ),
            (
                Obstacle::Policy,
                "sink host \"db.example\" resolved to 10.0.0.1",
            ),
            (
                Obstacle::Tls,
                "the certificate of \"db.example\" is not signed",
            ),
        ] {
            let said = met("mongodb ping", Some(failure(obstacle, text)))
                .message()
                .to_owned();
            assert!(!said.to_lowercase().contains("db.example"), "{said}");
            assert!(!said.contains("10.0.0.1"), "{said}");
        }
    }
}
