//! The few requests that a sink needs, each in one version.
//!
//! The versions are the newest ones without tagged fields: brokers from 2.4 on understand them, and
//! Kafka 4.1, which dropped what is older than 2.1, still does.

use super::{
    code::Code,
    wire::{In, Malformed, Out},
};

/// A request with its answer.
pub(super) trait Request: Sync {
    const KEY: i16;
    const VERSION: i16;
    /// The most bytes of an answer.
    const ANSWER: usize = 16 << 20;
    type Answer: Send;

    fn write(&self, out: &mut Out);
    fn read(answer: &mut In<'_>) -> Result<Self::Answer, Malformed>;
}

/// Which mechanism a client wants to log in with.
pub(super) struct SaslHandshake<'a>(pub(super) &'a str);

pub(super) struct SaslMechanisms {
    pub(super) code: Code,
    pub(super) offered: Vec<String>,
}

impl Request for SaslHandshake<'_> {
    const KEY: i16 = 17;
    const VERSION: i16 = 1;
    const ANSWER: usize = 64 << 10;
    type Answer = SaslMechanisms;

    fn write(&self, out: &mut Out) {
        out.text(self.0);
    }

    fn read(answer: &mut In<'_>) -> Result<SaslMechanisms, Malformed> {
        Ok(SaslMechanisms {
            code: Code(answer.i16()?),
            offered: answer.list(|list| list.text().map(str::to_owned))?,
        })
    }
}

/// One step of a login.
pub(super) struct SaslAuthenticate<'a>(pub(super) &'a [u8]);

pub(super) struct SaslStep {
    pub(super) code: Code,
    pub(super) bytes: Vec<u8>,
    /// After how many milliseconds the broker wants to see credentials again; 0 is never.
    pub(super) lifetime: i64,
}

impl Request for SaslAuthenticate<'_> {
    const KEY: i16 = 36;
    const VERSION: i16 = 1;
    const ANSWER: usize = 64 << 10;
    type Answer = SaslStep;

    fn write(&self, out: &mut Out) {
        out.bytes(self.0);
    }

    fn read(answer: &mut In<'_>) -> Result<SaslStep, Malformed> {
        let code = Code(answer.i16()?);
        // The text beside it may quote what was sent.
        answer.nullable_text()?;
        Ok(SaslStep {
            code,
            bytes: answer.nullable_bytes()?.unwrap_or_default().to_vec(),
            lifetime: answer.i64()?,
        })
    }
}

/// Who leads the partitions of a topic.
pub(super) struct Metadata<'a> {
    pub(super) topic: &'a str,
}

#[derive(Debug)]
pub(super) struct Cluster {
    pub(super) brokers: Vec<(i32, String, i32)>,
    pub(super) controller: i32,
    pub(super) code: Code,
    /// Partitions with their leaders; −1 is none at the moment.
    pub(super) partitions: Vec<(i32, i32)>,
    /// What we may do with the topic, a bit per operation.
    pub(super) operations: i32,
}

impl Request for Metadata<'_> {
    const KEY: i16 = 3;
    const VERSION: i16 = 8;
    type Answer = Cluster;

    fn write(&self, out: &mut Out) {
        out.len(1);
        out.text(self.topic);
        // No topic appears because somebody asked for it.
        out.bool(false);
        out.bool(false);
        out.bool(true);
    }

    fn read(answer: &mut In<'_>) -> Result<Cluster, Malformed> {
        answer.i32()?;
        let brokers = answer.list(|list| {
            let broker = (list.i32()?, list.text()?.to_owned(), list.i32()?);
            list.nullable_text()?;
            Ok(broker)
        })?;
        answer.nullable_text()?;
        let controller = answer.i32()?;
        let mut topics = answer.list(|list| {
            let code = Code(list.i16()?);
            list.text()?;
            list.i8()?;
            let partitions = list.list(|list| {
                list.i16()?;
                let partition = (list.i32()?, list.i32()?);
                list.i32()?;
                for _ in 0..3 {
                    list.list(In::i32)?;
                }
                Ok(partition)
            })?;
            Ok((code, partitions, list.i32()?))
        })?;
        let (code, partitions, operations) = topics.pop().ok_or(Malformed)?;
        Ok(Cluster {
            brokers,
            controller,
            code,
            partitions,
            operations,
        })
    }
}

