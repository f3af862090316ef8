//! The loop that everything runs in which only the leader does: inventories, probes, connection
//! tests.
//!
//! A pass looks at all that is known and never waits. What takes time runs beside the loop; when it
//! ends, the loop takes note and makes another pass. So does a change of the configuration, and
//! time.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::Notify,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    configuration::Configuration,
    keeper::Keeper,
    metrics::{Observed, passes::Outcome, reconciles::Reconciles},
};

/// Changes of the configuration are gathered for this long: a burst of them is one pass.
pub const GATHER: Duration = Duration::from_millis(20);
/// How often a loop looks whether the configuration is listed.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long a loop sleeps that has nothing to wait for.
const FAR_AWAY: Duration = Duration::from_hours(1);

/// Why a pass is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PassCause {
    /// The configuration may have changed.
    Configuration,
    /// Something that ran beside the loop has ended, or it is time.
    Progress,
}

/// Something that keeps objects up to date.
pub trait ControlLoop {
    /// How something that ran beside the loop ended.
    type Ended;
    /// What its kinds are called where passes are counted.
    const CONTROLLERS: &'static [&'static str];

    /// Brings everything up to date, as far as that needs no waiting. Returns when to look again,
    /// if not before.
    fn pass(&mut self, cause: PassCause) -> Option<Instant>;

    /// Waits for something that runs beside the loop to end. May be given up at any time.
    fn next(&mut self) -> impl Future<Output = Self::Ended> + Send;

    /// Which kind a write belongs to that failed, if that is what ended.
    fn failed_write(_: &Self::Ended) -> Option<&'static str> {
        None
    }

    /// Takes note of how it ended.
    fn ended(&mut self, ended: Self::Ended);

    /// Ends what is under way, in a bounded time.
    fn finish(self) -> impl Future<Output = ()> + Send;
}

/// Runs a loop until `stop`. A panic of a pass is counted as one of this task, and the loop goes on:
/// what it knows stays, and the next pass looks at everything.
pub async fn run<L: ControlLoop>(
    task: &'static str,
    control: L,
    configuration: &Configuration,
    observed: &Observed,
    stop: &CancellationToken,
) {
    let configured = configuration.changed.subscribe();
    let is_listed = || configuration.is_settled();
    let books = Books {
        task,
        keeper: &observed.keeper,
        reconciles: &observed.reconciles,
    };
    drive(control, &configured, is_listed, &books, stop).await;
}

/// Where a loop is counted.
struct Books<'b> {
    task: &'static str,
    keeper: &'b Keeper,
    reconciles: &'b Reconciles,
}

async fn drive<L: ControlLoop>(
    mut control: L,
    configured: &Arc<Notify>,
    is_listed: impl Fn() -> bool,
    books: &Books<'_>,
    stop: &CancellationToken,
) {
    let mut cause = PassCause::Configuration;
    let mut failures = 0;
    // How something ended that the next pass takes note of.
    let mut noted = None;
    while !stop.is_cancelled() {
        let begun = Instant::now();
        books.reconciles.begin(L::CONTROLLERS);
        let pass = books.keeper.contain(books.task, &mut failures, || {
            if let Some(ended) = noted.take() {
                control.ended(ended);
            }
            // A pass before would take what is not listed yet for deleted.
            if is_listed() {
                control.pass(cause)
            } else {
                // That something cannot be listed becomes certain with time alone.
                Some(Instant::now() + LOOK_AGAIN)
            }
        });
        let outcome = if pass.is_ok() {
            Outcome::Success
        } else {
            Outcome::Failure
        };
        books
            .reconciles
            .end(L::CONTROLLERS, begun.elapsed(), outcome);
        let wake = match pass {
            Ok(wake) => wake.unwrap_or_else(|| Instant::now() + FAR_AWAY),
            Err(wait) => {
                cause = PassCause::Configuration;
                tokio::select! {
                    () = stop.cancelled() => {}
                    () = sleep(wait) => {}
                }
                continue;
            }
        };
        cause = tokio::select! {
            () = stop.cancelled() => break,
            () = configured.notified() => {
                sleep(GATHER).await;
                PassCause::Configuration
            }
            ended = control.next() => {
                if let Some(controller) = L::failed_write(&ended) {
                    books.reconciles.failed(controller);
                }
                noted = Some(ended);
                PassCause::Progress
            }
            () = sleep_until(wake) => PassCause::Progress,
        };
    }
    control.finish().await;
}

