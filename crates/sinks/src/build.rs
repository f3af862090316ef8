//! From a description and credentials to a sink.
