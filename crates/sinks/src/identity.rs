//! Who a sink is to a cloud: tokens that are exchanged for keys, fetched through the guarded way out
//! and kept until shortly before they end.

#[cfg(any(feature = "bigquery", feature = "object-store"))]
pub(crate) mod google;
pub mod workload;
