//! One list, read to its end or given up.

use std::{sync::Arc, time::Duration};

use indicatif::ProgressBar;
use kollect_collect::{
    DecodedObject,
    gather::{Failure, Gathered, Gatherer},
    plan::{ResourcePlan, Watch},
};
use kollect_watch::{
    ApiServer, Consumer, Interruption, InterruptionClass, ListingMode, View, WatchDelivery,
    WatchSettings, WatchSource,
};
use tokio::{sync::oneshot, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::collect::{
    outcome::{SkipReason, Unlisted},
    report::Report,
};

/// How often a list is tried.
const TRIES: u32 = 3;

/// One list to read.
pub(super) struct Listing {
    pub(super) server: Arc<ApiServer>,
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
            decoder: Arc::clone(&self.plan.projection),
            content: self.watch.content,
        };
        let settings = WatchSettings {
            listing: ListingMode::Paged,
            ..WatchSettings::default()
        };
        let source = WatchSource::new(Arc::clone(&self.server), self.watch.subject(), view);
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

    fn unlisted(&self, interruption: &Interruption) -> Unlisted {
        let message = &interruption.message;
        match interruption.class {
            InterruptionClass::Forbidden => self.failed(
                SkipReason::Forbidden,
                format!("{message}; grant list on {}", self.watch.resource),
            ),
            InterruptionClass::NotInstalled => self.failed(
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
            namespace: self.watch.scope.namespace().unwrap_or_default().to_owned(),
            message,
        }
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
    async fn take(&mut self, delivery: WatchDelivery<DecodedObject>) {
        match delivery {
            WatchDelivery::ListingStarted => self.gatherer.restart(),
            WatchDelivery::Object(object) => {
                self.gatherer.object(&self.plan, &object);
                self.bar.set_position(self.gatherer.objects());
            }
            WatchDelivery::Unreadable(unreadable) => {
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
            WatchDelivery::ListingFinished { .. } => {
                let gatherer = std::mem::take(&mut self.gatherer);
                self.end(Ok(gatherer.finish()));
            }
            WatchDelivery::Interrupted(interruption) => {
                let hopeless = matches!(
                    interruption.class,
                    InterruptionClass::Forbidden
                        | InterruptionClass::Unauthenticated
                        | InterruptionClass::NotInstalled
                        | InterruptionClass::Rejected
                );
                if hopeless || interruption.failures >= TRIES {
                    self.end(Err(interruption));
                }
            }
            WatchDelivery::Gone { .. }
            | WatchDelivery::Progress { .. }
            | WatchDelivery::Resumed => {}
        }
    }
}
