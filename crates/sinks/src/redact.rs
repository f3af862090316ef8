//! What may leave in an error text.
