//! A sink without a backend, the reference for all others.
