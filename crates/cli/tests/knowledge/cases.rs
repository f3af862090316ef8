//! One thing at a time is not known.

use std::{sync::Arc, thread, time::Duration};

use anyhow::{Result, ensure};
use kollect_testkit::trouble::{DISCOVERY, Effect, On, on};

use crate::stage::{Shared, Team};

/// What has to happen soon.
const SOON: Duration = Duration::from_mins(1);
/// Rows follow again this soon after something has returned.
const RETURN: Duration = Duration::from_secs(90);
/// A silent watch is told from a quiet one this soon.
const SILENT: Duration = Duration::from_secs(150);
/// How long something is watched that must not happen.
const WHILE: Duration = Duration::from_secs(8);

/// Something that the operator reads.
#[derive(Clone, Copy)]
struct Thing {
    resource: &'static str,
    /// What status and log call it.
    called: &'static str,
    /// How it is asked for: each of these is a case of its own.
    verbs: &'static [&'static str],
    /// Where it is named if it goes missing while the operator runs.
    in_flight: Named,
}

/// Where something is named that went missing.
#[derive(Clone, Copy, PartialEq)]
enum Named {
    /// In the status of the inventory and in the log.
    StatusAndLog,
    /// In the log: what was read before stays in use, so nobody's exports suffer.
    Log,
    /// In the log and in the status of a target that asks for something new: what is known is not
    /// asked for again.
    NewTarget,
}

const KEPT: &[&str] = &["list", "watch"];
const ASKED: &[&str] = &["*"];

const fn kept(resource: &'static str, called: &'static str) -> Thing {
    Thing {
        resource,
        called,
        verbs: KEPT,
        in_flight: Named::StatusAndLog,
    }
}

const THINGS: [Thing; 7] = [
    kept("kollecttargets", "kollecttargets.kollect.dev"),
    kept("kollectprofiles", "kollectprofiles.kollect.dev"),
    kept("kollectscopes", "kollectscopes.kollect.dev"),
    kept("kollectdatabasesinks", "kollectdatabasesinks.kollect.dev"),
    Thing {
        in_flight: Named::Log,
        ..kept("secrets", "ecret")
    },
    Thing {
        resource: "selfsubjectaccessreviews",
        called: "access review",
        verbs: ASKED,
        in_flight: Named::Log,
    },
    Thing {
        resource: DISCOVERY,
        called: "look up kind",
        verbs: ASKED,
        in_flight: Named::NewTarget,
    },
];

const NAMESPACES: Thing = kept("namespaces", "namespaces");

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
    verb: &'static str,
    way: Way,
    /// Whether the operator looks at the team's namespace alone.
    alone: bool,
    /// When it goes missing.
    when: When,
}

/// When something goes missing.
#[derive(Clone, Copy, PartialEq)]
enum When {
    AtTheStart,
    InFlight,
    Both,
}

impl Case {
    fn new(thing: Thing, verb: &'static str, way: Way, alone: bool) -> Self {
        let word = if verb == "*" { "asked" } else { verb };
        Self {
            name: format!("{}-{word}-{}", thing.resource, way.word()),
            thing,
            verb,
            way,
            alone,
            // What is listed and cannot be watched is the same at the start and in flight, and takes
            // its time to be told from what passes: one time has to do, but for rights.
            when: match (way, verb) {
                (Way::Silent | Way::Failing, "watch") => When::InFlight,
                _ => When::Both,
            },
        }
    }

    fn run(&self, shared: &Arc<Shared>) -> Result<()> {
        let mut team = Team::new(shared, &self.name, self.alone)?;
        team.start()?;
        team.expect_rows(5, SOON)?;
        team.record_deletes()?;
        if self.when != When::InFlight {
            self.at_the_start(&mut team)?;
        }
        if self.when != When::AtTheStart {
            self.in_flight(&team)?;
        }
        team.expect_no_deletes("at last")
    }

    fn requests(&self) -> On {
        on(self.verb, self.thing.resource)
    }

