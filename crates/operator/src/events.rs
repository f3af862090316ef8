//! Events: what a person who looks at an object would want to be told.
//!
//! Which changes are worth telling is decided by [`news`], when they are sent by [`book`]. What is
//! sent leaves through one task, so that no control loop waits for it. That an event cannot be sent
//! is nobody's trouble but the log's: events are a courtesy, and the status says everything too.

pub mod book;
pub mod news;

use std::{sync::Arc, time::Duration};

use futures::{StreamExt as _, stream};
use k8s_openapi::{
    api::core::v1::{Event, ObjectReference},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
    jiff::Timestamp,
};
use kollect_api::condition::{Condition, ConditionStatus, ConditionType};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::{
    sync::{Mutex, mpsc},
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;

use self::book::{EventBook, Outgoing};
use crate::{
    keeper::Keeper,
    status_log::StatusLog,
    writer::{WriteError, in_time},
};

/// How many events may wait to be taken note of; what is beyond is not told.
const QUEUE: usize = 1_024;
/// How many are sent at a time.
const PARALLEL: usize = 4;
/// How long to sleep when nothing is due.
const FAR_AWAY: Duration = Duration::from_hours(1);

/// That events cannot be sent is said this often.
const UNSENT: Duration = Duration::from_hours(1);

/// Where events are told, and the log of what is wrong with objects. Clones tell the same teller;
/// the default one tells nobody but the log.
#[derive(Debug, Clone, Default)]
pub struct Events {
    sender: Option<mpsc::Sender<Event>>,
    log: Arc<StatusLog>,
}

impl Events {
    /// Sends events through `client` until `stop`.
    pub fn start(client: Client, keeper: &Keeper, stop: &CancellationToken) -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let receiver = Mutex::new(receiver);
        let (keeper, over) = (keeper.clone(), stop.child_token());
        let log = Arc::new(StatusLog::default());
        let lines = Arc::clone(&log);
        tokio::spawn(async move {
            let telling = || async {
                let told = run(&client, &receiver, &lines);
                over.run_until_cancelled(told).await;
                // Nobody has anything to tell any more.
                over.cancel();
            };
            keeper.keep("events", &over, telling).await;
        });
        Self {
            sender: Some(sender),
            log,
        }
    }

    /// Somebody who listens to what is told.
    #[cfg(test)]
    pub fn heard() -> (Self, mpsc::Receiver<Event>) {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let events = Self {
            sender: Some(sender),
            ..Self::default()
        };
        (events, receiver)
    }

    /// Tells of an event. Never waits.
    pub fn tell(&self, event: Event) {
        if let Some(sender) = &self.sender
            && let Err(error) = sender.try_send(event)
        {
            tracing::debug!(%error, "an event is not told");
        }
    }

    /// Takes note of what the conditions of an object say, whether that is new or not: the log says
    /// what is wrong with it, once.
    pub fn observe<K>(&self, meta: &ObjectMeta, conditions: &[Condition])
    where
        K: Resource<DynamicType = ()>,
    {
        let name = meta.name.as_deref().unwrap_or_default();
        let object = match &meta.namespace {
            Some(namespace) => format!("{} {namespace}/{name}", K::kind(&())),
            None => format!("{} {name}", K::kind(&())),
        };
        if let Some(line) = self.log.observe(&object, conditions, Instant::now()) {
            line.write();
        }
    }

    /// Tells what is worth telling about a new status of the object that has this metadata.
    pub fn tell_of<K>(&self, meta: &ObjectMeta, before: &[Condition], after: &[Condition])
    where
        K: Resource<DynamicType = ()>,
    {
        for condition in news::worth_telling(before, after) {
            self.tell(event::<K>(meta, condition, Timestamp::now()));
        }
    }
}

async fn run(client: &Client, told: &Mutex<mpsc::Receiver<Event>>, log: &StatusLog) {
    let mut told = told.lock().await;
    let mut book = EventBook::default();
    let mut unsent_told: Option<Instant> = None;
    loop {
        let now = Instant::now();
        for line in log.take_due(now) {
            line.write();
        }
        let due = book.take_due(now);
        let sent: Vec<_> = stream::iter(due)
            .map(|outgoing| async move {
                let result = send(client, &outgoing).await;
                (outgoing, result)
            })
            .buffer_unordered(PARALLEL)
            .collect()
            .await;
        for (outgoing, result) in sent {
            if let Err(error) = &result {
                let reason = &outgoing.event.reason;
                tracing::debug!(reason, %error, "an event could not be sent");
                if unsent_told.is_none_or(|told| now.duration_since(told) >= UNSENT) {
                    unsent_told = Some(now);
                    tracing::warn!(
                        %error,
                        "events cannot be created; they are tried again once a minute, and the \
                         statuses of the objects say the same"
                    );
                }
            }
            book.sent(&outgoing.key, result.is_ok());
        }
        let wake = [book.next_due(Instant::now()), log.next_due()];
        let wake = wake.into_iter().flatten().min();
        let wake = wake.unwrap_or_else(|| Instant::now() + FAR_AWAY);
        tokio::select! {
            () = log.held_back.notified() => {}
            event = told.recv() => match event {
                Some(event) => book.note(event, Instant::now()),
                None => return,
            },
            () = sleep_until(wake) => {}
        }
        while let Ok(event) = told.try_recv() {
            book.note(event, Instant::now());
        }
    }
}

