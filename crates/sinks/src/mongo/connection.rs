//! A client behind its guarded door.

use std::time::Duration;

use mongodb::{
    Client, ClientSession, Collection, Database,
    bson::{Document, RawDocumentBuf, doc},
    options::{ReadPreference, SelectionCriteria, SessionOptions},
};
use tokio::time::{Instant, sleep, timeout};

use super::{
    fault::{Fault, fault, met},
    names::Names,
    uri::Uri,
};
use crate::{
    dial::{
        Dialer,
        socks::{Obstacle, SocksGuard},
    },
    error::SinkError,
};

/// How long the address of a server may turn out to be forbidden before that is what the matter is:
/// another one may take the connection.
const FORBIDDEN: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(50);
/// How often something is asked, and the pause in between.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_millis(200);

/// A client and the door it goes through. The driver connects again by itself.
pub(super) struct Connection {
    client: Client,
    guard: SocksGuard,
    /// Whether writes may be numbered: not on a server that is alone.
    pub(super) numbered: bool,
}

impl Connection {
    /// Connects and logs in. `stage` is what errors begin with.
    pub(super) async fn open(uri: &Uri, dialer: Dialer, stage: &str) -> Result<Self, SinkError> {
        let guard = SocksGuard::for_mongo(dialer, uri.tls.clone()).await?;
        let options = uri.options(&guard).await?;
        let client = Client::with_options(options)
            .map_err(|_| SinkError::terminal("mongodb connect: invalid connection string"))?;
        let mut connection = Self {
            client,
            guard,
            numbered: false,
        };
        let hello = tokio::select! {
            biased;
            hello = connection.hello(stage) => hello.map_err(|fault| fault.error),
            error = connection.forbidden(stage) => Err(error),
        };
        match hello {
            Ok(hello) => {
                let set = hello.contains_key("setName");
                let router = hello.get_str("msg").is_ok_and(|msg| msg == "isdbgrid");
                connection.numbered = set || router;
                Ok(connection)
            }
            Err(error) => {
                connection.close().await;
                Err(error)
            }
        }
    }

    /// Ends, with all connections. Without this a client ends too, a little later.
    pub(super) async fn close(self) {
        let ending = self.client.shutdown().immediate(true);
        // It waits for tasks of its own.
        let _ = timeout(Duration::from_secs(1), async { ending.await }).await;
    }

    /// Says what a server is. A login has to succeed first.
    pub(super) async fn hello(&self, stage: &str) -> Result<Document, Fault> {
        self.admin(stage, doc! {"hello": 1}).await
    }

    pub(super) async fn ping(&self, stage: &str) -> Result<(), Fault> {
        self.admin(stage, doc! {"ping": 1}).await.map(drop)
    }

    /// A command to the server itself.
    pub(super) async fn admin(&self, stage: &str, command: Document) -> Result<Document, Fault> {
        self.ask(&self.client.database("admin"), stage, command)
            .await
    }

    /// A command to the sink's database.
    pub(super) async fn command(
        &self,
        names: &Names,
        stage: &str,
        command: Document,
    ) -> Result<Document, Fault> {
        self.ask(&self.database(names), stage, command).await
    }

    /// Asks the primary, and again if that is another one by now. All that is asked like this may
    /// be asked twice.
    async fn ask(
        &self,
        database: &Database,
        stage: &str,
        command: Document,
    ) -> Result<Document, Fault> {
        let mut attempt = 1;
        loop {
            let call = database
                .run_command(command.clone())
                .selection_criteria(primary());
            match call.await {
                Ok(answer) => return Ok(answer),
                Err(error) => {
                    let fault = self.fault(stage, &error);
                    if !fault.again || attempt == ATTEMPTS {
                        return Err(fault);
                    }
                }
            }
            attempt += 1;
            sleep(PAUSE).await;
        }
    }

    /// A command with a session of ours.
    pub(super) async fn command_in(
        &self,
        names: &Names,
        stage: &str,
        command: RawDocumentBuf,
        session: &mut ClientSession,
    ) -> Result<Document, Fault> {
        let database = self.database(names);
        let call = database
            .run_raw_command(command)
            .selection_criteria(primary())
            .session(session);
        call.await.map_err(|error| self.fault(stage, &error))
    }

    pub(super) fn collection(&self, names: &Names) -> Collection<RawDocumentBuf> {
        self.database(names).collection(&names.collection)
    }

    pub(super) async fn session(&self, stage: &str) -> Result<ClientSession, Fault> {
        let options = SessionOptions::builder().causal_consistency(false).build();
        let session = self.client.start_session().with_options(options).await;
        session.map_err(|error| self.fault(stage, &error))
    }

    /// What a failed call means.
    pub(super) fn fault(&self, stage: &str, error: &mongodb::error::Error) -> Fault {
        fault(stage, error, self.guard.obstacle())
    }

    fn database(&self, names: &Names) -> Database {
        self.client.database(&names.database)
    }

    /// Ends when what is in the way will not go by itself, so that nobody waits for the driver, which
    /// tries on.
    async fn forbidden(&self, stage: &str) -> SinkError {
        let mut since = None;
        loop {
            let obstacle = self.guard.obstacle().filter(|failure| {
                failure.obstacle != Obstacle::Network
                    && matches!(failure.error, SinkError::Terminal(_))
            });
            match obstacle {
                None => since = None,
                Some(failure) => {
                    let first = *since.get_or_insert_with(Instant::now);
                    if first.elapsed() >= FORBIDDEN {
                        return met(stage, Some(failure));
                    }
                }
            }
            sleep(LOOK).await;
        }
    }
}

fn primary() -> SelectionCriteria {
    SelectionCriteria::ReadPreference(ReadPreference::Primary)
}