/// The earlier of two moments, as far as there are any.
pub fn earliest(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    [a, b].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    };

    use tokio::{sync::mpsc, task::JoinHandle};

    use super::*;

    /// Writes down what happens to it.
    struct Recorded {
        log: Arc<Mutex<Vec<String>>>,
        beside: mpsc::UnboundedReceiver<&'static str>,
        wakes: Vec<Duration>,
        /// How many passes are to panic.
        panics: u32,
    }

    impl ControlLoop for Recorded {
        type Ended = &'static str;
        const CONTROLLERS: &'static [&'static str] = &["example"];

        fn pass(&mut self, cause: PassCause) -> Option<Instant> {
            self.log.lock().unwrap().push(format!("{cause:?}"));
            if self.panics > 0 {
                self.panics -= 1;
                panic!("a pass that panics");
            }
            self.wakes.pop().map(|after| Instant::now() + after)
        }

        async fn next(&mut self) -> Self::Ended {
            match self.beside.recv().await {
                Some(ended) => ended,
                None => std::future::pending().await,
            }
        }

        fn ended(&mut self, ended: Self::Ended) {
            self.log.lock().unwrap().push(ended.to_owned());
        }

        async fn finish(self) {
            self.log.lock().unwrap().push("finish".to_owned());
        }
    }

    struct Scene {
        log: Arc<Mutex<Vec<String>>>,
        beside: mpsc::UnboundedSender<&'static str>,
        configured: Arc<Notify>,
        listed: Arc<AtomicBool>,
        stop: CancellationToken,
        keeper: Keeper,
        running: JoinHandle<()>,
    }

    impl Scene {
        fn new(listed: bool, wakes: Vec<Duration>) -> Self {
            Self::panicking(listed, wakes, 0)
        }

        fn panicking(listed: bool, wakes: Vec<Duration>, panics: u32) -> Self {
            let keeper = Keeper::default();
            let (sender, beside) = mpsc::unbounded_channel();
            let log: Arc<Mutex<Vec<String>>> = Arc::default();
            let (configured, stop) = (Arc::new(Notify::new()), CancellationToken::new());
            let listed = Arc::new(AtomicBool::new(listed));
            let control = Recorded {
                log: Arc::clone(&log),
                beside,
                wakes,
                panics,
            };
            let running = {
                let (configured, stop) = (Arc::clone(&configured), stop.clone());
                let (listed, keeper) = (Arc::clone(&listed), keeper.clone());
                tokio::spawn(async move {
                    let is_listed = || listed.load(Ordering::SeqCst);
                    let books = Books {
                        task: "example",
                        keeper: &keeper,
                        reconciles: &Reconciles::default(),
                    };
                    drive(control, &configured, is_listed, &books, &stop).await;
                })
            };
            Self {
                log,
                beside: sender,
                configured,
                listed,
                stop,
                keeper,
                running,
            }
        }

        /// What has happened since this was last asked, a second later.
        async fn happened(&self) -> Vec<String> {
            sleep(Duration::from_secs(1)).await;
            std::mem::take(&mut *self.log.lock().unwrap())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_done_before_the_configuration_is_listed() {
        let scene = Scene::new(false, Vec::new());
        scene.configured.notify_one();
        assert!(scene.happened().await.is_empty());
        scene.listed.store(true, Ordering::SeqCst);
        scene.configured.notify_one();
        assert_eq!(scene.happened().await, ["Configuration"]);
    }

    #[tokio::test(start_paused = true)]
    async fn every_cause_leads_to_a_pass_and_a_burst_to_one() {
        let scene = Scene::new(true, Vec::new());
        assert_eq!(scene.happened().await, ["Configuration"]);
        scene.beside.send("written").unwrap();
        assert_eq!(scene.happened().await, ["written", "Progress"]);
        for _ in 0..5 {
            scene.configured.notify_one();
            sleep(Duration::from_millis(1)).await;
        }
        let passes = scene.happened().await;
        assert!(passes.len() <= 2, "{passes:?}");
        sleep(FAR_AWAY).await;
        assert_eq!(scene.happened().await, ["Progress"], "now and then");
        scene.stop.cancel();
        assert_eq!(scene.happened().await, ["finish"]);
        scene.running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn c3_a_loop_goes_on_after_passes_that_panic_with_back_off() {
        let scene = Scene::panicking(true, Vec::new(), 2);
        let begun = Instant::now();
        while scene.keeper.restarts().get("example") != Some(&2) {
            sleep(Duration::from_millis(100)).await;
        }
        assert!(begun.elapsed() >= Duration::from_millis(900), "no spinning");
        sleep(Duration::from_secs(2)).await;
        assert_eq!(
            scene.happened().await,
            ["Configuration", "Configuration", "Configuration"]
        );
        scene.beside.send("written").unwrap();
        assert_eq!(scene.happened().await, ["written", "Progress"]);
        scene.stop.cancel();
        scene.running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_pass_says_when_the_next_one_is_due() {
        let scene = Scene::new(true, vec![Duration::from_secs(10)]);
        assert_eq!(scene.happened().await, ["Configuration"]);
        sleep(Duration::from_secs(8)).await;
        assert!(scene.happened().await.is_empty());
        assert_eq!(scene.happened().await, ["Progress"]);
    }
}
