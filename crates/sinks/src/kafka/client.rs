//! The brokers of a cluster as a sink sees them: who leads what, and connections to them.
//!
//! A broker may name any address as another broker's; every one of them is dialled by the guarded
//! dialler like the first.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{
    code::{Code, Meaning},
    connection::Connection,
    fault::Fault,
    requests::{CreateTopic, DescribeTopic, Metadata, Request},
    settings::{Broker, Settings},
};
use crate::dial::Dialer;

/// How long a broker may take for an answer that needs nobody else.
pub(super) const ANSWER: Duration = Duration::from_secs(20);
/// How many idle connections to one broker are kept.
const IDLE: usize = 2;
/// The most partitions of a topic, and brokers of a cluster, that are believed.
const MANY: usize = 100_000;
/// What a broker takes when it does not say: its own default.
const MESSAGE: usize = 1_048_588;
/// How long a new topic may take to appear.
const CREATION: Duration = Duration::from_secs(15);

/// The operations of access rules, as bits of an answer.
const READ: i32 = 1 << 3;
const WRITE: i32 = 1 << 4;
/// The broker does not say.
const UNKNOWN: i32 = i32::MIN;

/// Who leads the partitions of the topic.
#[derive(Debug)]
pub(super) struct Map {
    /// The leader of each partition, by number.
    leaders: Vec<i32>,
    brokers: BTreeMap<i32, Broker>,
    operations: i32,
}

impl Map {
    pub(super) fn partitions(&self) -> usize {
        self.leaders.len()
    }

    pub(super) fn leader(&self, partition: i32) -> Result<&Broker, Fault> {
        let leader = usize::try_from(partition)
            .ok()
            .and_then(|partition| self.leaders.get(partition));
        leader
            .and_then(|leader| self.brokers.get(leader))
            .ok_or(Fault::NoLeader { partition })
    }

    /// Whether something may be done with the topic, as far as the broker says.
    fn may(&self, operation: i32) -> bool {
        self.operations == UNKNOWN || self.operations & operation != 0
    }

    pub(super) fn may_write(&self) -> bool {
        self.may(WRITE)
    }

    pub(super) fn may_read(&self) -> bool {
        self.may(READ)
    }
}

/// What the broker says about the topic's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Limits {
    /// The largest batch, in bytes.
    pub(super) message: usize,
    /// Whether old records of a key go and the newest stays; none if the broker does not say.
    pub(super) compacted: Option<bool>,
}

/// The way to the brokers of one sink.
pub(super) struct Client {
    pub(super) settings: Settings,
    dialer: Dialer,
    idle: Mutex<HashMap<Broker, Vec<Connection>>>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    brokers: BTreeMap<i32, Broker>,
    controller: i32,
    map: Option<Arc<Map>>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("topic", &self.settings.topic)
            .finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(settings: Settings, dialer: Dialer) -> Self {
        Self {
            settings,
            dialer,
            idle: Mutex::default(),
            known: Mutex::default(),
        }
    }

    pub(super) fn topic(&self) -> &str {
        &self.settings.topic
    }

    /// One request to one broker.
    pub(super) async fn ask<R: Request>(
        &self,
        broker: &Broker,
        request: &R,
        limit: Duration,
    ) -> Result<R::Answer, Fault> {
        let mut idle = self.idle(broker);
        loop {
            let reused = idle.is_some();
            let mut connection = match idle.take() {
                Some(connection) => connection,
                None => Connection::open(broker, &self.settings, &self.dialer).await?,
            };
            match connection.request(request, limit).await {
                Ok(answer) => {
                    self.give_back(connection);
                    return Ok(answer);
                }
                // Brokers close what was idle for long; others of the same time are closed too.
                Err(fault) if reused && fault.is_stale_connection() => {
                    lock(&self.idle).remove(broker);
                }
                Err(fault) => return Err(fault),
            }
        }
    }

