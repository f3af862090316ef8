//! Authority and certificate through time, with a clock that the tests turn.

use std::time::Duration;

use jiff::Timestamp;

use super::*;

const DAY: i64 = 24 * 3600;

fn names() -> Vec<String> {
    ["kollect-webhook-service.kollect-system.svc", "127.0.0.1"]
        .map(str::to_owned)
        .to_vec()
}

fn at(days: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + days * DAY).expect("a time")
}

fn seconds_after(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_second(time.as_second() + seconds).expect("a time")
}

fn anew(now: Timestamp) -> Content {
    let step = Step::Replace(Unfit::Absent);
    let made = take(&step, None, &names(), now, &Terms::default()).expect("made");
    made.expect("a content")
}

fn next(now: Timestamp, content: &Content) -> Step {
    decide(now, Ok(content), &names(), &Terms::default())
}

fn follow(now: Timestamp, content: &Content) -> Content {
    let step = next(now, content);
    let made = take(&step, Some(content), &names(), now, &Terms::default()).expect("made");
    made.unwrap_or_else(|| content.clone())
}

#[test]
fn what_is_made_is_kept_and_survives_the_secret() {
    let content = anew(at(0));
    assert_eq!(next(at(0), &content), Step::Keep);
    let read = Content::read(&content.write()).expect("readable");
    assert_eq!(read, content);
    assert_eq!(next(at(0), &read), Step::Keep);
    assert_eq!(
        content.ends().map(Timestamp::as_second),
        Some(at(90).as_second())
    );
    assert!(
        !format!("{content:?}").contains("PRIVATE"),
        "keys are not printed"
    );
}

#[test]
fn certificates_are_renewed_at_two_thirds_of_their_life_and_authorities_change_without_a_gap() {
    let mut content = anew(at(0));
    // Day, what is to be done, how many authorities are trusted after it.
    let hour = 3600;
    for (now, expected, trusted) in [
        (at(0), Step::Keep, 1),
        (at(59), Step::Keep, 1),
        (at(60), Step::Renew("two thirds of its life are over"), 1),
        (at(60), Step::Keep, 1),
        (at(120), Step::Renew("two thirds of its life are over"), 1),
        (at(180), Step::Renew("two thirds of its life are over"), 1),
        (at(239), Step::Keep, 1),
        (at(240), Step::Announce, 2),
        // Due as well, and of the old authority: the new one is not known everywhere yet.
        (at(240), Step::Renew("two thirds of its life are over"), 2),
        (seconds_after(at(240), hour - 1), Step::Keep, 2),
        (seconds_after(at(240), hour), Step::Switch, 2),
        (seconds_after(at(240), 2 * hour - 1), Step::Keep, 2),
        (seconds_after(at(240), 2 * hour), Step::Retire, 1),
        (seconds_after(at(240), 2 * hour), Step::Keep, 1),
        (at(300), Step::Keep, 1),
        (at(301), Step::Renew("two thirds of its life are over"), 1),
    ] {
        assert_eq!(next(now, &content), expected, "{now}");
        let before = content.clone();
        content = follow(now, &content);
        let bundle = content.bundle();
        let count = bundle.matches("BEGIN CERTIFICATE").count();
        assert_eq!(count, trusted, "{now}: {expected:?}");
        // Replicas that have not seen the step yet serve what was served before.
        if expected == Step::Switch || expected == Step::Announce {
            assert!(bundle.contains(before.authority.certificate.trim()));
        }
        let read = Content::read(&content.write()).expect("readable");
        assert_eq!(read, content, "{expected:?}");
    }
}

#[test]
fn nothing_outlives_its_authority() {
    let content = anew(at(0));
    let terms = Terms {
        serving: Duration::from_hours(1000 * 24),
        ..Terms::default()
    };
    let step = Step::Renew("");
    let content = take(&step, Some(&content), &names(), at(1), &terms);
    let content = content.expect("made").expect("a content");
    assert_eq!(
        content.ends().map(Timestamp::as_second),
        Some(at(360).as_second())
    );
}

