use super::*;

const RANDOM: f64 = 1.0;

fn streamed() -> Course {
    Course::new(WatchSettings {
        listing: ListingMode::Streamed,
        ..WatchSettings::default()
    })
}

fn paged() -> Course {
    Course::new(WatchSettings::default())
}

/// A source that finished its listing at version 10.
fn watching() -> Course {
    let mut course = streamed();
    assert_eq!(course.next(true), Step::StreamedListing);
    assert_eq!(course.listing_arrives(), Some(ListingCause::Initial));
    course.listing_finished("10".to_owned());
    assert_eq!(course.next(true), changes("10"));
    course
}

fn changes(version: &str) -> Step {
    Step::Changes {
        version: version.to_owned(),
    }
}

fn page(limit: Option<u32>, token: Option<&str>) -> Step {
    Step::Page {
        limit,
        token: token.map(str::to_owned),
    }
}

fn refused(code: u16) -> Ending {
    Ending::Refused(Refusal {
        code,
        ..Refusal::default()
    })
}

fn broken() -> Ending {
    Ending::Broken("connection refused".to_owned())
}

/// InterruptionClass and longest wait in milliseconds of what the consumer is told.
fn told(reaction: &Reaction) -> Option<(InterruptionClass, u128)> {
    let interruption = reaction.interruption.as_ref()?;
    assert_eq!(interruption.retry_in, reaction.wait);
    Some((interruption.class, reaction.wait.as_millis()))
}

#[test]
fn while_watching_each_ending_has_its_consequence() {
    let slow = Some(37_500);
    let cases = [
        // ending, steady, told, next request, cause of the listing
        (Ending::Closed, true, None, changes("10"), None),
        (Ending::Silent, true, None, changes("10"), None),
        (
            Ending::Closed,
            false,
            Some((InterruptionClass::Unavailable, Some(400))),
            changes("10"),
            None,
        ),
        (
            broken(),
            true,
            Some((InterruptionClass::Unavailable, Some(400))),
            changes("10"),
            None,
        ),
        (
            refused(500),
            false,
            Some((InterruptionClass::Unavailable, Some(400))),
            changes("10"),
            None,
        ),
        (
            refused(429),
            false,
            Some((InterruptionClass::Throttled, Some(400))),
            changes("10"),
            None,
        ),
        (
            refused(401),
            false,
            Some((InterruptionClass::Unauthenticated, slow)),
            changes("10"),
            None,
        ),
        (
            refused(403),
            false,
            Some((InterruptionClass::Forbidden, slow)),
            Step::StreamedListing,
            Some(ListingCause::Forbidden),
        ),
        (
            refused(404),
            false,
            Some((InterruptionClass::NotInstalled, slow)),
            Step::StreamedListing,
            Some(ListingCause::NotInstalled),
        ),
        (
            refused(410),
            true,
            Some((InterruptionClass::Expired, Some(0))),
            Step::StreamedListing,
            Some(ListingCause::Expired),
        ),
        (
            refused(400),
            false,
            Some((InterruptionClass::Rejected, slow)),
            Step::StreamedListing,
            Some(ListingCause::Rejected),
        ),
        (
            Ending::Garbled("?".to_owned()),
            true,
            Some((InterruptionClass::Garbled, Some(400))),
            Step::StreamedListing,
            Some(ListingCause::Garbled),
        ),
        (
            Ending::Recalled,
            true,
            None,
            Step::StreamedListing,
            Some(ListingCause::Requested),
        ),
    ];
    for (ending, steady, expected, next, cause) in cases {
        let mut course = watching();
        let reaction = course.after(ending.clone(), steady, RANDOM);
        let expected = expected.map(|(class, millis)| (class, millis.unwrap()));
        assert_eq!(told(&reaction), expected, "{ending:?}");
        assert_eq!(course.next(true), next, "{ending:?}");
        if cause.is_some() {
            assert_eq!(course.listing_arrives(), cause, "{ending:?}");
        }
    }
}

