//! One connection to a server, through guarded doors.
//!
//! The client would connect again by itself, and then send what waited in it all the while. That must
//! not happen: a delivery that failed is over, and what it left would arrive after what came next. So
//! a connection that is lost stays lost, and whoever needs one connects anew.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_nats::{
    Client, ConnectErrorKind, ConnectOptions, Event, HeaderMap, RequestErrorKind, ServerError,
    jetstream::{self, Context, context::ContextBuilder},
};
use futures::future::join_all;
use rustls::ClientConfig;
use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use super::{
    fault::{Fault, Refusal},
    settings::{Login, Settings},
};
use crate::{
    dial::{
        Dialer,
        nats::{NatsGuard, NatsServer, NatsTls},
    },
    error::SinkError,
};

/// How long one server may take until it has accepted us.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a server may take to answer a question, or to acknowledge a message.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// How often it is looked whether an idle connection is still there.
const PING: Duration = Duration::from_secs(20);
/// When the client tries again after a loss; its doors are closed by then.
const AFTER_A_LOSS: Duration = Duration::from_secs(5);
/// Acknowledgements that may be outstanding over all deliveries of a sink.
const UNACKNOWLEDGED: usize = 16 * 1024;
/// Where JetStream listens.
const API: &str = "$JS.API";

/// The way to the servers of a sink.
#[derive(Debug, Clone)]
pub(super) struct Way {
    pub(super) dialer: Dialer,
    pub(super) tls: Arc<ClientConfig>,
    /// Whether the sink asks for TLS, whatever the server says.
    pub(super) wants_tls: bool,
    pub(super) login: Login,
}

/// What the client told of its own accord.
#[derive(Debug, Clone, Default)]
struct Told {
    lost: bool,
    /// What the server did not allow last, and how many times it did not.
    denied: String,
    denials: u64,
}

/// A connection that works, or did.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: Client,
    pub(super) context: Context,
    told: watch::Receiver<Told>,
    doors: Doors,
}

/// What the client goes through. They close when the connection is lost or not needed any more, so
/// that the client, which tries again by itself, finds nobody and gives up.
#[derive(Debug, Clone, Default)]
struct Doors(Arc<Mutex<Vec<NatsGuard>>>);

impl Doors {
    fn set(&self, doors: Vec<NatsGuard>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = doors;
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.doors.set(Vec::new());
    }
}

impl Way {
    /// Connects to the first server that answers.
    pub(super) async fn connect(&self, settings: &Settings) -> Result<Connection, SinkError> {
        let doors = join_all(settings.servers.iter().map(|server| {
            let server = NatsServer {
                host: server.host.clone(),
                port: server.port,
                tls: if server.tls || self.wants_tls {
                    NatsTls::Required
                } else {
                    NatsTls::IfAsked
                },
            };
            NatsGuard::open_with(self.dialer.clone(), Arc::clone(&self.tls), server)
        }))
        .await
        .into_iter()
        .collect::<Result<Vec<_>, _>>()?;
        let (sender, told) = watch::channel(Told::default());
        let connected = Arc::new(AtomicBool::new(false));
        let was_connected = Arc::clone(&connected);
        let open_doors = Doors::default();
        let lost_doors = open_doors.clone();
        let options = ConnectOptions::new()
            .name("kollect")
            .ignore_discovered_servers()
            .retain_servers_order()
            .connection_timeout(CONNECT)
            .request_timeout(Some(ANSWER))
            .ping_interval(PING)
            .max_reconnects(doors.len())
            .reconnect_delay_callback(move |_| {
                if was_connected.load(Ordering::Relaxed) {
                    AFTER_A_LOSS
                } else {
                    Duration::ZERO
                }
            })
            .event_callback(move |event| {
                tell(&sender, &event);
                if sender.borrow().lost {
                    lost_doors.set(Vec::new());
                }
                std::future::ready(())
            });
        let options = self.login.put(options)?;
        let urls: Vec<String> = doors.iter().map(NatsGuard::url).collect();
        let longest = CONNECT * u32::try_from(doors.len()).unwrap_or(u32::MAX);
        let client = match timeout(longest, options.connect(urls)).await {
            Ok(Ok(client)) => client,
            Ok(Err(error)) => return Err(refused(error.kind(), &doors)),
            Err(_) => return Err(refused(ConnectErrorKind::TimedOut, &doors)),
        };
        connected.store(true, Ordering::Relaxed);
        open_doors.set(doors);
        if told.borrow().lost {
            open_doors.set(Vec::new());
        }
        let context = ContextBuilder::new()
            .timeout(ANSWER)
            .ack_timeout(ANSWER)
            .max_ack_inflight(UNACKNOWLEDGED)
            .backpressure_on_inflight(true)
            .build(client.clone());
        Ok(Connection {
            client,
            context,
            told,
            doors: open_doors,
        })
    }
}

