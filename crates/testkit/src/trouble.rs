//! A troublesome API server: a proxy in front of the real one that refuses, delays, cuts and
//! garbles by verb, resource, namespace and time.
//!
//! Clients talk to it as to any API server; who they are is passed on. Rules can be laid down and
//! lifted at any time, and requests are counted, so that a test can say how often was asked.
//!
//! ```no_run
//! # fn main() -> anyhow::Result<()> {
//! use kollect_testkit::{Cluster, Trouble, trouble::{Effect, on}};
//! let trouble = Trouble::with(Cluster::shared()?)?;
//! let rule = trouble.rule(on("list", "namespaces"), Effect::Status(403));
//! trouble.cut(&on("watch", "namespaces"));
//! // … a client of `trouble.cluster()` may not list namespaces …
//! trouble.lift(rule);
//! # Ok(())
//! # }
//! ```

mod relay;
mod request;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustls::{ClientConfig, ServerConfig};

use crate::cluster::{Cluster, User};
use crate::control_plane::kubeconfig;
use crate::http;
use crate::pki::Authority;
use crate::run_dir::RunDir;

pub use self::request::Request;

/// The resource that stands for everything a client asks to learn what is served.
pub const DISCOVERY: &str = "discovery";

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// It is answered with this status, worded as an API server words it.
    Status(u16),
    /// The same, with a `Retry-After` of so many seconds.
    RetryAfter(u16, u32),
    /// It is answered with this status and body.
    Answer(u16, String),
    /// It is passed on after this time.
    Delay(Duration),
    /// Half of the answer's body arrives, then the connection ends.
    Half,
    /// The answer is no JSON.
    Garbage,
    /// The connection ends without an answer.
    Cut,
    /// Nothing happens at all, also in streams that are open already. When the rule is lifted,
    /// everything goes on.
    Silence,
}

/// Which requests a rule is about. What is left open matches anything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct On {
    verb: Option<String>,
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    body: Option<String>,
}

/// Requests with this verb (`get`, `list`, `watch`, `create`, `patch` …) on this resource: a plural
/// such as `namespaces` or `kollecttargets/status`, with the group behind a dot where that matters,
/// or [`DISCOVERY`]. `*` stands for any.
pub fn on(verb: &str, resource: &str) -> On {
    let some = |text: &str| (text != "*").then(|| text.to_owned());
    On {
        verb: some(verb),
        resource: some(resource),
        ..On::default()
    }
}

impl On {
    /// Only in this namespace.
    pub fn within(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only about the object of this name. For discovery it is the path, such as `/apis/apps/v1`.
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Only if this is somewhere in the request's body, such as the resource of an access review.
    pub fn saying(mut self, text: &str) -> Self {
        self.body = Some(text.to_owned());
        self
    }

    fn includes(&self, request: &Request) -> bool {
        let is = |wanted: &Option<String>, found: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == found)
        };
        is(&self.verb, &request.verb)
            && self
                .resource
                .as_ref()
                .is_none_or(|wanted| request.is_about(wanted))
            && is(&self.namespace, &request.namespace)
            && is(&self.name, &request.name)
    }

    fn includes_body(&self, body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body);
        self.body
            .as_ref()
            .is_none_or(|wanted| text.contains(wanted))
    }
}

/// A rule that was laid down.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RuleId(u64);

#[derive(Debug)]
struct Rule {
    id: RuleId,
    on: On,
    effect: Effect,
    /// How often it holds; without end if nothing.
    times: Option<u32>,
    until: Option<Instant>,
}

/// How often something was asked and answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Count {
    /// What was asked.
    pub request: Request,
    /// The status of the answer; 0 for none.
    pub status: u16,
    /// How often.
    pub times: u64,
}

/// The proxy. Ends with all its connections on drop.
pub struct Trouble {
    cluster: Cluster,
    run: RunDir,
    shared: Arc<Shared>,
    acceptor: Option<JoinHandle<()>>,
}

struct Shared {
    upstream: SocketAddr,
    server_tls: Arc<ServerConfig>,
    client_tls: Arc<ClientConfig>,
    stopping: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    next: u64,
    counts: BTreeMap<(Request, u16), u64>,
    /// What each open connection is busy with, and the connection to end it by.
    open: BTreeMap<u64, (Option<Request>, TcpStream)>,
}

