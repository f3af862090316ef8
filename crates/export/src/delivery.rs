//! Calls of sinks: in turn, with a deadline, behind the breaker, and with their panics contained.
//!
//! A call has two halves. The first gets a [`Turn`]: a fair place ([`Permits`]), an open sink, one of
//! its backend's connections ([`Sink::place`]), the word of the breaker and of the leadership. Only then are rows taken for the second half, so that
//! waiting costs no rows, and what is refused costs no knowledge of what the sink holds.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use kollect_api::InventoryId;
use kollect_sinks::{Delivery, Place, Receipt, Sink, SinkError};
use tokio::time::{Instant, timeout};

use crate::{
    order::SinkSource,
    permits::{Permit, Permits},
    pool::{Admission, LeftAlone, Pool},
    shares::Claim,
};

/// How long opening a sink may take.
const OPENING: Duration = Duration::from_secs(30);
/// How long to wait before asking again whether this replica may write.
const NOT_LEADING: Duration = Duration::from_secs(5);

/// Something that runs beside an exporter, or is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExportTask {
    /// An exporter with all its lanes.
    Exporter,
    /// A survey of the rows.
    Survey,
    /// A call of a sink: opening, delivery, clean-up or probe.
    Call,
}

impl ExportTask {
    /// A word for labels.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Exporter => "exporter",
            Self::Survey => "survey",
            Self::Call => "sink_call",
        }
    }
}

/// Is told of every delivery.
pub trait Observer: Send + Sync {
    /// A delivery of an inventory ended, or could not begin.
    fn delivered(
        &self,
        sink: &SinkSource,
        inventory: &InventoryId,
        took: Duration,
        result: Result<&Receipt, &SinkError>,
    );
    /// Rows that a sink holds already were not sent again.
    fn debounced(&self) {}
    /// A task panicked. It is begun again, later each time.
    fn panicked(&self, _: ExportTask) {}
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn delivered(
        &self,
        _: &SinkSource,
        _: &InventoryId,
        _: Duration,
        _: Result<&Receipt, &SinkError>,
    ) {
    }
}

/// What all calls share.
pub struct Calls {
    /// Live sinks.
    pub pool: Pool,
    /// How long one delivery may take.
    pub deadline: Duration,
    /// Who may deliver or clean up next, over all inventories.
    pub permits: Permits,
    /// Who may probe next. Apart from deliveries: neither waits for the other.
    pub probes: Permits,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
    /// Whether this process may write at all. Asked before every call: a process that slept may not
    /// know yet that another one has taken over.
    pub may_write: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Why there is no turn.
#[derive(Debug, Clone, PartialEq)]
pub enum NoTurn {
    /// Nobody asked the backend: it is left alone, or this replica may not write.
    Refused {
        /// Why.
        error: SinkError,
        /// When to ask again.
        wait: Duration,
    },
    /// The sink could not be opened.
    Failed(SinkError),
}

impl NoTurn {
    /// What happened.
    pub fn error(&self) -> &SinkError {
        match self {
            Self::Refused { error, .. } | Self::Failed(error) => error,
        }
    }
}

impl From<LeftAlone> for NoTurn {
    fn from(LeftAlone { error, wait }: LeftAlone) -> Self {
        Self::Refused { error, wait }
    }
}

/// Permission to call a sink, now.
pub struct Turn {
    source: Arc<SinkSource>,
    sink: Arc<dyn Sink>,
    admission: Admission,
    /// Held until the call has ended.
    permit: Permit,
    /// Likewise.
    place: Place,
}

impl Turn {
    /// Whether the sink can say that it holds what it was given.
    pub fn confirms(&self) -> bool {
        self.sink.confirms()
    }

    /// How long the sink may be left alone while nothing changes.
    pub fn longest_silence(&self) -> Option<Duration> {
        let silence = self.sink.longest_silence();
        silence.filter(|_| self.sink.confirms())
    }

    /// The sink that may be called.
    pub fn source(&self) -> &Arc<SinkSource> {
        &self.source
    }
}

impl Calls {
    /// Waits for a turn.
    pub async fn turn(&self, source: &Arc<SinkSource>) -> Result<Turn, NoTurn> {
        // Asked twice: whoever is refused anyway need not wait for that.
        self.check_leadership()?;
        self.pool.look(source)?;
        let claim = self.claim(source);
        let permit = self.permits.acquire(claim).await;
        let sink = self.opened(self.pool.acquire(source)).await;
        let sink = sink.map_err(NoTurn::Failed)?;
        // Not within the deadline of the call: others are served meanwhile, and no rows are held.
        let place = timeout(self.deadline, sink.place()).await.map_err(|_| {
            NoTurn::Failed(SinkError::transient(format!(
                "all connections to the backend were busy for {:?}; they are shared with every sink \
                 that has the same address and credentials",
                self.deadline
            )))
        })?;
        self.check_leadership()?;
        let admission = self.pool.admit(source)?;
        Ok(Turn {
            source: Arc::clone(source),
            sink,
            admission,
            permit,
            place,
        })
    }