#[test]
fn clocks_may_be_two_hours_off() {
    let hours = |hours: i64| seconds_after(at(0), hours * 3600);
    let content = anew(at(0));
    for reader in [-2, -1, 0, 1, 2] {
        assert_eq!(next(hours(reader), &content), Step::Keep, "{reader} h");
    }
    // Whoever is ahead made it: it holds already by every clock that is at most two hours off.
    let content = anew(hours(2));
    for reader in [-1, 0, 2] {
        assert_eq!(next(hours(reader), &content), Step::Keep, "{reader} h");
    }
    let validity = Validity::of(&der(&content.serving.certificate)).expect("a certificate");
    assert!(validity.from <= hours(0) && validity.from <= hours(-1));
    // Two replicas far apart do not replace each other's for ever.
    let content = anew(at(30));
    assert_eq!(next(at(0), &content), Step::Keep);
}

fn der(text: &str) -> Vec<u8> {
    use rustls::pki_types::{CertificateDer, pem::PemObject as _};
    let der = CertificateDer::from_pem_slice(text.as_bytes());
    der.expect("a certificate").to_vec()
}

#[test]
fn broken_and_foreign_contents_are_replaced() {
    let (ours, foreign) = (anew(at(0)), anew(at(0)));
    let mut other_names = ours.clone();
    let terms = Terms::default();
    let elsewhere = ["elsewhere.example".to_owned()];
    let renewed = take(&Step::Renew(""), Some(&ours), &elsewhere, at(0), &terms);
    other_names.serving = renewed.expect("made").expect("a content").serving;
    let with = |change: &dyn Fn(&mut Content)| {
        let mut content = ours.clone();
        change(&mut content);
        content
    };
    let garbage = || "garbage".to_owned();
    for (what, content) in [
        (
            "serving certificate",
            with(&|c| c.serving = foreign.serving.clone()),
        ),
        (
            "certificate alone",
            with(&|c| c.serving.certificate = foreign.serving.certificate.clone()),
        ),
        (
            "key alone",
            with(&|c| c.serving.key = foreign.serving.key.clone()),
        ),
        (
            "authority",
            with(&|c| c.authority = foreign.authority.clone()),
        ),
        (
            "authority's key",
            with(&|c| c.authority.key = foreign.authority.key.clone()),
        ),
        (
            "no certificate",
            with(&|c| c.serving.certificate = garbage()),
        ),
        ("no key", with(&|c| c.serving.key = garbage())),
        (
            "no authority",
            with(&|c| c.authority.certificate = garbage()),
        ),
        (
            "no key of the authority",
            with(&|c| c.authority.key = garbage()),
        ),
        ("self-signed", with(&|c| c.serving = c.authority.clone())),
    ] {
        let step = next(at(0), &content);
        assert!(matches!(step, Step::Replace(_)), "{what}: {step:?}");
        let replaced = follow(at(0), &content);
        assert_eq!(next(at(0), &replaced), Step::Keep, "{what}");
    }
    assert_eq!(
        next(at(0), &other_names),
        Step::Renew("it is not for all names")
    );
    assert_eq!(
        next(at(0), &foreign),
        Step::Keep,
        "as a whole it is as good as ours"
    );
    for key in ["ca.crt", "ca.key", "tls.crt", "tls.key"] {
        let mut data = ours.write();
        data.remove(key);
        Content::read(&data).expect_err(key);
        data.insert(key.to_owned(), k8s_openapi::ByteString(vec![0xff, 0xfe]));
        let content = Content::read(&data);
        let step = match &content {
            Ok(content) => next(at(0), content),
            Err(unusable) => {
                let unfit = Err(unusable.clone().into());
                decide(at(0), unfit, &names(), &terms)
            }
        };
        assert!(matches!(step, Step::Replace(_)), "{key}: {step:?}");
    }
    // All long ended, as in a cluster that slept for years.
    assert_eq!(next(at(2000), &ours), Step::Replace(Unfit::Ended));
}
