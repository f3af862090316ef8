//! One object as the expressions of a profile see it.

use std::cell::OnceCell;

use serde_json::Value;

use crate::guard::{SecretData, StandIn, guarded};
use crate::helm_release::{self, ReleaseError};
use crate::redact::ScrubKeys;

/// An object and what is derived from it once, when the first expression asks for it.
pub(crate) struct Source<'o> {
    object: &'o Value,
    keys: &'o ScrubKeys,
    data: SecretData,
    /// For JSONPaths, which hand values on.
    marked: OnceCell<Option<Value>>,
    /// For CEL, which works with values.
    worded: OnceCell<Option<Value>>,
    /// For rules that remove parts of a copy of the object.
    copied: OnceCell<Option<Value>>,
    release: OnceCell<Result<Value, ReleaseError>>,
}

impl<'o> Source<'o> {
    /// `data` says what a guarded expression sees of what a Secret keeps.
    pub(crate) fn new(object: &'o Value, keys: &'o ScrubKeys, data: SecretData) -> Self {
        Source {
            object,
            keys,
            data,
            marked: OnceCell::new(),
            worded: OnceCell::new(),
            copied: OnceCell::new(),
            release: OnceCell::new(),
        }
    }

    /// The object as it is.
    pub(crate) fn object(&self) -> &Value {
        self.object
    }

    /// The object for a JSONPath that could take apart what must stay together.
    pub(crate) fn for_path(&self) -> &Value {
        self.guarded(&self.marked, self.data, StandIn::Mark)
    }

    /// The object for such a CEL expression.
    pub(crate) fn for_program(&self) -> &Value {
        self.guarded(&self.worded, self.data, StandIn::Text)
    }

    /// The object for a copy of it. The keys of what a Secret keeps are written anyway.
    pub(crate) fn for_copy(&self) -> &Value {
        let data = match self.data {
            SecretData::Shown => SecretData::Shown,
            SecretData::Gone | SecretData::Keys => SecretData::Keys,
        };
        self.guarded(&self.copied, data, StandIn::Mark)
    }

    fn guarded<'s>(
        &'s self,
        cell: &'s OnceCell<Option<Value>>,
        data: SecretData,
        stand_in: StandIn,
    ) -> &'s Value {
        cell.get_or_init(|| guarded(self.object, self.keys, data, stand_in))
            .as_ref()
            .unwrap_or(self.object)
    }

    /// The Helm release in the object.
    pub(crate) fn release(&self) -> Result<&Value, ReleaseError> {
        let release = self
            .release
            .get_or_init(|| helm_release::document(self.object));
        release.as_ref().map_err(|error| *error)
    }
}
