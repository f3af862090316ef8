//! The suite that every backend passes.
//!
//! A backend implements [`Subject`] for a fresh place on its real server and gets one test per
//! case, by name:
//!
//! ```ignore
//! kollect_sinks::conformance_tests!(PostgresSubject::start().await);
//! ```
//!
//! A case delivers through the sink and looks at the backend past it: the sink's own word counts
//! for nothing. What differs between backends is the subject's to say ([`Subject::retirement`],
//! [`Sink::appetite`](crate::Sink::appetite), what cannot be done to its server); everything else
//! is the same for all.

mod changes;
mod contents;
mod exporter;
mod neighbours;
pub mod rows;
mod subject;
mod trouble;

use futures::future::BoxFuture;

pub use subject::{Retirement, Subject};

/// One case of the suite. It panics when the subject does not pass.
pub type Case = for<'s> fn(&'s dyn Subject) -> BoxFuture<'s, ()>;

/// The names of all cases, handed to another macro: the one list that everything else is made of.
#[doc(hidden)]
#[macro_export]
macro_rules! each_conformance_case {
    ([$($then:tt)*] $($arguments:tt)*) => {
        $($then)*! {
            [$($arguments)*]
            contents: first_delivery
            contents: an_update_replaces_the_row
            contents: a_missing_row_is_removed
            contents: an_empty_snapshot_removes_everything
            contents: an_empty_snapshot_may_come_first
            contents: ten_thousand_rows
            contents: a_repeated_delivery_changes_nothing
            contents: a_restart_changes_nothing
            contents: a_restart_removes_what_disappeared_meanwhile
            contents: awkward_values_come_back_as_they_were
            contents: a_zero_character_is_no_obstacle
            changes: changes_add_and_update
            changes: changes_remove
            changes: changes_of_all_kinds_at_once
            changes: a_row_may_return_under_another_identity
            changes: repeated_changes_change_nothing
            changes: no_changes_are_accepted
            changes: all_rows_after_changes_agree
            changes: changes_notice_a_backend_that_lost_its_rows
            changes: random_histories
            neighbours: inventories_do_not_touch_each_other
            neighbours: clusters_do_not_touch_each_other
            neighbours: deliveries_run_side_by_side
            neighbours: retiring_concerns_one_inventory
            neighbours: retiring_twice_is_fine
            neighbours: retiring_the_unknown_is_fine
            neighbours: an_inventory_may_return
            trouble: wrong_credentials_are_terminal
            trouble: a_server_that_is_gone_comes_back
            trouble: a_server_may_come_late
            trouble: a_server_may_restart_unnoticed
            trouble: a_server_may_go_in_the_middle
            trouble: a_server_that_hangs_recovers
            trouble: a_delivery_may_be_cancelled
            trouble: texts_contain_no_secrets
            trouble: a_probe_changes_nothing
        }
    };
}

macro_rules! list {
    ([] $($module:ident: $case:ident)*) => {
        /// All cases by name.
        pub fn cases() -> Vec<(&'static str, Case)> {
            vec![$((stringify!($case), |subject| Box::pin($module::$case(subject)))),*]
        }
    };
}

each_conformance_case!([list]);

/// Runs one case by name.
///
/// # Panics
/// When the subject does not pass, or when there is no such case.
pub async fn run(name: &str, subject: &dyn Subject) {
    let all = cases();
    let case = all.iter().find(|(known, _)| *known == name);
    let (_, case) = case.unwrap_or_else(|| panic!("the suite has no case {name:?}"));
    case(subject).await;
}

/// One `#[tokio::test]` per case. The argument is an expression, evaluated in every test, that makes
/// a fresh [`Subject`]; it may await.
#[macro_export]
macro_rules! conformance_tests {
    ($subject:expr) => {
        $crate::each_conformance_case!([$crate::conformance_test_functions] $subject);
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! conformance_test_functions {
    ([$subject:expr] $($module:ident: $case:ident)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $case() {
                let subject = $subject;
                $crate::conformance::run(stringify!($case), &subject).await;
            }
        )*
    };
}
