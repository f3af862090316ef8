//! What to do next: a pure function of time, content and names.

use jiff::Timestamp;

use super::{Content, Terms, Unusable};

/// What to do next with a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Keep,
    /// Make a new serving certificate of the same authority.
    Renew(&'static str),
    /// Make an authority that everybody shall trust before it signs.
    Announce,
    /// Let the announced authority sign.
    Switch,
    /// Forget authorities of which nothing is served any more.
    Retire,
    /// Make everything anew.
    Replace(Unfit),
}

/// Why a content cannot be built upon.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There is none.
    #[error("there is none yet")]
    Absent,
    /// It is there and holds nothing.
    #[error("it is empty")]
    Empty,
    /// It is of no use.
    #[error(transparent)]
    Unusable(#[from] Unusable),
    /// Its authority has ended.
    #[error("its authority has ended")]
    Ended,
}

/// What to do next. Clocks of replicas differ: a certificate that begins in the future by this
/// clock is left alone, or two replicas would replace each other's for ever.
pub fn decide(
    now: Timestamp,
    content: Result<&Content, Unfit>,
    names: &[String],
    terms: &Terms,
) -> Step {
    let content = match content {
        Ok(content) => content,
        Err(unfit) => return Step::Replace(unfit),
    };
    let checked = match content.check(names) {
        Ok(checked) => checked,
        Err(unusable) => return Step::Replace(unusable.into()),
    };
    if checked.authority.has_ended(now) {
        return Step::Replace(Unfit::Ended);
    }
    let settled = |made: Timestamp| {
        let settled = made.checked_add(terms.settling);
        settled.is_ok_and(|settled| now >= settled)
    };
    match checked.next {
        Some(next) if settled(next.made()) => return Step::Switch,
        None if checked.authority.is_due(now) => return Step::Announce,
        _ => {}
    }
    if !checked.named {
        return Step::Renew("it is not for all names");
    }
    if checked.serving.is_due(now) {
        return Step::Renew("two thirds of its life are over");
    }
    if !content.former.is_empty() && settled(checked.serving.made()) {
        return Step::Retire;
    }
    Step::Keep
}
