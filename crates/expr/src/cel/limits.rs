//! What one evaluation may cost.

use super::error::EvalError;

/// The bounds of one evaluation. Without them a tenant's expression of a few hundred bytes could
/// keep a worker busy for minutes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Steps: one per operation, per element and per 64 bytes of text looked at, and a few for
    /// every turn of a macro.
    pub steps: u64,
    /// Bytes of the strings, lists and maps that the evaluation builds, all together.
    pub built_bytes: usize,
}

impl Default for Limits {
    /// A million steps, the figure admission policies use, and 4 MiB.
    fn default() -> Self {
        Limits {
            steps: 1_000_000,
            built_bytes: 4 << 20,
        }
    }
}

/// What is left of the limits while an evaluation runs.
#[derive(Debug)]
pub(super) struct Budget {
    limits: Limits,
    steps: u64,
    bytes: usize,
}

impl Budget {
    pub(super) fn new(limits: &Limits) -> Self {
        Budget {
            limits: *limits,
            steps: limits.steps,
            bytes: limits.built_bytes,
        }
    }

    /// The steps and bytes that were taken off so far.
    pub(super) fn spent(&self) -> (u64, usize) {
        let Limits { steps, built_bytes } = self.limits;
        (steps - self.steps, built_bytes - self.bytes)
    }

    /// Takes `steps` off the budget.
    #[inline]
    pub(super) fn charge(&mut self, steps: u64) -> Result<(), EvalError> {
        match self.steps.checked_sub(steps) {
            Some(rest) => {
                self.steps = rest;
                Ok(())
            }
            None => Err(self.out_of_steps()),
        }
    }

    /// Pays for looking at `length` bytes of text.
    #[inline]
    pub(super) fn charge_text(&mut self, length: usize) -> Result<(), EvalError> {
        self.charge(length as u64 / 64)
    }

    /// Pays for visiting `count` elements.
    #[inline]
    pub(super) fn charge_items(&mut self, count: usize) -> Result<(), EvalError> {
        self.charge(count as u64)
    }

    /// Pays for building `bytes` bytes: they count as text that was looked at, and against the
    /// size limit.
    pub(super) fn build(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.charge_text(bytes)?;
        match self.bytes.checked_sub(bytes) {
            Some(rest) => {
                self.bytes = rest;
                Ok(())
            }
            None => {
                self.bytes = 0;
                Err(EvalError::SizeLimit {
                    limit: self.limits.built_bytes,
                })
            }
        }
    }

    /// Pays for a list or map with room for `count` more values.
    pub(super) fn build_items(&mut self, count: usize) -> Result<(), EvalError> {
        self.build(count.saturating_mul(size_of::<super::value::Val<'static>>()))
    }

    #[cold]
    fn out_of_steps(&mut self) -> EvalError {
        self.steps = 0;
        EvalError::StepLimit {
            limit: self.limits.steps,
        }
    }
}
