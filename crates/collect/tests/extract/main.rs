//! What rows profiles make of objects.

mod better;
mod budgets;
mod decoding;
mod docs;
mod laws;
mod names;
mod series;
mod support;
mod vectors;