    /// A delivery did not even begin.
    pub fn unsent(&self, source: &SinkSource, inventory: &InventoryId, error: &SinkError) {
        self.observer
            .delivered(source, inventory, Duration::ZERO, Err(error));
    }

    /// Delivers.
    pub async fn deliver(&self, turn: Turn, delivery: &Delivery) -> Result<Receipt, SinkError> {
        let (begun, source) = (Instant::now(), Arc::clone(&turn.source));
        let sink = Arc::clone(&turn.sink);
        let result = self.contained(turn, sink.deliver(delivery)).await;
        let took = begun.elapsed();
        self.observer
            .delivered(&source, &delivery.inventory, took, result.as_ref());
        result
    }

    /// Asks whether the backend holds what it was given. No receipt: it does not, or cannot say.
    pub async fn confirm(
        &self,
        turn: Turn,
        delivery: &Delivery,
    ) -> Result<Option<Receipt>, SinkError> {
        let (begun, source) = (Instant::now(), Arc::clone(&turn.source));
        let sink = Arc::clone(&turn.sink);
        let result = self.contained(turn, sink.confirm(delivery)).await;
        let told = match &result {
            Ok(None) => return result,
            Ok(Some(receipt)) => Ok(receipt),
            Err(error) => Err(error),
        };
        let took = begun.elapsed();
        self.observer
            .delivered(&source, &delivery.inventory, took, told);
        result
    }

    /// Cleans up.
    pub async fn retire(&self, turn: Turn, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        let sink = Arc::clone(&turn.sink);
        self.contained(turn, sink.retire(inventory)).await
    }

    /// Probes a backend within a deadline, with a sink of its own, so that it says something about
    /// now. What works is open again for everybody who waits for it.
    pub async fn probe(
        &self,
        source: &SinkSource,
        deadline: Duration,
    ) -> Result<String, SinkError> {
        let _permit = self.probes.acquire(self.claim(source)).await;
        let probe = async {
            let sink = self.opened(self.pool.open(source)).await?;
            let probe = AssertUnwindSafe(sink.probe()).catch_unwind();
            probe.await.unwrap_or_else(|_| Err(self.panicked()))
        };
        let result = timeout(deadline, probe).await.unwrap_or_else(|_| {
            Err(SinkError::transient(format!(
                "no answer within {deadline:?}"
            )))
        });
        if result.is_ok() {
            self.pool.reopen(&source.uid);
        }
        result
    }

    fn claim(&self, source: &SinkSource) -> Claim {
        Claim {
            namespace: source.key.namespace.as_str().into(),
            backend: source.spec.sink_type(),
            doubtful: self.pool.is_doubtful(source),
        }
    }

    async fn opened(
        &self,
        opening: impl Future<Output = Result<Arc<dyn Sink>, SinkError>>,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let opening = timeout(OPENING, AssertUnwindSafe(opening).catch_unwind());
        match opening.await {
            Ok(Ok(opened)) => opened,
            Ok(Err(_)) => Err(self.panicked()),
            Err(_) => Err(SinkError::transient(format!(
                "the sink could not be opened within {OPENING:?}"
            ))),
        }
    }

    fn check_leadership(&self) -> Result<(), NoTurn> {
        if (self.may_write)() {
            return Ok(());
        }
        Err(NoTurn::Refused {
            error: SinkError::transient("this replica is not the leader"),
            wait: NOT_LEADING,
        })
    }

    async fn contained<T>(
        &self,
        turn: Turn,
        call: impl Future<Output = Result<T, SinkError>>,
    ) -> Result<T, SinkError> {
        let call = timeout(self.deadline, AssertUnwindSafe(call).catch_unwind());
        let result = match call.await {
            Ok(Ok(result)) => result,
            Ok(Err(_)) => Err(self.panicked()),
            Err(_) => Err(SinkError::transient(format!(
                "the export did not finish within {:?}; check the server, or raise --export-timeout",
                self.deadline
            ))),
        };
        turn.admission.note(result.as_ref().map(|_| ()));
        drop((turn.permit, turn.place));
        result
    }

    /// The text of a panic may contain anything, also values; it stays on standard error.
    fn panicked(&self) -> SinkError {
        self.observer.panicked(ExportTask::Call);
        SinkError::transient(
            "the sink failed in an unexpected way (a panic; the log of the operator has it)",
        )
    }
}
