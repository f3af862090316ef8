//! Git repositories.
