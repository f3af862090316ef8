//! HTTP through the guarded dialler.