    fn at_the_start(&self, team: &mut Team) -> Result<()> {
        let Self { thing, way, .. } = self;
        team.stop()?;
        let rule = team.trouble.rule(self.requests(), way.effect());
        team.start()?;
        // What was listed can be used: that its changes cannot be followed is told of what others
        // depend on.
        let listed = self.verb == "watch";
        // Secrets are asked for one by one where they cannot be followed, and exports go on.
        let asked_otherwise = thing.resource == "secrets";
        if !(listed || asked_otherwise) || thing.in_flight == Named::StatusAndLog {
            team.expect_status(thing.called, RETURN)?;
        }
        if !(asked_otherwise && *way == Way::Silent) {
            team.expect_log(thing.called, RETURN)?;
        }
        team.put("new-0", 100)?;
        thread::sleep(WHILE);
        team.expect_no_deletes("at the start")?;
        team.trouble.lift(rule);
        team.expect_rows(6, RETURN)?;
        if listed {
            // Only what ended can begin again.
            team.expect_watch(thing.resource, RETURN)?;
        }
        team.expect_no_deletes("after the start")
    }

    fn in_flight(&self, team: &Team) -> Result<()> {
        let Self { thing, way, .. } = self;
        let rows = if self.when == When::InFlight { 5 } else { 6 };
        team.forget_log()?;
        let rule = team.trouble.rule(self.requests(), way.effect());
        // What is open already would not be asked for in a long time.
        team.trouble.cut(&on("*", thing.resource));
        if thing.in_flight == Named::NewTarget {
            team.ask_for_another_kind()?;
            team.expect_target("other", thing.called, RETURN)?;
        }
        // A watch that is cut is asked for again before the list is: what was listed stays in use,
        // and nobody notices that it could not be listed.
        if self.verb != "list" {
            team.expect_log(thing.called, SILENT)?;
            if thing.in_flight == Named::StatusAndLog {
                team.expect_status(thing.called, SILENT)?;
            }
        }
        // What was known goes on.
        team.put("new-1", 101)?;
        team.expect_rows(rows + 1, SOON)?;
        team.expect_no_deletes("in flight")?;
        team.trouble.lift(rule);
        team.put("new-2", 102)?;
        team.expect_rows(rows + 2, RETURN)
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
    let mut cases = Vec::new();
    for thing in THINGS {
        for verb in thing.verbs {
            let ways = [Way::Refused, Way::Failing, Way::Silent];
            cases.extend(ways.map(|way| Case::new(thing, verb, way, true)));
        }
    }
    side_by_side(&Arc::new(Shared::start()?), cases)
}

#[test]
fn b2_namespaces_and_definitions() -> Result<()> {
    // Programs that look at the whole cluster would look after each other's teams, so they take
    // turns: in two clusters, to be done sooner.
    let elsewhere = thread::spawn(|| {
        let shared = Arc::new(Shared::start()?);
        Case {
            when: When::InFlight,
            ..Case::new(NAMESPACES, "watch", Way::Refused, false)
        }
        .run(&shared)?;
        without_definitions(&shared)
    });
    let shared = Arc::new(Shared::start()?);
    for way in [Way::Refused, Way::Failing, Way::Silent] {
        let in_flight = way == Way::Refused;
        Case {
            when: if in_flight {
                When::Both
            } else {
                When::AtTheStart
            },
            ..Case::new(NAMESPACES, "list", way, false)
        }
        .run(&shared)?;
    }
    let elsewhere = elsewhere.join();
    elsewhere.map_err(|_| anyhow::anyhow!("the other cluster panicked"))?
}

/// Definitions tell when kinds come; whoever may not watch them asks now and then, and misses
/// nothing.
fn without_definitions(shared: &Arc<Shared>) -> Result<()> {
    let mut team = Team::new(shared, "definitions", false)?;
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

/// B1: nobody tells of the new kind, so it is asked for again.
#[test]
fn b1_a_kind_that_comes_late_is_found_although_definitions_cannot_be_watched() -> Result<()> {
    let mut team = Team::new(&Arc::new(Shared::start()?), "late", true)?;
    let all = on("*", "customresourcedefinitions");
    team.trouble.rule(all, Effect::Status(403));
    team.start()?;
    team.expect_rows(5, SOON)?;
    team.ask_for_another_kind()?;
    team.expect_target("other", "KindNotInstalled", SOON)?;
    team.expect_log("KindNotInstalled", SOON)?;
    team.install_the_other_kind()?;
    team.expect_rows(6, RETURN)
}
