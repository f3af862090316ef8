use std::{
    collections::VecDeque,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde::Deserialize;
use tokio::net::TcpListener;

use super::*;

/// Answers each lookup with the next answer, the last one for ever, and counts.
#[derive(Debug, Default)]
pub(crate) struct Table {
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    lookups: AtomicUsize,
}

impl Table {
    pub(crate) fn new<'a>(answers: impl IntoIterator<Item = &'a [&'a str]>) -> Arc<Self> {
        let answers = answers
            .into_iter()
            .map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect());
        Arc::new(Self {
            answers: Mutex::new(answers.collect()),
            lookups: AtomicUsize::new(0),
        })
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Resolve for Table {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        match answers.len() {
            0 => Ok(Vec::new()),
            1 => Ok(answers[0].clone()),
            _ => Ok(answers.pop_front().unwrap()),
        }
    }
}

/// Opens loopback, as only a test or an administrator would.
pub(crate) fn loopback(address: &str) -> AddressPolicy {
    AddressPolicy {
        allowed_networks: vec![address.parse().unwrap()],
        ..AddressPolicy::default()
    }
}

fn private() -> AddressPolicy {
    AddressPolicy {
        allow_private: true,
        ..AddressPolicy::default()
    }
}

#[derive(Deserialize)]
struct Vectors {
    addresses: Vec<Judged>,
    dials: Vec<Dial>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Judged {
    id: String,
    address: String,
    by_default: bool,
    with_private: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Dial {
    id: String,
    host: String,
    #[serde(default)]
    private: bool,
    allow_host: Option<String>,
    allow_network: Option<String>,
    #[serde(default)]
    answer: Vec<String>,
    lookups: usize,
    dialled: Option<Vec<String>>,
}

fn vectors() -> Vectors {
    serde_saphyr::from_str(include_str!("vectors.yaml")).unwrap()
}

#[tokio::test]
async fn addresses_are_judged_as_literals_and_as_answers() {
    for vector in vectors().addresses {
        let Judged { id, address, .. } = &vector;
        let bare = address.split('%').next().unwrap();
        for (policy, allowed) in [
            (AddressPolicy::default(), vector.by_default),
            (private(), vector.with_private),
            // G18: a policy leaves nothing behind for the next one.
            (AddressPolicy::default(), vector.by_default),
        ] {
            let table = Table::new([&[bare][..]]);
            let dialer = Dialer::with_resolver(policy, table.clone());
            let literal = dialer.addresses(address, 443).await;
            assert_eq!(literal.is_ok(), allowed, "{id} {address} as a literal");
            assert_eq!(table.lookups(), 0, "{id} {address} needs no DNS");
            let answer = dialer.addresses("name.example.com", 443).await;
            assert_eq!(answer.is_ok(), allowed, "{id} {address} as an answer");
        }
    }
}

#[tokio::test]
async fn a_dial_is_refused_or_goes_to_what_was_judged() {
    for vector in vectors().dials {
        let Dial { id, host, .. } = &vector;
        let policy = AddressPolicy {
            allow_private: vector.private,
            allowed_hosts: vector.allow_host.iter().cloned().collect(),
            allowed_networks: vector
                .allow_network
                .iter()
                .map(|network| network.parse().unwrap())
                .collect(),
            platform: false,
        };
        let answer: Vec<&str> = vector.answer.iter().map(String::as_str).collect();
        let table = Table::new([&answer[..]]);
        let dialer = Dialer::with_resolver(policy, table.clone());
        let result = dialer.addresses(host, 443).await;
        assert_eq!(table.lookups(), vector.lookups, "{id} {host}: lookups");
        match (result, &vector.dialled) {
            (Ok(addresses), Some(expected)) => {
                let expected: Vec<SocketAddr> = expected
                    .iter()
                    .map(|ip| SocketAddr::new(ip.parse().unwrap(), 443))
                    .collect();
                assert_eq!(addresses, expected, "{id} {host}");
            }
            (Err(error), None) => {
                assert!(error.is_forbidden(), "{id} {host}: {error}");
                assert!(matches!(SinkError::from(error), SinkError::Terminal(_)));
            }
            (result, _) => panic!("{id} {host}: {result:?}"),
        }
    }
}

/// A listener that remembers who came.
struct Door {
    port: u16,
    callers: Arc<Mutex<Vec<SocketAddr>>>,
}

impl Door {
    async fn open() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let callers = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&callers);
        tokio::spawn(async move {
            let mut open = Vec::new();
            while let Ok((stream, caller)) = listener.accept().await {
                seen.lock().unwrap().push(caller);
                open.push(stream);
            }
        });
        Self { port, callers }
    }

    /// How many came before now: calls itself and waits until that call is seen.
    async fn callers(&self) -> usize {
        let own = TcpStream::connect(("127.0.0.1", self.port)).await.unwrap();
        let own = own.local_addr().unwrap();
        loop {
            let place = self.callers.lock().unwrap().iter().position(|c| *c == own);
            if let Some(earlier) = place {
                return earlier;
            }
            tokio::task::yield_now().await;
        }
    }
}

/// G12 and G13 with real sockets: one bad address and not even the good one is called.
#[tokio::test]
async fn a_mixed_answer_opens_no_socket() {
    for bad in ["192.168.1.10", "169.254.169.254", "127.0.0.2"] {
        for answer in [["127.0.0.1", bad], [bad, "127.0.0.1"]] {
            let door = Door::open().await;
            let table = Table::new([&answer[..]]);
            let dialer = Dialer::with_resolver(loopback("127.0.0.1/32"), table);
            let error = dialer
                .connect("mixed.example.com", door.port)
                .await
                .unwrap_err();
            assert_eq!(
                error.to_string(),
                format!(
                    "sink host \"mixed.example.com\" resolved to a forbidden address: IP {bad} is not globally routable and not opened by the operator's administrator"
                )
            );
            assert_eq!(door.callers().await, 0);
        }
    }
}

/// G15 with real sockets: a name that turns bad is refused although it was good a moment ago.
#[tokio::test]
async fn every_connection_resolves_and_judges_again() {
    let door = Door::open().await;
    let table = Table::new([&["127.0.0.1"][..], &["127.0.0.2"]]);
    let dialer = Dialer::with_resolver(loopback("127.0.0.1/32"), table.clone());
    let stream = dialer.connect("db.example.com", door.port).await.unwrap();
    assert_eq!(
        stream.peer_addr().unwrap().to_string(),
        format!("127.0.0.1:{}", door.port)
    );
    assert!(stream.nodelay().unwrap());
    assert!(SockRef::from(&stream).keepalive().unwrap());
    #[cfg(target_os = "linux")]
    assert_eq!(
        SockRef::from(&stream).tcp_user_timeout().unwrap(),
        Some(UNACKNOWLEDGED),
        "a peer that takes nothing is given up"
    );
    let error = dialer
        .connect("db.example.com", door.port)
        .await
        .unwrap_err();
    assert!(error.is_forbidden(), "{error}");
    assert_eq!(table.lookups(), 2);
    assert_eq!(door.callers().await, 1);
}

/// An answer with thousands of addresses keeps nobody busy, and its end is not dialled either.
#[tokio::test]
async fn long_answers_are_cut() {
    let addresses: Vec<String> = (0..5000)
        .map(|n| format!("8.8.{}.{}", n / 250, n % 250))
        .collect();
    let mut answer: Vec<&str> = addresses.iter().map(String::as_str).collect();
    answer.push("10.0.0.1");
    let table = Table::new([&answer[..]]);
    let dialer = Dialer::with_resolver(AddressPolicy::default(), table);
    let found = dialer.addresses("many.example.com", 443).await.unwrap();
    assert_eq!(found.len(), ADDRESSES);
    answer.swap(3, 5000);
    let table = Table::new([&answer[..]]);
    let dialer = Dialer::with_resolver(AddressPolicy::default(), table);
    let refused = dialer.addresses("many.example.com", 443).await;
    assert!(refused.unwrap_err().is_forbidden());
}

/// Never answers, and counts who waits for it.
#[derive(Debug, Default)]
struct Hanging(AtomicUsize);

#[async_trait]
impl Resolve for Hanging {
    async fn resolve(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        if host == "quick.example.com" {
            return Ok(vec!["8.8.8.8".parse().unwrap()]);
        }
        self.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    }
}

/// Lookups that hang are few per user, and nobody else waits for them.
#[tokio::test(start_paused = true)]
async fn hanging_lookups_are_bounded_per_user() {
    let hanging = Arc::new(Hanging::default());
    let dialer = Dialer::with_resolver(AddressPolicy::default(), hanging.clone());
    let tenant = dialer.on_behalf_of("lookups-of-a-tenant");
    for _ in 0..3 {
        let lookups = (0..20).map(|_| tenant.addresses("slow.example.com", 443));
        for found in futures::future::join_all(lookups).await {
            assert!(matches!(found, Err(DialError::Resolve { .. })), "{found:?}");
        }
    }
    assert_eq!(hanging.0.load(Ordering::SeqCst), 4);
    let other = dialer.on_behalf_of("lookups-of-another");
    other.addresses("quick.example.com", 443).await.unwrap();
    tenant
        .addresses("quick.example.com", 443)
        .await
        .unwrap_err();
}

#[tokio::test]
async fn addresses_are_tried_in_order_until_one_answers() {
    let door = Door::open().await;
    let table = Table::new([&["127.0.0.2", "127.0.0.1"][..]]);
    let dialer = Dialer::with_resolver(loopback("127.0.0.0/8"), table);
    let stream = dialer.connect("db.example.com", door.port).await.unwrap();
    assert_eq!(stream.peer_addr().unwrap().ip().to_string(), "127.0.0.1");
}

#[tokio::test]
async fn all_failures_are_reported_and_may_heal() {
    let free = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let table = Table::new([&["127.0.0.2", "127.0.0.1"][..]]);
    let dialer = Dialer::with_resolver(loopback("127.0.0.0/8"), table);
    let error = dialer.connect("db.example.com", port).await.unwrap_err();
    let text = error.to_string();
    for part in ["db.example.com", "127.0.0.1:", "127.0.0.2:", "refused"] {
        assert!(text.contains(part), "{text}");
    }
    assert!(matches!(SinkError::from(error), SinkError::Transient(_)));

    let dialer = Dialer::with_resolver(AddressPolicy::default(), Table::new([]));
    let error = dialer.connect("nowhere.example.com", 1).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot resolve sink host \"nowhere.example.com\": the name has no address"
    );
    assert!(matches!(SinkError::from(error), SinkError::Transient(_)));
}

