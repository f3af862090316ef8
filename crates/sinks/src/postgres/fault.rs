//! What the server says when it says no.
//!
//! The class of a failure comes from its SQLSTATE. Its text is the server's own sentence where
//! that can only name objects of the schema; where it could quote a value, or the place and the
//! user of the connection, a fixed text stands instead.

use std::error::Error as _;

use rustls::CertificateError;
use tokio_postgres::error::{DbError, SqlState};

use super::wire::Breach;
use crate::{
    dial::{DialError, Obstacle},
    error::SinkError,
    redact::Redaction,
};

/// A failure, and what it means for the sink itself.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) error: SinkError,
    pub(super) meaning: Meaning,
}

/// What a failure means for the sink itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The connection is no more.
    Disconnected,
    /// The server runs, but takes no writes: somebody else is the primary now.
    ReadOnly,
    /// A table is not there.
    MissingTable,
    /// The unique key is another one than it was.
    OtherKey,
    /// The role lacks a right, perhaps on something that is not needed.
    Denied,
    /// Nothing more.
    Other,
}

impl From<SinkError> for Fault {
    fn from(error: SinkError) -> Self {
        Self {
            error,
            meaning: Meaning::Other,
        }
    }
}

impl Fault {
    /// A failed statement. `stage` says which.
    pub(super) fn at(stage: &str, error: &tokio_postgres::Error, redaction: &Redaction) -> Self {
        let Some(server) = error.as_db_error() else {
            // Causes name places, and values: they are not repeated.
            let what = if error.is_closed() || error.to_string().starts_with(COMMUNICATION) {
                "connection failed"
            } else {
                "the server's answer is not what was asked for"
            };
            return Self {
                error: SinkError::transient(format!("{stage}: {what}")),
                meaning: Meaning::Disconnected,
            };
        };
        let meaning = match *server.code() {
            SqlState::UNDEFINED_TABLE => Meaning::MissingTable,
            SqlState::INVALID_COLUMN_REFERENCE => Meaning::OtherKey,
            _ if is_standby(server) => Meaning::ReadOnly,
            SqlState::INSUFFICIENT_PRIVILEGE => Meaning::Denied,
            SqlState::ADMIN_SHUTDOWN
            | SqlState::CRASH_SHUTDOWN
            | SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT => Meaning::Disconnected,
            _ => Meaning::Other,
        };
        let text = format!("{stage}: {}", sentence(server, redaction));
        let error = match meaning {
            // The next attempt may find another one, or this one promoted.
            Meaning::ReadOnly => SinkError::Transient(text),
            _ => classed(sqlstate(server), text),
        };
        Self { error, meaning }
    }

    /// The same fault, of a server that went too far. It is not tried again at once, and needs a
    /// look by a person; a probe that succeeds opens the sink again.
    pub(super) fn by_breach(self, breach: Breach) -> Self {
        Self {
            error: SinkError::terminal(format!("{}: {breach}", self.error)),
            meaning: Meaning::Other,
        }
    }
}

/// How the driver's texts about a broken connection begin; it keeps the kinds of its errors to
/// itself.
const COMMUNICATION: &str = "error communicating with the server";

/// The code of an error, if it is one: the server may write there whatever it likes.
fn sqlstate(server: &DbError) -> &str {
    let code = server.code().code();
    let is_one = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_one { code } else { "unknown" }
}

/// Whether the server takes no writes because it follows another one. Asked to begin a transaction
/// that writes, it says so in words that depend on its language, under a code for everything that
/// is not supported; the place in its source does not depend on either.
fn is_standby(server: &DbError) -> bool {
    match *server.code() {
        SqlState::READ_ONLY_SQL_TRANSACTION => true,
        SqlState::FEATURE_NOT_SUPPORTED => {
            server.routine() == Some("call_bool_check_hook")
                || server.message().contains("recovery")
        }
        _ => false,
    }
}

