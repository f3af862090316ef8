//! One list, read to its end or given up.

use std::{sync::Arc, time::Duration};

use indicatif::ProgressBar;
use kollect_collect::{
    DecodedObject, Projection,
    plan::{self, ResourcePlan, Watch, WatchScope},
    watch::{
        self, Class, Consumer, Decode, DecodeError, Decoded, Delivery, Interruption, Scope, Server,
        Settings, Source, Subject, View,
    },
};
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::collect::{
    gather::{Failure, Gathered, Gatherer},
    outcome::{SkipReason, Unlisted},
    report::Report,
};

/// How often a list is tried.
const TRIES: u32 = 3;

/// One list to read.
pub(super) struct Listing {
    pub(super) server: Arc<Server>,
    pub(super) plan: Arc<ResourcePlan>,
    pub(super) watch: Watch,
    pub(super) timeout: Duration,
    /// How progress names it.
    pub(super) title: String,
}

impl Listing {
    /// Reads the list with the reader of the operator's watches, in pages, and stops where those
    /// would go on watching.
    pub(super) async fn read(self, report: &Report) -> Result<Gathered, Unlisted> {
        let bar = report.bar(self.title.clone());
        let stop = CancellationToken::new();
        let (done, outcome) = oneshot::channel();
        let consumer = Lister {
            plan: Arc::clone(&self.plan),
            gatherer: Gatherer::default(),
            done: Some(done),
            stop: stop.clone(),
            bar: bar.clone(),
        };
        let view = View {
            decoder: Arc::new(Projected(Arc::clone(&self.plan.projection))),
            content: match self.watch.content {
                plan::Content::Metadata => watch::Content::Metadata,
                plan::Content::Object => watch::Content::Full,
            },
        };
        let settings = Settings {
            listing: watch::Listing::Paged,
            ..Settings::default()
        };
        let source = Source::new(Arc::clone(&self.server), self.subject(), view);
        let handle = source.settings(settings).spawn(consumer, &stop);
        let outcome = timeout(self.timeout, outcome).await;
        handle.stop().await;
        bar.finish_and_clear();
        match outcome {
            Ok(Ok(Ok(gathered))) => Ok(gathered),
            Ok(Ok(Err(interruption))) => Err(self.unlisted(&interruption)),
            Ok(Err(_)) => Err(self.failed(
                SkipReason::Transient,
                "reading the list broke off".to_owned(),
            )),
            Err(_) => Err(self.failed(
                SkipReason::Transient,
                format!(
                    "the list was not complete after {} s; give more time with --timeout",
                    self.timeout.as_secs()
                ),
            )),
        }
    }

    fn subject(&self) -> Subject {
        let scope = match &self.watch.scope {
            WatchScope::All => Scope::Cluster,
            WatchScope::Namespace(name) => Scope::Namespace(name.to_string()),
        };
        Subject {
            selector: self.watch.selector.as_deref().map(str::to_owned),
            ..Subject::new(Arc::clone(&self.watch.resource), scope)
        }
    }

    fn unlisted(&self, interruption: &Interruption) -> Unlisted {
        let message = &interruption.message;
        match interruption.class {
            Class::Forbidden => self.failed(
                SkipReason::Forbidden,
                format!("{message}; grant list on {}", self.watch.resource),
            ),
            Class::NotInstalled => self.failed(
                SkipReason::KindNotFound,
                format!("{} is not served any more", self.watch.resource),
            ),
            class => self.failed(
                SkipReason::Transient,
                format!(
                    "cannot list {} ({}): {message}",
                    self.watch.resource,
                    class.as_str()
                ),
            ),
        }
    }

    fn failed(&self, reason: SkipReason, message: String) -> Unlisted {
        let targets = self.plan.targets_in(&self.watch.scope);
        Unlisted {
            targets: targets.map(|target| target.key.clone()).collect(),
            reason,
            namespace: match &self.watch.scope {
                WatchScope::All => String::new(),
                WatchScope::Namespace(name) => name.to_string(),
            },
            message,
        }
    }
}

/// Decodes what the plan reads of an object.
struct Projected(Arc<Projection>);

impl Decode for Projected {
    type Object = DecodedObject;

    fn decode(&self, json: &[u8]) -> Result<Decoded<DecodedObject>, DecodeError> {
        let object = self.0.decode(json);
        let object = object.map_err(|error| DecodeError::Malformed {
            at: 0,
            problem: error.problem(),
        })?;
        Ok(Decoded {
            resource_version: object.resource_version().to_owned(),
            object,
        })
    }
}

/// Takes the objects of the list.
struct Lister {
    plan: Arc<ResourcePlan>,
    gatherer: Gatherer,
    done: Option<oneshot::Sender<Result<Gathered, Interruption>>>,
    stop: CancellationToken,
    bar: ProgressBar,
}

impl Lister {
    fn end(&mut self, result: Result<Gathered, Interruption>) {
        self.stop.cancel();
        if let Some(done) = self.done.take() {
            // Nobody waits any more only when the time is over.
            let _ = done.send(result);
        }
    }
}

impl Consumer<DecodedObject> for Lister {
    async fn take(&mut self, delivery: Delivery<DecodedObject>) {
        match delivery {
            Delivery::ListingStarted => self.gatherer.restart(),
            Delivery::Object(object) => {
                self.gatherer.object(&self.plan, &object);
                self.bar.set_position(self.gatherer.objects());
            }
            Delivery::Unreadable(unreadable) => {
                let reason = unreadable.error.to_string();
                match unreadable.identity {
                    Some(identity) => {
                        let failure = Failure {
                            namespace: identity.namespace,
                            name: identity.name,
                            uid: identity.uid,
                            reason,
                        };
                        self.gatherer.unreadable(&self.plan, &failure);
                    }
                    None => self.gatherer.unidentified(&self.plan, &reason),
                }
            }
            Delivery::ListingFinished { .. } => {
                let gatherer = std::mem::take(&mut self.gatherer);
                self.end(Ok(gatherer.finish()));
            }
            Delivery::Interrupted(interruption) => {
                let hopeless = matches!(
                    interruption.class,
                    Class::Forbidden
                        | Class::Unauthenticated
                        | Class::NotInstalled
                        | Class::Rejected
                );
                if hopeless || interruption.failures >= TRIES {
                    self.end(Err(interruption));
                }
            }
            Delivery::Gone { .. } | Delivery::Progress { .. } | Delivery::Resumed => {}
        }
    }
}
