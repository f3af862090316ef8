//! The Kafka sink against a real broker, read by an independent client.

mod kafka {
    pub(crate) mod broker;
    pub(crate) mod connecting;
    pub(crate) mod hostile;
    pub(crate) mod reader;
    pub(crate) mod snapshots;
    pub(crate) mod subject;
    pub(crate) mod vectors;
}

mod conformance {
    use super::kafka::subject::KafkaSubject;

    kollect_sinks::conformance_tests!(KafkaSubject::start().await);
}
