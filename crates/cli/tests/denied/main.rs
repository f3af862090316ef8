//! A right that is taken away says nothing about what is there.
//!
//! The built program collects from two namespaces into a database and a repository, as a service
//! account whose right to read the collected kind is taken away: everywhere, or in one of the two
//! namespaces; while it runs, and before it starts. No row and no file goes because of that; what
//! can be read goes on, deletions included; and when the right returns, everything that happened
//! meanwhile follows.

mod stage;

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};

use crate::stage::{Shared, Team};

/// What has to happen soon.
const SOON: Duration = Duration::from_mins(1);
/// Rows follow again this soon after a right has returned.
const RETURN: Duration = Duration::from_secs(90);
/// How long something is watched that must not happen.
const WHILE: Duration = Duration::from_secs(5);

/// Takes the right away everywhere, or in the second namespace only.
fn play(shared: &Arc<Shared>, name: &str, everywhere: bool) -> Result<()> {
    let mut team = Team::new(shared, name)?;
    team.start()?;
    for at in ["a", "b"] {
        for number in 0..3 {
            team.put(&format!("{at}-{number}"), number)?;
        }
    }
    let mut all = vec!["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"];
    team.expect_rows(&all, SOON)?;
    team.expect_files(&all, SOON)?;
    team.record_deletes()?;
    let mut deleted = Vec::new();

    // While the program runs.
    if everywhere {
        team.deny("a")?;
    }
    team.deny("b")?;
    team.expect_denied("kollecttargets/maps", SOON)?;
    team.expect_denied("kollectinventories/inv", SOON)?;
    team.delete("b-2")?;
    if !everywhere {
        team.put("a-3", 3)?;
        team.delete("a-0")?;
        deleted.push("a-0");
        all.retain(|name| *name != "a-0");
        all.push("a-3");
    }
    team.expect_rows(&all, SOON)?;
    team.expect_files(&all, SOON)?;
    thread::sleep(WHILE);
    team.expect_rows(&all, SOON)?;
    team.expect_files(&all, SOON)?;
    team.expect_deleted(&deleted)?;

    // Before it starts. The database keeps what is not known beside what is; the repository waits.
    let files = all.clone();
    team.start()?;
    team.expect_denied("kollectinventories/inv", SOON)?;
    if !everywhere {
        team.put("a-4", 4)?;
        team.delete("a-1")?;
        deleted.push("a-1");
        all.retain(|name| *name != "a-1");
        all.push("a-4");
    }
    team.expect_rows(&all, SOON)?;
    thread::sleep(WHILE);
    team.expect_rows(&all, SOON)?;
    team.expect_files(&files, SOON)?;
    team.expect_deleted(&deleted)?;

    // The right returns: what happened meanwhile follows, and what happens from now on.
    team.put("b-5", 5)?;
    if everywhere {
        team.allow("a")?;
    }
    team.allow("b")?;
    deleted.push("b-2");
    all.retain(|name| *name != "b-2");
    all.push("b-5");
    team.expect_rows(&all, RETURN)?;
    team.expect_files(&all, RETURN)?;
    team.delete("b-0")?;
    deleted.push("b-0");
    all.retain(|name| *name != "b-0");
    team.expect_rows(&all, SOON)?;
    team.expect_files(&all, SOON)?;
    team.expect_deleted(&deleted)
}

/// Targets of one of two namespaces may not be read when the program starts.
fn play_neighbours(shared: &Arc<Shared>) -> Result<()> {
    let mut team = Team::neighbours(shared, "neighbours")?;
    team.allow_targets("b")?;
    team.put("a-0", 0)?;
    team.put("b-0", 0)?;
    team.start()?;
    team.expect_rows(&["a-0", "b-0"], SOON)?;
    team.record_deletes()?;
    team.stop();
    team.deny_targets("b")?;
    team.put("a-1", 1)?;
    team.delete("a-0")?;
    team.start()?;
    team.expect_rows(&["a-1", "b-0"], SOON)?;
    let inventory = "kollectinventories/inv";
    team.expect_degraded("b", inventory, "kollecttargets", SOON)?;
    thread::sleep(WHILE);
    team.expect_rows(&["a-1", "b-0"], SOON)?;
    team.expect_deleted(&["a-0"])?;
    team.put("b-1", 1)?;
    team.allow_targets("b")?;
    team.expect_rows(&["a-1", "b-0", "b-1"], RETURN)?;
    team.expect_deleted(&["a-0"])
}

/// Runs cases side by side and gathers what went wrong.
fn side_by_side(cases: Vec<Box<dyn FnOnce() -> Result<()> + Send>>) -> Result<()> {
    let running: Vec<_> = cases.into_iter().map(thread::spawn).collect();
    let failures: Vec<String> = running
        .into_iter()
        .filter_map(|case| match case.join() {
            Ok(result) => result.err().map(|error| format!("{error:#}")),
            Err(_) => Some("a case panicked".to_owned()),
        })
        .collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}

#[test]
fn d11_a_right_that_is_taken_away_takes_no_rows_along() -> Result<()> {
    let shared = Arc::new(Shared::start()?);
    let [first, second, third] = [(); 3].map(|()| Arc::clone(&shared));
    side_by_side(vec![
        Box::new(move || play(&first, "everywhere", true)),
        Box::new(move || play(&second, "partly", false)),
        Box::new(move || play_neighbours(&third)),
    ])
}
