//! Names that change their address between two questions.

use kollect_sinks::SinkError;

use crate::{
    door::{ALLOWED, Doors, FORBIDDEN, Manners},
    kind::Kind,
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
    while turns.lookups() < LOOKUPS {
        // Whether the last word is a refusal depends on whose turn it was.
        if let Some(SinkError::Terminal(text)) = subject.work(NAME, doors.port).await {
            assert!(text.contains(FORBIDDEN), "{kind:?}: {text}");
        }
    }
    assert_eq!(doors.forbidden.callers().await, 0, "{kind:?}");
    assert!(doors.allowed.callers().await >= 1, "{kind:?}");
    let reached = doors.allowed.heard(|bytes| kind.says(bytes)).await;
    assert!(reached, "{kind:?} did not say its first words");
}

async fn turns_bad(kind: Kind) {
    stays_where_it_may(kind, [&[ALLOWED], &[FORBIDDEN]]).await;
}

mod a_name_that_turns_bad_is_not_followed {
    crate::for_each_kind!(super::turns_bad);
}

async fn turns_good(kind: Kind) {
    stays_where_it_may(kind, [&[FORBIDDEN], &[ALLOWED]]).await;
}

mod a_name_that_turns_good_is_followed_then {
    crate::for_each_kind!(super::turns_good);
}

/// One bad address among good ones, in either order, and not even the good one is called.
async fn stays_away(kind: Kind) {
    for answer in [[ALLOWED, FORBIDDEN], [FORBIDDEN, ALLOWED]] {
        let doors = Doors::open(Manners::default()).await;
        let dialer = Turns::new(&[&answer[..]]).dialer(only_allowed());
        let subject = kind.subject(dialer, NAME, doors.port).await;
        let failure = subject.failure(NAME, doors.port).await;
        assert!(
            matches!(failure, Some(SinkError::Terminal(_))),
            "{kind:?}: {failure:?}"
        );
        assert_eq!(doors.allowed.callers().await, 0, "{kind:?}");
        assert_eq!(doors.forbidden.callers().await, 0, "{kind:?}");
    }
}

mod a_name_with_a_bad_address_is_not_called_at_all {
    crate::for_each_kind!(super::stays_away);
}
