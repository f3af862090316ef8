//! Errors of the API server as one sentence.

use std::{error::Error as _, fmt};

/// Longer texts help nobody.
const LONGEST: usize = 400;

/// An error of the client as people want to read it: what the server said, or what kept it from
/// being asked. The client's own text repeats the answer as a structure.
pub struct Sentence<'e>(pub &'e kube::Error);

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            kube::Error::Api(status) => match (&*status.message, &*status.reason, status.code) {
                ("", "", code) => format!("the API server answered {code}"),
                ("", reason, code) => format!("the API server answered {code} {reason}"),
                (message, _, code) => format!("{message} ({code})"),
            },
            // The innermost cause says what happened; the layers around it say who was told.
            other => {
                let mut cause = other.source();
                while let Some(inner) = cause.and_then(|cause| cause.source()) {
                    cause = Some(inner);
                }
                cause.map_or_else(|| other.to_string(), ToString::to_string)
            }
        };
        let text = text.replace(['\n', '\r'], " ");
        let end = text.floor_char_boundary(LONGEST);
        f.write_str(&text[..end])?;
        f.write_str(if end < text.len() { "…" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn c20_an_answer_is_one_sentence() {
        let status = |message: &str, reason: &str, code| {
            let status = kube::core::Status {
                message: message.to_owned(),
                reason: reason.to_owned(),
                code,
                ..kube::core::Status::default()
            };
            kube::Error::Api(Box::new(status))
        };
        let forbidden = "leases.coordination.k8s.io \"x\" is forbidden";
        let io = io::Error::other("connection refused");
        for (error, text) in [
            (
                status(forbidden, "Forbidden", 403),
                format!("{forbidden} (403)"),
            ),
            (
                status("", "NotFound", 404),
                "the API server answered 404 NotFound".to_owned(),
            ),
            (
                status("", "", 500),
                "the API server answered 500".to_owned(),
            ),
            (status("two\nlines", "", 500), "two lines (500)".to_owned()),
            (
                kube::Error::Service(Box::new(io)),
                "connection refused".to_owned(),
            ),
        ] {
            assert_eq!(Sentence(&error).to_string(), text);
        }
        let long = Sentence(&status(&"ä".repeat(5_000), "", 500)).to_string();
        assert!(long.len() <= LONGEST + 3 && long.ends_with('…'));
    }
}
