//! The MongoDB sink against real servers.

mod mongo {
    pub(crate) mod connecting;
    pub(crate) mod faults;
    pub(crate) mod fleet;
    #[path = "../postgres/fleet_work.rs"]
    pub(crate) mod fleet_work;
    #[path = "../postgres/items.rs"]
    pub(crate) mod items;
    pub(crate) mod provisioning;
    pub(crate) mod replicas;
    pub(crate) mod server;
    pub(crate) mod subject;
    pub(crate) mod vectors;
}

mod conformance {
    use super::mongo::subject::MongoSubject;

    kollect_sinks::conformance_tests!(MongoSubject::start().await);
}
