//! What the log says about the objects of users: a line when something is wrong with one of them,
//! and a line when it is well again.
//!
//! Their statuses say the same, but whoever runs the operator looks at its log first. A line is
//! about what is wrong, not about how often or until when: numbers and times in a message do not
//! make another line of it. An object that comes and goes has a line of each sort per minute; what
//! was held back that long and still holds is said then.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use kollect_api::condition::Condition;
use tokio::{sync::Notify, time::Instant};

use crate::events::news;

/// The same trouble of an object is not told again within this time. A little longer than the time
/// in which the log does not repeat itself: what is told is there.
const PAUSE: Duration = Duration::from_secs(61);
/// How many objects are remembered. What is beyond is in the statuses alone.
const MOST: usize = 16_384;
/// How many sorts of trouble are remembered of one object.
const SORTS: usize = 8;

/// Tells what is wrong with objects.
#[derive(Debug, Default)]
pub struct StatusLog {
    objects: Mutex<BTreeMap<String, Known>>,
    /// Told when something is held back.
    pub held_back: Notify,
}

/// What is known of one object.
#[derive(Debug, Default)]
struct Known {
    /// What is wrong with it now: reason and message.
    now: Option<(String, String)>,
    /// What was told last to be wrong with it: reason, and message without numbers.
    told: Option<(String, String)>,
    /// When each sort of trouble was told last.
    at: BTreeMap<String, Instant>,
}

/// A line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Line {
    /// Something else is wrong with the object than what was told before.
    Trouble {
        /// Which object.
        object: String,
        /// The reason of its condition.
        reason: String,
        /// What the condition says.
        message: String,
    },
    /// All is well again with the object.
    Recovered {
        /// Which object.
        object: String,
    },
}

impl Line {
    /// Writes the line.
    pub fn write(&self) {
        match self {
            Self::Trouble {
                object,
                reason,
                message,
            } => tracing::warn!(object, reason, "{message}"),
            Self::Recovered { object } => tracing::info!(object, "is well again"),
        }
    }
}

impl StatusLog {
    /// Takes note of what the conditions of an object say. Returns what is to be told now.
    pub fn observe(&self, object: &str, conditions: &[Condition], now: Instant) -> Option<Line> {
        let trouble = news::trouble(conditions);
        if trouble.is_none() && news::is_under_way(conditions) {
            // Whether it is well again shows soon.
            return None;
        }
        let trouble = trouble.map(|said| (said.reason.clone(), said.message.replace('\n', "; ")));
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        if !objects.contains_key(object) {
            trouble.as_ref()?;
            if objects.len() >= MOST {
                objects.retain(|_, known| !known.is_over(now));
            }
            if objects.len() >= MOST {
                return None;
            }
        }
        let known = objects.entry(object.to_owned()).or_default();
        known.now = trouble;
        let line = known.line(object, now);
        if line.is_none() && known.due().is_some() {
            self.held_back.notify_one();
        }
        line
    }

    /// What was held back and is to be told now.
    pub fn take_due(&self, now: Instant) -> Vec<Line> {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let due = objects.iter_mut();
        due.filter_map(|(object, known)| known.line(object, now))
            .collect()
    }

    /// When there is something to tell that is held back.
    pub fn next_due(&self) -> Option<Instant> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.values().filter_map(Known::due).min()
    }
}

impl Known {
    /// Whether the object is in no trouble, and was in none lately.
    fn is_over(&self, now: Instant) -> bool {
        let recent = |at: &Instant| now.saturating_duration_since(*at) < PAUSE;
        self.now.is_none() && self.told.is_none() && !self.at.values().any(recent)
    }

    /// Whether what was told is what is so.
    fn is_told(&self) -> bool {
        match (&self.now, &self.told) {
            (None, None) => true,
            (Some((reason, message)), Some((told, pattern))) => {
                reason == told && without_numbers(message) == *pattern
            }
            _ => false,
        }
    }

    /// From when on something may be told that has not been.
    fn due(&self) -> Option<Instant> {
        let (reason, _) = self.now.as_ref()?;
        let told = *self.at.get(reason)?;
        (!self.is_told()).then_some(told + PAUSE)
    }

    fn line(&mut self, object: &str, now: Instant) -> Option<Line> {
        if self.is_told() || self.due().is_some_and(|due| now < due) {
            return None;
        }
        let object = object.to_owned();
        let Some((reason, message)) = self.now.clone() else {
            self.told = None;
            return Some(Line::Recovered { object });
        };
        self.told = Some((reason.clone(), without_numbers(&message)));
        if self.at.len() >= SORTS {
            self.at
                .retain(|_, at| now.saturating_duration_since(*at) < PAUSE);
        }
        self.at.insert(reason.clone(), now);
        Some(Line::Trouble {
            object,
            reason,
            message,
        })
    }
}

/// A text without its numbers, durations, times and addresses: two that differ in nothing else say
/// the same. A number that is part of a name stays.
pub fn without_numbers(text: &str) -> String {
    let mut short = String::with_capacity(text.len());
    let mut within_word = false;
    let mut within_number = false;
    for letter in text.chars() {
        let joins = letter.is_alphanumeric() || "-_.:/".contains(letter);
        if within_number && joins {
            continue;
        }
        within_number = !within_word && letter.is_ascii_digit();
        within_word = joins;
        short.push(if within_number { '#' } else { letter });
    }
    short
}

#[cfg(test)]
#[path = "status_log_tests.rs"]
mod tests;
