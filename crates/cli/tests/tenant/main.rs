//! Tenants, with and without a platform team: what they can do with an operator of their own, and
//! what they cannot do with somebody else's.

mod alone;
mod case;
mod documents;
mod escapes;
#[path = "../pipeline/shown.rs"]
mod shown;
mod stage;
mod sweep;

use std::thread;

use anyhow::{Result, ensure};

use crate::{escapes::Escapes, stage::Stage};

/// One program of one test, because two operators that serve everything would be in each other's
/// way: first every team runs its own, then the platform team runs one for all.
#[test]
fn tenants_keep_to_themselves() -> Result<()> {
    let stage = Stage::start()?;
    let escapes = Escapes::prepare(&stage)?;
    let mut failures = thread::scope(|scope| {
        let teams = [
            ("alone", scope.spawn(|| alone::play(&stage))),
            ("documents", scope.spawn(|| documents::play(&stage))),
        ];
        let escapes = escapes.play_teams();
        let mut failures = escapes.unwrap_or_else(|error| vec![format!("teams: {error:#}")]);
        failures.extend(
            teams
                .into_iter()
                .filter_map(|(name, team)| match team.join() {
                    Ok(played) => played.err().map(|error| format!("{name}: {error:#}")),
                    Err(_) => Some(format!("{name}: panicked")),
                }),
        );
        failures
    });
    failures.extend(escapes.play_platform()?);
    ensure!(failures.is_empty(), "{}", failures.join("\n\n"));
    Ok(())
}
