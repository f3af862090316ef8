//! The reference sink passes the suite, and the suite catches sinks that are wrong.

mod memory {
    pub(crate) mod flawed;
    pub(crate) mod subject;
}

use memory::{flawed, subject::MemorySubject};

mod rows {
    use super::*;

    kollect_sinks::conformance_tests!(MemorySubject::rows());
}

mod documents {
    use super::*;

    kollect_sinks::conformance_tests!(MemorySubject::documents());
}

/// For each flaw the cases that have to notice it. More may notice; these must.
const CATCHES: &[(flawed::Flaw, &[&str])] = {
    use flawed::Flaw::*;
    &[
        (
            IgnoresDeletes,
            &[
                "a_missing_row_is_removed",
                "an_empty_snapshot_removes_everything",
                "changes_remove",
                "random_histories",
            ],
        ),
        (EmptiesNeighbours, &["inventories_do_not_touch_each_other"]),
        (PrunesOtherClusters, &["clusters_do_not_touch_each_other"]),
        (
            DeletesAfterUpserts,
            &[
                "a_row_may_return_under_another_identity",
                "random_histories",
            ],
        ),
        (RefusesRepeatedChanges, &["repeated_changes_change_nothing"]),
        (
            KnowsOnlyItsOwnRows,
            &["a_restart_removes_what_disappeared_meanwhile"],
        ),
        (RewritesEverything, &["a_restart_changes_nothing"]),
        (
            RetiresNothing,
            &["retiring_concerns_one_inventory", "retiring_twice_is_fine"],
        ),
        (RetiresEverybody, &["retiring_concerns_one_inventory"]),
        (RetryRejectedLogins, &["wrong_credentials_are_terminal"]),
        (
            GivesUpWhenServerIsGone,
            &["a_server_that_is_gone_comes_back", "a_server_may_come_late"],
        ),
        (
            SwallowsFailures,
            &[
                "a_server_that_is_gone_comes_back",
                "wrong_credentials_are_terminal",
            ],
        ),
        (
            JamsWhenCancelled,
            &[
                "a_delivery_may_be_cancelled",
                "a_server_that_hangs_recovers",
            ],
        ),
        (WritesLate, &["a_delivery_may_be_cancelled"]),
        (
            NeverNoticesLoss,
            &["changes_notice_a_backend_that_lost_its_rows"],
        ),
        (TellsThePassword, &["texts_contain_no_secrets"]),
        (ProbesByWriting, &["a_probe_changes_nothing"]),
        (CutsRowsShort, &["ten_thousand_rows"]),
    ]
};

/// Time stands still while anybody works, so waiting for a sink that hangs takes no time.
#[tokio::test(start_paused = true)]
async fn the_suite_catches_every_flaw() {
    let mut missed = Vec::new();
    for &(flaw, cases) in CATCHES {
        for &case in cases {
            let run = tokio::spawn(async move {
                let subject = MemorySubject::flawed(flaw);
                kollect_sinks::conformance::run(case, &subject).await;
            });
            match run.await {
                Ok(()) => missed.push(format!("{case} did not notice {flaw:?}")),
                Err(error) => assert!(error.is_panic(), "{case} was cancelled"),
            }
        }
    }
    assert!(missed.is_empty(), "{missed:#?}");
}

/// A case that fails for everybody would catch every flaw too; the runs above show that none does.
/// Here the wrapper itself is shown to be innocent.
#[tokio::test(start_paused = true)]
async fn the_wrapper_without_a_flaw_passes() {
    for (name, case) in kollect_sinks::conformance::cases() {
        println!("{name}");
        case(&MemorySubject::flawed(flawed::Flaw::None)).await;
    }
}
