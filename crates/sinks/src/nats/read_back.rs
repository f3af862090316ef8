//! Reading back what a stream holds of an inventory.

use std::time::Duration;

use async_nats::jetstream::consumer::{AckPolicy, DeliverPolicy, pull};
use base64::{Engine, prelude::BASE64_STANDARD};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    connection::{ANSWER, Connection},
    fault::{Fault, code},
    stream::Stream,
    subject::Subjects,
};
use crate::events::{
    Comparison, Event, HeaderNames, Item, ItemHash, KOLLECT_EVENT, KOLLECT_HASH, Source,
};

/// The most subjects of one inventory that are read.
const MOST_SUBJECTS: u64 = 1_000_000;

/// How many messages are asked for at a time.
const BATCH: usize = 4_000;

/// How many last messages are fetched at the same time.
const FETCHES: usize = 64;

/// The server forgets a reader that is not heard of for this long.
const ABANDONED: Duration = Duration::from_mins(1);

/// Why the stream could not be read.
#[derive(Debug)]
pub(super) enum Unread {
    /// It cannot be, for this reason; publishing may work all the same.
    Never(String),
    /// It went wrong.
    Fault(Fault),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Denied(text) => Unread::Never(format!("the server does not allow it ({text})")),
            Fault::Refused(refusal) if code::NO_READERS.contains(&refusal.code) => Unread::Never(
                format!("JetStream says {:?} ({})", refusal.text, refusal.code),
            ),
            other => Unread::Fault(other),
        }
    }
}

/// Tells a comparison what the stream holds.
pub(super) async fn read(
    connection: &Connection,
    stream: &Stream,
    source: &Source,
    subjects: &Subjects,
    comparison: &mut Comparison<'_>,
) -> Result<(), Unread> {
    let config = pull::Config {
        deliver_policy: DeliverPolicy::LastPerSubject,
        ack_policy: AckPolicy::None,
        filter_subject: subjects.rows(),
        headers_only: true,
        memory_storage: true,
        num_replicas: 1,
        inactive_threshold: ABANDONED,
        ..pull::Config::default()
    };
    let about = format!("CONSUMER.CREATE.{}", stream.name);
    let created = async {
        let handle = connection.stream(&stream.name).await?;
        let created = timeout(ANSWER, handle.create_consumer(config)).await;
        match created {
            Err(_) => Err(Fault::Silent),
            Ok(Ok(consumer)) => Ok((handle, consumer)),
            Ok(Err(error)) => Err(consumer_fault(&error)),
        }
    };
    let (handle, consumer) = connection.during(&about, created).await?;
    let number = consumer.cached_info().num_pending;
    if number > MOST_SUBJECTS {
        return Err(Unread::Never(format!(
            "it holds {number} subjects of the inventory, more than {MOST_SUBJECTS}"
        )));
    }
    if number == 0 {
        return Ok(());
    }
    let result = drain(connection, &consumer, stream, source, comparison).await;
    // It goes by itself, a little later.
    let name = consumer.cached_info().name.clone();
    let _ = timeout(Duration::from_secs(1), handle.delete_consumer(&name)).await;
    result.map_err(Unread::from)
}

