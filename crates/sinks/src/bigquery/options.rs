//! `spec.options` of a BigQuery sink.

use kollect_api::sink::common::SinkCommon;

use crate::error::SinkError;

/// What can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Options {
    /// Whether a new table has a partition for each day.
    pub(super) partitioned: bool,
}

impl Options {
    /// As the spec says. What is not known is refused: whoever sets it relies on it.
    pub(super) fn of(common: &SinkCommon) -> Result<Self, SinkError> {
        let mut options = Self { partitioned: true };
        for (key, value) in &common.options {
            match (key.as_str(), value.trim()) {
                ("partitioning", "day") => options.partitioned = true,
                ("partitioning", "none") => options.partitioned = false,
                ("partitioning", _) => {
                    return Err(SinkError::terminal(
                        "spec.options[partitioning]: it is day or none",
                    ));
                }
                _ => {
                    return Err(SinkError::terminal(format!(
                        "spec.options[{key}] is not known to bigquery sinks; remove it"
                    )));
                }
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_known_or_refused() {
        for (key, value, expected) in [
            ("partitioning", "day", Ok(true)),
            ("partitioning", " none ", Ok(false)),
            ("partitioning", "hour", Err("day or none")),
            ("statement_timeout", "1", Err("not known")),
        ] {
            let common = SinkCommon {
                options: [(key.to_owned(), value.to_owned())].into(),
                ..SinkCommon::default()
            };
            match (Options::of(&common), expected) {
                (Ok(options), Ok(partitioned)) => assert_eq!(options.partitioned, partitioned),
                (Err(error), Err(part)) => assert!(error.message().contains(part), "{error}"),
                (found, expected) => panic!("{found:?} instead of {expected:?}"),
            }
        }
        assert!(Options::of(&SinkCommon::default()).unwrap().partitioned);
    }
}
