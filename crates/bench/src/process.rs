//! What the kernel knows about a running process.

pub use kollect_testkit::usage::{Usage, connections, family_cpu, usage};
