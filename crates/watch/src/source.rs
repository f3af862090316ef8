//! The loop that reads: it opens what the course says, takes bytes apart and waits.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt as _;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::counters::WatchCounters;
use super::course::{Course, Ending, Step};
use super::decode::{Decode, DecodeError, Decoded, Remains};
use super::delivery::{Consumer, Unreadable, WatchDelivery};
use super::event::Event;
use super::handle::WatchHandle;
use super::lines::{Line, Lines};
use super::page::{Page, Piece};
use super::request::{Ask, ObjectContent, WatchSubject, accept};
use super::server::{Answer, ApiServer};
use super::settings::WatchSettings;

/// A stream that was open this long was a success, even if nothing happened in the cluster.
const STEADY: Duration = Duration::from_secs(1);

/// Through what a source sees objects.
#[derive(Debug)]
pub struct View<D> {
    /// Makes the consumer's form of each object.
    pub decoder: Arc<D>,
    /// How much of each object is needed for that.
    pub content: ObjectContent,
}

impl<D> Clone for View<D> {
    fn clone(&self) -> Self {
        Self {
            decoder: Arc::clone(&self.decoder),
            content: self.content,
        }
    }
}

impl<D> View<D> {
    /// Whole objects through `decoder`.
    pub fn full(decoder: D) -> Self {
        Self {
            decoder: Arc::new(decoder),
            content: ObjectContent::Object,
        }
    }

    /// Metadata through `decoder`.
    pub fn metadata(decoder: D) -> Self {
        Self {
            decoder: Arc::new(decoder),
            content: ObjectContent::Metadata,
        }
    }
}

/// A list and watch that is ready to run.
pub struct WatchSource<D: Decode> {
    server: Arc<ApiServer>,
    subject: WatchSubject,
    settings: WatchSettings,
    view: View<D>,
}

impl<D: Decode> WatchSource<D> {
    /// Watches `subject` on `server` through `view`.
    pub fn new(server: Arc<ApiServer>, subject: WatchSubject, view: View<D>) -> Self {
        Self {
            server,
            subject,
            settings: WatchSettings::default(),
            view,
        }
    }

    /// Uses other sizes and deadlines than the default ones.
    #[must_use]
    pub fn settings(mut self, settings: WatchSettings) -> Self {
        self.settings = settings;
        self
    }

    /// Runs until the handle is dropped or stopped, or `parent` is cancelled. Needs a Tokio
    /// runtime. Each source is a task of its own; one whose decoder or consumer panics tells the
    /// server's keeper and begins anew, with back-off.
    pub fn spawn<C: Consumer<D::Object>>(
        self,
        consumer: C,
        parent: &CancellationToken,
    ) -> WatchHandle<D> {
        let stop = parent.child_token();
        let counters = Arc::new(WatchCounters::default());
        let nudge = Arc::new(Notify::new());
        let (sender, receiver) = watch::channel(self.view.clone());
        let reader = Reader {
            course: Course::new(self.settings.clone()),
            server: self.server,
            subject: self.subject,
            settings: self.settings,
            consumer,
            counters: Arc::clone(&counters),
            view: self.view,
            views: receiver,
            nudge: Arc::clone(&nudge),
            stop: stop.clone(),
            interrupted: false,
            answered: false,
            moved: false,
        };
        WatchHandle {
            view: sender,
            nudge,
            counters,
            task: tokio::spawn(reader.run()),
            _guard: stop.clone().drop_guard(),
            stop,
        }
    }
}

struct Reader<D: Decode, C> {
    course: Course,
    server: Arc<ApiServer>,
    subject: WatchSubject,
    settings: WatchSettings,
    consumer: C,
    counters: Arc<WatchCounters>,
    /// What is in use now.
    view: View<D>,
    /// What is to be used from the next listing on.
    views: watch::Receiver<View<D>>,
    nudge: Arc<Notify>,
    stop: CancellationToken,
    /// Whether the consumer was told of an interruption that has not ended.
    interrupted: bool,
    /// Whether the present request is being answered.
    answered: bool,
    /// Whether it brought anything.
    moved: bool,
}

