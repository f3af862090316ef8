//! Object stores, on real servers.

mod conformance;
mod identity;
mod kills;
mod kinds;
mod lake;
mod liar;
mod lies;
mod places;
mod s3;
mod stage;
