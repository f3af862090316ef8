//! How long to wait after a failure.

use std::time::Duration;

/// What kind of failure it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FailureClass {
    /// May heal by itself: network, time-out, conflict, missing Secret, anything unknown.
    Transient,
    /// The API or the backend denies access; somebody may grant it any time.
    Forbidden,
    /// Needs a change: wrong table, rejected credentials, a row larger than its ceiling.
    Terminal,
}

/// A random number in 0..=1000, drawn by the caller. It spreads retries so that the sinks of a
/// backend that comes back do not arrive together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jitter(u16);

impl Jitter {
    /// From any random number.
    pub fn new(random: u64) -> Self {
        Self(u16::try_from(random % 1001).expect("below 1001"))
    }
}

const FIRST: Duration = Duration::from_secs(5);
const LONGEST: Duration = Duration::from_mins(5);
/// Terminal failures need a change, and a change is noticed; this is for the ones nobody sees, such
/// as a permission granted in the backend.
const TERMINAL: Duration = Duration::from_hours(1);

/// The wait after the `failures`-th failure in a row: 5 s, doubled each time up to 5 min, spread by
/// a fifth to either side; terminal failures wait an hour.
pub fn wait(class: FailureClass, failures: u32, jitter: Jitter) -> Duration {
    if class == FailureClass::Terminal {
        return TERMINAL;
    }
    let doubled = FIRST
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST);
    // 800..=1200 thousandths.
    doubled * (800 + u32::from(jitter.0) * 400 / 1000) / 1000
}

/// The class of several failures together: terminal only if all are, since one that may heal is
/// worth another try.
pub fn joined(classes: impl IntoIterator<Item = FailureClass>) -> Option<FailureClass> {
    classes
        .into_iter()
        .reduce(|a, b| if a == b { a } else { FailureClass::Transient })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_five_minutes_and_spread_by_a_fifth() {
        let middle = Jitter::new(500);
        let seconds: Vec<u64> = (1..=9)
            .map(|n| wait(FailureClass::Transient, n, middle).as_secs())
            .collect();
        assert_eq!(seconds, [5, 10, 20, 40, 80, 160, 300, 300, 300]);
        assert_eq!(
            wait(FailureClass::Transient, 1, Jitter::new(0)),
            Duration::from_secs(4)
        );
        assert_eq!(
            wait(FailureClass::Forbidden, 1, Jitter::new(1000)),
            Duration::from_secs(6)
        );
        assert_eq!(
            wait(FailureClass::Terminal, 1, middle),
            Duration::from_hours(1)
        );
        assert_eq!(
            wait(FailureClass::Transient, u32::MAX, middle),
            Duration::from_mins(5)
        );
    }

    #[test]
    fn failures_join_to_the_class_that_is_worth_a_retry() {
        use FailureClass::{Forbidden, Terminal, Transient};
        assert_eq!(joined([]), None);
        assert_eq!(joined([Terminal, Terminal]), Some(Terminal));
        assert_eq!(joined([Forbidden]), Some(Forbidden));
        assert_eq!(joined([Forbidden, Terminal]), Some(Transient));
        assert_eq!(joined([Terminal, Transient]), Some(Transient));
    }
}
