//! The registration.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::sink::{
    SinkSpec, SinkType,
    status::{PostgresPreview, Preview},
};

use super::{PostgresSink, ddl};
use crate::{
    backend::{Backend, Environment, SinkSeed},
    error::SinkError,
    sink::{Demand, Sink},
};

/// PostgreSQL and what speaks its language.
pub(crate) struct PostgresBackend;

#[async_trait]
impl Backend for PostgresBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Postgres]
    }

    fn demand(&self, _: &SinkSpec) -> Demand {
        Demand::Changes
    }

    fn keeps_held(&self, _: &SinkSpec) -> bool {
        true
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let sink = PostgresSink::new(&seed.spec, seed.materials, environment)?;
        Ok(Arc::new(sink))
    }

    fn preview(&self, spec: &SinkSpec, _: &str, _: Timestamp, preview: &mut Preview) {
        if let SinkSpec::Database(database) = spec
            && let Some(table) = &database.postgres
        {
            preview.postgres = Some(PostgresPreview {
                expected_ddl: Some(ddl::expected_ddl(table)),
            });
        }
    }
}