/// The class of a SQLSTATE.
fn classed(code: &str, text: String) -> SinkError {
    match code {
        // Somebody may grant it any time, and nothing here has to change for that.
        "42501" => SinkError::Forbidden(text),
        // A parameter that cannot be set in a running session is a mistake in the configuration.
        "55P02" => SinkError::Terminal(text),
        _ => match code.get(..2) {
            // Values, constraints, login, database, schema, names and syntax; features that the
            // server does not have; limits that the next attempt meets again; triggers that object.
            Some("22" | "23" | "28" | "3D" | "3F" | "42" | "0A" | "54" | "P0") => {
                SinkError::Terminal(text)
            }
            // 08, 40, 53, 55, 57 and whatever else: connections, conflicts, resources, operators.
            _ => SinkError::Transient(text),
        },
    }
}

/// What the server said, if it can be repeated.
fn sentence(server: &DbError, redaction: &Redaction) -> String {
    let code = sqlstate(server);
    if is_standby(server) {
        return format!(
            "the server is a read-only standby (SQLSTATE {code}); give the address of the primary, or \
             those of all servers with target_session_attrs=read-write, in the connection string"
        );
    }
    match code.get(..2) {
        Some("22") => format!("the server refuses a value (SQLSTATE {code})"),
        Some("P0") => format!("a trigger or function of the database refuses the change (SQLSTATE {code})"),
        _ if code == "57014" => {
            "the server cancelled the statement; statement_timeout may be too short (SQLSTATE 57014)".to_owned()
        }
        _ => {
            let words = redaction.clean(server.message());
            // Line breaks and colours belong to a terminal, not into a sentence.
            let words = words.replace(char::is_control, " ");
            format!("{} (SQLSTATE {code})", cut(&words))
        }
    }
}

/// How much of a server's sentence is repeated. Its own are shorter.
const LONGEST_SENTENCE: usize = 1024;

fn cut(words: &str) -> String {
    if words.len() <= LONGEST_SENTENCE {
        return words.to_owned();
    }
    let end = words.floor_char_boundary(LONGEST_SENTENCE);
    format!("{}…", &words[..end])
}

const CONNECT: &str = "connect postgres";
const FAILED: &str = "connect postgres: connection failed";

/// Why there is no connection. Nothing of the connection string is in the text.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) error: SinkError,
    /// Encryption was in the way: the other way may work, if the mode allows it.
    pub(super) about_encryption: bool,
}

impl Refusal {
    fn new(error: SinkError) -> Self {
        Self {
            error,
            about_encryption: false,
        }
    }

    /// The server did not answer in time.
    pub(super) fn timeout() -> Self {
        Self::new(SinkError::transient(format!("{FAILED}: no answer in time")))
    }

    /// The server is a standby, and the string asks for another one.
    pub(super) fn not_writable() -> Self {
        Self::new(SinkError::transient(format!(
            "{FAILED}: no server takes writes now, as target_session_attrs asks"
        )))
    }

    /// The string says nothing that a login could be tried with.
    pub(super) fn no_user() -> Self {
        Self::new(SinkError::terminal(format!(
            "{FAILED}: the connection string has no user"
        )))
    }
}

impl From<DialError> for Refusal {
    fn from(error: DialError) -> Self {
        let obstacle = error.obstacle();
        let text = format!("{FAILED}: {}", obstacle.text());
        Self::new(match obstacle {
            Obstacle::Policy => SinkError::terminal(format!(
                "{text}; the operator's administrator can open it with --allow-sink-networks, \
                 --allow-sink-hosts or --allow-private-sinks"
            )),
            _ => SinkError::transient(text),
        })
    }
}

impl From<Breach> for Refusal {
    fn from(breach: Breach) -> Self {
        Self::new(SinkError::terminal(format!("{FAILED}: {breach}")))
    }
}

