//! Looking for many texts at once.
//!
//! One automaton finds all of them in one pass, so the cost is that of the texts together, however
//! many lines a Secret has. It is made anew for each text to be cleaned: that is rare, and kept for
//! every sink it would take twenty times the memory of the Secret.

use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind};

/// Texts to look for.
pub(super) struct Needles(Option<AhoCorasick>);

impl Needles {
    /// As they are.
    pub(super) fn values<'t>(texts: impl IntoIterator<Item = &'t String>) -> Self {
        Self::new(texts, false)
    }

    /// In any letter case.
    pub(super) fn names<'t>(texts: impl IntoIterator<Item = &'t String>) -> Self {
        Self::new(texts, true)
    }

    fn new<'t>(texts: impl IntoIterator<Item = &'t String>, any_case: bool) -> Self {
        let mut texts = texts.into_iter().peekable();
        if texts.peek().is_none() {
            return Self(None);
        }
        // This kind finds the next of several texts that end at one place in one step.
        let automaton = AhoCorasick::builder()
            .ascii_case_insensitive(any_case)
            .kind(Some(AhoCorasickKind::ContiguousNFA))
            .build(texts);
        Self(Some(automaton.expect("what is searched for is bounded")))
    }

    /// Every place where one of them stands, overlapping ones too.
    pub(super) fn find<'a>(&'a self, bytes: &'a [u8]) -> impl Iterator<Item = Range<usize>> + 'a {
        let automaton = self.0.iter();
        automaton.flat_map(move |automaton| {
            let found = automaton.find_overlapping_iter(bytes);
            found.map(|found| found.range())
        })
    }

    /// Whether one of them is there.
    pub(super) fn are_in(&self, bytes: &[u8]) -> bool {
        self.find(bytes).next().is_some()
    }
}
