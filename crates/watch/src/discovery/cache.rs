//! What is known of one group and version, and when to ask again.

use std::time::Duration;

use tokio::time::Instant;

use super::document::Document;
use super::{Answer, Missing};

/// When to ask again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// For how long a kind that was found is taken to stay. Changes are announced by events; this
    /// is for those who may not watch CustomResourceDefinitions.
    pub found: Duration,
    /// The least time between two questions about kinds that were not found.
    pub missing: Duration,
    /// How long an answer may take.
    pub deadline: Duration,
}

impl Default for Freshness {
    fn default() -> Self {
        Self {
            found: Duration::from_mins(10),
            missing: Duration::from_secs(5),
            deadline: Duration::from_secs(10),
        }
    }
}

/// What the API server said.
#[derive(Debug)]
pub(super) enum Reply {
    Served(Document),
    /// There is no such group and version.
    Absent,
    Failed(String),
}

/// All that is known of one group and version.
#[derive(Debug, Default)]
pub(super) struct Known {
    asked: Option<Instant>,
    /// The last document; none after the server said that there is none.
    document: Option<Document>,
    /// Why the last question brought no answer.
    failure: Option<String>,
}

impl Known {
    /// Whether the API server is to be asked before `kind` is answered.
    pub(super) fn is_due(&self, kind: &str, now: Instant, freshness: Freshness) -> bool {
        let Some(asked) = self.asked else {
            return true;
        };
        let settled = self.failure.is_none() && self.has(kind);
        let patience = if settled {
            freshness.found
        } else {
            freshness.missing
        };
        now.duration_since(asked) >= patience
    }

    /// Takes an answer. One that failed changes nothing that was known before: a server that is
    /// down for a moment has not lost its kinds.
    pub(super) fn learn(&mut self, reply: Reply, now: Instant) {
        self.asked = Some(now);
        self.failure = None;
        match reply {
            Reply::Served(document) => self.document = Some(document),
            Reply::Absent => self.document = None,
            Reply::Failed(problem) => self.failure = Some(problem),
        }
    }

    /// What is known of `kind`.
    pub(super) fn answer(&self, kind: &str) -> Answer {
        let found = self
            .document
            .as_ref()
            .and_then(|document| document.get(kind));
        match (found, &self.failure, &self.document) {
            (Some(served), _, _) => Answer::Installed(served.clone()),
            (None, Some(problem), _) => Answer::Unreachable(problem.clone()),
            (None, None, Some(_)) => Answer::NotInstalled(Missing::Kind),
            (None, None, None) => Answer::NotInstalled(Missing::GroupVersion),
        }
    }

    fn has(&self, kind: &str) -> bool {
        let document = self.document.as_ref();
        document.is_some_and(|document| document.get(kind).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRESHNESS: Freshness = Freshness {
        found: Duration::from_mins(10),
        missing: Duration::from_secs(5),
        deadline: Duration::from_secs(10),
    };

    fn served(kinds: &[&str]) -> Reply {
        let resources: Vec<_> = kinds
            .iter()
            .map(|kind| format!(r#"{{"name":"x","kind":"{kind}","namespaced":true}}"#))
            .collect();
        let json = format!(r#"{{"resources":[{}]}}"#, resources.join(","));
        Reply::Served(Document::parse("g", "v1", json.as_bytes()).unwrap())
    }

    fn failed() -> Reply {
        Reply::Failed("503".to_owned())
    }

    /// The answer in a word, and after how many seconds the server is asked again.
    fn state(known: &Known, kind: &str, at: Instant) -> (&'static str, u64) {
        let due = |seconds| known.is_due(kind, at + Duration::from_secs(seconds), FRESHNESS);
        let patience = [0, 5, 600].into_iter().find(|seconds| due(*seconds));
        let word = match known.answer(kind) {
            Answer::Installed(_) => "installed",
            Answer::NotInstalled(Missing::Kind) => "no kind",
            Answer::NotInstalled(Missing::GroupVersion) => "no group",
            Answer::Unreachable(problem) => {
                assert_eq!(problem, "503");
                "unreachable"
            }
        };
        (word, patience.expect("asked again at some time"))
    }

    #[test]
    fn answers_and_patience_after_each_sequence_of_replies() {
        let cases = [
            (vec![served(&["A"])], ("installed", 600), ("no kind", 5)),
            (vec![Reply::Absent], ("no group", 5), ("no group", 5)),
            (vec![failed()], ("unreachable", 5), ("unreachable", 5)),
            // A failure does not take away what was known, but is asked again soon.
            (
                vec![served(&["A"]), failed()],
                ("installed", 5),
                ("unreachable", 5),
            ),
            (
                vec![failed(), served(&["A"])],
                ("installed", 600),
                ("no kind", 5),
            ),
            // The definition was removed, and something else came.
            (
                vec![served(&["A"]), Reply::Absent],
                ("no group", 5),
                ("no group", 5),
            ),
            (
                vec![served(&["A"]), served(&["B"])],
                ("no kind", 5),
                ("installed", 600),
            ),
            (
                vec![served(&["A"]), Reply::Absent, failed()],
                ("unreachable", 5),
                ("unreachable", 5),
            ),
        ];
        for (replies, a, b) in cases {
            let now = Instant::now();
            let text = format!("{replies:?}");
            let mut known = Known::default();
            assert!(known.is_due("A", now, FRESHNESS), "nothing is known yet");
            for reply in replies {
                known.learn(reply, now);
            }
            assert_eq!(state(&known, "A", now), a, "{text}");
            assert_eq!(state(&known, "B", now), b, "{text}");
        }
    }
}
