//! CEL as its users see it: vectors, limits, error texts and reads.

mod limits;
mod vectors;
