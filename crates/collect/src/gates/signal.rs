//! Opting in and out, by label or annotation.

use std::collections::BTreeMap;

use kollect_api::meta;

/// What a label or annotation says about being collected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Collect, even where collecting is the exception.
    Enabled,
    /// Do not collect.
    Disabled,
}

impl Signal {
    /// Reads a value; anything but the two exact words counts as absent.
    pub fn read(value: Option<&str>) -> Option<Self> {
        match value? {
            "enabled" => Some(Signal::Enabled),
            "disabled" => Some(Signal::Disabled),
            _ => None,
        }
    }

    /// What a namespace says with its label and its annotation; where they disagree the refusal
    /// wins.
    pub fn of_namespace(
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let read = |map: &BTreeMap<String, String>, key| Signal::read(map.get(key).map(|v| &**v));
        let signals = [
            read(labels, meta::WATCH_LABEL),
            read(annotations, meta::NAMESPACE_WATCH_ANNOTATION),
        ];
        [Signal::Disabled, Signal::Enabled]
            .into_iter()
            .find(|signal| signals.contains(&Some(*signal)))
    }
}