#[test]
fn failures_in_a_row_wait_longer_until_something_works() {
    let mut course = watching();
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(course.after(broken(), false, RANDOM).wait.as_millis());
    }
    assert_eq!(waits, [400, 800, 1600, 3200]);
    let fifth = course
        .after(refused(503), false, RANDOM)
        .interruption
        .unwrap();
    assert_eq!(fifth.failures, 5);
    let after_success = course.after(broken(), true, RANDOM);
    assert_eq!(after_success.wait.as_millis(), 400);
    assert_eq!(after_success.interruption.unwrap().failures, 1);
}

#[test]
fn the_server_is_left_alone_for_as_long_as_it_asks() {
    let wait = |seconds| {
        let refusal = Refusal {
            code: 429,
            retry_after: Some(Duration::from_secs(seconds)),
            ..Refusal::default()
        };
        let mut course = watching();
        for _ in 0..2 {
            course.after(broken(), false, RANDOM);
        }
        course
            .after(Ending::Refused(refusal), false, RANDOM)
            .wait
            .as_millis()
    };
    assert_eq!(wait(9), 9000);
    assert_eq!(wait(1), 1600, "but never shorter than without its word");
}

#[test]
fn changes_move_the_position_and_objects_of_a_listing_do_not() {
    let mut course = streamed();
    course.next(true);
    course.listing_arrives();
    course.reached("7".to_owned());
    assert!(course.is_listing());
    course.listing_finished("10".to_owned());
    course.reached("12".to_owned());
    course.reached(String::new());
    course.after(Ending::Closed, true, RANDOM);
    assert_eq!(course.next(true), changes("12"));
}

#[test]
fn a_server_without_streamed_listings_is_asked_for_pages() {
    for code in [400, 422] {
        let mut course = streamed();
        assert_eq!(course.next(true), Step::StreamedListing);
        let reaction = course.after(refused(code), false, RANDOM);
        assert!(reaction.streaming_refused);
        assert_eq!(told(&reaction), None, "nobody need know");
        assert_eq!(reaction.wait, Duration::ZERO);
        assert_eq!(course.next(false), page(Some(500), None));
        assert_eq!(course.listing_arrives(), Some(ListingCause::Initial));

        let reaction = course.after(refused(code), false, RANDOM);
        assert!(!reaction.streaming_refused, "the page itself was refused");
        assert_eq!(told(&reaction), Some((InterruptionClass::Rejected, 37_500)));
    }
}

#[test]
fn pages_follow_each_other_and_survive_a_break() {
    let mut course = paged();
    assert_eq!(course.next(true), page(Some(500), None));
    assert_eq!(course.listing_arrives(), Some(ListingCause::Initial));
    course.page_follows("p2".to_owned());
    assert_eq!(
        course.after(Ending::PageRead, true, RANDOM),
        Reaction::default()
    );
    assert_eq!(course.next(true), page(Some(500), Some("p2")));
    assert_eq!(course.listing_arrives(), None, "still the same listing");
    course.after(broken(), false, RANDOM);
    assert_eq!(
        course.next(true),
        page(Some(500), Some("p2")),
        "the same page again"
    );
    assert_eq!(course.listing_arrives(), None);
    course.listing_finished("20".to_owned());
    assert_eq!(course.next(true), changes("20"));
}

#[test]
fn a_first_page_that_breaks_off_begins_a_new_listing() {
    for ending in [
        broken(),
        refused(429),
        refused(401),
        Ending::Silent,
        Ending::Closed,
    ] {
        let mut course = paged();
        course.next(true);
        assert_eq!(course.listing_arrives(), Some(ListingCause::Initial));
        course.after(ending.clone(), true, RANDOM);
        assert_eq!(course.next(true), page(Some(500), None));
        assert_eq!(
            course.listing_arrives(),
            Some(ListingCause::Unfinished),
            "{ending:?}"
        );
    }
}

