//! The kinds against their vectors: on a real API server and by the rule library.

mod apiserver;
mod rules;
mod vectors;
