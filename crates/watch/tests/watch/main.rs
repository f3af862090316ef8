//! Sources on a real API server. After every scenario the consumer's state equals a fresh list.

mod connections;
mod faults;
mod lifecycle;
mod listing;
mod mirror;
mod oddities;
mod rights;
mod setup;
mod streaming;