/// Creates an event, or adds to the one that was created.
async fn send(client: &Client, outgoing: &Outgoing) -> Result<(), WriteError> {
    let event = &outgoing.event;
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let api: Api<Event> = Api::namespaced(client.clone(), namespace);
    if outgoing.repeated {
        let name = event.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({
            "count": event.count, "lastTimestamp": event.last_timestamp, "message": event.message,
        });
        let parameters = PatchParams::default();
        match in_time(api.patch(name, &parameters, &Patch::Merge(&patch))).await {
            // Events expire after an hour.
            Err(error) if error.is_outdated() => {}
            result => return result.map(drop),
        }
    }
    in_time(api.create(&PostParams::default(), event))
        .await
        .map(drop)
}

/// An event about the object that has this metadata: what one of its conditions says.
pub fn event<K>(meta: &ObjectMeta, condition: &Condition, now: Timestamp) -> Event
where
    K: Resource<DynamicType = ()>,
{
    let component = format!("{}-controller", K::kind(&()).to_lowercase());
    let bad = condition.type_ == ConditionType::Degraded.as_str()
        || condition.status == ConditionStatus::False
        || news::is_advice(condition);
    Event {
        metadata: ObjectMeta {
            // Events of cluster-scoped objects live where kubectl looks for them.
            namespace: Some(
                meta.namespace
                    .clone()
                    .unwrap_or_else(|| "default".to_owned()),
            ),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(K::api_version(&()).into_owned()),
            kind: Some(K::kind(&()).into_owned()),
            name: meta.name.clone(),
            namespace: meta.namespace.clone(),
            uid: meta.uid.clone(),
            resource_version: meta.resource_version.clone(),
            ..ObjectReference::default()
        },
        type_: Some(if bad { "Warning" } else { "Normal" }.to_owned()),
        reason: Some(condition.reason.clone()),
        message: Some(clipped(&condition.message)),
        action: Some("Reconcile".to_owned()),
        reporting_component: Some(component.clone()),
        reporting_instance: Some(component),
        event_time: Some(MicroTime(now)),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        ..Event::default()
    }
}

/// The API server takes 1,024 bytes.
fn clipped(message: &str) -> String {
    let end = message.floor_char_boundary(1_000);
    if end == message.len() {
        message.to_owned()
    } else {
        format!("{}…", &message[..end])
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::{KollectTarget, condition::Reason};

    use super::*;

    #[test]
    fn events_say_how_bad_it_is() {
        use ConditionStatus::{False, True};
        use ConditionType::{Degraded, Ready, Synced, TLSInsecure};

        let meta = ObjectMeta {
            name: Some("t".to_owned()),
            namespace: Some("team-a".to_owned()),
            uid: Some("u".to_owned()),
            ..ObjectMeta::default()
        };
        let now = Timestamp::UNIX_EPOCH;
        for (type_, status, reason, expected) in [
            (Ready, True, Reason::Collecting, "Normal"),
            (Degraded, True, Reason::Suspended, "Warning"),
            (Ready, False, Reason::Suspended, "Warning"),
            (Degraded, True, Reason::ScopeForbidden, "Warning"),
            (Synced, True, Reason::ScopeForbidden, "Normal"),
            (TLSInsecure, True, Reason::InsecureSkipVerify, "Warning"),
        ] {
            let text = "é".repeat(900);
            let condition = Condition::new(type_, status, reason, text, None, Time(now));
            let event = event::<KollectTarget>(&meta, &condition, now);
            assert_eq!(event.type_.as_deref(), Some(expected), "{reason}");
            assert_eq!(event.involved_object.kind.as_deref(), Some("KollectTarget"));
            assert_eq!(
                event.reporting_component.as_deref(),
                Some("kollecttarget-controller")
            );
            assert!(event.message.unwrap().len() < 1_024);
        }
    }
}
