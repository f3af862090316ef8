//! The whole collection on a real API server, through everything that can happen to it.
//!
//! After every scenario the store must equal a fresh list of the cluster, run through the same
//! extractor: nothing lost, nothing invented, nothing stale.

mod blocked;
mod operator;
mod scenarios;
mod secrets;
mod stage;
mod tenancy;
mod writes;