impl Trouble {
    /// A proxy in front of the API server of this cluster, without trouble at first.
    pub fn with(cluster: &Cluster) -> Result<Self> {
        let authority = Authority::new("kollect test trouble")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
        let run = RunDir::new("trouble")?;
        let mut front = Cluster {
            port: listener.local_addr()?.port(),
            ca_pem: authority.pem(),
            ..cluster.clone()
        };
        let users = kubeconfig(&front, &[&front.admin, &front.restricted]);
        front.kubeconfig = run.write_private("kubeconfig", users)?;
        let shared = Arc::new(Shared {
            upstream: SocketAddr::from((Ipv4Addr::LOCALHOST, cluster.port)),
            server_tls: identity.server_config()?,
            client_tls: http::trusting(&cluster.ca_pem)?,
            stopping: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let accepting = Arc::clone(&shared);
        let acceptor = thread::spawn(move || {
            for (number, client) in (0..).zip(listener.incoming().flatten()) {
                if accepting.stopping.load(Ordering::SeqCst) {
                    break;
                }
                let shared = Arc::clone(&accepting);
                // A connection that breaks concerns its client alone.
                thread::spawn(move || shared.serve(number, client));
            }
        });
        Ok(Self {
            cluster: front,
            run,
            shared,
            acceptor: Some(acceptor),
        })
    }

    /// The cluster as seen through the proxy.
    pub fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// A kubeconfig file of this user for programs that shall meet the trouble.
    pub fn kubeconfig(&self, user: &User) -> Result<std::path::PathBuf> {
        let file = format!("kubeconfig-{}", user.name.replace([':', '/'], "-"));
        self.run
            .write_private(&file, kubeconfig(&self.cluster, &[user]))
    }

    /// Lays down a rule for requests to come. The newest that matches wins.
    pub fn rule(&self, on: On, effect: Effect) -> RuleId {
        self.add(on, effect, None, None)
    }

    /// A rule that holds for so many requests.
    pub fn rule_times(&self, on: On, effect: Effect, times: u32) -> RuleId {
        self.add(on, effect, Some(times), None)
    }

    /// A rule that holds for so long.
    pub fn rule_for(&self, on: On, effect: Effect, time: Duration) -> RuleId {
        self.add(on, effect, None, Some(Instant::now() + time))
    }

    /// Takes a rule back.
    pub fn lift(&self, id: RuleId) {
        self.shared.state().rules.retain(|rule| rule.id != id);
        self.shared.changed.notify_all();
    }

    /// Takes all rules back.
    pub fn lift_all(&self) {
        self.shared.state().rules.clear();
        self.shared.changed.notify_all();
    }

    /// Ends the connections that are busy with such requests now, open watches among them.
    /// Returns how many.
    pub fn cut(&self, on: &On) -> usize {
        let state = self.shared.state();
        let busy = state
            .open
            .values()
            .filter(|(request, _)| request.as_ref().is_some_and(|request| on.includes(request)));
        let mut ended = 0;
        for (_, connection) in busy {
            // It may have ended by itself.
            let _ = connection.shutdown(Shutdown::Both);
            ended += 1;
        }
        ended
    }

    /// How many such requests are being answered now, open watches among them.
    pub fn open(&self, on: &On) -> usize {
        let state = self.shared.state();
        let open = state.open.values();
        open.filter(|(request, _)| request.as_ref().is_some_and(|request| on.includes(request)))
            .count()
    }

    /// How many such requests there have been, however they were answered.
    pub fn requests(&self, on: &On) -> u64 {
        self.sum(|request, _| on.includes(request))
    }

    /// How many such requests were answered with this status; 0 stands for no answer.
    pub fn answered(&self, on: &On, status: u16) -> u64 {
        self.sum(|request, answer| answer == status && on.includes(request))
    }

    /// Everything that was asked so far, in no special order.
    pub fn counts(&self) -> Vec<Count> {
        let state = self.shared.state();
        let counts = state.counts.iter();
        let count = |((request, status), times): (&(Request, u16), &u64)| Count {
            request: request.clone(),
            status: *status,
            times: *times,
        };
        counts.map(count).collect()
    }

    fn sum(&self, includes: impl Fn(&Request, u16) -> bool) -> u64 {
        let state = self.shared.state();
        let counts = state.counts.iter();
        counts
            .filter(|((request, status), _)| includes(request, *status))
            .map(|(_, times)| times)
            .sum()
    }

    fn add(&self, on: On, effect: Effect, times: Option<u32>, until: Option<Instant>) -> RuleId {
        let mut state = self.shared.state();
        state.next += 1;
        let id = RuleId(state.next);
        state.rules.push(Rule {
            id,
            on,
            effect,
            times,
            until,
        });
        drop(state);
        self.shared.changed.notify_all();
        id
    }
}

impl Drop for Trouble {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for (_, connection) in self.shared.state().open.values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
        self.shared.changed.notify_all();
        // Wakes the acceptor so that it sees the flag.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.cluster.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What happens to a request, by the newest rule that is about it.
    fn effect(&self, request: &Request, body: &[u8]) -> Option<Effect> {
        let mut state = self.state();
        state.expire();
        let rule = state.rules.iter_mut().rev().find(|rule| {
            rule.times != Some(0) && rule.on.includes(request) && rule.on.includes_body(body)
        })?;
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        Some(rule.effect.clone())
    }

    /// Whether an open stream carries nothing now.
    fn is_silenced(&self, request: &Request) -> bool {
        let mut state = self.state();
        state.expire();
        let newest = state.rules.iter().rev().find(|rule| {
            rule.times.is_none() && rule.on.body.is_none() && rule.on.includes(request)
        });
        newest.is_some_and(|rule| rule.effect == Effect::Silence)
    }

    fn count(&self, request: &Request, status: u16) {
        let mut state = self.state();
        *state.counts.entry((request.clone(), status)).or_default() += 1;
    }
}

impl State {
    fn expire(&mut self) {
        let now = Instant::now();
        self.rules
            .retain(|rule| rule.until.is_none_or(|until| until > now));
    }
}
