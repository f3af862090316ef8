//! Names that change their address between two questions.

use kollect_sinks::SinkError;

use crate::{
    door::{ALLOWED, Doors, FORBIDDEN, Manners},
    kind::{ALL, Kind},
    resolver::{Turns, only_allowed},
};

const NAME: &str = "moving.example.com";
/// As often a client asks at least, so that each answer was given twice.
const LOOKUPS: usize = 4;

/// Lets one client connect again and again, by itself or because it is asked to, while the name
/// moves to and fro.
async fn stays_where_it_may(kind: Kind, answers: [&[&str]; 2]) {
    let doors = Doors::open(match kind {
        Kind::Nats => Manners::greeting("INFO {\"max_payload\":1024} \r\n"),
        _ => Manners::default(),
    })
    .await;
    let turns = Turns::new(&answers);
    let dialer = turns.dialer(only_allowed());
    let subject = kind.subject(dialer, NAME, doors.port).await;
    let mut refusals = 0;
    while turns.lookups() < LOOKUPS {
        let failure = subject.work(NAME, doors.port).await;
        if let Some(SinkError::Terminal(text)) = failure {
            assert!(text.contains(FORBIDDEN), "{kind:?}: {text}");
            refusals += 1;
        }
    }
    assert_eq!(doors.forbidden.callers().await, 0, "{kind:?}");
    assert!(doors.allowed.callers().await >= 1, "{kind:?}");
    let reached = doors.allowed.heard(|bytes| kind.says(bytes));
    assert!(reached, "{kind:?} did not say its first words");
    // Whether the last word is a refusal depends on whose turn it was.
    if matches!(kind, Kind::Plain | Kind::Http) {
        assert!(refusals >= 1, "{kind:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_turns_bad_is_not_followed() {
    for kind in ALL {
        stays_where_it_may(kind, [&[ALLOWED], &[FORBIDDEN]]).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_turns_good_is_followed_then() {
    for kind in ALL {
        stays_where_it_may(kind, [&[FORBIDDEN], &[ALLOWED]]).await;
    }
}

/// One bad address among good ones, in either order, and not even the good one is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_with_a_bad_address_is_not_called_at_all() {
    for kind in ALL {
        let doors = Doors::open(Manners::default()).await;
        let turns = Turns::new(&[&[ALLOWED, FORBIDDEN][..], &[FORBIDDEN, ALLOWED]]);
        let subject = kind
            .subject(turns.dialer(only_allowed()), NAME, doors.port)
            .await;
        while turns.lookups() < 2 {
            let failure = subject.work(NAME, doors.port).await;
            assert!(
                matches!(failure, Some(SinkError::Terminal(_))),
                "{kind:?}: {failure:?}"
            );
        }
        assert_eq!(doors.allowed.callers().await, 0, "{kind:?}");
        assert_eq!(doors.forbidden.callers().await, 0, "{kind:?}");
    }
}
