//! What the expressions of one owner may cost together.
//!
//! Each expression is bounded by itself; a profile of many expressions is not bounded by that. An
//! [`Allowance`] is what all expressions of a profile share on one object, a [`CompileBudget`] what
//! they share while they are compiled.

use crate::cel::Limits;

/// What is left for the expressions of one owner on one object.
#[derive(Debug)]
pub struct Allowance {
    total: Limits,
    steps: u64,
    bytes: usize,
}

impl Allowance {
    /// Everything is left of `total`.
    pub fn new(total: Limits) -> Self {
        Allowance {
            total,
            steps: total.steps,
            bytes: total.built_bytes,
        }
    }

    /// What there was in the beginning.
    pub fn total(&self) -> Limits {
        self.total
    }

    /// The steps that were taken so far.
    pub fn steps_taken(&self) -> u64 {
        self.total.steps - self.steps
    }

    /// What one expression may cost that by itself may cost `own`.
    pub(crate) fn share(&self, own: Limits) -> Limits {
        Limits {
            steps: own.steps.min(self.steps),
            built_bytes: own.built_bytes.min(self.bytes),
        }
    }

    /// Takes off what an expression cost.
    pub(crate) fn spend(&mut self, steps: u64, bytes: usize) {
        self.steps = self.steps.saturating_sub(steps);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Takes `bytes` off, if there are so many.
    pub(crate) fn build(&mut self, bytes: usize) -> bool {
        let rest = self.bytes.checked_sub(bytes);
        self.bytes = rest.unwrap_or(0);
        rest.is_some()
    }
}

impl Default for Allowance {
    /// What [`Limits::default`] says for one expression is enough for all of them.
    fn default() -> Self {
        Allowance::new(Limits::default())
    }
}

/// What is left for compiling the expressions of one owner.
#[derive(Debug)]
pub struct CompileBudget {
    steps: u64,
}

/// Compiling costs more than the owner of the expressions has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exhausted;

/// Reading a byte of text, parsing and checking included.
const STEPS_PER_TEXT_BYTE: u64 = 40;

impl CompileBudget {
    /// Enough for every attribute of a full profile to have a regular expression, and little
    /// enough that the worst profile compiles in a fraction of a second.
    pub const STEPS: u64 = 16_000_000;

    /// Everything is left.
    pub fn new() -> Self {
        CompileBudget { steps: Self::STEPS }
    }

    /// Whether something has been refused: nothing that follows needs to be tried.
    pub fn is_exhausted(&self) -> bool {
        self.steps == 0
    }

    pub(crate) fn charge(&mut self, steps: u64) -> Result<(), Exhausted> {
        let rest = self.steps.checked_sub(steps);
        self.steps = rest.unwrap_or(0);
        rest.map(|_| ()).ok_or(Exhausted)
    }

    pub(crate) fn charge_text(&mut self, text: &str) -> Result<(), Exhausted> {
        self.charge(text.len() as u64 * STEPS_PER_TEXT_BYTE)
    }
}

impl Default for CompileBudget {
    fn default() -> Self {
        Self::new()
    }
}