    fn idle(&self, broker: &Broker) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        let kept = idle.get_mut(broker)?;
        kept.retain(Connection::is_fresh);
        kept.pop()
    }

    fn give_back(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        let kept = idle.entry(connection.broker().clone()).or_default();
        if kept.len() < IDLE {
            kept.push(connection);
        }
    }

    /// One request to any broker: those that are known, then those of the sink, until one answers.
    async fn ask_any<R: Request>(&self, request: &R) -> Result<R::Answer, Fault> {
        let mut brokers: Vec<Broker> = lock(&self.known).brokers.values().cloned().collect();
        // Other operators ask others first.
        fastrand::shuffle(&mut brokers);
        brokers.truncate(self.settings.brokers.len().max(3));
        for broker in &self.settings.brokers {
            if !brokers.contains(broker) {
                brokers.push(broker.clone());
            }
        }
        let mut first = None;
        for broker in &brokers {
            match self.ask(broker, request, ANSWER).await {
                Ok(answer) => return Ok(answer),
                Err(fault) if fault.is_final() => return Err(fault),
                Err(fault) => first = first.or(Some(fault)),
            }
        }
        Err(first.unwrap_or(Fault::NoLeader { partition: 0 }))
    }

    /// Who leads what, as it was when somebody last asked.
    pub(super) async fn map(&self) -> Result<Arc<Map>, Fault> {
        let known = lock(&self.known).map.clone();
        match known {
            Some(map) => Ok(map),
            None => self.look().await,
        }
    }

    /// A leader was not where it should be, or did not answer.
    pub(super) fn forget_map(&self) {
        lock(&self.known).map = None;
    }

    /// Asks who leads what.
    pub(super) async fn look(&self) -> Result<Arc<Map>, Fault> {
        let topic = self.topic();
        let answer = self.ask_any(&Metadata { topic }).await?;
        let brokers: BTreeMap<i32, Broker> = answer
            .brokers
            .into_iter()
            .take(MANY)
            .filter_map(|(node, host, port)| {
                let port = u16::try_from(port).ok()?;
                Some((node, Broker { host, port }))
            })
            .collect();
        let mut known = lock(&self.known);
        known.brokers.clone_from(&brokers);
        known.controller = answer.controller;
        known.map = None;
        answer.code.check().map_err(Fault::Refused)?;
        let mut leaders = answer.partitions;
        leaders.sort_unstable();
        let complete = leaders.iter().zip(0..).all(|((found, _), at)| *found == at);
        if leaders.is_empty() || leaders.len() > MANY || !complete {
            return Err(Fault::NoLeader { partition: 0 });
        }
        let map = Arc::new(Map {
            leaders: leaders.into_iter().map(|(_, leader)| leader).collect(),
            brokers,
            operations: answer.operations,
        });
        known.map = Some(Arc::clone(&map));
        Ok(map)
    }

    /// Creates the topic and waits until all of its partitions have a leader.
    pub(super) async fn create(&self, configs: &[(&str, &str)]) -> Result<Arc<Map>, Fault> {
        let request = CreateTopic {
            topic: self.topic(),
            configs,
            patience: 10_000,
        };
        let controller = {
            let known = lock(&self.known);
            known.brokers.get(&known.controller).cloned()
        };
        let code = match controller {
            Some(controller) => self.ask(&controller, &request, ANSWER).await?,
            None => self.ask_any(&request).await?,
        };
        if code != Code::TOPIC_ALREADY_EXISTS {
            code.check().map_err(Fault::Refused)?;
        }
        let deadline = tokio::time::Instant::now() + CREATION;
        let mut pause = Duration::from_millis(20);
        loop {
            let fault = match self.look().await {
                Ok(map) => match map.leaders.iter().position(|leader| *leader < 0) {
                    None => return Ok(map),
                    Some(at) => Fault::NoLeader {
                        partition: i32::try_from(at).unwrap_or(0),
                    },
                },
                Err(Fault::Refused(code)) if code.meaning() == Meaning::NoTopic => {
                    Fault::NoLeader { partition: 0 }
                }
                Err(fault) => fault,
            };
            if fault.is_final() || tokio::time::Instant::now() > deadline {
                return Err(fault);
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(Duration::from_millis(500));
        }
    }

    /// What the broker says about the topic. Being refused is no failure: its defaults are likely.
    pub(super) async fn limits(&self) -> Result<Limits, Fault> {
        let answer = self
            .ask_any(&DescribeTopic {
                topic: self.topic(),
                names: &["max.message.bytes", "cleanup.policy"],
            })
            .await?;
        let value = |name: &str| {
            let mut settings = answer.settings.iter();
            let (_, value) = settings.find(|(known, _)| known == name)?;
            value.as_deref().filter(|_| !answer.code.is_error())
        };
        let message = value("max.message.bytes").and_then(|bytes| bytes.parse().ok());
        Ok(Limits {
            message: message.unwrap_or(MESSAGE).max(1),
            compacted: value("cleanup.policy").map(|policy| policy.contains("compact")),
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
