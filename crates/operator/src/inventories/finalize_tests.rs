//! Deleted inventories, and sinks that let go of their rows or do not.

use kollect_api::{InventoryId, inventory::Dedupe, reference::SinkFamily};
use kollect_collect::store::RowSelection;
use kollect_export::{Configuration, SinkOrder, report::RetireReport};

use super::*;

const PATIENCE: Duration = Duration::from_mins(10);

fn key(name: &str) -> SinkKey {
    SinkKey {
        family: SinkFamily::Database,
        namespace: "team-a".to_owned(),
        name: name.to_owned(),
    }
}

fn order(sinks: &[(&str, Source)]) -> Order {
    let retire = sinks.iter().map(|(name, source)| SinkOrder {
        key: key(name),
        source: source.clone(),
        configuration: Configuration(1),
        interval: Duration::ZERO,
        change_interval: Duration::ZERO,
        documents: kollect_sinks::DocumentOptions::default(),
        resume: None,
    });
    Order {
        inventory: InventoryId::namespaced("team-a", "inv"),
        generation: 1,
        scope: RowSelection::Namespace("team-a".to_owned()),
        dedupe: Dedupe::KeepAll,
        open: false,
        deliver: Vec::new(),
        retire: retire.collect(),
    }
}

fn report(sinks: &[(&str, RetireState)]) -> Report {
    let retiring = sinks.iter().map(|(name, state)| RetireReport {
        key: key(name),
        state: state.clone(),
    });
    Report {
        retiring: retiring.collect(),
        ..Report::default()
    }
}

fn told(farewell: &Farewell) -> Vec<(&str, Fate, bool)> {
    let notices = farewell.notices.iter();
    notices
        .map(|notice| (&*notice.sink.name, notice.fate, notice.error.is_some()))
        .collect()
}

fn away() -> RetireState {
    RetireState::Failed(SinkError::transient("away"))
}

#[test]
fn c15_s33_an_inventory_goes_when_its_rows_have_left_all_sinks() {
    let none = farewell(
        &order(&[]),
        &Report::default(),
        &BTreeSet::new(),
        Duration::ZERO,
        PATIENCE,
    );
    assert_eq!(none.next, NextStep::Release, "it has no sinks");
    let order = order(&[("a", Source::Reading), ("b", Source::Reading)]);
    let states = [("a", RetireState::Done), ("b", RetireState::UnderWay)];
    let waiting = farewell(
        &order,
        &report(&states),
        &BTreeSet::new(),
        Duration::from_mins(4),
        PATIENCE,
    );
    assert_eq!(waiting.next, NextStep::Wait(Duration::from_mins(6)));
    assert!(waiting.notices.is_empty(), "nothing is wrong yet");
    let states = [("a", RetireState::Done), ("b", RetireState::Done)];
    let gone = farewell(
        &order,
        &report(&states),
        &BTreeSet::new(),
        Duration::from_mins(4),
        PATIENCE,
    );
    assert_eq!(gone.next, NextStep::Release);
    assert!(gone.notices.is_empty());
}

/// The original holds an inventory for ever after a terminal failure, and tries no more. Here it is
/// told of at once, tried again, and given up when patience ends, whatever the class.
#[test]
fn c15_s34_a_sink_that_fails_is_waited_for_and_then_given_up() {
    let order = order(&[("a", Source::Reading), ("b", Source::Reading)]);
    for error in [
        SinkError::transient("away"),
        SinkError::terminal("no table"),
    ] {
        let failed = RetireState::Failed(error.clone());
        let report = report(&[("a", RetireState::UnderWay), ("b", failed)]);
        let waiting = farewell(&order, &report, &BTreeSet::new(), PATIENCE, PATIENCE);
        assert_eq!(waiting.next, NextStep::Wait(Duration::ZERO));
        assert_eq!(told(&waiting), [("b", Fate::TriedAgain, true)]);
        assert_eq!(waiting.notices[0].error, Some(error));
        let late = PATIENCE + Duration::from_secs(1);
        let gone = farewell(&order, &report, &BTreeSet::new(), late, PATIENCE);
        assert_eq!(gone.next, NextStep::Release);
        let expected = [("a", Fate::GivenUp, false), ("b", Fate::GivenUp, true)];
        assert_eq!(told(&gone), expected);
    }
}

#[test]
fn a_sink_without_credentials_keeps_nobody_waiting() {
    let terminal = Source::Held(SinkError::terminal("no Secret"));
    let forbidden = Source::Held(SinkError::Forbidden("no right".to_owned()));
    let alone = order(&[("a", terminal.clone())]);
    let gone = farewell(
        &alone,
        &report(&[("a", away())]),
        &BTreeSet::new(),
        Duration::ZERO,
        PATIENCE,
    );
    assert_eq!(gone.next, NextStep::Release);
    assert_eq!(told(&gone), [("a", Fate::LeftAsTheyAre, true)]);
    // A right may be granted any time.
    let both = order(&[("a", terminal), ("b", forbidden)]);
    let waiting = farewell(
        &both,
        &Report::default(),
        &BTreeSet::new(),
        Duration::ZERO,
        PATIENCE,
    );
    assert_eq!(waiting.next, NextStep::Wait(PATIENCE));
    assert_eq!(told(&waiting), [("a", Fate::LeftAsTheyAre, false)]);
}

#[test]
fn c18_nothing_is_told_of_a_sink_that_was_emptied() {
    let order = order(&[("a", Source::Reading), ("b", Source::Reading)]);
    // Its exporter began anew and has not looked at `a` again; or `a` cannot be reached any more.
    for state in [RetireState::UnderWay, away()] {
        let report = report(&[("a", state), ("b", away())]);
        let emptied = BTreeSet::from([key("a")]);
        let late = PATIENCE + Duration::from_secs(1);
        let gone = farewell(&order, &report, &emptied, late, PATIENCE);
        assert_eq!(told(&gone), [("b", Fate::GivenUp, true)]);
        let emptied = BTreeSet::from([key("a"), key("b")]);
        let gone = farewell(&order, &report, &emptied, Duration::ZERO, PATIENCE);
        assert_eq!(gone.next, NextStep::Release);
        assert!(gone.notices.is_empty());
    }
}

#[test]
fn what_is_tried_again_is_not_called_terminal() {
    for fate in [Fate::LeftAsTheyAre, Fate::GivenUp, Fate::TriedAgain] {
        let terminal = fate.reason() == Reason::CleanupTerminal;
        assert_eq!(terminal, !fate.text().contains("tried again"), "{fate:?}");
    }
}
