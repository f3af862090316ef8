//! Answers to commands that write.

use mongodb::bson::{Bson, Document};

use super::fault::{Fault, classed, sentence, unconfirmed_heals};

/// A write that the server did, and could not confirm.
pub(super) fn unconfirmed(stage: &str, answer: &Document) -> Option<Fault> {
    let error = answer.get_document("writeConcernError").ok()?;
    let code = code(error);
    let name = error.get_str("codeName").unwrap_or_default();
    Some(Fault {
        error: classed(code, sentence(stage, code, name)),
        again: unconfirmed_heals(code),
        code: Some(code),
    })
}

/// Which statements failed, with the codes.
pub(super) fn errors(answer: &Document) -> impl Iterator<Item = (usize, i32)> {
    let errors = answer.get_array("writeErrors").ok().into_iter().flatten();
    errors.filter_map(Bson::as_document).map(|error| {
        let place = error.get_i32("index").ok();
        let place = place.and_then(|place| usize::try_from(place).ok());
        // A place that is none is taken for the first: a failure is not lost.
        (place.unwrap_or(0), code(error))
    })
}

fn code(error: &Document) -> i32 {
    error.get_i32("code").unwrap_or(0)
}

/// A number of documents, as far as it can be true.
pub(super) fn number(answer: &Document, field: &str, most: usize) -> u64 {
    let said = match answer.get(field) {
        Some(Bson::Int32(number)) => i64::from(*number),
        Some(Bson::Int64(number)) => *number,
        _ => 0,
    };
    // Sums of such numbers stay far from overflowing.
    let said = said.clamp(0, 1 << 40).unsigned_abs();
    said.min(most as u64)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::doc;

    use super::*;

    #[test]
    fn counts_are_not_believed_blindly() {
        for (said, most, taken) in [
            (Bson::Int32(7), 10, 7),
            (Bson::Int32(-1), 10, 0),
            (Bson::Int64(i64::MAX), 10, 10),
            (Bson::Int64(i64::MIN), 10, 0),
            (Bson::Double(3.0), 10, 0),
        ] {
            assert_eq!(number(&doc! {"n": said}, "n", most), taken);
        }
        assert_eq!(number(&doc! {"n": i64::MAX}, "n", usize::MAX), 1 << 40);
        assert_eq!(number(&doc! {}, "n", 5), 0);
    }

    #[test]
    fn no_failure_of_a_statement_is_lost() {
        let answer = doc! {"writeErrors": [
            {"index": 3, "code": 121},
            {"index": -1, "code": 7},
            {"code": "x"},
            "nonsense",
        ]};
        let found: Vec<_> = errors(&answer).collect();
        assert_eq!(found, [(3, 121), (0, 7), (0, 0)]);
        assert_eq!(errors(&doc! {}).count(), 0);
    }

    #[test]
    fn what_is_not_confirmed_is_no_success() {
        assert!(unconfirmed("s", &doc! {"ok": 1}).is_none());
        for (code, again) in [(64, false), (91, true), (100, false)] {
            let answer = doc! {"ok": 1, "writeConcernError": {"code": code, "codeName": "X"}};
            let fault = unconfirmed("s", &answer).unwrap();
            assert_eq!(fault.again, again, "{code}");
        }
    }
}
