//! Limits that belong to whoever uses them up.
//!
//! What may hang (a blocking call, a name server) is counted per sink or per namespace. Whoever
//! has used up its share waits for itself, and nobody else notices.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::Semaphore;

/// From this many entries on, those that nobody uses any more are forgotten.
const TIDY: usize = 256;

/// As many permits for each user as for any other.
pub(crate) struct Shares {
    each: usize,
    in_use: Mutex<Option<HashMap<String, Weak<Semaphore>>>>,
}

impl Shares {
    /// This many permits for each user.
    pub(crate) const fn new(each: usize) -> Self {
        Self {
            each,
            in_use: Mutex::new(None),
        }
    }

    /// The share of one user. It lives for as long as somebody holds it, or a permit of it.
    pub(crate) fn of(&self, user: &str) -> Arc<Semaphore> {
        let mut in_use = self.in_use.lock().unwrap_or_else(PoisonError::into_inner);
        let in_use = in_use.get_or_insert_default();
        if let Some(share) = in_use.get(user).and_then(Weak::upgrade) {
            return share;
        }
        if in_use.len() >= TIDY {
            in_use.retain(|_, share| share.strong_count() > 0);
        }
        let share = Arc::new(Semaphore::new(self.each));
        in_use.insert(user.to_owned(), Arc::downgrade(&share));
        share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_kept_while_it_is_used_and_forgotten_afterwards() {
        let shares = Shares::new(1);
        let permit = shares.of("a").try_acquire_owned().unwrap();
        assert!(shares.of("a").try_acquire_owned().is_err());
        assert!(shares.of("b").try_acquire_owned().is_ok());
        for user in 0..2 * TIDY {
            shares.of(&user.to_string());
        }
        assert!(shares.in_use.lock().unwrap().as_ref().unwrap().len() <= TIDY);
        assert!(shares.of("a").try_acquire_owned().is_err(), "still held");
        drop(permit);
        assert!(shares.of("a").try_acquire_owned().is_ok());
    }
}
