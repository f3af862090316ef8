//! Whether a target takes an object.

mod rules;
mod selectors;
mod signals;
#[path = "../plan_support/mod.rs"]
mod support;
