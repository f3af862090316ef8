//! One exporter per inventory at a time.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use kollect_api::{KollectInventory, SinkKey, reference::SinkFamily, sink::SinkSpec};
use kollect_collect::store::{Limits, RowSelection};
use kollect_export::{
    Configuration, Order, Permits, Pool, SinkOrder, SinkSource, delivery::Unobserved,
    order::Source, report::RetireState,
};
use kollect_sinks::{
    Delivery, Demand, DocumentOptions, Receipt, Sink, SinkError, credentials::Materials,
};
use serde_json::json;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::*;
use crate::inventories::{object::InventoryObject, plan::InventoryPlan, subject::Subject};

/// Cleans up when it is told to, and counts how many do at a time.
#[derive(Debug)]
struct Gate {
    open: Semaphore,
    inside: AtomicUsize,
    most: AtomicUsize,
    begun: Mutex<Vec<String>>,
}

#[async_trait]
impl Sink for Gate {
    fn demand(&self) -> Demand {
        Demand::Changes
    }

    async fn deliver(&self, _: &Delivery) -> Result<Receipt, SinkError> {
        Ok(Receipt::default())
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.begun.lock().unwrap().push(inventory.to_string());
        let open = self.open.acquire().await.expect("nobody closes it");
        open.forget();
        self.inside.fetch_sub(1, Ordering::SeqCst);
        Ok(Receipt::default())
    }

    async fn probe(&self) -> Result<String, SinkError> {
        Ok(String::new())
    }
}

/// The inventory `team-a/inv` with this uid, which has a sink to clean up.
fn planned(uid: &str) -> Arc<Planned> {
    let inventory = json!({
        "apiVersion": "kollect.dev/v1alpha1", "kind": "KollectInventory",
        "metadata": {"name": "inv", "namespace": "team-a", "uid": uid},
        "spec": {},
    });
    let inventory: KollectInventory = serde_json::from_value(inventory).expect("an inventory");
    let inventory = Arc::new(inventory);
    let subject = Subject::from(&*inventory);
    let key = SinkKey {
        family: SinkFamily::Database,
        namespace: "team-a".to_owned(),
        name: "pg".to_owned(),
    };
    let spec = json!({
        "type": "postgres",
        "postgres": {"databaseRef": {"name": "dsn"}, "table": "items"},
    });
    let source = SinkSource {
        key: key.clone(),
        uid: "sink".to_owned(),
        version: 1,
        demand: Demand::Changes,
        spec: Arc::new(SinkSpec::Database(
            serde_json::from_value(spec).expect("a sink"),
        )),
        materials: Arc::new(Materials::default()),
    };
    let retire = SinkOrder {
        key,
        source: Source::Ready(Arc::new(source)),
        configuration: Configuration(1),
        interval: Duration::ZERO,
        change_interval: Duration::ZERO,
        documents: DocumentOptions::default(),
        resume: None,
    };
    let order = Order {
        inventory: subject.id.clone(),
        generation: 1,
        scope: RowSelection::Namespace("team-a".to_owned()),
        dedupe: subject.dedupe(),
        open: true,
        deliver: Vec::new(),
        retire: vec![retire],
    };
    Arc::new(Planned {
        subject,
        object: InventoryObject::Namespaced(inventory),
        plan: InventoryPlan {
            order,
            gate: None,
            undecided: false,
            doubt: None,
            findings: Vec::new(),
            orphans: Vec::new(),
            targets: BTreeSet::new(),
        },
    })
}

fn exporters() -> (Exporters, Arc<Gate>) {
    let gate = Arc::new(Gate {
        open: Semaphore::new(0),
        inside: AtomicUsize::new(0),
        most: AtomicUsize::new(0),
        begun: Mutex::default(),
    });
    let sink = Arc::clone(&gate);
    let calls = Calls {
        pool: Pool::with_opener(move |_| {
            let sink: Arc<dyn Sink> = Arc::clone(&sink) as _;
            Box::pin(async move { Ok(sink) })
        }),
        deadline: Duration::from_mins(2),
        permits: Permits::new(4),
        probes: Permits::new(4),
        observer: Arc::new(Unobserved),
        may_write: Box::new(|| true),
    };
    let store = Store::new(Limits::default(), || {});
    (
        Exporters::new(Handle::current(), store, Arc::new(calls)),
        gate,
    )
}

