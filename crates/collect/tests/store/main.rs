//! The store, alone and driven by plans.

mod bounds;
mod engine;
mod histories;
mod server;
mod shell;
mod subscriptions;
#[path = "../plan_support/mod.rs"]
mod support;
mod threads;
mod writes;