fn tell(told: &watch::Sender<Told>, event: &Event) {
    match event {
        Event::Disconnected | Event::Closed => told.send_modify(|told| told.lost = true),
        Event::ServerError(ServerError::Other(text)) if is_denial(text) => {
            told.send_modify(|told| {
                told.denied.clone_from(text);
                told.denials += 1;
            });
        }
        _ => {}
    }
}

fn is_denial(text: &str) -> bool {
    text.to_ascii_lowercase().contains("permissions violation")
}

/// Why no server could be used. The doors know more than the client, which only sees them close.
fn refused(kind: ConnectErrorKind, doors: &[NatsGuard]) -> SinkError {
    if matches!(
        kind,
        ConnectErrorKind::AuthorizationViolation | ConnectErrorKind::Authentication
    ) {
        return SinkError::terminal(
            "nats connect: the server refuses the credentials; correct the Secret",
        );
    }
    let failures: Vec<SinkError> = doors.iter().filter_map(NatsGuard::last_failure).collect();
    // One server that may come back is reason enough to wait.
    let heals = |error: &&SinkError| matches!(error, SinkError::Transient(_));
    let failure = failures.iter().find(heals).or(failures.first());
    match failure {
        Some(failure) => failure.clone().at("nats connect"),
        None => SinkError::transient(format!("nats connect: {kind}")),
    }
}

impl Connection {
    /// Whether it can still be used.
    pub(super) fn is_alive(&self) -> bool {
        !self.told.borrow().lost
    }

    /// Waits for something, unless the connection goes or the server refuses just that: it says
    /// so beside all answers, and then there is none. `about` is part of the subject.
    pub(super) async fn during<T>(
        &self,
        about: &str,
        work: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let mut told = self.told.clone();
        let known = told.borrow_and_update().denials;
        if told.borrow().lost {
            return Err(Fault::Lost);
        }
        let trouble = async {
            loop {
                if told.changed().await.is_err() {
                    return Fault::Lost;
                }
                let now = told.borrow_and_update().clone();
                if now.lost {
                    return Fault::Lost;
                }
                // Without a subscription of its own a client gets no answer to anything.
                let ours = now.denied.contains(about) || now.denied.contains("_INBOX.");
                if now.denials > known && ours {
                    return Fault::Denied(now.denied);
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            fault = trouble => Err(fault),
        }
    }

    /// A question to JetStream.
    pub(super) async fn ask(&self, what: &str, question: &Value) -> Result<Value, Fault> {
        let subject = format!("{API}.{what}");
        let payload = if question.is_null() {
            bytes::Bytes::new()
        } else {
            question.to_string().into()
        };
        let answer = async {
            let message = self.client.request(subject.clone(), payload).await;
            let message = message.map_err(|error| match error.kind() {
                RequestErrorKind::TimedOut => Fault::Silent,
                RequestErrorKind::NoResponders => Fault::Nobody,
                _ => Fault::Lost,
            })?;
            answer(&message.payload)
        };
        self.during(&subject, answer).await
    }

    /// Publishes what cannot be stored: the server refuses it after everything that was published on
    /// this connection before, also by deliveries that were given up. Also shows whether publishing is
    /// allowed and whether a stream listens.
    pub(super) async fn barrier(&self, subject: &str) -> Result<(), Fault> {
        let mut headers = HeaderMap::new();
        headers.insert("Nats-Expected-Last-Sequence", "9000000000000000000");
        let rejected = async {
            let message = self
                .client
                .request_with_headers(subject.to_owned(), headers, bytes::Bytes::new())
                .await
                .map_err(|error| match error.kind() {
                    RequestErrorKind::TimedOut => Fault::Silent,
                    RequestErrorKind::NoResponders => Fault::Nobody,
                    _ => Fault::Lost,
                })?;
            match answer(&message.payload) {
                Err(Fault::Refused(refusal))
                    if refusal.code == super::fault::code::WRONG_LAST_SEQUENCE =>
                {
                    Ok(())
                }
                Err(fault) => Err(fault),
                Ok(_) => Err(Fault::Garbled("a message that cannot be stored was".into())),
            }
        };
        self.during(subject, rejected).await
    }

    /// The largest message that the server takes, headers included.
    pub(super) fn max_payload(&self) -> u64 {
        self.client.server_info().max_payload as u64
    }

    /// A stream that is known to be there.
    pub(super) async fn stream(&self, name: &str) -> Result<jetstream::stream::Stream<()>, Fault> {
        let stream = self.context.get_stream_no_info(name).await;
        stream.map_err(|error| Fault::Garbled(error.to_string()))
    }
}

/// What JetStream answered.
fn answer(payload: &[u8]) -> Result<Value, Fault> {
    let answer: Value =
        serde_json::from_slice(payload).map_err(|error| Fault::Garbled(error.to_string()))?;
    match answer.get("error") {
        None => Ok(answer),
        Some(error) => Err(Fault::Refused(Refusal {
            code: error["err_code"].as_u64().unwrap_or_default(),
            text: error["description"].as_str().unwrap_or_default().to_owned(),
        })),
    }
}