#[tokio::test(start_paused = true)]
async fn an_inventory_that_was_created_again_has_one_exporter_at_a_time() {
    let (mut exporters, gate) = exporters();
    let (old, new) = (planned("old"), planned("new"));
    let id = old.subject.id.clone();
    exporters.ensure(&old);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gate.begun.lock().unwrap().len(), 1, "the old one cleans up");

    exporters.end(&id);
    exporters.ensure(&new);
    sleep(Duration::from_secs(5)).await;
    assert_eq!(gate.begun.lock().unwrap().len(), 1, "the new one waits");
    assert!(!exporters.running.contains_key(&id));
    let early = timeout(Duration::from_secs(1), exporters.ended()).await;
    assert!(early.is_err(), "the call is under way");

    gate.open.add_permits(2);
    let ended = timeout(Duration::from_secs(1), exporters.ended()).await;
    assert_eq!(ended.expect("as soon as the call has ended"), id);
    exporters.ensure(&new);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gate.begun.lock().unwrap().len(), 2);
    assert_eq!(gate.most.load(Ordering::SeqCst), 1, "never two");
    let running = &exporters.running[&id];
    assert_eq!(running.uid, "new");
    assert_eq!(
        running.reports.borrow().retiring[0].state,
        RetireState::Done
    );
    exporters.finish().await;
    assert!(exporters.running.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_end_holds_the_next_exporter_for_a_bounded_time() {
    let (mut exporters, gate) = exporters();
    let old = planned("old");
    exporters.ensure(&old);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gate.begun.lock().unwrap().len(), 1);
    exporters.end(&old.subject.id);
    let ended = timeout(Duration::from_secs(16), exporters.ended()).await;
    assert_eq!(ended.expect("it is dropped"), old.subject.id);
}

#[tokio::test(start_paused = true)]
async fn b6_patience_begins_with_the_first_look_of_this_process() {
    let (mut exporters, gate) = exporters();
    let planned = planned("deleted long ago");
    exporters.ensure(&planned);
    sleep(Duration::from_mins(20)).await;
    let running = exporters
        .running
        .get_mut(&planned.subject.id)
        .expect("it runs");
    assert_eq!(running.finalizing_for(), Duration::ZERO);
    sleep(Duration::from_mins(3)).await;
    let running = exporters
        .running
        .get_mut(&planned.subject.id)
        .expect("it runs");
    assert_eq!(running.finalizing_for(), Duration::from_mins(3));
    gate.open.add_permits(100);
    exporters.finish().await;
}

#[tokio::test(start_paused = true)]
async fn c18_a_sink_that_was_served_is_remembered_until_it_is_empty() {
    let (mut exporters, gate) = exporters();
    let retiring = planned("uid");
    let key = retiring.plan.order.retire[0].key.clone();
    let serving = {
        let mut planned = planned("uid");
        let whole = Arc::get_mut(&mut planned).expect("nobody else has it");
        let order = &mut whole.plan.order;
        order.deliver = std::mem::take(&mut order.retire);
        planned
    };
    let served = BTreeSet::from([key]);
    let id = &retiring.subject.id;
    exporters.ensure(&serving);
    assert_eq!(exporters.running[id].served, served);
    exporters.ensure(&retiring);
    sleep(Duration::from_secs(1)).await;
    let running = exporters.running.get_mut(id).expect("it runs");
    let report = running.reports.borrow().clone();
    running.observe(&report, false);
    assert_eq!(running.served, served, "it is not empty yet");
    assert!(running.emptied.is_empty());
    gate.open.add_permits(1);
    sleep(Duration::from_secs(1)).await;
    let report = running.reports.borrow().clone();
    running.observe(&report, false);
    assert!(running.served.is_empty());
    assert_eq!(running.emptied, served);
    running.instruct(&serving);
    assert!(running.emptied.is_empty(), "it is served again");
    exporters.finish().await;
}
