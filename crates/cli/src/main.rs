//! The `kollect` program.
fn main() {}
