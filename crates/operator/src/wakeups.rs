//! Tells several loops that something changed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Wakes everybody who subscribed. Whoever waits hears at least of the last change since it last
/// waited, however many there were: a wake-up carries no content, so none can be lost.
#[derive(Debug, Default)]
pub struct Wakeups {
    subscribers: Mutex<Vec<Arc<Notify>>>,
    /// Those who want to know what objects say about themselves.
    told: Mutex<Vec<Arc<Notify>>>,
}

impl Wakeups {
    /// A new subscription. It is woken at once, because something may have changed before.
    pub fn subscribe(&self) -> Arc<Notify> {
        subscribe(&self.subscribers)
    }

    /// A subscription to what objects say about themselves. It is woken at once, too.
    pub fn subscribe_told(&self) -> Arc<Notify> {
        subscribe(&self.told)
    }

    /// Wakes all subscribers: something that users configured has changed.
    pub fn notify(&self) {
        wake(&self.subscribers);
    }

    /// Wakes those who want to know: what an object says about itself has changed.
    pub fn notify_told(&self) {
        wake(&self.told);
    }
}

fn subscribe(all: &Mutex<Vec<Arc<Notify>>>) -> Arc<Notify> {
    let subscriber = Arc::new(Notify::new());
    subscriber.notify_one();
    let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
    // Whoever dropped a subscription waits no more.
    all.retain(|known| Arc::strong_count(known) > 1);
    all.push(Arc::clone(&subscriber));
    subscriber
}

fn wake(all: &Mutex<Vec<Arc<Notify>>>) {
    let all = all.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().for_each(|subscriber| subscriber.notify_one());
}
