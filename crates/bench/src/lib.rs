//! What the benchmarks have in common: workloads, measuring, and bars that must hold.
//!
//! Figures are ratios within one run: times of two things measured alternately on the same
//! machine, so that a busy or slow one changes both. Times and allocations are measured by
//! different programs, because counting allocations costs more the more there are, and would
//! flatter whatever avoids them.

pub mod bar;
pub mod cluster;
pub mod load;
pub mod measure;
pub mod one_table;
pub mod process;
pub mod program;
pub mod requests;
pub mod rows;
pub mod tenants;
pub mod workload;
