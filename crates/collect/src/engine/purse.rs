//! What one target may cost on a watch that it shares with others.
//!
//! A single object is bounded ([`OBJECT_LIMITS`]), but a target that takes all of that on every
//! object would hold up the others of its watch. So a target saves a few steps with every object
//! that comes along, spends them as it needs them, and gets no more than it has saved. It is
//! counted in steps, not in time: what a profile may do does not depend on how busy the machine is.

use kollect_expr::Allowance;
use kollect_expr::cel::Limits;

use crate::extract::OBJECT_LIMITS;

/// What a target saves with every object, and the least it gets: some hundred times what an
/// ordinary profile takes.
pub(super) const STEPS_PER_OBJECT: u64 = 50_000;

/// The most a target can have saved: ten objects that take all they may.
const MOST_SAVED: u64 = 10 * OBJECT_LIMITS.steps;

/// The savings of one target.
#[derive(Debug, Clone, Copy)]
pub(super) struct Purse {
    saved: u64,
}

impl Default for Purse {
    fn default() -> Self {
        Purse { saved: MOST_SAVED }
    }
}

impl Purse {
    /// What the target may cost on the next object.
    pub(super) fn open(&mut self) -> Allowance {
        self.saved = MOST_SAVED.min(self.saved + STEPS_PER_OBJECT);
        Allowance::new(Limits {
            steps: self.saved.min(OBJECT_LIMITS.steps),
            ..OBJECT_LIMITS
        })
    }

    /// Takes off what it did cost.
    pub(super) fn close(&mut self, allowance: &Allowance) {
        self.saved = self.saved.saturating_sub(allowance.steps_taken());
    }
}

/// Whether the target got less than an object may cost, because it had not saved enough.
pub(super) fn is_short(allowance: &Allowance) -> bool {
    allowance.total().steps < OBJECT_LIMITS.steps
}

#[cfg(test)]
mod tests {
    use kollect_expr::cel::Program;
    use serde_json::json;

    use super::*;

    #[test]
    fn a3_an_expensive_profile_runs_out_and_a_cheap_one_never_does() {
        let object = json!({"list": (0..3000).collect::<Vec<_>>()});
        let expensive = Program::compile("object.list.all(a, object.list.all(b, a + b >= 0))");
        let cheap = Program::compile("object.list.all(a, a >= 0)");
        let run = |program: &Program, objects: usize| {
            let mut purse = Purse::default();
            let mut steps = 0;
            let mut failed = 0;
            for _ in 0..objects {
                let mut allowance = purse.open();
                failed += usize::from(program.evaluate_within(&object, &mut allowance).is_err());
                steps += allowance.steps_taken();
                purse.close(&allowance);
            }
            (steps, failed)
        };
        let (steps, failed) = run(&expensive.expect("compiles"), 200);
        assert_eq!(failed, 200);
        assert!(steps <= MOST_SAVED + 201 * STEPS_PER_OBJECT, "{steps}");
        let (_, failed) = run(&cheap.expect("compiles"), 200);
        assert_eq!(failed, 0);
    }
}
