//! An API server that has too much to do: it gets little to do, and afterwards all is well.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};
use kollect_testkit::trouble::{Effect, on};

use crate::stage::{Shared, Team};

/// How long it may take until little is asked, and how long that is watched.
const SETTLING: Duration = Duration::from_secs(6);
const SETTLED: Duration = Duration::from_secs(10);
const SOON: Duration = Duration::from_mins(2);

#[test]
fn f3_an_api_server_that_pushes_back_gets_a_trickle_and_recovers_alone() -> Result<()> {
    let mut team = Team::new(&Arc::new(Shared::start()?), "overload", true)?;
    team.start()?;
    team.expect_rows(5, SOON)?;
    team.expect_status("Synced", SOON)?;
    team.record_deletes()?;
    let anything = on("*", "*");
    for (number, effect) in [(0, Effect::RetryAfter(429, 1)), (1, Effect::Status(504))] {
        let rule = team.trouble.rule(anything.clone(), effect.clone());
        team.trouble.cut(&anything);
        team.put(&format!("new-{number}"), number)?;
        // Work for the operator: statuses to write, a kind to look up, a place to review.
        team.add_target(&format!("more-{number}"))?;
        thread::sleep(SETTLING);
        let asked = || {
            let leases = team.trouble.requests(&on("*", "leases"));
            team.trouble.requests(&anything) - leases
        };
        let before = asked();
        thread::sleep(SETTLED);
        let rate = (asked() - before) / SETTLED.as_secs();
        ensure!(rate <= 4, "{rate} requests per second under {effect:?}");
        team.trouble.lift(rule);
    }
    // Two maps more, seen by three targets.
    team.expect_rows(21, SOON)?;
    team.expect_no_deletes("in between")
}
