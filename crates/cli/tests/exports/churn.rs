//! Objects that change all the time.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use anyhow::Result;
use serde_json::json;

use crate::stage::Stage;

/// A small generator, the same in every run.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}

/// Changes objects `m-0` to `m-59` until it is told to pause or stop.
pub(crate) struct Churn {
    stop: Arc<AtomicBool>,
    turn: Arc<Mutex<()>>,
    thread: Option<thread::JoinHandle<usize>>,
}

impl Churn {
    pub(crate) fn start(stage: &Stage) -> Result<Self> {
        let (stop, turn) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(())));
        let path = format!("/api/v1/namespaces/{}/configmaps", stage.namespace);
        let api = stage.api()?;
        let (stopped, turns) = (Arc::clone(&stop), Arc::clone(&turn));
        let thread = thread::spawn(move || {
            let mut random = Random(7);
            let mut changes = 0;
            while !stopped.load(Ordering::Relaxed) {
                let _turn = turns.lock().expect("nobody panics with it");
                let name = format!("m-{}", random.next() % 60);
                // Few values, so that objects often return to what they were.
                let map = json!({
                    "metadata": {"name": name},
                    "data": {"number": (random.next() % 4).to_string()},
                });
                let one = format!("{path}/{name}");
                let answer = match random.next() % 4 {
                    0 => api.request("DELETE", &one, None),
                    1 => api.request("POST", &path, Some(&map)),
                    _ => api.request("PUT", &one, Some(&map)),
                };
                // The API server may be away: that is somebody else's scenario.
                changes += usize::from(answer.is_ok_and(|answer| answer.is_success()));
            }
            changes
        });
        Ok(Self {
            stop,
            turn,
            thread: Some(thread),
        })
    }

    /// Nothing changes while the guard lives.
    pub(crate) fn pause(&self) -> std::sync::MutexGuard<'_, ()> {
        self.turn.lock().expect("nobody panics with it")
    }

    pub(crate) fn stop(mut self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take().expect("it runs");
        thread.join().expect("the churn ends")
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
