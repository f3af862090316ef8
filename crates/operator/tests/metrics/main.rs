//! Metrics and listeners: what is on the page, who may read it, what probes say.

mod catalogue;
mod fabricated;
mod listening;
mod live;
mod page;
mod secure;
