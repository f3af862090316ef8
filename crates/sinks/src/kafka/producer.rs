//! Publishing: records in order, at most one batch per partition under way, every answer read.
//!
//! Batches carry a number that brokers check, so that a batch whose answer was lost is not written
//! twice. It also keeps the past out: when a batch was sent and nobody knows what became of it, the
//! next one to that partition has a higher epoch, and whatever of the old one is still on its way is
//! refused. The keys of such a batch are published again by the next delivery of all rows ([`Doubts`]),
//! so that there is a next one.
//!
//! Brokers that do not hand out numbers (no right to idempotent writes) are written to without.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use futures::future::join_all;
use jiff::Timestamp;
use tokio::sync::Mutex as AsyncMutex;

use super::{
    client::{ANSWER, Client},
    code::{Code, Meaning},
    compression::Codec,
    doubts::Doubts,
    fault::Fault,
    lane::Lane,
    partitioner::partition,
    records::{Batch, Stamp},
    requests::{InitProducerId, Produce, Produced},
};
use crate::error::SinkError;

/// How large a batch gets, unless the broker takes less.
const BATCH: usize = 1 << 20;
/// How much is under way at once, over all partitions.
const ROUND: usize = 8 << 20;
/// How long replicas may take to acknowledge, as the broker is told.
const ACKNOWLEDGED: Duration = Duration::from_secs(15);
/// How often a batch is sent before the delivery gives up; the engine then tries again later.
const ATTEMPTS: u32 = 6;
/// The first pause between attempts; each is twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(100);
/// More than the bytes of one record, and of one header, that are neither name nor value.
const RECORD: usize = 32;
const HEADER: usize = 8;

/// One message on its way.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) value: Vec<u8>,
    pub(super) headers: Vec<(&'static str, String)>,
    /// Whether a record without a value follows, in the same batch.
    pub(super) tombstone: bool,
}

impl Entry {
    fn size(&self) -> usize {
        let headers: usize = self
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + HEADER)
            .sum();
        let record = RECORD + self.key.len() + headers;
        record + self.value.len() + if self.tombstone { record } else { 0 }
    }
}

/// What became of messages.
#[derive(Debug, Default)]
pub(super) struct Tally {
    pub(super) written: u64,
    pub(super) removed: u64,
    pub(super) bytes: u64,
    /// Keys of messages that are too large.
    pub(super) too_large: Vec<String>,
}

/// How a sink numbers its batches.
#[derive(Debug, Default)]
pub(super) struct Producer {
    lanes: AsyncMutex<Lanes>,
    pub(super) doubts: Doubts,
    /// Grows when the topic turns out to be another one of the same name.
    incarnation: AtomicU64,
}

impl Producer {
    /// Which topic of that name it is, as far as anybody noticed.
    pub(super) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::SeqCst)
    }

    /// A new one was created: nothing of ours is in it yet.
    pub(super) async fn begin(&self) {
        let mut lanes = self.lanes.lock().await;
        for lane in lanes.lanes.values_mut() {
            lane.offset = -1;
        }
        self.incarnation.fetch_add(1, Ordering::SeqCst);
    }
}

#[derive(Debug, Default)]
struct Lanes {
    lanes: HashMap<i32, Lane>,
    /// The broker hands out no numbers.
    unnumbered: bool,
}

/// Messages of one delivery.
pub(super) struct Publication<'p> {
    client: &'p Client,
    producer: &'p Producer,
    /// Of the inventory.
    prefix: &'p str,
    /// The largest batch that the broker takes.
    limit: usize,
    partitions: usize,
    /// The topic that they are for.
    incarnation: u64,
    waiting: BTreeMap<i32, Vec<Entry>>,
    sizes: BTreeMap<i32, usize>,
    size: usize,
    pub(super) tally: Tally,
}

/// Batches of one partition, the first of which is to be sent next.
struct Queue {
    chunks: VecDeque<Vec<Entry>>,
    /// The first chunk as it is sent, with the number of its records.
    encoded: Option<(Vec<u8>, i32)>,
}

impl<'p> Publication<'p> {
    pub(super) fn new(
        client: &'p Client,
        producer: &'p Producer,
        prefix: &'p str,
        limit: usize,
        partitions: usize,
        incarnation: u64,
    ) -> Self {
        Self {
            client,
            producer,
            prefix,
            limit,
            partitions,
            incarnation,
            waiting: BTreeMap::new(),
            sizes: BTreeMap::new(),
            size: 0,
            tally: Tally::default(),
        }
    }

    /// Adds a message; now and then what is waiting is published.
    pub(super) async fn push(&mut self, entry: Entry) -> Result<(), SinkError> {
        let at = partition(entry.key.as_bytes(), self.partitions);
        let at = i32::try_from(at).expect("partitions are counted by i32");
        let size = entry.size();
        let waiting = self
            .sizes
            .get(&at)
            .copied()
            .unwrap_or(super::records::OVERHEAD);
        if waiting + size > self.limit.min(BATCH) || self.size + size > ROUND {
            self.flush().await?;
        }
        let waiting = self.sizes.entry(at).or_insert(super::records::OVERHEAD);
        *waiting += size;
        self.size += size;
        self.waiting.entry(at).or_default().push(entry);
        Ok(())
    }

