//! Trust in certificates.
