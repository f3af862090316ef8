//! One connection to the server.

use std::{collections::HashMap, future::poll_fn, sync::Arc};

use tokio::{
    runtime::Handle,
    task::AbortHandle,
    time::{Duration, Instant, timeout},
};
use tokio_postgres::{
    CancelToken, Client, Config, Row, SimpleQueryMessage, Statement,
    tls::MakeTlsConnect,
    types::{ToSql, Type},
};

use super::{
    dsn::{Attributes, Dsn, Host},
    encryption::{Attempt, Encryption},
    fault::{Fault, Refusal},
    stream::{Limited, LimitedTls, Plain, Verdict},
};
use crate::{
    dial::Dialer,
    error::SinkError,
    pool::{Connection, Held},
    secret::SecretBytes,
    tls::Trust,
};

/// Statements that one connection keeps prepared. Sinks with many tables may share it, and each
/// table has its own.
const STATEMENTS: usize = 128;

/// How long telling the server to stop may take.
const CANCEL: Duration = Duration::from_secs(10);

/// What is needed to connect.
pub(super) struct Connector {
    pub(super) dsn: Dsn,
    pub(super) encryption: Encryption,
    pub(super) dialer: Dialer,
}

/// What makes two ways to a database the same: whoever has one could have opened the other. Holds
/// secrets, so it is compared and never shown.
pub(super) struct Identity {
    pub(super) dsn: Dsn,
    pub(super) trust: Trust,
    /// The client's certificate and its key.
    pub(super) client: [Option<SecretBytes>; 2],
    pub(super) local_files: bool,
    pub(super) dialer: Dialer,
}

impl PartialEq for Identity {
    fn eq(&self, other: &Self) -> bool {
        self.dsn == other.dsn
            && self.trust == other.trust
            && self.client == other.client
            && self.local_files == other.local_files
            && self.dialer.leads_where(&other.dialer)
    }
}

/// A statement that can be sent.
pub(super) enum Question {
    /// The server knows it.
    Prepared(Statement),
    /// It is sent with its text each time.
    Text(String),
}

/// A value with the type of its parameter.
pub(super) type Parameter<'p> = (&'p (dyn ToSql + Sync), Type);

/// A connection. Dropping it closes the socket.
pub(super) struct Session {
    pub(super) client: Client,
    opened: Instant,
    statements: HashMap<String, Statement>,
    /// Whether each transaction may meet another process of the server, because a pooler such as
    /// PgBouncer stands in between. Nothing is left in such a session: what it is called there may
    /// be something else's name. Not known before the first transaction.
    pooled: Option<bool>,
    driver: AbortHandle,
    verdict: Verdict,
    /// How it was reached, to reach the same server again.
    host: Host,
    connector: Arc<Connector>,
}

impl Connection for Session {
    fn opened(&self) -> Instant {
        self.opened
    }

    fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// The server is told to stop, and keeps its place until it has heard of it.
    fn cut_off(self, place: Held) {
        let (connector, stop) = (Arc::clone(&self.connector), self.stop());
        drop(self);
        // Without a runtime the process is about to end, and with it everything that waits.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move {
                connector.stop(stop).await;
                drop(place);
            });
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    /// A fault with its reason, if the server went too far: the driver says only that the
    /// connection is closed.
    pub(super) fn explained(&self, fault: Fault) -> Fault {
        match self.verdict.breach() {
            Some(breach) => fault.by_breach(breach),
            None => fault,
        }
    }

    /// Statements of this connection, ready to be sent, in a transaction of their own the first
    /// time: the role that may see the table is set for transactions only.
    pub(super) async fn questions<const N: usize>(
        &mut self,
        begin: &str,
        texts: [&str; N],
    ) -> Result<[Question; N], tokio_postgres::Error> {
        let known = |text: &&str| self.pooled.is_some() && self.statements.contains_key(*text);
        if self.pooled != Some(true) && !texts.iter().all(known) {
            let begun = self
                .client
                .simple_query(&format!("{begin}; SELECT pg_backend_pid()"))
                .await?;
            if self.pooled.is_none() {
                self.pooled = Some(self.meets_others(&begun));
            }
            if self.pooled == Some(false) {
                for text in texts {
                    self.prepare(text).await?;
                }
            }
            self.client.batch_execute("COMMIT").await?;
        }
        Ok(texts.map(|text| self.question(text)))
    }

    fn question(&self, text: &str) -> Question {
        match self.statements.get(text) {
            Some(statement) => Question::Prepared(statement.clone()),
            None => Question::Text(text.to_owned()),
        }
    }

    /// Whether the process that answers is another one than the one that was introduced. Poolers
    /// introduce themselves.
    fn meets_others(&self, answer: &[SimpleQueryMessage]) -> bool {
        let answers = answer.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.try_get(0).ok().flatten()?.parse::<i32>().ok(),
            _ => None,
        });
        match (self.verdict.process(), answers) {
            (Some(introduced), Some(answers)) => introduced != answers,
            _ => false,
        }
    }

    /// Asks and takes the one row of the answer. Sent when first polled, so that several can be
    /// under way at once.
    pub(super) async fn one(
        &self,
        question: &Question,
        parameters: &[Parameter<'_>],
    ) -> Result<Row, tokio_postgres::Error> {
        match question {
            Question::Prepared(statement) => {
                let values: Vec<_> = parameters.iter().map(|(value, _)| *value).collect();
                self.client.query_one(statement, &values).await
            }
            Question::Text(text) => self.client.query_typed_one(text, parameters).await,
        }
    }

    /// Prepares a statement, once per connection.
    async fn prepare(&mut self, text: &str) -> Result<(), tokio_postgres::Error> {
        if self.statements.contains_key(text) {
            return Ok(());
        }
        let statement = self.client.prepare(text).await?;
        if self.statements.len() >= STATEMENTS {
            self.statements.clear();
        }
        self.statements.insert(text.to_owned(), statement);
        Ok(())
    }
}