impl<D: Decode, C: Consumer<D::Object>> Reader<D, C> {
    async fn run(mut self) {
        while !self.stop.is_cancelled() {
            let began = Instant::now();
            self.answered = false;
            self.moved = false;
            let request = AssertUnwindSafe(self.request()).catch_unwind();
            let ending = request.await.unwrap_or(Ending::Panicked);
            let panicked = ending == Ending::Panicked;
            // However long it was waited for: what is not answered gets nowhere.
            let steady = self.moved || self.answered && began.elapsed() >= STEADY;
            if ending == Ending::Recalled {
                self.view = self.views.borrow_and_update().clone();
            }
            if ending != Ending::PageRead {
                self.counters.reconnected();
            }
            let reaction = self.course.after(ending, steady, fastrand::f64());
            if panicked {
                self.server.panicked(&self.subject, reaction.wait);
            }
            if reaction.streaming_refused {
                self.server.refuses_streaming(&self.subject.resource);
            }
            if let Some(interruption) = reaction.interruption {
                self.interrupted = true;
                self.deliver(WatchDelivery::Interrupted(interruption)).await;
                self.wait(reaction.wait).await;
            }
        }
    }

    /// Makes the next request and reads the answer to its end.
    async fn request(&mut self) -> Ending {
        let streaming = self.server.streams(&self.subject.resource);
        let random = fastrand::f64();
        let ending = match self.course.next(streaming) {
            Step::StreamedListing => {
                let seconds = self.settings.stream_seconds(true, random);
                self.stream(Ask::StreamedListing { seconds }).await
            }
            Step::Changes { version } => {
                let seconds = self.settings.stream_seconds(false, random);
                let version = &version;
                self.stream(Ask::Changes { version, seconds }).await
            }
            Step::Page { limit, token } => {
                let token = token.as_deref();
                return match self.page(Ask::Page { limit, token }).await {
                    Ok(()) => Ending::PageRead,
                    Err(ending) => ending,
                };
            }
        };
        match ending {
            Err(ending) => ending,
            Ok(never) => match never {},
        }
    }

    async fn stream(&mut self, ask: Ask<'_>) -> Result<Infallible, Ending> {
        let mut answer = self.open(ask).await?;
        let mut lines = Lines::new(self.settings.object_limit);
        loop {
            let patience = if self.course.is_listing() {
                self.settings.answer
            } else {
                self.settings.silence
            };
            let chunk = self.read(&mut answer, patience).await?;
            // A line without its end was cut off and comes again.
            let chunk = chunk.ok_or(Ending::Closed)?;
            let mut rest = &chunk[..];
            while let Some(line) = lines.next(&mut rest) {
                self.line(line).await?;
                self.check_stop()?;
            }
        }
    }

    async fn page(&mut self, ask: Ask<'_>) -> Result<(), Ending> {
        let mut answer = self.open(ask).await?;
        let mut page = Page::new(self.settings.object_limit);
        let mut metadata = None;
        while let Some(chunk) = self.read(&mut answer, self.settings.answer).await? {
            let mut rest = &chunk[..];
            while let Some(piece) = page.next(&mut rest).map_err(|error| garbled(&error))? {
                match piece {
                    Piece::Item(json) => self.object(json).await,
                    Piece::TooLarge => self.too_large().await,
                    Piece::Metadata(found) => metadata = Some(found),
                }
                self.check_stop()?;
            }
        }
        if !page.is_complete() {
            return Err(Ending::Broken("the list was cut off".to_owned()));
        }
        let metadata = metadata.ok_or_else(|| garbled(&"the list has no metadata"))?;
        self.moved = true;
        if metadata.token.is_empty() {
            self.finish_listing(metadata.resource_version).await;
        } else {
            self.course.page_follows(metadata.token);
        }
        Ok(())
    }

    async fn open(&mut self, ask: Ask<'_>) -> Result<Answer, Ending> {
        let uri = self.subject.uri(ask);
        let accept = accept(self.view.content, ask);
        let server = Arc::clone(&self.server);
        let answer = server.open(&uri, accept, self.settings.answer);
        let answer = self.unless_called(answer).await?;
        self.answered = true;
        self.announce().await;
        Ok(answer)
    }

    async fn read(
        &mut self,
        answer: &mut Answer,
        patience: Duration,
    ) -> Result<Option<Bytes>, Ending> {
        let chunk = self.unless_called(answer.read(patience)).await?;
        self.counters.received(chunk.as_ref().map_or(0, Bytes::len));
        Ok(chunk)
    }

    /// Tells the consumer that something arrives from now on.
    async fn announce(&mut self) {
        if let Some(cause) = self.course.listing_arrives() {
            self.counters.listing(cause);
            self.deliver(WatchDelivery::ListingStarted).await;
        } else if !self.course.is_listing() {
            self.resume().await;
        }
    }

