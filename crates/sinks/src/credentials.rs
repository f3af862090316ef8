//! Which Secret feeds which backend.
