//! Where work runs.
//!
//! | Runtime | What runs there | Who can hold it up |
//! | --- | --- | --- |
//! | the process's own | lease, probes, metrics, signals | nobody |
//! | control | control loops, watches of our own kinds, writes of statuses | the number of objects |
//! | admission | the webhooks | whoever writes objects of ours, for as long as a judgement takes |
//! | tenants | watches of collected objects, evaluation, exports, probes of sinks | tenants and their servers |
//!
//! Each has threads of its own, and a client of its own: a connection lives in the runtime that
//! opened it, so a pool of connections that two runtimes share would let one hold up the other.

use kube::Client;
use tokio::runtime::Handle;

/// One runtime, and the way to the API server from there.
#[derive(Clone)]
pub struct Workplace {
    /// Where tasks are spawned.
    pub runtime: Handle,
    /// Made in that runtime and used nowhere else.
    pub client: Client,
}

/// The runtimes of an operator, but for the process's own.
#[derive(Clone)]
pub struct Workplaces {
    /// What must go on whatever tenants do.
    pub control: Workplace,
    /// What tenants ask for.
    pub tenants: Workplace,
    /// What whoever writes objects of ours waits for.
    pub admission: Workplace,
}

impl Workplaces {
    /// Everything in the runtime that calls this.
    pub fn here(client: &Client) -> Self {
        let here = Workplace {
            runtime: Handle::current(),
            client: client.clone(),
        };
        Self {
            control: here.clone(),
            tenants: here.clone(),
            admission: here,
        }
    }
}
