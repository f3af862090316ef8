//! Secret values that cannot be printed.
