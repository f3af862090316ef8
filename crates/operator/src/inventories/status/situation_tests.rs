//! Situations, from what the sinks of an inventory do.

use kollect_api::reference::SinkFamily;
use kollect_export::report::LaneState;

use super::*;

fn lane(name: &str) -> LaneReport {
    LaneReport {
        key: SinkKey {
            family: SinkFamily::Database,
            namespace: "team-a".to_owned(),
            name: name.to_owned(),
        },
        state: LaneState::Behind,
        last_export: None,
        confirmed_at: None,
        skipped: None,
        read_back: None,
        often: None,
    }
}

fn bad(reason: Reason, class: FailureClass) -> Standing {
    Standing::Bad(reason, "broken".to_owned(), class)
}

#[test]
fn failures_share_one_word() {
    use FailureClass::{Terminal, Transient};
    use Reason::{ExportFailed, ExportTerminal, SinkNotFound};

    let (a, b) = (lane("a"), lane("b"));
    for (first, second, expected) in [
        (
            (ExportFailed, Transient),
            (ExportFailed, Transient),
            ExportFailed,
        ),
        (
            (ExportFailed, Transient),
            (ExportFailed, Terminal),
            ExportFailed,
        ),
        (
            (ExportFailed, Terminal),
            (ExportFailed, Terminal),
            ExportTerminal,
        ),
        (
            (SinkNotFound, Terminal),
            (ExportFailed, Transient),
            SinkNotFound,
        ),
        // The first by name decides.
        (
            (ExportFailed, Terminal),
            (SinkNotFound, Terminal),
            ExportTerminal,
        ),
    ] {
        let of = |(reason, class): (Reason, FailureClass)| bad(reason, class);
        let standings = [(&b, of(second)), (&a, of(first))];
        let failures = Failures::of(&standings).expect("two failures");
        assert_eq!(failures.reason, expected, "{first:?} {second:?}");
        assert_eq!((failures.number, &*failures.text), (2, "broken\nbroken"));
    }
    assert_eq!(
        Failures::of(&[(&a, Standing::Good), (&b, Standing::Behind)]),
        None
    );
}

#[test]
fn only_what_lasts_is_told() {
    let failures = Failures::of(&[(
        &lane("a"),
        bad(Reason::ExportFailed, FailureClass::Transient),
    )]);
    let failures = failures.expect("a failure");
    for (situation, passes_by) in [
        (Situation::WaitingForTargets(&[], &[]), true),
        (Situation::Delivering(1), true),
        (Situation::WithoutSinks, false),
        (Situation::Delivered, false),
        (Situation::PartlyFailed(1, failures.clone()), false),
        (Situation::Failed(failures), false),
    ] {
        assert_eq!(situation.passes_by(), passes_by, "{situation:?}");
    }
}
