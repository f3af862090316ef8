//! The Git sink against real servers: git's own http-backend behind TLS, OpenSSH, and directories.
//! Repositories are looked at with the git program, never through the sink.

mod conformance;
mod stage;
mod trees;
mod trouble;
mod vectors;
mod writers;
