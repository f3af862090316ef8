//! The HTTP listeners of the operator: probes and metrics.
//!
//! ```text
//! address ─> bind ─> server ─┬─> health        always plain
//!            certificate ────┤
//!                            └─> scrape ─> guard ─> page
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | [`address`] | where to listen, from a flag |
//! | [`server`] | connections: bounded in number and time, ended in good order |
//! | `places` | who goes when there are too many |
//! | [`certificate`] | the serving certificate, self-signed or from files that may change |
//! | [`guard`] | whether the caller may read a path, by asking the API server |
//! | [`health`] | answers to probes |
//! | [`scrape`] | answers to scrapers |
//! | [`settings`] | which of them there are |

pub mod address;
pub mod certificate;
pub mod guard;
pub mod health;
mod places;
pub mod scrape;
pub mod server;
pub mod settings;

pub use self::{
    address::{BindError, Bound, bind},
    certificate::{Certificate, CertificateError, CertificateFiles},
    guard::Guard,
    health::Health,
    scrape::Scrape,
    server::{Answer, Limits, Response, serve},
    settings::{ListenerError, ListenerSettings},
};
