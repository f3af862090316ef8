//! What rows profiles make of objects.

mod better;
mod events;
mod laws;
mod series;
mod support;
mod vectors;
