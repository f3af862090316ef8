//! When to ask again what brought no lasting answer. Nothing here waits or asks.

use std::fmt;

use kollect_watch::Backoff;
use tokio::time::Instant;

/// Keeps questions apart: each is due at once, then after waits that double up to a cap.
#[derive(Debug)]
pub struct Pace<K> {
    backoff: Backoff,
    /// How often each was asked, and when it is due again.
    asked: Vec<(K, u32, Instant)>,
}

impl<K: Clone + Eq + fmt::Debug> Pace<K> {
    /// Waits like this between two times.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            asked: Vec::new(),
        }
    }

    /// Whether a question is to be asked now. One that is counts as asked.
    pub fn is_due(&mut self, question: &K, now: Instant) -> bool {
        let known = self.asked.iter_mut().find(|(known, ..)| known == question);
        let Some((_, times, due)) = known else {
            let due = now + self.backoff.wait(1, 1.0);
            self.asked.push((question.clone(), 1, due));
            return true;
        };
        if *due > now {
            return false;
        }
        *times = times.saturating_add(1);
        *due = now + self.backoff.wait(*times, 1.0);
        true
    }

    /// Forgets questions that nobody has any more, once they would be due: what comes back sooner
    /// was not settled.
    pub fn retain(&mut self, now: Instant, mut keep: impl FnMut(&K) -> bool) {
        self.asked
            .retain(|(question, _, due)| *due > now || keep(question));
    }

    /// When the next question is due, if there is one.
    pub fn next(&self) -> Option<Instant> {
        self.asked.iter().map(|(.., due)| *due).min()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c2_questions_are_asked_at_once_and_then_ever_less_often_up_to_a_minute() {
        let mut pace = Pace::new(Backoff {
            first: Duration::from_secs(5),
            cap: Duration::from_mins(1),
        });
        let begun = Instant::now();
        let mut asked = Vec::new();
        for second in 0..300 {
            let now = begun + Duration::from_secs(second);
            if pace.is_due(&"kind", now) {
                asked.push(second);
            }
        }
        assert_eq!(asked, [0, 5, 15, 35, 75, 135, 195, 255]);
        assert_eq!(pace.next(), Some(begun + Duration::from_secs(315)));
        assert!(pace.is_due(&"another", begun), "others do not wait for it");
        let now = begun + Duration::from_mins(5);
        pace.retain(now, |_| false);
        assert!(
            !pace.is_due(&"kind", now),
            "what comes back was not settled"
        );
        let later = begun + Duration::from_secs(316);
        pace.retain(later, |_| false);
        assert_eq!(pace.next(), None);
        assert!(pace.is_due(&"kind", later), "what was settled is new again");
    }
}
