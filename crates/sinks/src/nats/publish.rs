//! Publishing: many messages on the way, every one acknowledged.

use std::collections::VecDeque;

use async_nats::{
    HeaderMap,
    jetstream::context::{PublishAckFuture, PublishErrorKind},
};
use bytes::Bytes;

use super::{
    connection::Connection,
    fault::{Fault, Refusal},
    stream::Stream,
};
use crate::{
    error::SinkError,
    events::{Event, HeaderNames, Message},
};

/// The most messages of one delivery that are on the way.
const ON_THE_WAY: usize = 1_000;

/// How long the last message of a row that is gone stays, where it may go by itself.
const MEMORY_OF_THE_GONE: &str = "720h";

/// A message with its place.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) subject: String,
    headers: HeaderMap,
    body: Bytes,
    size: u64,
}

impl Outgoing {
    /// A message of mode `changes`.
    pub(super) fn of(message: Message, subject: String, stream: &Stream) -> Self {
        let mut headers = message.headers(&HeaderNames::NATS);
        headers.push(("Nats-Msg-Id", message.id.clone()));
        if message.event == Event::Delete && stream.forgets {
            headers.push(("Nats-Rollup", "sub".to_owned()));
            headers.push(("Nats-TTL", MEMORY_OF_THE_GONE.to_owned()));
        }
        Self::new(subject, &headers, message.body)
    }

    /// Any message.
    pub(super) fn new(subject: String, headers: &[(&'static str, String)], body: Vec<u8>) -> Self {
        let lines: usize = headers
            .iter()
            .map(|(name, value)| name.len() + value.len() + ": \r\n".len())
            .sum();
        let size = "NATS/1.0\r\n\r\n".len() + lines + body.len();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.as_str());
        }
        Outgoing {
            subject,
            headers: map,
            body: body.into(),
            size: size as u64,
        }
    }

    /// Its length as the server counts it.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The length of its body.
    pub(super) fn body_len(&self) -> u64 {
        self.body.len() as u64
    }
}

/// Messages of one delivery on their way.
#[derive(Debug)]
pub(super) struct Pipeline<'c> {
    connection: &'c Connection,
    stream: &'c Stream,
    /// The subject of the sink.
    about: &'c str,
    on_the_way: VecDeque<PublishAckFuture>,
    /// A number that the stream had given away before the first message.
    before: u64,
    /// The highest number that was given to one.
    last: u64,
}

impl<'c> Pipeline<'c> {
    /// Nothing is on the way.
    pub(super) fn new(
        connection: &'c Connection,
        stream: &'c Stream,
        about: &'c str,
        before: u64,
    ) -> Self {
        Pipeline {
            connection,
            stream,
            about,
            on_the_way: VecDeque::new(),
            before,
            last: before,
        }
    }

    /// Sends a message; waits for the oldest if there are many on the way.
    pub(super) async fn send(&mut self, outgoing: Outgoing) -> Result<(), Fault> {
        while self.on_the_way.len() >= ON_THE_WAY {
            self.acknowledged().await?;
        }
        let Outgoing {
            subject,
            headers,
            body,
            ..
        } = outgoing;
        let connection = self.connection;
        let send = async {
            let sent = connection
                .context
                .publish_with_headers(subject, headers, body)
                .await;
            sent.map_err(|error| fault(&error))
        };
        let sent = connection.during(self.about, send).await?;
        self.on_the_way.push_back(sent);
        Ok(())
    }

    /// Waits until everything is acknowledged; the highest number that was given to a message.
    pub(super) async fn finish(mut self) -> Result<u64, Fault> {
        while !self.on_the_way.is_empty() {
            self.acknowledged().await?;
        }
        Ok(self.last)
    }

    async fn acknowledged(&mut self) -> Result<(), Fault> {
        let Some(oldest) = self.on_the_way.pop_front() else {
            return Ok(());
        };
        let acknowledgement = async { oldest.await.map_err(|error| fault(&error)) };
        let ack = self
            .connection
            .during(self.about, acknowledgement)
            .await
            .map_err(|fault| match fault {
                Fault::Nobody => Fault::Known(SinkError::OutOfStep(format!(
                    "nobody takes messages for {:?} any more: stream {:?} is gone",
                    self.about, self.stream.name
                ))),
                other => other,
            })?;
        let known = !self.stream.created.is_empty();
        if known && ack.stream != self.stream.name {
            return Err(Fault::Known(SinkError::OutOfStep(format!(
                "messages go to stream {:?} now instead of {:?}",
                ack.stream, self.stream.name
            ))));
        }
        if !ack.duplicate && ack.sequence <= self.before {
            return Err(Fault::Known(SinkError::OutOfStep(format!(
                "stream {:?} counts from {} where it had reached {}: it was replaced",
                ack.stream, ack.sequence, self.before
            ))));
        }
        self.last = self.last.max(ack.sequence);
        Ok(())
    }
}

fn fault(error: &async_nats::jetstream::context::PublishError) -> Fault {
    use std::error::Error;
    match error.kind() {
        PublishErrorKind::TimedOut => Fault::Silent,
        PublishErrorKind::BrokenPipe => Fault::Lost,
        PublishErrorKind::StreamNotFound => Fault::Nobody,
        _ => {
            let refusal = error
                .source()
                .and_then(|source| source.downcast_ref::<async_nats::jetstream::Error>());
            match refusal {
                Some(refusal) => Fault::Refused(Refusal {
                    code: refusal.error_code().0,
                    text: refusal.to_string(),
                }),
                None => Fault::Garbled(error.to_string()),
            }
        }
    }
}
