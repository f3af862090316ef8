//! What rows profiles make of objects.

mod better;
mod docs;
mod events;
mod laws;
mod series;
mod support;
mod vectors;
