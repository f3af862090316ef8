//! The PostgreSQL sink against a real server.

mod postgres {
    pub(crate) mod connecting;
    pub(crate) mod extras;
    pub(crate) mod faults;
    pub(crate) mod fleet;
    pub(crate) mod fleet_work;
    pub(crate) mod history;
    pub(crate) mod hostile;
    pub(crate) mod impostor;
    pub(crate) mod items;
    pub(crate) mod large;
    pub(crate) mod neighbourhood;
    pub(crate) mod parameters;
    pub(crate) mod provisioning;
    pub(crate) mod record;
    pub(crate) mod rest;
    pub(crate) mod server;
    pub(crate) mod sharing;
    pub(crate) mod shortage;
    pub(crate) mod subject;
    pub(crate) mod vectors;
}

mod conformance {
    use super::postgres::subject::PostgresSubject;

    kollect_sinks::conformance_tests!(PostgresSubject::start().await);
}
