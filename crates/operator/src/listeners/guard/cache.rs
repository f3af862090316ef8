//! Answers that hold for a while, bounded in number.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

/// A digest of the question.
pub(crate) type Key = [u8; 32];

/// Answers by question.
#[derive(Debug)]
pub(crate) struct Cache<V> {
    capacity: usize,
    answers: HashMap<Key, (V, Instant)>,
}

impl<V: Clone> Cache<V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            answers: HashMap::new(),
        }
    }

    /// The answer, if there is one that still holds.
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<V> {
        let (answer, until) = self.answers.get(key)?;
        (now < *until).then(|| answer.clone())
    }

    /// Keeps an answer. When there is no place, the one that ends first makes room.
    pub(crate) fn put(&mut self, key: Key, answer: V, now: Instant, lifetime: Duration) {
        if self.answers.len() >= self.capacity && !self.answers.contains_key(&key) {
            self.answers.retain(|_, (_, until)| now < *until);
        }
        if self.answers.len() >= self.capacity && !self.answers.contains_key(&key) {
            let first = self.answers.iter().min_by_key(|(_, (_, until))| *until);
            let first = first.map(|(key, _)| *key);
            first.map(|first| self.answers.remove(&first));
        }
        self.answers.insert(key, (answer, now + lifetime));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn an_answer_holds_for_its_time() {
        let now = Instant::now();
        let mut cache = Cache::new(2);
        cache.put([1; 32], true, now, MINUTE);
        assert_eq!(cache.get(&[1; 32], now + MINUTE / 2), Some(true));
        assert_eq!(cache.get(&[1; 32], now + MINUTE), None);
        assert_eq!(cache.get(&[2; 32], now), None);
    }

    #[test]
    fn the_answer_that_ends_first_makes_room() {
        let now = Instant::now();
        let mut cache = Cache::new(2);
        cache.put([1; 32], 1, now, 3 * MINUTE);
        cache.put([2; 32], 2, now, 2 * MINUTE);
        cache.put([3; 32], 3, now, MINUTE);
        let kept = |cache: &Cache<i32>| [1, 2, 3].map(|key| cache.get(&[key; 32], now));
        assert_eq!(kept(&cache), [Some(1), None, Some(3)]);
        cache.put([3; 32], 4, now, MINUTE);
        assert_eq!(kept(&cache), [Some(1), None, Some(4)]);
    }
}