async fn drain(
    connection: &Connection,
    consumer: &async_nats::jetstream::consumer::Consumer<pull::Config>,
    stream: &Stream,
    source: &Source,
    comparison: &mut Comparison<'_>,
) -> Result<(), Fault> {
    let about = format!("CONSUMER.MSG.NEXT.{}", stream.name);
    let messages = consumer
        .stream()
        .max_messages_per_batch(BATCH)
        .messages()
        .await;
    let mut messages = messages.map_err(|error| Fault::Garbled(error.to_string()))?;
    let mut read = 0;
    loop {
        let next = async {
            match timeout(ANSWER, messages.next()).await {
                Err(_) => Err(Fault::Silent),
                Ok(None) => Err(Fault::Lost),
                Ok(Some(Err(error))) => Err(Fault::Garbled(error.to_string())),
                Ok(Some(Ok(message))) => Ok(message),
            }
        };
        let message = match connection.during(&about, next).await {
            Ok(message) => message,
            // What was counted at first may have expired while it was read.
            Err(Fault::Silent) if is_empty(connection, consumer).await? => return Ok(()),
            Err(fault) => return Err(fault),
        };
        let info = message
            .info()
            .map_err(|error| Fault::Garbled(error.to_string()))?;
        read += 1;
        if info.consumer_sequence != read {
            return Err(Fault::Garbled(format!(
                "message {read} of the stream was lost on the way"
            )));
        }
        let pending = info.pending;
        if let Some(headers) = &message.headers {
            let header = |name: &str| headers.get(name).map(async_nats::HeaderValue::as_str);
            if header(HeaderNames::NATS.source) == Some(source.uri()) {
                let held = held(header(KOLLECT_EVENT), header(KOLLECT_HASH));
                comparison.saw(&message.subject, held);
            }
        }
        if pending == 0 {
            return Ok(());
        }
    }
}

/// Whether a reader has nothing left to read.
async fn is_empty(
    connection: &Connection,
    consumer: &async_nats::jetstream::consumer::Consumer<pull::Config>,
) -> Result<bool, Fault> {
    let info = consumer.cached_info();
    let what = format!("CONSUMER.INFO.{}.{}", info.stream_name, info.name);
    let info = connection.ask(&what, &Value::Null).await?;
    Ok(info["num_pending"].as_u64() == Some(0))
}

/// What the headers of a message say that the stream holds.
fn held(event: Option<&str>, hash: Option<&str>) -> Option<ItemHash> {
    match event.and_then(Event::of_header) {
        Some(Event::Delete) => None,
        // What is not understood is held and differs from every row.
        _ => Some(
            hash.and_then(|hash| hash.parse().ok())
                .unwrap_or(ItemHash(0)),
        ),
    }
}

/// What the last messages of subjects were about; nothing of those that do not tell.
pub(super) async fn identities(
    connection: &Connection,
    stream: &Stream,
    source: &Source,
    subjects: &Subjects,
    gone: Vec<Box<str>>,
) -> Result<Vec<Item<'static>>, Fault> {
    let found: Vec<Option<Item<'static>>> = stream::iter(gone)
        .map(|subject| identity(connection, stream, source, subjects, subject))
        .buffered(FETCHES)
        .try_collect()
        .await?;
    Ok(found.into_iter().flatten().collect())
}

async fn identity(
    connection: &Connection,
    stream: &Stream,
    source: &Source,
    subjects: &Subjects,
    subject: Box<str>,
) -> Result<Option<Item<'static>>, Fault> {
    let question = json!({"last_by_subj": &*subject});
    let what = format!("STREAM.MSG.GET.{}", stream.name);
    let answer = match connection.ask(&what, &question).await {
        Ok(answer) => answer,
        // It has gone meanwhile.
        Err(Fault::Refused(refusal)) if refusal.code == code::NO_MESSAGE => return Ok(None),
        Err(fault) => return Err(fault),
    };
    let body = answer["message"]["data"].as_str().unwrap_or_default();
    let body = BASE64_STANDARD.decode(body).unwrap_or_default();
    let item = Item::of_body(&body);
    let item = item.filter(|item| subjects.row(source, item) == *subject);
    if item.is_none() {
        tracing::warn!(
            %subject,
            "a message in the stream does not say which row it is about; it stays"
        );
    }
    Ok(item)
}

fn consumer_fault(error: &async_nats::jetstream::stream::ConsumerError) -> Fault {
    use async_nats::jetstream::stream::ConsumerErrorKind;
    match error.kind() {
        ConsumerErrorKind::TimedOut => Fault::Silent,
        ConsumerErrorKind::JetStream(refusal) => Fault::Refused(super::fault::Refusal {
            code: refusal.error_code().0,
            text: refusal.to_string(),
        }),
        _ => Fault::Garbled(error.to_string()),
    }
}
