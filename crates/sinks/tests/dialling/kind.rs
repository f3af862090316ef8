//! The kinds of connection, each with the client that the backend uses.

use std::{sync::Arc, time::Duration};

use http::Request;
use jiff::Timestamp;
use kollect_api::{InventoryId, SinkKey, reference::SinkFamily, sink::SinkSpec};
use kollect_inventory::Snapshot;
use kollect_sinks::{
    Delivery, DeliveryRows, DocumentOptions, Sink, SinkError,
    backend::{self, Environment, SinkSeed},
    credentials::Materials,
    dial::{
        Dialer,
        nats::{NatsGuard, NatsServer, NatsTls},
        socks::SocksGuard,
    },
    http::{
        HttpClient, empty,
        object_store::{GuardedConnector, cause},
    },
    tls::Trust,
};
use mongodb::{
    Client as MongoClient,
    bson::doc,
    options::{ClientOptions, ServerAddress, Socks5Proxy},
};
use object_store::{BackoffConfig, ObjectStoreExt, RetryConfig, aws::AmazonS3Builder, path::Path};
use tokio::io::AsyncWriteExt;

/// How long a client tries before it gives up. None of the servers here ever gives an answer that
/// satisfies one.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Http,
    ObjectStore,
    Mongo,
    Kafka,
    Nats,
}

/// A client of one kind for one server, with its guard.
pub(crate) enum Subject {
    Plain(Dialer),
    Http(HttpClient),
    ObjectStore(Box<object_store::aws::AmazonS3>),
    Mongo(SocksGuard),
    Kafka(Result<Arc<dyn Sink>, SinkError>),
    Nats(NatsGuard),
}

impl Kind {
    /// Whether the client can be told to connect to this host at all.
    pub(crate) fn takes(self, host: &str) -> bool {
        match self {
            Kind::Plain | Kind::Mongo | Kind::Nats => true,
            Kind::Http => url(host, 1).parse::<http::Uri>().is_ok(),
            // It panics where no URL is; see `http::object_store`.
            Kind::ObjectStore => Kind::Http.takes(host) && !host.contains('%'),
            // What is no host is refused before anything is judged.
            Kind::Kafka => !host.contains(['%', '/', '@', ' ', '\\']),
        }
    }

    pub(crate) async fn subject(self, dialer: Dialer, host: &str, port: u16) -> Subject {
        let http = |dialer| HttpClient::new(dialer, &Trust::default()).unwrap();
        match self {
            Kind::Plain => Subject::Plain(dialer),
            Kind::Http => Subject::Http(http(dialer)),
            Kind::ObjectStore => Subject::ObjectStore(Box::new(store(http(dialer), host, port))),
            Kind::Mongo => Subject::Mongo(SocksGuard::for_mongo(dialer, None).await.unwrap()),
            Kind::Kafka => Subject::Kafka(kafka(dialer, host, port).await),
            Kind::Nats => {
                let server = NatsServer {
                    host: host.to_owned(),
                    port,
                    tls: NatsTls::IfAsked,
                };
                let guard = NatsGuard::open(dialer, &Trust::default(), server).await;
                Subject::Nats(guard.unwrap())
            }
        }
    }

    /// Whether these are the first bytes of the client's protocol.
    pub(crate) fn says(self, bytes: &[u8]) -> bool {
        let holds = |part: &[u8]| memchr::memmem::find(bytes, part).is_some();
        match self {
            Kind::Plain => bytes == b"plain",
            Kind::Http => bytes.starts_with(b"GET /path HTTP/1.1\r\n"),
            Kind::ObjectStore => bytes.starts_with(b"PUT /bucket/object HTTP/1.1\r\n"),
            Kind::Mongo => holds(b"isMaster") || holds(b"hello"),
            // A length, then the request for the brokers of the cluster.
            Kind::Kafka => bytes.get(4..6) == Some(&[0, 3]),
            Kind::Nats => bytes.starts_with(b"CONNECT {"),
        }
    }
}

impl Subject {
    /// Lets a new client try until its guard says why it gets nowhere. On a busy machine a client may
    /// give up before it got that far.
    pub(crate) async fn failure(&self, host: &str, port: u16) -> Option<SinkError> {
        for _ in 0..4 {
            let failure = tokio::select! {
                failure = self.work(host, port) => failure,
                failure = self.told() => Some(failure),
            };
            if failure.is_some() {
                return failure;
            }
        }
        None
    }

