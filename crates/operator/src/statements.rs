//! What is to be said in the conditions of an object, decided first and written down afterwards.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::condition::{self, Condition, ConditionStatus, ConditionType, Reason};

/// One change of the conditions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Statement {
    /// The condition says this.
    Says(ConditionType, ConditionStatus, Reason, String),
    /// The condition says this if it has said nothing so far.
    SaysAtFirst(ConditionType, ConditionStatus, Reason, String),
    /// The condition has nothing to say any more.
    Ends(ConditionType),
}

impl Statement {
    /// The condition says this.
    pub fn says(
        type_: ConditionType,
        status: ConditionStatus,
        reason: Reason,
        message: impl Into<String>,
    ) -> Self {
        Self::Says(type_, status, reason, message.into())
    }

    /// Whether it is about this condition.
    pub fn is_about(&self, wanted: ConditionType) -> bool {
        let (Self::Says(type_, ..) | Self::SaysAtFirst(type_, ..) | Self::Ends(type_)) = self;
        *type_ == wanted
    }
}

/// Writes statements about one generation down.
pub fn apply(
    conditions: &mut Vec<Condition>,
    statements: impl IntoIterator<Item = Statement>,
    generation: Option<i64>,
    now: &Time,
) {
    for statement in statements {
        match statement {
            Statement::SaysAtFirst(type_, ..) if find(conditions, type_).is_some() => {}
            Statement::Says(type_, status, reason, message)
            | Statement::SaysAtFirst(type_, status, reason, message) => {
                let said = Condition::new(type_, status, reason, message, generation, now.clone());
                condition::set(conditions, said);
            }
            Statement::Ends(type_) => {
                condition::remove(conditions, type_);
            }
        }
    }
}

/// The reason of the event about an object whose reconcile panicked.
pub const RECONCILE_PANIC: &str = "ReconcilePanic";

/// What the event about such an object says. It is no condition of the object, and the text of the
/// panic is in the log alone: it may contain anything.
pub fn panic_condition(now: Time) -> Condition {
    Condition {
        type_: ConditionType::Degraded.as_str().to_owned(),
        status: ConditionStatus::True,
        reason: RECONCILE_PANIC.to_owned(),
        message: "panic recovered; it is tried again, at least once a minute; the log of the \
                  operator has the cause, which is worth a report to its developers"
            .to_owned(),
        last_transition_time: now,
        observed_generation: None,
    }
}

/// What a condition says.
pub fn find(conditions: &[Condition], type_: ConditionType) -> Option<&Condition> {
    conditions
        .iter()
        .find(|condition| condition.type_ == type_.as_str())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn statements_are_made_repeated_and_taken_back() {
        let now = Time(Timestamp::UNIX_EPOCH);
        let mut conditions = Vec::new();
        let ready =
            |reason| Statement::says(ConditionType::Ready, ConditionStatus::True, reason, "fine");
        apply(&mut conditions, [ready(Reason::Collecting)], Some(1), &now);
        let first = Statement::SaysAtFirst(
            ConditionType::Ready,
            ConditionStatus::False,
            Reason::Progressing,
            "not yet".to_owned(),
        );
        apply(&mut conditions, [first.clone()], Some(1), &now);
        let said = find(&conditions, ConditionType::Ready).unwrap();
        assert_eq!(said.reason, "Collecting", "it was there before");
        let ends = Statement::Ends(ConditionType::Ready);
        apply(&mut conditions, [ends, first], Some(2), &now);
        let said = find(&conditions, ConditionType::Ready).unwrap();
        assert_eq!(said.reason, "Progressing");
        assert_eq!(said.observed_generation, Some(2));
        assert!(find(&conditions, ConditionType::Synced).is_none());
    }
}
