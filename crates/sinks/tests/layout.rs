//! What layouts make of rows: vectors from a data file, and laws that hold for any rows.

#[path = "layout/algebra.rs"]
mod algebra;
#[path = "layout/bodies.rs"]
mod bodies;
#[path = "layout/plans.rs"]
mod plans;
#[path = "layout/rights.rs"]
mod rights;
#[path = "layout/rows.rs"]
mod rows;
#[path = "layout/times.rs"]
mod times;
#[path = "layout/vectors.rs"]
mod vectors;
#[path = "layout/yaml.rs"]
mod yaml;
