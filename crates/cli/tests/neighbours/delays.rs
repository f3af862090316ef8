//! From changes and commits to delays.

/// A change as it was made. Times are microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Change {
    /// Changes are numbered through, and each object gets every [`OBJECTS`]th.
    pub(crate) number: u64,
    /// When it was sent to the API server.
    pub(crate) sent: i64,
    /// When the API server had answered.
    pub(crate) answered: i64,
}

/// Over how many objects changes are spread.
pub(crate) const OBJECTS: u64 = 20;

/// What was committed: the number that a row held, and when.
pub(crate) type Commit = (u64, i64);

/// How long changes took, in milliseconds, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Delays {
    pub(crate) since_sent: Vec<i64>,
    pub(crate) since_answered: Vec<i64>,
    /// Changes that never came to the table, neither themselves nor by a later one of the object.
    pub(crate) lost: Vec<u64>,
}

impl Delays {
    /// Finds for every change the first commit that holds it or a later change of its object.
    pub(crate) fn of(changes: &[Change], commits: &[Commit]) -> Self {
        let mut delays = Self {
            since_sent: Vec::new(),
            since_answered: Vec::new(),
            lost: Vec::new(),
        };
        for change in changes {
            let holds = |commit: &&Commit| {
                commit.0 >= change.number && commit.0 % OBJECTS == change.number % OBJECTS
            };
            match commits.iter().filter(holds).map(|commit| commit.1).min() {
                None => delays.lost.push(change.number),
                Some(at) => {
                    delays.since_sent.push((at - change.sent) / 1_000);
                    // An answer may come after the row.
                    delays
                        .since_answered
                        .push(((at - change.answered) / 1_000).max(0));
                }
            }
        }
        delays.since_sent.sort_unstable();
        delays.since_answered.sort_unstable();
        delays
    }
}

/// The delay that a share of all stays within; `sorted` is.
pub(crate) fn percentile(sorted: &[i64], percent: usize) -> i64 {
    let place = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(place.saturating_sub(1))
        .copied()
        .unwrap_or(i64::MAX)
}

#[test]
fn a_change_is_there_when_its_row_or_a_later_one_of_the_object_is() {
    let change = |number: u64, sent: i64| Change {
        number,
        sent,
        answered: sent + 2_000,
    };
    let changes = [
        change(1, 0),
        change(2, 0),
        change(1 + OBJECTS, 10_000),
        change(3, 0),
    ];
    // The first change of object 1 was overtaken by its second.
    let commits = [(2, 5_000), (1 + OBJECTS, 30_000), (1 + OBJECTS, 90_000)];
    let delays = Delays::of(&changes, &commits);
    assert_eq!(delays.since_sent, [5, 20, 30]);
    assert_eq!(delays.since_answered, [3, 18, 28]);
    assert_eq!(delays.lost, [3]);
}

#[test]
fn percentiles_count_from_above() {
    let hundred: Vec<i64> = (1..=100).collect();
    assert_eq!(percentile(&hundred, 50), 50);
    assert_eq!(percentile(&hundred, 99), 99);
    assert_eq!(percentile(&[7], 99), 7);
    assert_eq!(percentile(&[], 99), i64::MAX);
}
