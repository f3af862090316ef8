//! What a topic holds of inventories.
//!
//! All partitions are read from their beginning to where they ended when the reading began. Every
//! inventory that is waiting for it is told what concerns it; so a start with fifty inventories reads
//! the topic once, or twice if some came late.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures::future::join_all;
use tokio::sync::mpsc;

use super::{
    client::{ANSWER, Client},
    code::{Code, Meaning},
    fault::Fault,
    partitioner::partition,
    records::{self, Record},
    requests::{Fetch, Fetched, ListOffsets, Place},
    wire::Malformed,
};
use crate::{
    error::SinkError,
    events::{Event, ItemHash, KOLLECT_EVENT, KOLLECT_HASH},
};

/// How long a reading waits for others who want the same.
const GATHER: Duration = Duration::from_millis(30);
/// How much is asked for at once.
const PIECE: i32 = 4 << 20;
/// How many answers in a row may bring nothing.
const STALLED: u32 = 6;
/// The first pause after one; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);
/// The hash of what cannot be understood: whatever the row is, it is published again.
pub(super) const UNREADABLE: ItemHash = ItemHash(0);

/// How a reading ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reading {
    /// Everything was read.
    Done,
    /// It could not be, for this reason.
    Refused(String),
}

/// What is newest under a key so far: a row with this hash, or none.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    key: Box<str>,
    held: Option<ItemHash>,
}

enum News {
    Seen(Vec<Seen>),
    End(Result<Reading, SinkError>),
}

struct Waiting {
    prefix: String,
    news: mpsc::Sender<News>,
}

/// Reads for whoever is waiting.
#[derive(Default)]
pub(super) struct Reader(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    waiting: Vec<Waiting>,
    /// Somebody is about to take all that are waiting.
    gathering: bool,
}

impl Reader {
    /// Tells `saw` about every record of an inventory, in the order of its partition.
    pub(super) async fn read(
        self: &Arc<Self>,
        client: &Arc<Client>,
        prefix: &str,
        mut saw: impl FnMut(&str, Option<ItemHash>),
    ) -> Result<Reading, SinkError> {
        let (news, mut told) = mpsc::channel(4);
        let first = {
            let mut queue = self.queue();
            queue.waiting.push(Waiting {
                prefix: prefix.to_owned(),
                news,
            });
            !std::mem::replace(&mut queue.gathering, true)
        };
        if first {
            // In a task of its own, which ends when nobody is waiting any more: whoever began it may
            // be cancelled while others are served.
            tokio::spawn(Arc::clone(self).serve(Arc::clone(client)));
        }
        while let Some(news) = told.recv().await {
            match news {
                News::Seen(records) => {
                    for Seen { key, held } in &records {
                        saw(key, *held);
                    }
                }
                News::End(outcome) => return outcome,
            }
        }
        Err(SinkError::transient(
            "kafka read back: the reading broke off",
        ))
    }

    async fn serve(self: Arc<Self>, client: Arc<Client>) {
        tokio::time::sleep(GATHER).await;
        let waiting = {
            let mut queue = self.queue();
            queue.gathering = false;
            std::mem::take(&mut queue.waiting)
        };
        let audience = Audience::new(waiting);
        let mut pass = Pass {
            client: &client,
            audience: &audience,
            read: 0,
        };
        let outcome = match pass.run().await {
            Ok(reading) => Ok(reading),
            Err(fault) => Err(fault.explain("kafka read back", client.topic())),
        };
        for news in audience.all() {
            let _ = news.send(News::End(outcome.clone())).await;
        }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whom a reading is for, by prefix. Two deliveries of one inventory never run at once, but a dropped
/// one may still be listed.
struct Audience {
    by_prefix: Arc<HashMap<String, usize>>,
    listeners: Vec<Vec<mpsc::Sender<News>>>,
}

impl Audience {
    fn new(waiting: Vec<Waiting>) -> Self {
        let mut by_prefix = HashMap::new();
        let mut listeners: Vec<Vec<_>> = Vec::new();
        for Waiting { prefix, news } in waiting {
            let at = *by_prefix.entry(prefix).or_insert(listeners.len());
            if at == listeners.len() {
                listeners.push(Vec::new());
            }
            listeners[at].push(news);
        }
        Self {
            by_prefix: Arc::new(by_prefix),
            listeners,
        }
    }

    fn all(&self) -> impl Iterator<Item = &mpsc::Sender<News>> {
        self.listeners.iter().flatten()
    }

    fn has_left(&self) -> bool {
        self.all().all(mpsc::Sender::is_closed)
    }

    async fn tell(&self, found: Vec<Vec<Seen>>) {
        for (records, listeners) in found.into_iter().zip(&self.listeners) {
            let mut present = listeners.iter().filter(|news| !news.is_closed());
            if let (Some(news), false) = (present.next(), records.is_empty()) {
                let _ = news.send(News::Seen(records)).await;
            }
        }
    }
}

/// One reading.
struct Pass<'p> {
    client: &'p Client,
    audience: &'p Audience,
    /// Bytes so far.
    read: u64,
}

/// Where a partition is read, and where the reading ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    next: i64,
    end: i64,
}

