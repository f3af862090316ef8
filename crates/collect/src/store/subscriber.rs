//! What has changed for one inventory.

use std::fmt;
use std::sync::{Arc, Mutex};

use kollect_inventory::{Delta, Row};

use super::locks::lock;
use super::selection::RowSelection;
use super::signals::Wake;

/// Gathers changes until they are taken.
///
/// At most one change per row is kept, whatever happens to the row; and if too many rows change,
/// none is: then taking gives all rows instead. So a slow reader costs a bounded amount of memory,
/// never a lost change and never a waiting writer.
pub(super) struct Subscriber {
    state: Mutex<State>,
    wake: Wake,
    /// The most changes that are kept.
    limit: usize,
}

#[derive(Debug)]
struct State {
    scope: Arc<RowSelection>,
    pending: Pending,
    /// The reader has been told that there is something to take, and has not taken it.
    told: bool,
    /// The reader waits for targets to become complete; rows are no news.
    waiting: bool,
}

#[derive(Debug)]
enum Pending {
    /// All rows have to be taken.
    Everything,
    /// These changes have to be taken.
    Changes(Delta),
}

impl State {
    /// The reader has looked.
    fn taken(&mut self) {
        self.told = false;
        self.waiting = false;
    }
}

impl Subscriber {
    pub(super) fn new(scope: RowSelection, limit: usize, wake: Wake) -> Self {
        Subscriber {
            state: Mutex::new(State {
                scope: Arc::new(scope),
                pending: Pending::Everything,
                told: false,
                waiting: false,
            }),
            wake,
            limit,
        }
    }

    pub(super) fn scope(&self) -> Arc<RowSelection> {
        Arc::clone(&lock(&self.state).scope)
    }

    /// Another scope; all rows have to be taken anew.
    pub(super) fn set_scope(&self, scope: RowSelection) {
        let mut state = lock(&self.state);
        state.scope = Arc::new(scope);
        state.pending = Pending::Everything;
    }

    /// All rows have to be taken anew.
    pub(super) fn start_over(&self) {
        lock(&self.state).pending = Pending::Everything;
    }

    /// A row changed. Returns whether the reader has to be woken, which is to be done when no lock
    /// is held.
    pub(super) fn record(&self, before: Option<&Row>, after: Option<&Row>) -> bool {
        let mut state = lock(&self.state);
        let belongs = |row: &&Row| state.scope.includes_row(row);
        let (before, after) = (before.filter(belongs), after.filter(belongs));
        if before.is_none() && after.is_none() {
            return false;
        }
        if let Pending::Changes(delta) = &mut state.pending {
            delta.record(before.cloned(), after.cloned());
            if delta.len() > self.limit {
                state.pending = Pending::Everything;
            }
        }
        let wakes = !state.told && !state.waiting;
        state.told |= wakes;
        wakes
    }

    /// Something other than a row changed: a target became complete, came or went. Returns
    /// whether the reader has to be woken.
    pub(super) fn poke(&self) -> bool {
        let mut state = lock(&self.state);
        state.waiting = false;
        !std::mem::replace(&mut state.told, true)
    }

    /// Tells the reader. No lock may be held.
    pub(super) fn wake(&self) {
        (self.wake)();
    }

    /// From now on only a poke wakes the reader. To be called before looking at what is complete,
    /// so that a target that becomes complete meanwhile is not missed.
    pub(super) fn wait(&self) {
        let mut state = lock(&self.state);
        state.told = false;
        state.waiting = true;
    }

    /// From now on everything wakes the reader.
    pub(super) fn listen(&self) {
        lock(&self.state).waiting = false;
    }

    /// Whether there is nothing to take.
    pub(super) fn rest(&self) -> bool {
        let mut state = lock(&self.state);
        let rests = matches!(&state.pending, Pending::Changes(delta) if delta.is_empty());
        if rests {
            state.taken();
        }
        rests
    }

    /// Takes the changes, or none if all rows have to be taken. From now on changes are gathered.
    /// No row of the scope may be written meanwhile.
    pub(super) fn take(&self) -> Option<Delta> {
        let mut state = lock(&self.state);
        state.taken();
        match std::mem::replace(&mut state.pending, Pending::Changes(Delta::new())) {
            Pending::Everything => None,
            Pending::Changes(delta) => Some(delta),
        }
    }

    /// How many changes are waiting; none says that it is all rows.
    pub(super) fn backlog(&self) -> Option<usize> {
        match &lock(&self.state).pending {
            Pending::Everything => None,
            Pending::Changes(delta) => Some(delta.len()),
        }
    }
}

impl fmt::Debug for Subscriber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscriber")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
