//! The guarded way to a server.
