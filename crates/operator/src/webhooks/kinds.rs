//! Which kinds there are, as far as anybody asked. Tenants make up groups and versions, so only so
//! many are remembered.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use kollect_api::GroupVersionKind;
use kollect_watch::discovery::{Answer, Discovery};
use kube::Client;
use tokio::time::timeout;

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(1);
/// How many groups and versions are remembered.
const REMEMBERED: usize = 256;

/// What the API server serves.
pub(super) struct Kinds {
    client: Client,
    memory: Mutex<Memory>,
}

struct Memory {
    discovery: Arc<Discovery>,
    asked: HashSet<(String, String)>,
}

impl Kinds {
    /// Asks through `client`.
    pub(super) fn new(client: Client) -> Self {
        let memory = Memory {
            discovery: Arc::new(Discovery::new(client.clone())),
            asked: HashSet::new(),
        };
        Self {
            client,
            memory: Mutex::new(memory),
        }
    }

    /// What serves a kind.
    pub(super) async fn resolve(&self, kind: &GroupVersionKind) -> Answer {
        let discovery = self.discovery(kind);
        let answer = timeout(DEADLINE, discovery.resolve(kind)).await;
        answer.unwrap_or_else(|_| {
            let seconds = DEADLINE.as_secs();
            Answer::Unreachable(format!("the API server did not say within {seconds} s"))
        })
    }

    /// The memory, a new one when the old one is full.
    fn discovery(&self, kind: &GroupVersionKind) -> Arc<Discovery> {
        let mut memory = self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        if memory.asked.len() >= REMEMBERED {
            memory.asked.clear();
            memory.discovery = Arc::new(Discovery::new(self.client.clone()));
        }
        let asked = (kind.group.clone(), kind.version.clone());
        memory.asked.insert(asked);
        Arc::clone(&memory.discovery)
    }
}
