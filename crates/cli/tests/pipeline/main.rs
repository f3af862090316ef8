//! The pipeline commands of the built program: what they print where, what they write, and their
//! exit codes.

mod cases;
mod live;
mod program;
mod sinks;
