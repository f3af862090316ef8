//! Answers of access reviews, each for a while, and no more than so many.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use tokio::time::Instant;

use super::Question;

/// Keeps the answers that were used last.
#[derive(Debug)]
pub(super) struct Cache {
    capacity: usize,
    lifetime: Duration,
    answers: HashMap<Question, Entry>,
    /// Questions by their last use, the oldest first.
    order: BTreeMap<u64, Question>,
    uses: u64,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    allowed: bool,
    learned: Instant,
    used: u64,
}

impl Cache {
    pub(super) fn new(capacity: usize, lifetime: Duration) -> Self {
        Self {
            capacity,
            lifetime,
            answers: HashMap::new(),
            order: BTreeMap::new(),
            uses: 0,
        }
    }

    /// The answer, if there is one that still holds.
    pub(super) fn get(&mut self, question: &Question, now: Instant) -> Option<bool> {
        let entry = self.answers.get_mut(question)?;
        if now.duration_since(entry.learned) >= self.lifetime {
            return None;
        }
        self.uses += 1;
        self.order.remove(&entry.used);
        self.order.insert(self.uses, question.clone());
        entry.used = self.uses;
        Some(entry.allowed)
    }

    /// Keeps an answer.
    pub(super) fn put(&mut self, question: Question, allowed: bool, now: Instant) {
        self.uses += 1;
        let entry = Entry {
            allowed,
            learned: now,
            used: self.uses,
        };
        self.order.insert(self.uses, question.clone());
        if let Some(before) = self.answers.insert(question, entry) {
            self.order.remove(&before.used);
        }
        if self.answers.len() > self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.answers.remove(&oldest);
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.answers.clear();
        self.order.clear();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::{Review, Verb};
    use super::*;
    use crate::{Resource, WatchScope};

    const LIFETIME: Duration = Duration::from_secs(30);

    fn ask(group: &str, version: &str, plural: &str, scope: WatchScope, verb: Verb) -> Question {
        let resource = Arc::new(Resource {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
        });
        Question {
            review: Review { resource, scope },
            verb,
            name: None,
        }
    }

    fn within(namespace: &str) -> WatchScope {
        WatchScope::Namespace(namespace.into())
    }

    fn question(namespace: &str) -> Question {
        ask("", "v1", "pods", within(namespace), Verb::List)
    }

    /// Looks each name up as the reviewer does and returns those that had to be asked for.
    fn reviews(cache: &mut Cache, names: &[&str], now: Instant) -> Vec<String> {
        let mut asked = Vec::new();
        for name in names {
            if cache.get(&question(name), now).is_none() {
                cache.put(question(name), true, now);
                asked.push((*name).to_owned());
            }
        }
        asked
    }

    /// EN-13.
    #[test]
    fn the_answer_used_longest_ago_makes_room() {
        let now = Instant::now();
        let mut cache = Cache::new(2, LIFETIME);
        assert_eq!(reviews(&mut cache, &["a", "b", "c"], now), ["a", "b", "c"]);
        assert_eq!(reviews(&mut cache, &["c"], now).len(), 0);
        assert_eq!(reviews(&mut cache, &["a"], now), ["a"]);
        // A read counts as use: c was read, so b (gone) and not c is asked for again.
        assert_eq!(reviews(&mut cache, &["c", "b", "c"], now), ["b"]);
        assert_eq!(cache.answers.len(), 2);
        assert_eq!(cache.order.len(), 2);
    }

    #[test]
    fn answers_hold_for_a_while() {
        let now = Instant::now();
        let mut cache = Cache::new(2, LIFETIME);
        cache.put(question("a"), false, now);
        let almost = now + LIFETIME - Duration::from_millis(1);
        assert_eq!(cache.get(&question("a"), almost), Some(false));
        assert_eq!(
            cache.get(&question("a"), now + LIFETIME),
            None,
            "reading does not prolong it"
        );
        cache.put(question("a"), true, now + LIFETIME);
        assert_eq!(cache.get(&question("a"), now + LIFETIME), Some(true));
        cache.clear();
        assert_eq!(cache.get(&question("a"), now + LIFETIME), None);
    }

    #[test]
    fn every_part_of_a_question_counts() {
        let now = Instant::now();
        let mut cache = Cache::new(10, LIFETIME);
        let base = question("a");
        cache.put(base.clone(), true, now);
        let others = [
            ask("apps", "v1", "pods", within("a"), Verb::List),
            ask("", "v2", "pods", within("a"), Verb::List),
            ask("", "v1", "secrets", within("a"), Verb::List),
            ask("", "v1", "pods", WatchScope::All, Verb::List),
            ask("", "v1", "pods", within("a"), Verb::Watch),
            Question {
                name: Some("web".into()),
                ..base.clone()
            },
        ];
        for other in others {
            assert_eq!(cache.get(&other, now), None, "{other:?}");
        }
        assert_eq!(cache.get(&base, now), Some(true));
    }
}
