//! The plan, from worlds written as data.

mod access;
mod delta;
mod inventory_rows;
mod metadata;
mod namespaces;
mod reuse;
mod states;
#[path = "../plan_support/mod.rs"]
mod support;
