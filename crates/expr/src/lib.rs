//! The expression languages of a profile: CEL, JSONPath, Helm release fields and JSON Pointer.
//!
//! Every expression is compiled once into an immutable program that is `Send + Sync`, and then
//! evaluated any number of times against a borrowed object. Evaluation copies nothing out of the
//! object: results are [`Output`] values that borrow from it, and the caller decides what to do
//! with them (write them as canonical JSON, compare them, drop them).
//!
//! The crate is pure: no I/O, no clock, no async, no unsafe code. Each evaluation is bounded in
//! steps and in the size of what it builds, and so is all that belongs together ([`Allowance`],
//! [`CompileBudget`]), so an expression written by a tenant can neither hang nor crash the process. Errors name paths and JSON types, never values.

pub mod attribute;
mod budget;
pub mod cel;
pub mod duration;
mod excerpt;
pub mod helm;
pub mod json_type;
pub mod jsonpath;
pub mod output;
pub mod pointer;
pub mod reads;
pub mod removals;

pub use attribute::AttributePath;
pub use budget::{Allowance, CompileBudget};
pub use json_type::JsonType;
pub use output::Output;
pub use reads::{Extent, ReadNode, ReadSet, Step};
pub use removals::Removals;
