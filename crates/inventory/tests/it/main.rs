//! The crate as its users see it: vectors from `tests/data`, and laws checked on arbitrary input.

mod any;
mod attributes;
mod canonical;
mod delta;
mod documents;
mod items;
mod rollups;
mod vectors;
