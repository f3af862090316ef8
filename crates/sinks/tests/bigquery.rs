//! The BigQuery sink against an emulator, behind a gate that asks for tokens as Google does.

mod bigquery {
    pub(crate) mod connecting;
    pub(crate) mod faults;
    pub(crate) mod gate;
    #[path = "../postgres/items.rs"]
    #[allow(dead_code)]
    pub(crate) mod items;
    pub(crate) mod provisioning;
    pub(crate) mod requests;
    pub(crate) mod stage;
    pub(crate) mod subject;
    pub(crate) mod vectors;
}

mod conformance {
    use super::bigquery::subject::BigquerySubject;

    kollect_sinks::conformance_tests!(BigquerySubject::start().await);
}
