//! Questions to the API server that a plan depends on, asked beside the control loop.
//!
//! The loop never waits for an answer: a kind whose API is down, or a slow access review, is the
//! trouble of the targets that need it and of nobody else. Answers come back through a channel and
//! lead to the next plan.

mod pace;
mod unanswered;

use std::{collections::BTreeSet, fmt, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;

use kollect_api::GroupVersionKind;
use kollect_collect::plan::KindFact;
use kollect_watch::{
    access::{Permission, Review, Reviewer},
    discovery::Discovery,
};
use tokio::sync::{Semaphore, mpsc};

pub use self::{pace::Pace, unanswered::Unanswered};
use crate::keeper::{EndedHow, Keeper};

/// What is answered in the place of a question that panicked. It is asked again in its time, as
/// every question without an answer.
const PANICKED: &str = "the question panicked; the log of the operator has the cause";

/// It is asked again within this time.
const AGAIN: Duration = Duration::from_mins(1);
/// How many questions of a sort are asked at a time. Where a cluster-wide list is denied there is
/// one review per namespace and resource.
const AT_A_TIME: usize = 8;

/// What came back.
#[derive(Debug)]
pub enum Answered {
    /// What discovery says about a kind.
    Kind(GroupVersionKind, KindFact),
    /// What an access review says.
    Access(Review, Permission),
}

/// Asks, at most once at a time for each question.
pub struct Questions {
    discovery: Arc<Discovery>,
    reviewer: Arc<Reviewer>,
    kinds: BTreeSet<(String, String, String)>,
    reviews: BTreeSet<Review>,
    sender: mpsc::UnboundedSender<Answered>,
    kind_slots: Arc<Semaphore>,
    review_slots: Arc<Semaphore>,
    keeper: Keeper,
}

impl Questions {
    /// Asks through these two; answers arrive at the receiver. The channel holds at most one entry
    /// per question under way. The keeper hears of questions that panic.
    pub fn new(
        discovery: Arc<Discovery>,
        reviewer: Arc<Reviewer>,
        keeper: Keeper,
    ) -> (Self, mpsc::UnboundedReceiver<Answered>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let questions = Self {
            discovery,
            reviewer,
            kinds: BTreeSet::new(),
            reviews: BTreeSet::new(),
            sender,
            kind_slots: Arc::new(Semaphore::new(AT_A_TIME)),
            review_slots: Arc::new(Semaphore::new(AT_A_TIME)),
            keeper,
        };
        (questions, receiver)
    }

    /// Asks discovery about a kind.
    pub fn ask_kind(&mut self, gvk: &GroupVersionKind) {
        if !self.kinds.insert(key(gvk)) {
            return;
        }
        let (discovery, sender, gvk) = (
            Arc::clone(&self.discovery),
            self.sender.clone(),
            gvk.clone(),
        );
        let (slots, keeper) = (Arc::clone(&self.kind_slots), self.keeper.clone());
        tokio::spawn(async move {
            let _slot = slots.acquire().await;
            let question = async {
                let answer = discovery.resolve(&gvk).await;
                KindFact::of(answer, &["list", "watch"])
            };
            let fact = contained(&keeper, &gvk, question).await;
            let fact = fact.unwrap_or_else(|| KindFact::Failed(PANICKED.into()));
            // Nobody listens only when the operator stops.
            let _ = sender.send(Answered::Kind(gvk, fact));
        });
    }

    /// Asks whether a resource may be listed and watched.
    pub fn ask_access(&mut self, review: &Review) {
        if !self.reviews.insert(review.clone()) {
            return;
        }
        let (reviewer, sender, review) = (
            Arc::clone(&self.reviewer),
            self.sender.clone(),
            review.clone(),
        );
        let (slots, keeper) = (Arc::clone(&self.review_slots), self.keeper.clone());
        tokio::spawn(async move {
            let _slot = slots.acquire().await;
            let question = reviewer.permission(&review);
            let permission = contained(&keeper, &review.resource, question).await;
            let permission = permission.unwrap_or_else(|| Permission::Failed(PANICKED.into()));
            let _ = sender.send(Answered::Access(review, permission));
        });
    }

    /// Whether no question is open.
    pub fn is_idle(&self) -> bool {
        self.kinds.is_empty() && self.reviews.is_empty()
    }

    /// Takes note that an answer has arrived, so that the question may be asked again.
    pub fn answered(&mut self, answer: &Answered) {
        match answer {
            Answered::Kind(gvk, _) => {
                self.kinds.remove(&key(gvk));
            }
            Answered::Access(review, _) => {
                self.reviews.remove(review);
            }
        }
    }
}

/// Asks. Nothing comes back if that panics, which is told and counted: whoever waits for the answer
/// must not wait for ever.
async fn contained<T>(
    keeper: &Keeper,
    about: &impl fmt::Display,
    question: impl Future<Output = T>,
) -> Option<T> {
    let answer = AssertUnwindSafe(question).catch_unwind().await;
    if answer.is_err() {
        keeper.note("question", about, EndedHow::Panicked, AGAIN);
    }
    answer.ok()
}

fn key(gvk: &GroupVersionKind) -> (String, String, String) {
    (gvk.group.clone(), gvk.version.clone(), gvk.kind.clone())
}

#[cfg(test)]
#[path = "questions/questions_tests.rs"]
mod tests;