/// A new topic, with as many partitions and replicas as the broker thinks right.
pub(super) struct CreateTopic<'a> {
    pub(super) topic: &'a str,
    pub(super) configs: &'a [(&'a str, &'a str)],
    /// In milliseconds.
    pub(super) patience: i32,
}

impl Request for CreateTopic<'_> {
    const KEY: i16 = 19;
    const VERSION: i16 = 4;
    type Answer = Code;

    fn write(&self, out: &mut Out) {
        out.len(1);
        out.text(self.topic);
        out.i32(-1);
        out.i16(-1);
        out.len(0);
        out.len(self.configs.len());
        for (name, value) in self.configs {
            out.text(name);
            out.text(value);
        }
        out.i32(self.patience);
        out.bool(false);
    }

    fn read(answer: &mut In<'_>) -> Result<Code, Malformed> {
        answer.i32()?;
        let mut codes = answer.list(|list| {
            list.text()?;
            let code = Code(list.i16()?);
            list.nullable_text()?;
            Ok(code)
        })?;
        codes.pop().ok_or(Malformed)
    }
}

/// Settings of a topic, by name.
pub(super) struct DescribeTopic<'a> {
    pub(super) topic: &'a str,
    pub(super) names: &'a [&'a str],
}

pub(super) struct TopicSettings {
    pub(super) code: Code,
    pub(super) settings: Vec<(String, Option<String>)>,
}

impl Request for DescribeTopic<'_> {
    const KEY: i16 = 32;
    const VERSION: i16 = 2;
    type Answer = TopicSettings;

    fn write(&self, out: &mut Out) {
        out.len(1);
        out.i8(2);
        out.text(self.topic);
        out.len(self.names.len());
        for name in self.names {
            out.text(name);
        }
        out.bool(false);
    }

    fn read(answer: &mut In<'_>) -> Result<TopicSettings, Malformed> {
        answer.i32()?;
        let mut topics = answer.list(|list| {
            let code = Code(list.i16()?);
            list.nullable_text()?;
            list.i8()?;
            list.text()?;
            let settings = list.list(|list| {
                let name = list.text()?.to_owned();
                let value = list.nullable_text()?.map(str::to_owned);
                list.take(3)?;
                list.list(|list| {
                    list.text()?;
                    list.nullable_text()?;
                    list.i8()
                })?;
                Ok((name, value))
            })?;
            Ok(TopicSettings { code, settings })
        })?;
        topics.pop().ok_or(Malformed)
    }
}

/// A number under which the broker recognises repeated batches.
pub(super) struct InitProducerId;

pub(super) struct ProducerId {
    pub(super) code: Code,
    pub(super) id: i64,
    pub(super) epoch: i16,
}

impl Request for InitProducerId {
    const KEY: i16 = 22;
    const VERSION: i16 = 1;
    type Answer = ProducerId;

    fn write(&self, out: &mut Out) {
        out.no_text();
        out.i32(i32::MAX);
    }

    fn read(answer: &mut In<'_>) -> Result<ProducerId, Malformed> {
        answer.i32()?;
        Ok(ProducerId {
            code: Code(answer.i16()?),
            id: answer.i64()?,
            epoch: answer.i16()?,
        })
    }
}

/// Batches for partitions of one leader.
pub(super) struct Produce<'a> {
    pub(super) topic: &'a str,
    /// In milliseconds.
    pub(super) patience: i32,
    pub(super) batches: Vec<(i32, &'a [u8])>,
}

/// What became of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Produced {
    pub(super) partition: i32,
    pub(super) code: Code,
    /// Where it stands now; −1 if that is not known.
    pub(super) offset: i64,
}

