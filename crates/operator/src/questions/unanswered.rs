//! Says now and then that the API server does not answer what plans depend on.

use std::time::Duration;

use tokio::time::Instant;

/// Whatever is not answered, people are told no more often. A little longer than the time in which
/// the log does not repeat itself: what is told is there.
const PAUSE: Duration = Duration::from_secs(61);
/// A question that has not been answered since is not told of again for this long.
const SAME: Duration = Duration::from_mins(10);

/// What people were told last.
#[derive(Debug, Default)]
pub struct Unanswered(Option<Told>);

#[derive(Debug)]
struct Told {
    question: String,
    at: Instant,
    /// Whether the question has been answered since.
    answered: bool,
}

impl Unanswered {
    /// Takes note of how a question ended: with an answer, or why not.
    pub fn note(&mut self, question: &str, why: Option<&str>) {
        if let Some(why) = why.filter(|_| self.is_news(question, Instant::now())) {
            tracing::warn!(
                "{question}: {why}; what was collected before goes on, and it is asked again within a minute"
            );
        } else if why.is_none()
            && let Some(told) = self.0.as_mut().filter(|told| told.question == question)
        {
            told.answered = true;
        }
    }

    /// Whether a question that is not answered is worth telling now.
    fn is_news(&mut self, question: &str, now: Instant) -> bool {
        let due = self.0.as_ref().is_none_or(|told| {
            let pause = if told.question == question && !told.answered {
                SAME
            } else {
                PAUSE
            };
            now.duration_since(told.at) >= pause
        });
        if due {
            self.0 = Some(Told {
                question: question.to_owned(),
                at: now,
                answered: false,
            });
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_question_that_was_answered_in_between_is_told_of_again() {
        let (mut unanswered, now) = (Unanswered::default(), Instant::now());
        assert!(unanswered.is_news("a", now));
        assert!(!unanswered.is_news("b", now), "one a minute");
        assert!(!unanswered.is_news("a", now + PAUSE), "nothing new");
        unanswered.note("b", None);
        assert!(
            !unanswered.is_news("a", now + PAUSE),
            "another one's answer"
        );
        unanswered.note("a", None);
        assert!(!unanswered.is_news("a", now), "too soon");
        assert!(unanswered.is_news("a", now + PAUSE));
        assert!(unanswered.is_news("b", now + PAUSE * 2));
        assert!(unanswered.is_news("a", now + PAUSE * 3));
        assert!(unanswered.is_news("a", now + PAUSE * 3 + SAME));
    }
}