    /// Publishes everything that is waiting; when it returns all of it is acknowledged.
    pub(super) async fn flush(&mut self) -> Result<(), SinkError> {
        let waiting = std::mem::take(&mut self.waiting);
        self.sizes.clear();
        self.size = 0;
        if waiting.is_empty() {
            return Ok(());
        }
        let queue = |entries| Queue {
            chunks: VecDeque::from([entries]),
            encoded: None,
        };
        let mut queues: BTreeMap<i32, Queue> = waiting
            .into_iter()
            .map(|(partition, entries)| (partition, queue(entries)))
            .collect();
        // One round of the sink at a time: batches of a partition stay in order.
        let mut lanes = self.producer.lanes.lock().await;
        let mut attempt = 0;
        while !queues.is_empty() {
            let failure = match self.round(&mut lanes, &mut queues).await {
                Ok(Progress::Done) => {
                    attempt = 0;
                    continue;
                }
                Ok(Progress::Again(fault)) => fault,
                Err(error) => return Err(error),
            };
            attempt += 1;
            if attempt == ATTEMPTS || failure.is_final() {
                return Err(failure.explain("kafka publish", self.client.topic()));
            }
            self.client.forget_map();
            tokio::time::sleep(PAUSE * 2_u32.pow(attempt - 1)).await;
        }
        Ok(())
    }

    /// Sends the first batch of every partition once.
    async fn round(
        &mut self,
        lanes: &mut Lanes,
        queues: &mut BTreeMap<i32, Queue>,
    ) -> Result<Progress, SinkError> {
        if let Err(fault) = self.encode(lanes, queues).await {
            return Ok(Progress::Again(fault));
        }
        let map = match self.client.map().await {
            Ok(map) => map,
            Err(Fault::Refused(code)) if code.meaning() == Meaning::NoTopic => {
                return Err(self.lost());
            }
            Err(fault) => return Ok(Progress::Again(fault)),
        };
        let mut by_leader: HashMap<_, Vec<(i32, &[u8])>> = HashMap::new();
        for (partition, queue) in &*queues {
            let Some((bytes, _)) = &queue.encoded else {
                continue;
            };
            match map.leader(*partition) {
                Ok(leader) => by_leader
                    .entry(leader)
                    .or_default()
                    .push((*partition, bytes)),
                Err(fault) => return Ok(Progress::Again(fault)),
            }
        }
        for (partition, queue) in &*queues {
            if let Some(lane) = lanes.lanes.get_mut(partition) {
                lane.doubtful = true;
            }
            let keys = queue.chunks.front().into_iter().flatten();
            let keys = keys.map(|entry| entry.key.as_str());
            self.producer.doubts.add(self.prefix, keys);
        }
        let client = self.client;
        let sent = by_leader.into_iter().map(|(leader, batches)| async move {
            let request = Produce {
                topic: client.topic(),
                patience: i32::try_from(ACKNOWLEDGED.as_millis()).unwrap_or(i32::MAX),
                batches,
            };
            client.ask(leader, &request, ACKNOWLEDGED + ANSWER).await
        });
        let answers = join_all(sent).await;
        let mut failure = None;
        for answer in answers {
            match answer {
                Ok(produced) => {
                    for produced in produced {
                        let outcome = self.settle(lanes, queues, produced)?;
                        failure = failure.or(outcome);
                    }
                }
                Err(fault) => failure = failure.or(Some(fault)),
            }
        }
        queues.retain(|_, queue| !queue.chunks.is_empty());
        // Whatever an answer left out would be sent for ever.
        Ok(match failure {
            Some(fault) => Progress::Again(fault),
            None if queues.values().any(|queue| queue.encoded.is_some()) => {
                Progress::Again(Fault::Refused(Code(-1)))
            }
            None => Progress::Done,
        })
    }

