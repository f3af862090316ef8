//! Warnings that say the same again and again are written once a minute.

use std::{
    collections::HashMap,
    fmt::{self, Write as _},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use kollect_operator::status_log::without_numbers;
use tracing::{
    Event, Level, Metadata,
    field::{Field, Visit},
};
use tracing_subscriber::layer::{Context, Filter};

/// The same line is not written again within this time.
const PAUSE: Duration = Duration::from_mins(1);
/// How many lines are remembered; with more there is no telling, and all are written.
const REMEMBERED: usize = 1_024;

/// Lets a warning or an error pass unless it said the same a moment ago.
#[derive(Debug, Default)]
pub(super) struct Repeats(Mutex<HashMap<u64, Instant>>);

impl Repeats {
    /// Whether a line with this content is worth writing now.
    fn is_news(&self, content: u64, now: Instant) -> bool {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |at: &Instant| now.saturating_duration_since(*at) < PAUSE;
        if known.get(&content).is_some_and(recent) {
            return false;
        }
        if known.len() >= REMEMBERED {
            known.retain(|_, at| recent(at));
        }
        if known.len() < REMEMBERED {
            known.insert(content, now);
        }
        true
    }
}

impl<S> Filter<S> for Repeats {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return true;
        }
        let mut content = Content(String::new());
        event.record(&mut content);
        let mut hash = DefaultHasher::new();
        event.metadata().callsite().hash(&mut hash);
        content.pattern().hash(&mut hash);
        self.is_news(hash.finish(), Instant::now())
    }
}

/// The content of a line.
struct Content(String);

impl Content {
    /// What makes a line another one: not how often something was tried, nor for how long or when
    /// it is tried again.
    fn pattern(&self) -> String {
        without_numbers(&self.0)
    }
}

impl Visit for Content {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // A text takes everything.
        let _ = write!(self.0, "{} {value:?} ", field.name());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c20_the_same_line_is_written_once_a_minute() {
        let (repeats, start) = (Repeats::default(), Instant::now());
        let news = |content, after| repeats.is_news(content, start + Duration::from_secs(after));
        assert!(news(1, 0) && news(2, 0));
        assert!(!news(1, 1) && !news(1, 59) && !news(2, 59));
        assert!(news(1, 60), "once more after a minute");
        assert!(!news(1, 119) && news(1, 120));
    }

    #[test]
    fn c20_counts_and_waits_do_not_make_another_line() {
        let pattern = |text: &str| Content(text.to_owned()).pattern();
        let first =
            pattern("object inventory team-1/inv message cannot write; trying again in 1 s ");
        assert_eq!(
            first,
            pattern("object inventory team-1/inv message cannot write; trying again in 64 s ")
        );
        assert_ne!(
            first,
            pattern("object inventory team-2/inv message cannot write; trying again in 1 s ")
        );
    }

    #[test]
    fn c20_what_is_remembered_is_bounded_and_lines_are_not_lost_for_it() {
        let (repeats, now) = (Repeats::default(), Instant::now());
        for content in 0..10_000 {
            assert!(repeats.is_news(content, now));
        }
        assert!(repeats.0.lock().unwrap().len() <= REMEMBERED);
        assert!(repeats.is_news(20_000, now + PAUSE));
        assert!(!repeats.is_news(20_000, now + PAUSE), "room again");
    }
}
