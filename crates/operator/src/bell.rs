//! Tells several loops that something changed.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

/// Rung when something changes. Whoever listens hears at least the last ring since it last
/// listened, however many there were: rings carry no content, so none can be lost.
#[derive(Debug, Default)]
pub struct Bell {
    ears: Mutex<Vec<Arc<Notify>>>,
}

impl Bell {
    /// A new ear. It hears at once, because something may have happened before it was there.
    pub fn ear(&self) -> Arc<Notify> {
        let ear = Arc::new(Notify::new());
        ear.notify_one();
        let mut ears = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever dropped its ear listens no more.
        ears.retain(|known| Arc::strong_count(known) > 1);
        ears.push(Arc::clone(&ear));
        ear
    }

    /// Rings.
    pub fn ring(&self) {
        let ears = self.ears.lock().unwrap_or_else(PoisonError::into_inner);
        ears.iter().for_each(|ear| ear.notify_one());
    }
}
