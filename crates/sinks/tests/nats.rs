//! The NATS sink against a real server.

mod nats {
    pub(crate) mod access;
    pub(crate) mod documents;
    pub(crate) mod provisioning;
    pub(crate) mod stage;
    pub(crate) mod subject;
    pub(crate) mod trouble;
    pub(crate) mod vectors;
}

mod conformance {
    use super::nats::subject::NatsSubject;

    kollect_sinks::conformance_tests!(NatsSubject::start().await);
}
