//! Tries many inputs in a short time: those of the corpus, and mutations of them.
//!
//! The inputs follow from a number, so a run can be repeated; how many of them are tried follows
//! from the time it may take.

use std::fs;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Target;

/// What a run did.
#[derive(Debug, Default)]
pub struct Report {
    /// How many inputs were tried.
    pub inputs: u64,
    /// The longest time that one of them took.
    pub slowest: Duration,
}

/// Reads the corpus of a target: all files of a directory, in the order of their names.
pub fn corpus(directory: &Path) -> io::Result<Vec<Vec<u8>>> {
    let mut paths = fs::read_dir(directory)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// Tries inputs for about `time`.
///
/// # Panics
/// When an input breaks a promise; the message shows the input.
pub fn run(target: &Target, corpus: &[Vec<u8>], number: u64, time: Duration) -> Report {
    let started = Instant::now();
    let mut report = Report::default();
    let mut mutator = Mutator {
        random: Random(number),
        target,
        corpus,
    };
    for input in corpus {
        attempt(target, input, &mut report);
    }
    while started.elapsed() < time {
        let input = mutator.input();
        attempt(target, &input, &mut report);
    }
    report
}

fn attempt(target: &Target, input: &[u8], report: &mut Report) {
    let started = Instant::now();
    let outcome = panic::catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    assert!(
        outcome.is_ok(),
        "{}: \"{}\"",
        target.name,
        input.escape_ascii()
    );
    report.inputs += 1;
    report.slowest = report.slowest.max(started.elapsed());
}

/// Numbers that look random (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // Zero would stay zero.
        self.0 = self.0.max(1);
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`, or zero.
    fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap_or(u64::MAX);
        usize::try_from((self.next() >> 11) % end).unwrap_or_default()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }
}

struct Mutator<'t> {
    random: Random,
    target: &'t Target,
    corpus: &'t [Vec<u8>],
}

impl Mutator<'_> {
    fn input(&mut self) -> Vec<u8> {
        let mut input = self.pick().to_vec();
        for _ in 0..=self.random.below(6) {
            self.mutate(&mut input);
        }
        input.truncate(self.target.longest);
        input
    }

    fn pick(&mut self) -> &[u8] {
        let at = self.random.below(self.corpus.len());
        self.corpus.get(at).map_or(&[], Vec::as_slice)
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        let at = self.random.below(input.len() + 1);
        let length = self.random.below(1 + input.len().min(16));
        let end = (at + length).min(input.len());
        match self.random.below(9) {
            0 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << self.random.below(8);
                }
            }
            1 => {
                if let Some(byte) = input.get_mut(at) {
                    *byte = self.random.byte();
                }
            }
            2 => drop(input.drain(at..end)),
            3 => input.truncate(at),
            4 => {
                let piece = input[at..end].to_vec();
                // Now and then very many: depth is what parsers stumble over.
                let most = if self.random.below(20) == 0 { 300 } else { 3 };
                let copies = 1 + self.random.below(most);
                input.splice(at..at, piece.repeat(copies));
            }
            5 => {
                let other = self.pick().to_vec();
                let from = self.random.below(other.len() + 1);
                input.truncate(at);
                input.extend(&other[from..]);
            }
            6 => {
                let digits = self.random.next().to_string();
                input.splice(at..end, digits.into_bytes());
            }
            _ => {
                let word = self.random.below(self.target.words.len());
                let word = self.target.words.get(word).unwrap_or(&"");
                input.splice(at..at, word.bytes());
            }
        }
    }
}