    /// Changes arrive again. A listing alone does not mean that: whoever may list need not be
    /// allowed to watch.
    async fn resume(&mut self) {
        if std::mem::take(&mut self.interrupted) {
            self.deliver(WatchDelivery::Resumed).await;
        }
    }

    async fn line(&mut self, line: Line<'_>) -> Result<(), Ending> {
        let bytes = match line {
            Line::Complete(bytes) => bytes,
            Line::TooLong => {
                self.too_large().await;
                return Ok(());
            }
        };
        match Event::parse(bytes).map_err(|error| garbled(&error))? {
            Event::Put(json) => self.object(json).await,
            Event::Gone(json) => {
                let remains = Remains::read(json).map_err(|error| garbled(&error))?;
                self.counters.event();
                self.moved = true;
                let Remains {
                    identity,
                    resource_version,
                } = remains;
                let version = resource_version.clone();
                self.deliver(WatchDelivery::Gone {
                    identity,
                    resource_version,
                })
                .await;
                self.course.reached(version);
            }
            Event::Bookmark {
                resource_version,
                end_of_listing,
            } => {
                self.moved = true;
                match (self.course.is_listing(), end_of_listing) {
                    (true, true) => {
                        self.finish_listing(resource_version).await;
                        self.resume().await;
                    }
                    (true, false) => {}
                    (false, _) => {
                        self.course.reached(resource_version.clone());
                        self.deliver(WatchDelivery::Progress { resource_version })
                            .await;
                    }
                }
            }
            Event::Error(refusal) => return Err(Ending::Refused(refusal)),
        }
        Ok(())
    }

    async fn object(&mut self, json: &[u8]) {
        self.counters.event();
        self.moved = true;
        match self.view.decoder.decode(json) {
            Ok(Decoded {
                resource_version,
                object,
            }) => {
                self.deliver(WatchDelivery::Object(object)).await;
                self.course.reached(resource_version);
            }
            Err(error) => {
                let remains = Remains::read(json).ok();
                let (identity, version) = match remains {
                    Some(found) => (Some(found.identity), found.resource_version),
                    None => (None, String::new()),
                };
                self.unreadable(Unreadable { identity, error }).await;
                self.course.reached(version);
            }
        }
    }

    async fn too_large(&mut self) {
        self.counters.event();
        self.moved = true;
        let limit = self.settings.object_limit;
        self.unreadable(Unreadable {
            identity: None,
            error: DecodeError::TooLarge { limit },
        })
        .await;
    }

    async fn unreadable(&mut self, unreadable: Unreadable) {
        self.counters.unread();
        self.deliver(WatchDelivery::Unreadable(unreadable)).await;
    }

    async fn finish_listing(&mut self, version: String) {
        let resource_version = version.clone();
        self.deliver(WatchDelivery::ListingFinished { resource_version })
            .await;
        self.course.listing_finished(version);
    }

    async fn deliver(&mut self, delivery: WatchDelivery<D::Object>) {
        self.consumer.take(delivery).await;
    }

    /// Waits, unless somebody knows that it makes sense to try at once.
    async fn wait(&mut self, duration: Duration) {
        let nudge = Arc::clone(&self.nudge);
        let wait = async {
            tokio::select! {
                () = sleep(duration) => {}
                () = nudge.notified() => {}
            }
            Ok(())
        };
        // A call that ends the wait has not been answered yet; the next request meets it.
        if self.unless_called(wait).await.is_err() {
            self.views.mark_changed();
        }
    }

    /// Does `work`, unless the source is stopped or a new listing is asked for.
    async fn unless_called<T>(
        &mut self,
        work: impl Future<Output = Result<T, Ending>>,
    ) -> Result<T, Ending> {
        tokio::select! {
            biased;
            () = self.stop.cancelled() => Err(Ending::Recalled),
            // The sender is dropped with the handle, which stops the source as well.
            Ok(()) = self.views.changed() => Err(Ending::Recalled),
            outcome = work => outcome,
        }
    }

    fn check_stop(&self) -> Result<(), Ending> {
        if self.stop.is_cancelled() {
            return Err(Ending::Recalled);
        }
        Ok(())
    }
}

fn garbled(problem: &impl ToString) -> Ending {
    Ending::Garbled(problem.to_string())
}