impl Request for Produce<'_> {
    const KEY: i16 = 0;
    const VERSION: i16 = 8;
    type Answer = Vec<Produced>;

    fn write(&self, out: &mut Out) {
        out.no_text();
        // All replicas that are in sync.
        out.i16(-1);
        out.i32(self.patience);
        out.len(1);
        out.text(self.topic);
        out.len(self.batches.len());
        for (partition, batch) in &self.batches {
            out.i32(*partition);
            out.bytes(batch);
        }
    }

    fn read(answer: &mut In<'_>) -> Result<Self::Answer, Malformed> {
        let topics = answer.list(|list| {
            list.text()?;
            list.list(|list| {
                let (partition, code) = (list.i32()?, Code(list.i16()?));
                let offset = list.i64()?;
                list.take(16)?;
                list.list(|list| {
                    list.i32()?;
                    list.nullable_text().map(drop)
                })?;
                list.nullable_text()?;
                Ok(Produced {
                    partition,
                    code,
                    offset,
                })
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}

/// Where partitions begin or end.
pub(super) struct ListOffsets<'a> {
    pub(super) topic: &'a str,
    pub(super) at: Place,
    pub(super) partitions: Vec<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Beginning = -2,
    End = -1,
}

impl Request for ListOffsets<'_> {
    const KEY: i16 = 2;
    const VERSION: i16 = 5;
    type Answer = Vec<(i32, Code, i64)>;

    fn write(&self, out: &mut Out) {
        out.i32(-1);
        out.i8(0);
        out.len(1);
        out.text(self.topic);
        out.len(self.partitions.len());
        for partition in &self.partitions {
            out.i32(*partition);
            out.i32(-1);
            out.i64(self.at as i64);
        }
    }

    fn read(answer: &mut In<'_>) -> Result<Self::Answer, Malformed> {
        answer.i32()?;
        let topics = answer.list(|list| {
            list.text()?;
            list.list(|list| {
                let (partition, code) = (list.i32()?, Code(list.i16()?));
                list.i64()?;
                let offset = list.i64()?;
                list.i32()?;
                Ok((partition, code, offset))
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}

/// Records of partitions of one leader, from these offsets on.
pub(super) struct Fetch<'a> {
    pub(super) topic: &'a str,
    pub(super) partitions: Vec<(i32, i64)>,
    /// The most bytes of all partitions together; one batch may be larger.
    pub(super) bytes: i32,
}

pub(super) struct Fetched {
    pub(super) partition: i32,
    pub(super) code: Code,
    pub(super) records: Vec<u8>,
}

impl Request for Fetch<'_> {
    const KEY: i16 = 1;
    const VERSION: i16 = 11;
    const ANSWER: usize = 128 << 20;
    type Answer = Vec<Fetched>;

    fn write(&self, out: &mut Out) {
        out.i32(-1);
        // Everything that is asked for is there already: there is nothing to wait for.
        out.i32(0);
        out.i32(1);
        out.i32(self.bytes);
        out.i8(0);
        out.i32(0);
        out.i32(-1);
        out.len(1);
        out.text(self.topic);
        out.len(self.partitions.len());
        for (partition, offset) in &self.partitions {
            out.i32(*partition);
            out.i32(-1);
            out.i64(*offset);
            out.i64(-1);
            out.i32(self.bytes);
        }
        out.len(0);
        out.text("");
    }

    fn read(answer: &mut In<'_>) -> Result<Self::Answer, Malformed> {
        answer.i32()?;
        let code = Code(answer.i16()?);
        answer.i32()?;
        let topics = answer.list(|list| {
            list.text()?;
            list.list(|list| {
                let (partition, own) = (list.i32()?, Code(list.i16()?));
                for _ in 0..3 {
                    list.i64()?;
                }
                list.list(|list| {
                    list.i64()?;
                    list.i64()
                })?;
                list.i32()?;
                Ok(Fetched {
                    partition,
                    code: if code.is_error() { code } else { own },
                    records: list.nullable_bytes()?.unwrap_or_default().to_vec(),
                })
            })
        })?;
        Ok(topics.into_iter().flatten().collect())
    }
}
