//! How long everything takes.

use std::time::Duration;

use super::LeaseError;

/// Timings that fit together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timings {
    duration: Duration,
    renew_deadline: Duration,
    retry_period: Duration,
}

impl Timings {
    pub(super) fn new(
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Result<Self, LeaseError> {
        if retry_period.is_zero() {
            return Err(LeaseError::NoRetryPeriod);
        }
        // A candidate waits up to a fifth longer than the retry period, and a holder needs more
        // than one attempt before its deadline.
        if renew_deadline <= retry_period.mul_f64(1.2) {
            return Err(LeaseError::RenewDeadlineTooShort {
                renew_deadline,
                retry_period,
            });
        }
        if duration <= renew_deadline {
            return Err(LeaseError::DurationTooShort {
                duration,
                renew_deadline,
            });
        }
        Ok(Timings {
            duration,
            renew_deadline,
            retry_period,
        })
    }

    /// For tests of what happens when timings do not fit.
    #[cfg(test)]
    pub(super) fn unchecked(
        duration: Duration,
        renew_deadline: Duration,
        retry_period: Duration,
    ) -> Self {
        Timings {
            duration,
            renew_deadline,
            retry_period,
        }
    }

    /// How long a candidate waits beyond the retry period when so many writes in a row were
    /// forbidden: the right may be granted at any time, but asking often does not help.
    pub(super) fn pause(&self, forbidden: u32) -> Duration {
        const LONGEST: Duration = Duration::from_secs(30);
        let doubled = 1_u32 << forbidden.saturating_sub(1).min(10);
        self.retry_period.saturating_mul(doubled).min(LONGEST)
    }

    /// How long others wait after the last sign of life.
    pub(super) fn duration(&self) -> Duration {
        self.duration
    }

    /// The same as records show it: whole seconds, never less.
    pub(super) fn whole_seconds(&self) -> i32 {
        let seconds = self.duration.as_secs() + u64::from(self.duration.subsec_nanos() > 0);
        i32::try_from(seconds).unwrap_or(i32::MAX)
    }

    /// How long a holder leads without being heard.
    pub(super) fn renew_deadline(&self) -> Duration {
        self.renew_deadline
    }

    /// The pause between two requests.
    pub(super) fn retry_period(&self) -> Duration {
        self.retry_period
    }

    /// How long one request may take. A server that hangs must not cost all attempts.
    pub(super) fn request_limit(&self) -> Duration {
        self.renew_deadline / 4
    }
}
