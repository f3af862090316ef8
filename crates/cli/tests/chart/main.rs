//! The chart, rendered and installed by the real Helm: what comes out of which values, that an API
//! server accepts it, that releases come and go, and that an operator can live with the rights it gets.

mod accepted;
mod life;
mod minimal;
mod rendered;
mod rights;
mod stage;
