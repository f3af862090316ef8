//! Object stores, on real servers.

mod conformance;
mod kills;
mod lake;
mod liar;
mod lies;
mod s3;
mod stage;
