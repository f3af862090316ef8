//! What rows profiles make of objects.

mod better;
mod decoding;
mod docs;
mod laws;
mod series;
mod support;
mod vectors;
