//! The pipeline commands of the built program: what they print where, what they write, and their
//! exit codes.

mod cases;
mod diff;
mod documents;
mod interrupt;
mod live;
mod program;
mod shown;
mod sinks;
mod terminal;
