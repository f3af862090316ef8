//! What the operator asks of the API server. The table is in the API crate, where code generation
//! finds it without a client.

pub use kollect_api::rights::*;
