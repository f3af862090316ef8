//! Tells several loops that something changed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Wakes everybody who subscribed. Whoever waits hears at least of the last change since it last
/// waited, however many there were: a wake-up carries no content, so none can be lost.
#[derive(Debug, Default)]
pub struct Wakeups {
    subscribers: Mutex<Vec<Arc<Notify>>>,
}

impl Wakeups {
    /// A new subscription. It is woken at once, because something may have changed before.
    pub fn subscribe(&self) -> Arc<Notify> {
        let subscriber = Arc::new(Notify::new());
        subscriber.notify_one();
        let mut all = self.lock();
        // Whoever dropped a subscription waits no more.
        all.retain(|known| Arc::strong_count(known) > 1);
        all.push(Arc::clone(&subscriber));
        subscriber
    }

    /// Wakes all subscribers.
    pub fn notify(&self) {
        self.lock()
            .iter()
            .for_each(|subscriber| subscriber.notify_one());
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Arc<Notify>>> {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
