//! Leader election against a real API server: replicas with a network of their own each.

mod interop;
mod replica;
mod scenarios;
