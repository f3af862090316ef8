//! From a description and credentials to a sink.

use std::{path::PathBuf, sync::Arc};

use kollect_api::sink::SinkType;

use crate::{
    credentials::Materials, dial::Dialer, error::SinkError, git::GitSink, postgres::PostgresSink,
    redact::Redacted, sink::Sink, spec::SinkSpec,
};

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
///
/// Two things hold for every backend and are therefore done here: its endpoint is judged, since the
/// object may have been stored without admission, and nothing it says holds a value of its Secrets.
pub fn build(
    name: &str,
    namespace: &str,
    spec: &SinkSpec,
    materials: Materials,
    environment: &Environment,
) -> Result<Arc<dyn Sink>, SinkError> {
    if let Some(endpoint) = &spec.common().endpoint {
        let local = environment.local_repositories;
        environment
            .dialer
            .check_endpoint(spec.sink_type(), endpoint, local)
            .map_err(|error| error.at("spec.endpoint"))?;
    }
    let redaction = materials.redaction.clone();
    match backend(name, namespace, spec, materials, environment) {
        Ok(sink) => Ok(Arc::new(Redacted::new(sink, redaction))),
        Err(error) => Err(redaction.last_look(error)),
    }
}

fn backend(
    name: &str,
    namespace: &str,
    spec: &SinkSpec,
    materials: Materials,
    environment: &Environment,
) -> Result<Arc<dyn Sink>, SinkError> {
    match spec.sink_type() {
        SinkType::Git | SinkType::Gitlab => Ok(Arc::new(GitSink::new(
            name,
            namespace,
            spec,
            &materials,
            environment,
        )?)),
        SinkType::Postgres => Ok(Arc::new(PostgresSink::new(spec, materials, environment)?)),
        other @ (SinkType::S3
        | SinkType::Gcs
        | SinkType::Bigquery
        | SinkType::Mongodb
        | SinkType::Nats
        | SinkType::Kafka) => Err(SinkError::terminal(format!(
            "sink type {:?} is not built into this program",
            other.as_str()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use kollect_api::address::AddressPolicy;

    use super::*;

    /// Admission may be off: a disk, a private network and a metadata service stay out of reach.
    #[test]
    fn endpoints_are_judged_before_anything_is_built() {
        let environment = Environment {
            dialer: Dialer::new(AddressPolicy::default()),
            work_dir: PathBuf::new(),
            local_repositories: false,
        };
        for endpoint in [
            "file:///etc",
            "/srv/repository.git",
            "https://10.0.0.1/r.git",
            "ssh://git@metadata.google.internal/r.git#branch=main",
        ] {
            let spec = serde_json::json!({"type": "git", "endpoint": endpoint});
            let spec = SinkSpec::Snapshot(serde_json::from_value(spec).unwrap());
            let built = build("git", "team-a", &spec, Materials::default(), &environment);
            let error = built.unwrap_err();
            assert!(
                matches!(&error, SinkError::Terminal(text)
                    if text.starts_with("spec.endpoint: ") && text.contains("not allowed")),
                "{endpoint}: {error:?}"
            );
        }
    }
}
