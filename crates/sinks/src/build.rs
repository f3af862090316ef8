//! From a description and credentials to a sink.

use std::{path::PathBuf, sync::Arc};

use kollect_api::sink::SinkType;

use crate::{credentials::Materials, dial::Dialer, error::SinkError, sink::Sink, spec::SinkSpec};

/// What all sinks of a process share.
#[derive(Debug, Clone)]
pub struct Environment {
    /// The way out.
    pub dialer: Dialer,
    /// Where backends may keep files between deliveries; nothing there has to survive.
    pub work_dir: PathBuf,
    /// Whether Git repositories may be local directories.
    pub local_repositories: bool,
}

/// Builds a sink. Does no I/O: connecting happens on first use.
pub fn build(
    name: &str,
    namespace: &str,
    spec: &SinkSpec,
    materials: Materials,
    environment: &Environment,
) -> Result<Arc<dyn Sink>, SinkError> {
    let _ = (name, namespace, environment);
    drop(materials);
    match spec.sink_type() {
        other @ (SinkType::Git
        | SinkType::Gitlab
        | SinkType::S3
        | SinkType::Gcs
        | SinkType::Postgres
        | SinkType::Bigquery
        | SinkType::Mongodb
        | SinkType::Nats
        | SinkType::Kafka) => Err(SinkError::terminal(format!(
            "sink type {:?} is not built into this program",
            other.as_str()
        ))),
    }
}