impl Connector {
    /// Connects to the first server that answers and fits.
    pub(super) async fn open(self: &Arc<Self>) -> Result<Session, SinkError> {
        if self.dsn.user.is_empty() {
            return Err(Refusal::no_user().error);
        }
        let mut hosts: Vec<&Host> = self.dsn.hosts.iter().collect();
        if self.dsn.shuffled {
            fastrand::shuffle(&mut hosts);
        }
        let mut refusals = Vec::new();
        for host in hosts {
            match self.open_host(host).await {
                Ok(session) => return Ok(session),
                Err(refusal) => refusals.push(refusal.error),
            }
        }
        // Another server may come back, so one failure that may heal outweighs the others.
        let heals = refusals
            .iter()
            .position(|error| matches!(error, SinkError::Transient(_)));
        Err(refusals.swap_remove(heals.unwrap_or(0)))
    }

    async fn open_host(self: &Arc<Self>, host: &Host) -> Result<Session, Refusal> {
        let mut first = None;
        for attempt in self.encryption.attempts {
            let one = self.open_once(host, *attempt);
            let outcome = timeout(self.dsn.connect_timeout, one).await;
            match outcome.unwrap_or_else(|_| Err(Refusal::timeout())) {
                Ok(session) => return Ok(session),
                Err(refusal) => {
                    let other_way = refusal.about_encryption;
                    first.get_or_insert(refusal);
                    if !other_way {
                        break;
                    }
                }
            }
        }
        Err(first.expect("there is at least one attempt"))
    }

    async fn open_once(
        self: &Arc<Self>,
        host: &Host,
        attempt: Attempt,
    ) -> Result<Session, Refusal> {
        let verdict = Verdict::default();
        let stream = self.dial(host, &verdict).await?;
        let (client, mut connection) = self
            .config(attempt)
            .connect_raw(stream, self.tls(host, &verdict))
            .await?;
        let task = tokio::spawn(async move {
            // Failures reach whoever waits for an answer; the log needs no second copy. Notices are
            // the server's words and may say anything: the connection, if it were simply awaited,
            // would write them to the log.
            while let Some(Ok(_)) = poll_fn(|context| connection.poll_message(context)).await {}
        });
        let session = Session {
            client,
            opened: Instant::now(),
            statements: HashMap::new(),
            pooled: None,
            driver: task.abort_handle(),
            verdict,
            host: host.clone(),
            connector: Arc::clone(self),
        };
        match self.fits(&session).await {
            Ok(true) => Ok(session),
            Ok(false) => Err(Refusal::not_writable()),
            Err(error) => Err(match session.verdict.breach() {
                Some(breach) => breach.into(),
                None => error.into(),
            }),
        }
    }

    async fn fits(&self, session: &Session) -> Result<bool, tokio_postgres::Error> {
        let question = match self.dsn.attributes {
            Attributes::Any => return Ok(true),
            Attributes::ReadWrite => "SELECT current_setting('transaction_read_only') = 'off'",
            Attributes::Primary => "SELECT NOT pg_is_in_recovery()",
        };
        // Without a statement that would stay: a pooler may ask another server the next time.
        session
            .client
            .query_typed_one(question, &[])
            .await?
            .try_get(0)
    }

    fn config(&self, attempt: Attempt) -> Config {
        use tokio_postgres::config::SslNegotiation;
        let dsn = &self.dsn;
        let mut config = Config::new();
        config.user(&dsn.user).ssl_mode(attempt.ssl_mode());
        if let Some(password) = &dsn.password {
            config.password(password.expose());
        }
        if let Some(database) = &dsn.database {
            config.dbname(database);
        }
        if let Some(options) = &dsn.options {
            config.options(options);
        }
        config.application_name(dsn.application_name.as_deref().unwrap_or("kollect"));
        if let Some(binding) = dsn.ssl.channel_binding {
            config.channel_binding(binding);
        }
        if dsn.ssl.direct && attempt == Attempt::Encrypted {
            config.ssl_negotiation(SslNegotiation::Direct);
        }
        config
    }

    async fn dial(&self, host: &Host, verdict: &Verdict) -> Result<Plain, Refusal> {
        let place = host.address.as_ref().unwrap_or(&host.name);
        let stream = self.dialer.connect(place, host.port).await?;
        Ok(Limited::new(stream, verdict.clone()))
    }

    fn tls(&self, host: &Host, verdict: &Verdict) -> LimitedTls {
        let mut make = self.encryption.connect.clone();
        let Ok(rustls) = MakeTlsConnect::<Plain>::make_tls_connect(&mut make, &host.name);
        LimitedTls {
            rustls,
            verdict: verdict.clone(),
        }
    }

    /// Tells the server to stop what a session is doing. Closing the socket alone would not: a
    /// server notices that only when it has something to say.
    async fn stop(&self, target: Stop) {
        let work = async {
            let verdict = Verdict::default();
            let stream = self.dial(&target.host, &verdict).await?;
            target
                .token
                .cancel_query_raw(stream, self.tls(&target.host, &verdict))
                .await?;
            Ok::<_, Refusal>(())
        };
        match timeout(CANCEL, work).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) | Err(_) => {
                tracing::debug!("a cancelled statement could not be stopped; its time-out ends it");
            }
        }
    }
}

/// How to reach a session from outside.
struct Stop {
    token: CancelToken,
    host: Host,
}

impl Session {
    fn stop(&self) -> Stop {
        Stop {
            token: self.client.cancel_token(),
            host: self.host.clone(),
        }
    }
}