#[test]
fn expired_pages_are_read_again_as_a_stream() {
    let mut course = paged();
    course.next(true);
    course.listing_arrives();
    course.page_follows("p2".to_owned());
    let reaction = course.after(refused(410), false, RANDOM);
    assert_eq!(told(&reaction), Some((InterruptionClass::Expired, 0)));
    assert_eq!(course.next(true), Step::StreamedListing);
    let reaction = course.after(refused(400), false, RANDOM);
    assert!(reaction.streaming_refused);
    assert_eq!(course.next(false), page(None, None), "there are no streams");
}

#[test]
fn a_list_that_takes_longer_than_history_lasts_is_streamed() {
    let mut course = paged();
    for expected in [page(Some(500), None), Step::StreamedListing] {
        course.listing_arrives();
        course.listing_finished("10".to_owned());
        course.after(refused(410), false, RANDOM);
        assert_eq!(course.next(true), expected);
    }
    course.listing_arrives();
    course.listing_finished("20".to_owned());
    course.reached("21".to_owned());
    course.after(refused(410), true, RANDOM);
    assert_eq!(course.next(true), page(Some(500), None), "history lasted");
}

#[test]
fn expired_pages_are_read_again_as_one_where_nothing_streams() {
    let mut course = paged();
    course.next(false);
    course.listing_arrives();
    course.page_follows("p2".to_owned());
    course.after(refused(410), false, RANDOM);
    assert_eq!(course.next(false), page(None, None));
    assert_eq!(course.listing_arrives(), Some(ListingCause::Expired));
    course.after(broken(), false, RANDOM);
    assert_eq!(
        course.next(false),
        page(None, None),
        "a break does not bring the pages back"
    );
    assert_eq!(course.listing_arrives(), Some(ListingCause::Unfinished));
    course.listing_finished("30".to_owned());
    course.reached("31".to_owned());
    course.after(refused(410), true, RANDOM);
    assert_eq!(
        course.next(false),
        page(Some(500), None),
        "the next listing is paged again"
    );
}

#[test]
fn streamed_listings_that_break_off_twice_are_paged() {
    for ending in [broken(), Ending::Closed, Ending::Silent, refused(503)] {
        let mut course = streamed();
        for cause in [ListingCause::Initial, ListingCause::Unfinished] {
            assert_eq!(course.next(true), Step::StreamedListing);
            assert_eq!(course.listing_arrives(), Some(cause), "{ending:?}");
            let reaction = course.after(ending.clone(), true, RANDOM);
            assert_eq!(
                told(&reaction),
                Some((InterruptionClass::Unavailable, 400)),
                "{ending:?}"
            );
        }
        assert_eq!(course.next(true), page(Some(500), None), "{ending:?}");
        course.listing_arrives();
        course.listing_finished("40".to_owned());
        course.after(refused(410), true, RANDOM);
        assert_eq!(
            course.next(true),
            Step::StreamedListing,
            "only this one listing"
        );
    }
}

#[test]
fn a_server_that_is_away_changes_nothing_about_the_listing() {
    let mut course = streamed();
    for _ in 0..5 {
        assert_eq!(course.next(true), Step::StreamedListing);
        course.after(broken(), false, RANDOM);
    }
    assert_eq!(course.next(true), Step::StreamedListing);
    assert_eq!(course.listing_arrives(), Some(ListingCause::Initial));
}

#[test]
fn history_that_is_gone_again_and_again_makes_patient() {
    let mut course = watching();
    let mut waits = Vec::new();
    for _ in 0..4 {
        waits.push(course.after(refused(410), true, RANDOM).wait.as_millis());
        course.next(true);
        course.listing_arrives();
        course.listing_finished("50".to_owned());
    }
    assert_eq!(waits, [0, 400, 800, 1600]);
    course.reached("51".to_owned());
    assert_eq!(
        course.after(refused(410), true, RANDOM).wait,
        Duration::ZERO
    );
}