impl From<tokio_postgres::Error> for Refusal {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(breach) = causes(&error).find_map(|cause| cause.downcast_ref::<Breach>()) {
            return (*breach).into();
        }
        if let Some(server) = error.as_db_error() {
            return Self::by_server(server);
        }
        let certificate = causes(&error).find_map(|cause| match cause.downcast_ref() {
            Some(rustls::Error::InvalidCertificate(problem)) => Some(problem),
            _ => None,
        });
        if let Some(problem) = certificate {
            return Self::by_certificate(problem);
        }
        // The driver keeps its kinds to itself; its texts are the only way to tell them apart.
        match error.to_string().as_str() {
            "authentication error" | "invalid configuration" => Self::unauthenticated(),
            "error performing TLS handshake" => {
                let by_network = causes(&error).any(|cause| {
                    cause.downcast_ref::<rustls::Error>().is_none()
                        && cause
                            .downcast_ref::<std::io::Error>()
                            .is_some_and(|io| io.get_ref().is_none())
                });
                let text = format!("{FAILED}: the server does not speak TLS as sslmode asks");
                Self {
                    error: if by_network {
                        let text = "the connection ended during the TLS handshake";
                        SinkError::transient(format!("{FAILED}: {text}"))
                    } else {
                        SinkError::terminal(text)
                    },
                    about_encryption: true,
                }
            }
            _ => Self::new(SinkError::transient(format!(
                "{FAILED}: the connection ended before the login was complete"
            ))),
        }
    }
}

impl Refusal {
    /// Wrong credentials. Repeating them would only lock the role, so nothing is tried until they
    /// change or a probe finds them right.
    fn unauthenticated() -> Self {
        Self::new(SinkError::terminal(format!(
            "{CONNECT}: authentication failed; correct the connection string in the Secret, or the \
             role at the server: exports go on when the Secret changes or a probe succeeds"
        )))
    }

    fn by_server(server: &DbError) -> Self {
        let code = sqlstate(server);
        let error = match code.get(..2) {
            Some("28") => Self::unauthenticated().error,
            Some("3D") => SinkError::terminal(format!("{FAILED}: the database does not exist")),
            _ if code == "42501" => SinkError::Forbidden(format!(
                "{FAILED}: the role may not connect to the database"
            )),
            _ => classed(code, format!("{FAILED} (SQLSTATE {code})")),
        };
        Self {
            error,
            // What the server says if its rules for this host demand, or exclude, encryption.
            about_encryption: code == "28000",
        }
    }

    fn by_certificate(problem: &CertificateError) -> Self {
        let error = match problem {
            // The server's people renew it, and nothing changes here when they do.
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => SinkError::transient(format!(
                "{FAILED}: the server's certificate is not valid now; renew it, or check the clocks"
            )),
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                SinkError::terminal(format!(
                    "{FAILED}: the server's certificate is for another host name; use that name, or sslmode=verify-ca"
                ))
            }
            _ => SinkError::terminal(format!(
                "{FAILED}: the server's certificate is not trusted; give its authority in spec.tls.caBundle or spec.tls.caSecretRef"
            )),
        };
        Self {
            error,
            about_encryption: true,
        }
    }
}

fn causes<'e>(
    error: &'e tokio_postgres::Error,
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    // An io::Error hides the error inside it from `source`, so it is unpacked by hand.
    std::iter::successors(error.source(), |cause| {
        let cause: &'e (dyn std::error::Error + 'static) = *cause;
        match cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref)
        {
            Some(inner) => Some(inner as &(dyn std::error::Error + 'static)),
            None => cause.source(),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_of_sqlstates() {
        for (codes, class) in [
            (
                &[
                    "22P05", "23505", "23514", "28P01", "3D000", "3F000", "42P01", "42703",
                ][..],
                "terminal",
            ),
            (&["0A000", "54000", "P0001", "55P02"], "terminal"),
            (&["42501"], "forbidden"),
            (
                &[
                    "08006", "40001", "40P01", "53300", "55P03", "55006", "57014", "57P01",
                ],
                "transient",
            ),
            (&["25006", "58030", "XX000", ""], "transient"),
        ] {
            for code in codes {
                let found = match classed(code, String::new()) {
                    SinkError::Transient(_) => "transient",
                    SinkError::Terminal(_) => "terminal",
                    SinkError::Forbidden(_) => "forbidden",
                    SinkError::OutOfStep(_) => "out of step",
                };
                assert_eq!(found, class, "{code}");
            }
        }
    }
}
