//! When the log says what about an object.

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kollect_api::condition::{
    ConditionStatus,
    ConditionType::{Degraded, Ready},
    Reason,
};

use super::*;

fn bad(reason: Reason, message: &str) -> Vec<Condition> {
    let now = Time(Timestamp::UNIX_EPOCH);
    let says = |type_, status| {
        Condition::new(type_, status, reason, message.to_owned(), None, now.clone())
    };
    vec![
        says(Ready, ConditionStatus::False),
        says(Degraded, ConditionStatus::True),
    ]
}

fn ready(status: ConditionStatus, reason: Reason) -> Vec<Condition> {
    let now = Time(Timestamp::UNIX_EPOCH);
    vec![Condition::new(Ready, status, reason, "", None, now)]
}

fn good() -> Vec<Condition> {
    ready(ConditionStatus::True, Reason::Collecting)
}

/// What a line is about, in a word.
fn word(line: Option<Line>) -> String {
    match line {
        None => String::new(),
        Some(Line::Trouble { message, .. }) => message,
        Some(Line::Recovered { .. }) => "well".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn trouble_is_told_once_and_its_end_once() {
    let (log, now) = (StatusLog::default(), Instant::now());
    let tell = |conditions: &[Condition]| word(log.observe("t", conditions, now));
    assert_eq!(tell(&good()), "", "nothing was wrong");
    let missing = bad(Reason::ProfileNotFound, "profile \"a\" is missing");
    assert_eq!(tell(&missing), "profile \"a\" is missing");
    assert_eq!(tell(&missing), "");
    let denied = bad(Reason::ScopeGVKDenied, "kind denied");
    assert_eq!(
        tell(&denied),
        "kind denied",
        "another reason is told at once"
    );
    let waits = ready(ConditionStatus::False, Reason::Progressing);
    assert_eq!(tell(&waits), "", "what is under way is neither");
    assert_eq!(tell(&good()), "well");
    assert_eq!(tell(&good()), "");
}

#[tokio::test(start_paused = true)]
async fn numbers_and_times_make_no_other_line() {
    let (log, now) = (StatusLog::default(), Instant::now());
    let text = |failures: u32, at: &str| {
        let text = format!("10.0.0.1:5432: refused {failures} times; next attempt at {at}");
        bad(Reason::Progressing, &text)
    };
    let first = text(1, "2026-11-17T22:48:21Z");
    assert!(log.observe("t", &first, now).is_some());
    let later = text(17, "2026-11-18T00:00:05Z");
    assert_eq!(log.observe("t", &later, now + PAUSE * 2), None);
    assert_eq!(log.next_due(), None);
}

#[tokio::test(start_paused = true)]
async fn what_comes_and_goes_has_a_line_of_each_sort_per_minute() {
    let (log, start) = (StatusLog::default(), Instant::now());
    let missing = bad(Reason::ProfileNotFound, "missing");
    let (mut bad_lines, mut good_lines) = (0, 0);
    for second in 0..600 {
        let now = start + Duration::from_secs(second);
        let said = if second % 2 == 0 { &missing } else { &good() };
        match log.observe("t", said, now) {
            Some(Line::Trouble { .. }) => bad_lines += 1,
            Some(Line::Recovered { .. }) => good_lines += 1,
            None => {}
        }
    }
    assert_eq!((bad_lines, good_lines), (10, 10));
}

#[tokio::test(start_paused = true)]
async fn what_was_held_back_and_lasts_is_told() {
    let (log, start) = (StatusLog::default(), Instant::now());
    let missing = bad(Reason::ProfileNotFound, "missing");
    let second = start + Duration::from_secs(1);
    assert!(log.observe("t", &missing, start).is_some());
    assert_eq!(word(log.observe("t", &good(), second)), "well");
    assert_eq!(log.observe("t", &missing, second), None, "too soon");
    assert_eq!(log.next_due(), Some(start + PAUSE));
    assert_eq!(log.take_due(second), []);
    let told = log.take_due(start + PAUSE);
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(log.next_due(), None);
    // What went away in time is not told.
    log.observe("t", &good(), start + PAUSE);
    log.observe("t", &missing, start + PAUSE);
    log.observe("t", &good(), start + PAUSE);
    assert_eq!(log.take_due(start + PAUSE * 3), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_remembered_is_bounded() {
    let (log, now) = (StatusLog::default(), Instant::now());
    let missing = bad(Reason::ProfileNotFound, "missing");
    for number in 0..MOST + 10 {
        log.observe(&format!("t{number}"), &missing, now);
    }
    assert_eq!(log.objects.lock().unwrap().len(), MOST);
    for number in 0..MOST {
        log.observe(&format!("t{number}"), &good(), now);
    }
    assert!(log.observe("new", &missing, now + PAUSE).is_some());
    assert_eq!(
        log.objects.lock().unwrap().len(),
        1,
        "what is over made room"
    );
}

#[test]
fn numbers_are_what_stands_alone() {
    for (text, expected) in [
        ("trying again in 16 s", "trying again in # s"),
        ("after 5m0s, at 2026-11-17T22:48:21Z", "after #, at #"),
        ("(3 more)", "(# more)"),
        ("team-1/db2: 12 rows", "team-1/db2: # rows"),
        ("127.0.0.1:5432: refused", "# refused"),
        ("v1 Secret \"a1\"", "v1 Secret \"a1\""),
        ("", ""),
    ] {
        assert_eq!(without_numbers(text), expected);
    }
}