    /// What one partition answered; a fault if the batch has to be sent again.
    fn settle(
        &mut self,
        lanes: &mut Lanes,
        queues: &mut BTreeMap<i32, Queue>,
        produced: Produced,
    ) -> Result<Option<Fault>, SinkError> {
        let partition = produced.partition;
        let Some(queue) = queues.get_mut(&partition) else {
            return Ok(None);
        };
        let Some((bytes, records)) = &queue.encoded else {
            return Ok(None);
        };
        let (bytes, records) = (bytes.len() as u64, *records);
        let lane = lanes.lanes.get_mut(&partition);
        let code = produced.code;
        let meaning = code.meaning();
        if !code.is_error() || meaning == Meaning::Repeated {
            queue.encoded = None;
            let done = queue.chunks.pop_front().unwrap_or_default();
            let keys = done.iter().map(|entry| entry.key.as_str());
            self.producer.doubts.settle(self.prefix, keys);
            self.tally.bytes += bytes;
            let deletes = done.iter().filter(|entry| entry.tombstone).count() as u64;
            self.tally.removed += deletes;
            self.tally.written += done.len() as u64 - deletes;
            if let Some(lane) = lane {
                lane.acknowledged(records);
                let before = std::mem::replace(&mut lane.offset, produced.offset);
                // Offsets only grow, unless it is another topic of the same name.
                if !code.is_error() && (0..=before).contains(&produced.offset) {
                    self.producer.incarnation.fetch_add(1, Ordering::SeqCst);
                }
            }
            if self.incarnation != self.producer.incarnation() {
                return Err(self.lost());
            }
            return Ok(None);
        }
        // Everything but a doubt means that it was not written.
        if let Some(lane) = lane
            && meaning != Meaning::Doubtful
        {
            lane.doubtful = false;
        }
        match meaning {
            Meaning::TooLarge => {
                self.split(queue);
                Ok(None)
            }
            Meaning::Stranger => {
                lanes.lanes.remove(&partition);
                queue.encoded = None;
                Ok(Some(Fault::Refused(code)))
            }
            Meaning::Forbidden | Meaning::Wrong => {
                let fault = Fault::Refused(code);
                Err(fault.explain("kafka publish", self.client.topic()))
            }
            _ => Ok(Some(Fault::Refused(code))),
        }
    }

    /// The first batch is too large: it is sent in two, or left out if it is one message.
    fn split(&mut self, queue: &mut Queue) {
        queue.encoded = None;
        let mut first = queue.chunks.pop_front().unwrap_or_default();
        let keys = first.iter().map(|entry| entry.key.as_str());
        self.producer.doubts.settle(self.prefix, keys);
        if first.len() > 1 {
            let rest = first.split_off(first.len() / 2);
            queue.chunks.push_front(rest);
            queue.chunks.push_front(first);
        } else {
            let left_out = first.into_iter().map(|entry| entry.key);
            self.tally.too_large.extend(left_out);
        }
    }

    /// Numbers and encodes the first batch of every partition that has none yet.
    async fn encode(
        &mut self,
        lanes: &mut Lanes,
        queues: &mut BTreeMap<i32, Queue>,
    ) -> Result<(), Fault> {
        let codec = self.client.settings.codec;
        for (partition, queue) in queues.iter_mut() {
            while queue.encoded.is_none() && !queue.chunks.is_empty() {
                let stamp = self.stamp(lanes, *partition).await?;
                let entries = queue.chunks.front().expect("not empty");
                let (bytes, records) = encoded(entries, codec, stamp).await;
                if bytes.len() > self.limit {
                    self.split(queue);
                } else {
                    queue.encoded = Some((bytes, records));
                }
            }
        }
        queues.retain(|_, queue| !queue.chunks.is_empty());
        Ok(())
    }

    async fn stamp(&self, lanes: &mut Lanes, partition: i32) -> Result<Stamp, Fault> {
        if let Some(stamp) = lanes.lanes.get_mut(&partition).and_then(Lane::next) {
            return Ok(stamp);
        }
        let mut stamp = Stamp::NOBODY;
        if !lanes.unnumbered {
            let map = self.client.map().await?;
            let answer = self
                .client
                .ask(map.leader(partition)?, &InitProducerId, ANSWER)
                .await?;
            match answer.code.meaning() {
                _ if !answer.code.is_error() => {
                    stamp = Stamp {
                        id: answer.id,
                        epoch: answer.epoch,
                        sequence: 0,
                    };
                }
                Meaning::Forbidden | Meaning::Wrong => lanes.unnumbered = true,
                _ => return Err(Fault::Refused(answer.code)),
            }
        }
        lanes.lanes.insert(partition, Lane::new(stamp));
        Ok(stamp)
    }

    /// The topic is not the one that was written to before.
    fn lost(&self) -> SinkError {
        self.client.forget_map();
        SinkError::OutOfStep(format!(
            "kafka topic {:?} was deleted or replaced since the last delivery",
            self.client.topic()
        ))
    }
}

enum Progress {
    /// Every partition took its batch, or it was split.
    Done,
    /// Something has to be sent again.
    Again(Fault),
}

async fn encoded(entries: &[Entry], codec: Codec, stamp: Stamp) -> (Vec<u8>, i32) {
    let mut batch = Batch::default();
    for entry in entries {
        batch.push(&entry.key, Some(&entry.value), &entry.headers);
        if entry.tombstone {
            batch.push(&entry.key, None, &entry.headers);
        }
    }
    let records = batch.count();
    let time = Timestamp::now().as_millisecond();
    if codec == Codec::None {
        return (batch.encode(codec, time, stamp), records);
    }
    let packing = tokio::task::spawn_blocking(move || batch.encode(codec, time, stamp));
    let bytes = packing.await.unwrap_or_default();
    (bytes, records)
}
