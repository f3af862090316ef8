//! Tenants whose work takes every thread it can get.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use kollect_operator::{
    lease::{Leadership, Lease, LeaseSettings},
    listeners::{Health, bind, serve},
    process::{Operator, OperatorSettings},
    workplaces::{Workplace, Workplaces},
};
use kollect_testkit::{Cluster, http, wait::eventually};
use kube::Client;
use serde_json::json;
use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
};
use tokio_util::sync::CancellationToken;

use crate::stage::{Scene, stage};

const RENEW_DEADLINE: Duration = Duration::from_secs(5);

/// Threads that are busy until this is dropped.
struct Blocked(Arc<AtomicBool>);

impl Blocked {
    /// Takes all threads of a runtime, and those that would come after them.
    fn all_of(runtime: &Runtime) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..8 {
            let over = Arc::clone(&over);
            runtime.spawn(async move {
                while !over.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        Self(over)
    }
}

impl Drop for Blocked {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn runtime() -> Runtime {
    let mut builder = Builder::new_multi_thread();
    let builder = builder.worker_threads(2).enable_all();
    builder.build().expect("a runtime")
}

/// A client that lives in the runtime that calls this.
fn client(cluster: &Cluster) -> Client {
    // The provider is chosen by whoever makes the first client.
    cluster.client(cluster.admin()).expect("a client");
    let mut config = cluster.kube_config(cluster.admin()).expect("credentials");
    config.default_retry = false;
    Client::try_from(config).expect("a client")
}

fn place(runtime: &Runtime, cluster: &Cluster) -> Workplace {
    let _entered = runtime.enter();
    Workplace {
        runtime: runtime.handle().clone(),
        client: client(cluster),
    }
}

#[test]
fn a11_blocked_tenants_stop_neither_lease_nor_probes_nor_control_loops() -> Result<()> {
    let plane = stage();
    let scene = Scene::new(plane.cluster(), "blocked")?;
    scene.target(json!({}))?;
    let (control, tenants, own) = (runtime(), runtime(), runtime());
    let places = Workplaces {
        control: place(&control, plane.cluster()),
        tenants: place(&tenants, plane.cluster()),
        admission: place(&own, plane.cluster()),
    };
    let blocked = Blocked::all_of(&tenants);
    let stop = CancellationToken::new();
    let (tell, leadership) = watch::channel(Leadership::Candidate);
    let lease_client = place(&own, plane.cluster()).client;
    let settings = LeaseSettings {
        namespace: scene.namespace.clone(),
        name: "blocked".to_owned(),
        identity: "one".to_owned(),
        duration: RENEW_DEADLINE * 2,
        renew_deadline: RENEW_DEADLINE,
        retry_period: Duration::from_secs(1),
    };
    own.spawn(Lease::new(lease_client, settings)?.run(stop.clone(), tell));
    let operator = Operator::new(
        &places,
        OperatorSettings::default(),
        leadership.clone(),
        &stop,
    );
    let observed = Arc::clone(operator.observed());
    let bound = own.block_on(bind("health-probe-bind-address", "127.0.0.1:0"))?;
    let bound = bound.expect("a listener");
    let port = bound.address.port();
    let health = Arc::new(Health {
        observed: Arc::clone(&observed),
    });
    own.spawn(serve(bound, None, health, stop.clone()));
    let ending = stop.clone();
    let running = control.spawn(async move { operator.run(&ending).await });

    eventually("leadership", || {
        ensure!(leadership.borrow().leads());
        Ok(())
    })?;
    eventually("a status that says what is missing", || {
        let (_, reason, message) = scene.condition("Degraded")?;
        ensure!(reason == "ProfileNotFound", "{reason} {message}");
        Ok(())
    })?;
    // Longer than a lease lasts that nobody renews.
    let until = Instant::now() + RENEW_DEADLINE * 2;
    while Instant::now() < until {
        assert!(leadership.borrow().leads(), "the lease was lost");
        for path in ["/healthz", "/readyz"] {
            let answer = http::Client::plain(port).request("GET", path, None)?;
            assert_eq!(answer.status, 200, "{path}");
        }
        thread::sleep(Duration::from_millis(200));
    }
    stop.cancel();
    drop(blocked);
    control.block_on(running)??;
    assert_eq!(
        observed.keeper.restarts().len(),
        0,
        "nothing had to be restarted"
    );
    Ok(())
}
