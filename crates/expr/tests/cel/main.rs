//! CEL as its users see it: vectors, limits, error texts and reads.

mod allocations;
mod documentation;
mod errors;
mod expressions;
mod golden;
mod limits;
mod properties;
mod reads;
mod vectors;