    /// What the guard says, as soon as it says something.
    async fn told(&self) -> SinkError {
        loop {
            let failure = match self {
                Subject::Mongo(guard) => guard.last_failure(),
                Subject::Nats(guard) => guard.last_failure(),
                Subject::Plain(_)
                | Subject::Http(_)
                | Subject::ObjectStore(_)
                | Subject::Kafka(_) => None,
            };
            if let Some(failure) = failure {
                return failure;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Lets the client do its work until it gives up. What it says in the end is up to the client;
    /// what a sink would say is the result: none if the connection itself was never the problem.
    pub(crate) async fn work(&self, host: &str, port: u16) -> Option<SinkError> {
        match self {
            Subject::Plain(dialer) => match dialer.connect(host, port).await {
                Ok(mut stream) => {
                    stream.write_all(b"plain").await.unwrap();
                    None
                }
                Err(error) => Some(error.into()),
            },
            Subject::Http(client) => {
                let uri = format!("{}/path", url(host, port));
                let request = Request::get(uri).body(empty()).unwrap();
                client.send(request).await.err()
            }
            Subject::ObjectStore(store) => {
                let error = store.put(&Path::from("object"), "content".into()).await;
                cause(&error.unwrap_err())
            }
            Subject::Mongo(guard) => {
                let client = mongo(guard, host, port);
                let ping = client.database("admin").run_command(doc! {"ping": 1}).await;
                ping.unwrap_err();
                client.shutdown().immediate(true).await;
                guard.last_failure()
            }
            Subject::Kafka(sink) => {
                let sink = match sink {
                    Ok(sink) => sink,
                    Err(error) => return Some(error.clone()),
                };
                let delivery = Delivery {
                    inventory: InventoryId::cluster("all"),
                    generation: 1,
                    at: Timestamp::UNIX_EPOCH,
                    rows: DeliveryRows::All(Snapshot::default()),
                    documents: DocumentOptions::default(),
                };
                let error = sink.deliver(&delivery).await.unwrap_err();
                error
                    .message()
                    .starts_with("kafka connect")
                    .then_some(error)
            }
            Subject::Nats(guard) => {
                let options = async_nats::ConnectOptions::new().connection_timeout(PATIENCE);
                let client = options.connect(guard.url()).await;
                assert!(client.is_err(), "no server here is one");
                guard.last_failure()
            }
        }
    }
}

fn store(client: HttpClient, host: &str, port: u16) -> object_store::aws::AmazonS3 {
    AmazonS3Builder::new()
        .with_http_connector(GuardedConnector::new(client, PATIENCE))
        .with_endpoint(url(host, port))
        .with_allow_http(true)
        .with_region("region")
        .with_bucket_name("bucket")
        .with_access_key_id("key")
        .with_secret_access_key("secret")
        .with_retry(RetryConfig {
            max_retries: 2,
            backoff: BackoffConfig {
                init_backoff: Duration::from_millis(20),
                max_backoff: Duration::from_millis(50),
                base: 2.0,
            },
            ..RetryConfig::default()
        })
        .build()
        .unwrap()
}

/// As the operator opens it.
async fn kafka(dialer: Dialer, host: &str, port: u16) -> Result<Arc<dyn Sink>, SinkError> {
    let broker = if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    };
    let spec = serde_json::json!({
        "type": "kafka", "kafka": {"brokers": [broker], "topic": "topic"},
    });
    let seed = SinkSeed {
        key: SinkKey::new(SinkFamily::Event, "team-a", "kafka"),
        spec: Arc::new(SinkSpec::Event(serde_json::from_value(spec).unwrap())),
        materials: Materials::default(),
    };
    let environment = Environment {
        dialer,
        work_dir: std::env::temp_dir(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    };
    backend::open(seed, &environment).await
}

/// As the backend will build it: the proxy is set last, whatever the connection string said.
pub(crate) fn mongo(guard: &SocksGuard, host: &str, port: u16) -> MongoClient {
    let login = guard.login().unwrap();
    let mut options = ClientOptions::default();
    options.hosts = vec![ServerAddress::Tcp {
        host: host.to_owned(),
        port: Some(port),
    }];
    options.server_selection_timeout = Some(PATIENCE);
    options.connect_timeout = Some(PATIENCE);
    options.socks5_proxy = Some(
        Socks5Proxy::builder()
            .host(guard.address().ip().to_string())
            .port(guard.address().port())
            .authentication((login.user.to_owned(), login.password.expose().to_owned()))
            .build(),
    );
    MongoClient::with_options(options).unwrap()
}

fn url(host: &str, port: u16) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("http://[{host}]:{port}")
    } else {
        format!("http://{host}:{port}")
    }
}