impl Pass<'_> {
    async fn run(&mut self) -> Result<Reading, Fault> {
        let limit = self.client.settings.read_back_limit;
        if limit == 0 {
            return Ok(Reading::Refused(
                "spec.kafka.readBackLimit is 0: the topic is never read".to_owned(),
            ));
        }
        let mut spans = self.spans().await?;
        let mut stalled = 0;
        while !spans.is_empty() {
            if self.audience.has_left() {
                return Ok(Reading::Refused("nobody waits for it any more".to_owned()));
            }
            let step = self.step(&mut spans).await;
            let problem = match step {
                Ok(true) => {
                    stalled = 0;
                    None
                }
                Ok(false) => Some(Fault::NoLeader {
                    partition: *spans.keys().next().unwrap_or(&0),
                }),
                Err(Problem::Refused(why)) => return Ok(Reading::Refused(why)),
                Err(Problem::Fault(fault)) => Some(fault),
            };
            if self.read > limit {
                return Ok(Reading::Refused(format!(
                    "topic {:?} holds more than the {limit} bytes of spec.kafka.readBackLimit",
                    self.client.topic()
                )));
            }
            if let Some(fault) = problem {
                stalled += 1;
                if stalled == STALLED || fault.is_final() {
                    return Err(fault);
                }
                self.client.forget_map();
                tokio::time::sleep(PAUSE * 2_u32.pow(stalled - 1)).await;
            }
            spans.retain(|_, span| span.next < span.end);
        }
        Ok(Reading::Done)
    }

    /// Where partitions begin and end; only those that hold something.
    async fn spans(&self) -> Result<BTreeMap<i32, Span>, Fault> {
        let mut stalled = 0;
        loop {
            let found = async {
                let (beginnings, ends) = (
                    self.offsets(Place::Beginning).await?,
                    self.offsets(Place::End).await?,
                );
                Ok(ends
                    .into_iter()
                    .filter_map(|(partition, end)| {
                        let next = *beginnings.get(&partition)?;
                        (next < end).then_some((partition, Span { next, end }))
                    })
                    .collect())
            };
            let fault: Fault = match found.await {
                Ok(spans) => return Ok(spans),
                Err(fault) => fault,
            };
            stalled += 1;
            let wrong = matches!(&fault, Fault::Refused(code)
                if matches!(code.meaning(), Meaning::Forbidden | Meaning::Wrong | Meaning::NoTopic));
            if stalled == STALLED || fault.is_final() || wrong {
                return Err(fault);
            }
            self.client.forget_map();
            tokio::time::sleep(PAUSE * 2_u32.pow(stalled - 1)).await;
        }
    }

    async fn offsets(&self, at: Place) -> Result<BTreeMap<i32, i64>, Fault> {
        let map = self.client.map().await?;
        let mut by_leader: HashMap<_, Vec<i32>> = HashMap::new();
        for partition in 0..i32::try_from(map.partitions()).unwrap_or(i32::MAX) {
            by_leader
                .entry(map.leader(partition)?)
                .or_default()
                .push(partition);
        }
        let asked = by_leader
            .into_iter()
            .map(|(leader, partitions)| async move {
                let request = ListOffsets {
                    topic: self.client.topic(),
                    at,
                    partitions,
                };
                self.client.ask(leader, &request, ANSWER).await
            });
        let mut offsets = BTreeMap::new();
        for answer in join_all(asked).await {
            for (partition, code, offset) in answer? {
                code.check().map_err(Fault::Refused)?;
                offsets.insert(partition, offset);
            }
        }
        Ok(offsets)
    }

    /// Asks every leader once for what is left; whether anything came.
    async fn step(&mut self, spans: &mut BTreeMap<i32, Span>) -> Result<bool, Problem> {
        let client = self.client;
        let map = client.map().await?;
        let mut by_leader: HashMap<_, Vec<(i32, i64)>> = HashMap::new();
        for (partition, span) in &*spans {
            let leader = map.leader(*partition)?;
            let partitions = by_leader.entry(leader).or_default();
            partitions.push((*partition, span.next));
        }
        let asked = by_leader
            .into_iter()
            .map(|(leader, partitions)| async move {
                let request = Fetch {
                    topic: client.topic(),
                    partitions,
                    bytes: PIECE,
                };
                client.ask(leader, &request, ANSWER).await
            });
        let mut moved = false;
        for answer in join_all(asked).await {
            for fetched in answer? {
                moved |= self.take(spans, fetched, map.partitions()).await?;
            }
        }
        Ok(moved)
    }

    async fn take(
        &mut self,
        spans: &mut BTreeMap<i32, Span>,
        fetched: Fetched,
        partitions: usize,
    ) -> Result<bool, Problem> {
        let Some(span) = spans.get_mut(&fetched.partition) else {
            return Ok(false);
        };
        if fetched.code == Code::OFFSET_OUT_OF_RANGE {
            // Old records went while we were reading: it begins later now.
            let beginnings = self.offsets(Place::Beginning).await?;
            let beginning = beginnings.get(&fetched.partition).copied();
            span.next = beginning.unwrap_or(span.end).max(span.next);
            return Ok(true);
        }
        if let Err(code) = fetched.code.check() {
            return Err(match code.meaning() {
                Meaning::Forbidden => Problem::Refused(format!(
                    "topic {:?} may not be read: {code}; grant the sink's user Read on it",
                    self.client.topic()
                )),
                _ => Problem::Fault(Fault::Refused(code)),
            });
        }
        if fetched.records.is_empty() {
            return Ok(false);
        }
        self.read += fetched.records.len() as u64;
        let number = fetched.partition;
        let by_prefix = Arc::clone(&self.audience.by_prefix);
        let audience = self.audience.listeners.len();
        let sorted = tokio::task::spawn_blocking(move || {
            let mut found: Vec<Vec<Seen>> = Vec::new();
            found.resize_with(audience, Vec::new);
            let at = usize::try_from(fetched.partition).map_err(|_| Malformed)?;
            let next = records::read(&fetched.records, |record| {
                let Some((listener, seen)) = sight(record, &by_prefix) else {
                    return;
                };
                // A key of another partition is from a time with fewer of them: its newest record,
                // if there is one, is where the key belongs.
                if partition(seen.key.as_bytes(), partitions) == at {
                    found[listener].push(seen);
                }
            })?;
            Ok((next, found))
        });
        let (next, found) = match sorted.await {
            Ok(Ok(sorted)) => sorted,
            Ok(Err(Malformed)) | Err(_) => {
                return Err(Problem::Refused(format!(
                    "partition {number} of topic {:?} holds records that cannot be read",
                    self.client.topic()
                )));
            }
        };
        self.audience.tell(found).await;
        let Some(next) = next.filter(|next| *next > span.next) else {
            return Ok(false);
        };
        span.next = next;
        Ok(true)
    }
}

/// What a record says about which of the inventories; nothing if it is about none of them.
fn sight(record: &Record<'_>, by_prefix: &HashMap<String, usize>) -> Option<(usize, Seen)> {
    let key = std::str::from_utf8(record.key?).ok()?;
    let (end, _) = key.match_indices('/').nth(2)?;
    let listener = *by_prefix.get(&key[..end])?;
    let held = match (
        record.value,
        record.header(KOLLECT_EVENT).map(Event::of_header),
    ) {
        (None, _) | (_, Some(Some(Event::Delete))) => None,
        (_, Some(Some(Event::Upsert))) => {
            let hash = record
                .header(KOLLECT_HASH)
                .and_then(|hash| hash.parse().ok());
            Some(hash.unwrap_or(UNREADABLE))
        }
        _ => Some(UNREADABLE),
    };
    let key = key.into();
    Some((listener, Seen { key, held }))
}

enum Problem {
    Fault(Fault),
    Refused(String),
}

impl From<Fault> for Problem {
    fn from(fault: Fault) -> Self {
        Problem::Fault(fault)
    }
}
