//! A resolver that changes its answer, and policies for tests on loopback.

use std::{
    io,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use async_trait::async_trait;
use kollect_api::address::AddressPolicy;
use kollect_sinks::dial::{Dialer, Resolve};

use crate::door::ALLOWED;

/// Gives its answers in turn, over and over, and counts.
#[derive(Debug)]
pub(crate) struct Turns {
    answers: Vec<Vec<IpAddr>>,
    lookups: AtomicUsize,
}

impl Turns {
    pub(crate) fn new<S: AsRef<str>>(answers: &[&[S]]) -> Arc<Self> {
        let addresses = |answer: &&[S]| {
            let texts = answer.iter().map(AsRef::as_ref);
            texts.map(|text| text.parse().unwrap()).collect()
        };
        Arc::new(Self {
            answers: answers.iter().map(addresses).collect(),
            lookups: AtomicUsize::new(0),
        })
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }

    pub(crate) fn dialer(self: &Arc<Self>, policy: AddressPolicy) -> Dialer {
        Dialer::with_resolver(policy, self.clone())
    }
}

#[async_trait]
impl Resolve for Turns {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        let turn = self.lookups.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[turn % self.answers.len()].clone())
    }
}

/// Opens the one address of loopback that is allowed in these tests.
pub(crate) fn only_allowed() -> AddressPolicy {
    AddressPolicy {
        allowed_networks: vec![format!("{ALLOWED}/32").parse().unwrap()],
        ..AddressPolicy::default()
    }
}