/// Nobody answers: time is up, whatever the system would have waited.
#[derive(Debug)]
struct Silent;

#[async_trait]
impl Resolve for Silent {
    async fn resolve(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_resolver_is_not_waited_for() {
    let dialer = Dialer::with_resolver(AddressPolicy::default(), Arc::new(Silent));
    let error = dialer.connect("db.example.com", 1).await.unwrap_err();
    assert!(
        error.to_string().contains("no answer within 10 s"),
        "{error}"
    );
}

/// The system's resolver, with a name that needs no network.
#[tokio::test]
async fn the_system_resolver_is_guarded_too() {
    let error = Dialer::new(AddressPolicy::default())
        .connect("localhost", 1)
        .await
        .unwrap_err();
    assert!(matches!(error, DialError::ForbiddenHost { .. }), "{error}");
    let policy = AddressPolicy {
        allowed_hosts: vec!["localhost".to_owned()],
        ..AddressPolicy::default()
    };
    let addresses = Dialer::new(policy).addresses("localhost", 7).await.unwrap();
    assert!(addresses.iter().all(|address| address.ip().is_loopback()));
    assert!(!addresses.is_empty());
}

/// W18: the same rule at run time as at admission.
#[test]
fn endpoints_are_judged_without_admission_too() {
    let closed = Dialer::new(AddressPolicy::default());
    let open = Dialer::new(private());
    for (type_, endpoint, by_default, with_private) in [
        (SinkType::Git, "https://10.96.0.20:5432", false, true),
        (SinkType::Git, "https://169.254.169.254", false, false),
        (SinkType::Git, "file:///etc/passwd", false, false),
        (SinkType::Git, "/srv/repository", false, false),
        (SinkType::Git, "not-a-url", true, true),
        (SinkType::Git, "git@github.com:org/repo.git", true, true),
        (SinkType::S3, "s3://bucket/prefix", true, true),
        (SinkType::S3, "https://10.0.0.5:9000/b", false, true),
        (SinkType::Kafka, "kafka.example.com", true, true),
        (SinkType::Kafka, "kafka.example.com:9092", true, true),
        (SinkType::Kafka, "kafka://localhost:9092", false, false),
        (SinkType::Kafka, "[::1]:9092", false, false),
    ] {
        for (dialer, allowed) in [(&closed, by_default), (&open, with_private)] {
            let verdict = dialer.check_endpoint(type_, endpoint, false);
            assert_eq!(verdict.is_ok(), allowed, "{endpoint}: {verdict:?}");
        }
    }
    for endpoint in ["file:///srv/r.git", "/srv/r.git", "./r.git"] {
        assert!(closed.check_endpoint(SinkType::Git, endpoint, true).is_ok());
        let error = closed
            .check_endpoint(SinkType::Git, endpoint, false)
            .unwrap_err();
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains("file://")),
            "{error}"
        );
    }
}
