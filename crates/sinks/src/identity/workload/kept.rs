//! Credentials that are kept until shortly before they end.

use std::{collections::HashMap, future::Future, sync::Arc, time::Duration};

use tokio::{sync::Mutex, time::Instant};

use crate::error::SinkError;

/// Credentials that end within this time are replaced.
const EARLY: Duration = Duration::from_mins(5);
/// The longest time for which any are used.
const LONGEST: Duration = Duration::from_hours(12);
/// How long nobody asks again after a refusal. Many sinks may want the same.
const PAUSE: Duration = Duration::from_secs(5);
/// Most kinds of credentials that are kept side by side.
const KINDS: usize = 64;

/// Something that ends.
#[derive(Debug, Clone)]
pub(super) struct Lasting<T> {
    pub(super) value: T,
    /// Counted from now.
    pub(super) life: Duration,
}

/// Credentials by name; one request at a time for each.
#[derive(Debug)]
pub(super) struct Kept<T>(Mutex<HashMap<String, Arc<Mutex<Slot<T>>>>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

#[derive(Debug)]
enum Slot<T> {
    Empty,
    Held {
        value: T,
        /// From then on another one is asked for.
        fresh: Instant,
        /// From then on it is worth nothing.
        ends: Instant,
    },
    Refused {
        error: SinkError,
        until: Instant,
    },
}

impl<T: Clone + PartialEq> Kept<T> {
    /// What is kept under a name, or what `ask` brings.
    pub(super) async fn get<F>(&self, name: &str, ask: impl FnOnce() -> F) -> Result<T, SinkError>
    where
        F: Future<Output = Result<Lasting<T>, SinkError>>,
    {
        let slot = {
            let mut slots = self.0.lock().await;
            if slots.len() >= KINDS && !slots.contains_key(name) {
                slots.clear();
            }
            let new = || Arc::new(Mutex::new(Slot::Empty));
            Arc::clone(slots.entry(name.to_owned()).or_insert_with(new))
        };
        let mut slot = slot.lock().await;
        let now = Instant::now();
        match &*slot {
            Slot::Held { value, fresh, .. } if now < *fresh => return Ok(value.clone()),
            Slot::Refused { error, until } if now < *until => return Err(error.clone()),
            _ => {}
        }
        match ask().await {
            Ok(Lasting { value, life }) => {
                let life = life.min(LONGEST);
                // Of a short life at least half is used.
                let used = life.saturating_sub(EARLY).max(life / 2);
                *slot = Slot::Held {
                    value: value.clone(),
                    fresh: now + used,
                    ends: now + life,
                };
                Ok(value)
            }
            Err(error) => {
                let until = Instant::now() + PAUSE;
                match &mut *slot {
                    // Good enough until its end.
                    Slot::Held { value, fresh, ends } if until < *ends => {
                        *fresh = until;
                        Ok(value.clone())
                    }
                    slot => {
                        *slot = Slot::Refused {
                            error: error.clone(),
                            until,
                        };
                        Err(error)
                    }
                }
            }
        }
    }

    /// Forgets a value, under whatever name.
    pub(super) async fn forget(&self, value: &T) {
        let slots: Vec<_> = self.0.lock().await.values().cloned().collect();
        for slot in slots {
            let mut slot = slot.lock().await;
            if matches!(&*slot, Slot::Held { value: held, .. } if held == value) {
                *slot = Slot::Empty;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::time::sleep_until as until;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn kept_until_shortly_before_the_end() {
        let kept = Kept::default();
        let asked = AtomicU32::new(0);
        let ask = |fails: bool| {
            let number = asked.fetch_add(1, Ordering::Relaxed);
            async move {
                if fails {
                    return Err(SinkError::transient("no"));
                }
                Ok(Lasting {
                    value: number,
                    life: Duration::from_hours(1),
                })
            }
        };
        let start = Instant::now();
        assert_eq!(kept.get("a", || ask(false)).await, Ok(0));
        until(start + Duration::from_mins(54)).await;
        assert_eq!(kept.get("a", || ask(false)).await, Ok(0));
        // A refusal does not matter before the end.
        until(start + Duration::from_mins(56)).await;
        assert_eq!(kept.get("a", || ask(true)).await, Ok(0));
        assert_eq!(kept.get("a", || ask(true)).await, Ok(0));
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        until(start + Duration::from_mins(61)).await;
        assert!(kept.get("a", || ask(true)).await.is_err());
        // And is not asked for again at once.
        assert!(kept.get("a", || ask(false)).await.is_err());
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        until(start + Duration::from_mins(62)).await;
        assert_eq!(kept.get("a", || ask(false)).await, Ok(3));
        assert_eq!(kept.get("b", || ask(false)).await, Ok(4));
        kept.forget(&3).await;
        assert_eq!(kept.get("a", || ask(false)).await, Ok(5));
    }
}
