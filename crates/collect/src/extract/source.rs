//! One object as the attributes of a profile see it.

use std::cell::OnceCell;

use serde_json::Value;

use super::secret;
use crate::helm_release::{self, ReleaseError};

/// An object and what is derived from it once, when the first attribute asks for it.
pub(super) struct Source<'o> {
    object: &'o Value,
    guarded: OnceCell<Value>,
    release: OnceCell<Result<Value, ReleaseError>>,
}

impl<'o> Source<'o> {
    pub(super) fn new(object: &'o Value) -> Self {
        Source {
            object,
            guarded: OnceCell::new(),
            release: OnceCell::new(),
        }
    }

    /// The object as it is.
    pub(super) fn object(&self) -> &Value {
        self.object
    }

    /// The object without what a Secret keeps.
    pub(super) fn guarded(&self) -> &Value {
        self.guarded.get_or_init(|| secret::guarded(self.object))
    }

    /// The Helm release in the object.
    pub(super) fn release(&self) -> Result<&Value, ReleaseError> {
        let release = self
            .release
            .get_or_init(|| helm_release::document(self.object));
        release.as_ref().map_err(|error| *error)
    }
}
