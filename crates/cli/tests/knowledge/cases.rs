//! One thing at a time is not known.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};
use kollect_testkit::trouble::{DISCOVERY, Effect, on};

use crate::stage::{Shared, Team};

/// What has to happen soon.
const SOON: Duration = Duration::from_mins(1);
/// Rows follow again this soon after something has returned.
const RETURN: Duration = Duration::from_secs(90);
/// How long something is watched that must not happen.
const WHILE: Duration = Duration::from_secs(8);

/// Something that the operator reads.
#[derive(Clone, Copy)]
struct Thing {
    resource: &'static str,
    /// What status and log call it.
    called: &'static str,
    /// Whether somebody notices while the operator runs: what is read once is not missed later.
    missed_in_flight: bool,
}

const THINGS: [Thing; 7] = [
    Thing {
        resource: "kollecttargets",
        called: "kollecttargets.kollect.dev",
        missed_in_flight: true,
    },
    Thing {
        resource: "kollectprofiles",
        called: "kollectprofiles.kollect.dev",
        missed_in_flight: true,
    },
    Thing {
        resource: "kollectscopes",
        called: "kollectscopes.kollect.dev",
        missed_in_flight: true,
    },
    Thing {
        resource: "kollectdatabasesinks",
        called: "kollectdatabasesinks.kollect.dev",
        missed_in_flight: true,
    },
    Thing {
        resource: "secrets",
        called: "ecret",
        missed_in_flight: false,
    },
    Thing {
        resource: "selfsubjectaccessreviews",
        called: "access review",
        missed_in_flight: false,
    },
    Thing {
        resource: DISCOVERY,
        called: "look up kind",
        missed_in_flight: false,
    },
];

const NAMESPACES: Thing = Thing {
    resource: "namespaces",
    called: "namespaces",
    missed_in_flight: true,
};

/// How it is not known.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Refused,
    Failing,
    Silent,
}

impl Way {
    fn effect(self) -> Effect {
        match self {
            Way::Refused => Effect::Status(403),
            Way::Failing => Effect::Status(500),
            Way::Silent => Effect::Silence,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Way::Refused => "refused",
            Way::Failing => "failing",
            Way::Silent => "silent",
        }
    }
}

/// One thing of one team, in one way.
struct Case {
    name: String,
    thing: Thing,
    way: Way,
    /// Whether the operator looks at the team's namespace alone.
    alone: bool,
    /// Whether it goes missing while the operator runs, too.
    in_flight: bool,
}

impl Case {
    fn run(&self, shared: &Arc<Shared>) -> Result<()> {
        let mut team = Team::new(shared, &self.name, self.alone)?;
        team.start()?;
        team.expect_rows(5, SOON)?;
        team.record_deletes()?;
        self.at_the_start(&mut team)?;
        if self.in_flight {
            self.in_flight(&team)?;
        }
        team.expect_no_deletes("at last")
    }

    fn at_the_start(&self, team: &mut Team) -> Result<()> {
        let Self { thing, way, .. } = self;
        team.stop()?;
        let rule = team.trouble.rule(on("*", thing.resource), way.effect());
        team.start()?;
        team.expect_status(thing.called, SOON)?;
        if *way != Way::Silent {
            team.expect_log(thing.called, SOON)?;
        }
        team.put("new-0", 100)?;
        thread::sleep(WHILE);
        team.expect_no_deletes("at the start")?;
        team.trouble.lift(rule);
        team.expect_rows(6, RETURN)?;
        team.expect_no_deletes("after the start")
    }

    fn in_flight(&self, team: &Team) -> Result<()> {
        let Self { thing, way, .. } = self;
        team.forget_log()?;
        let rule = team.trouble.rule(on("*", thing.resource), way.effect());
        if *way != Way::Silent {
            team.trouble.cut(&on("*", thing.resource));
        }
        if *way != Way::Silent && thing.missed_in_flight {
            team.expect_log(thing.called, SOON)?;
            team.expect_status(thing.called, RETURN)?;
        } else {
            thread::sleep(WHILE);
        }
        // What was known goes on.
        team.put("new-1", 101)?;
        team.expect_rows(7, SOON)?;
        team.expect_no_deletes("in flight")?;
        team.trouble.lift(rule);
        team.put("new-2", 102)?;
        team.expect_rows(8, RETURN)
    }
}

/// Runs cases side by side and gathers what went wrong.
fn side_by_side(shared: &Arc<Shared>, cases: Vec<Case>) -> Result<()> {
    let running: Vec<_> = cases
        .into_iter()
        .map(|case| {
            // Not all at the same moment: starting costs most.
            thread::sleep(Duration::from_millis(300));
            let shared = Arc::clone(shared);
            thread::spawn(move || case.run(&shared))
        })
        .collect();
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
fn b2_what_a_team_is_made_of() -> Result<()> {
    let cases = THINGS.into_iter().flat_map(|thing| {
        [Way::Refused, Way::Failing, Way::Silent].map(|way| Case {
            name: format!("{}-{}", thing.resource, way.word()),
            thing,
            way,
            alone: true,
            in_flight: true,
        })
    });
    side_by_side(&Arc::new(Shared::start()?), cases.collect())
}

#[test]
fn b2_namespaces_and_definitions() -> Result<()> {
    let shared = Arc::new(Shared::start()?);
    for way in [Way::Refused, Way::Failing, Way::Silent] {
        let case = Case {
            name: format!("namespaces-{}", way.word()),
            thing: NAMESPACES,
            way,
            alone: false,
            in_flight: way == Way::Refused,
        };
        case.run(&shared)?;
    }
    // Definitions tell when kinds come; whoever may not watch them asks now and then, and misses
    // nothing.
    let mut team = Team::new(&shared, "definitions", false)?;
    let all = on("*", "customresourcedefinitions");
    let rule = team.trouble.rule(all.clone(), Effect::Status(403));
    team.start()?;
    team.expect_rows(5, SOON)?;
    team.record_deletes()?;
    team.expect_log("customresourcedefinitions", SOON)?;
    team.trouble.lift(rule);
    for way in [Way::Refused, Way::Failing, Way::Silent] {
        let rule = team.trouble.rule(all.clone(), way.effect());
        team.trouble.cut(&all);
        let name = format!("while-{}", way.word());
        team.put(&name, 1)?;
        let rows = 6 + [Way::Refused, Way::Failing, Way::Silent]
            .iter()
            .position(|one| *one == way)
            .unwrap_or_default();
        team.expect_rows(rows, SOON)?;
        team.trouble.lift(rule);
    }
    team.expect_no_deletes("without definitions")
}
