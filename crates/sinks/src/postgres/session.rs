//! One connection to the server.

use std::collections::HashMap;

use tokio::{
    net::TcpStream,
    task::AbortHandle,
    time::{Duration, Instant, timeout},
};
use tokio_postgres::{CancelToken, Client, Config, Statement, tls::MakeTlsConnect};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{
    dsn::{Attributes, Dsn, Host},
    encryption::{Attempt, Encryption},
    fault::Refusal,
};
use crate::{dial::Dialer, error::SinkError};

/// How long telling the server to stop may take.
const CANCEL: Duration = Duration::from_secs(10);

/// What is needed to connect.
pub(super) struct Connector {
    pub(super) dsn: Dsn,
    pub(super) encryption: Encryption,
    pub(super) dialer: Dialer,
}

/// A connection. Dropping it closes the socket.
pub(super) struct Session {
    pub(super) client: Client,
    pub(super) opened: Instant,
    statements: HashMap<String, Statement>,
    driver: AbortHandle,
    /// How it was reached, to reach the same server again.
    host: Host,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Session {
    /// Whether a statement is prepared already.
    pub(super) fn knows(&self, text: &str) -> bool {
        self.statements.contains_key(text)
    }

    /// A statement, prepared once per connection.
    pub(super) async fn prepared(
        &mut self,
        text: &str,
    ) -> Result<Statement, tokio_postgres::Error> {
        if let Some(statement) = self.statements.get(text) {
            return Ok(statement.clone());
        }
        let statement = self.client.prepare(text).await?;
        self.statements.insert(text.to_owned(), statement.clone());
        Ok(statement)
    }
}

impl Connector {
    /// Connects to the first server that answers and fits.
    pub(super) async fn open(&self) -> Result<Session, SinkError> {
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

    async fn open_host(&self, host: &Host) -> Result<Session, Refusal> {
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

    async fn open_once(&self, host: &Host, attempt: Attempt) -> Result<Session, Refusal> {
        let stream = self.dial(host).await?;
        let (client, connection) = self
            .config(attempt)
            .connect_raw(stream, self.tls(host))
            .await?;
        let task = tokio::spawn(async move {
            // Its failures reach whoever waits for an answer; the log needs no second copy.
            let _ = connection.await;
        });
        let session = Session {
            client,
            opened: Instant::now(),
            statements: HashMap::new(),
            driver: task.abort_handle(),
            host: host.clone(),
        };
        if self.fits(&session).await? {
            Ok(session)
        } else {
            Err(Refusal::not_writable())
        }
    }

    async fn fits(&self, session: &Session) -> Result<bool, tokio_postgres::Error> {
        let question = match self.dsn.attributes {
            Attributes::Any => return Ok(true),
            Attributes::ReadWrite => "SELECT current_setting('transaction_read_only') = 'off'",
            Attributes::Primary => "SELECT NOT pg_is_in_recovery()",
        };
        Ok(session.client.query_one(question, &[]).await?.get(0))
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

    async fn dial(&self, host: &Host) -> Result<TcpStream, Refusal> {
        let place = host.address.as_ref().unwrap_or(&host.name);
        Ok(self.dialer.connect(place, host.port).await?)
    }

    fn tls(&self, host: &Host) -> <MakeRustlsConnect as MakeTlsConnect<TcpStream>>::TlsConnect {
        let mut make = self.encryption.connect.clone();
        let Ok(connect) = MakeTlsConnect::<TcpStream>::make_tls_connect(&mut make, &host.name);
        connect
    }

    /// Tells the server to stop what a session is doing. Closing the socket alone would not: a
    /// server notices that only when it has something to say.
    pub(super) async fn stop(&self, target: Stop) {
        let work = async {
            let stream = self.dial(&target.host).await?;
            target
                .token
                .cancel_query_raw(stream, self.tls(&target.host))
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
pub(super) struct Stop {
    token: CancelToken,
    host: Host,
}

impl Session {
    pub(super) fn stop(&self) -> Stop {
        Stop {
            token: self.client.cancel_token(),
            host: self.host.clone(),
        }
    }
}
