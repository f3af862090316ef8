//! What the program has to know of BigQuery before there is a sink.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::sink::{
    SinkSpec, SinkType,
    status::{BigqueryPreview, Preview},
};

use super::{
    BigquerySink, Service,
    names::{self, Names},
    options::Options,
    sql::expected_ddl,
};
use crate::{
    backend::{Backend, Environment, SinkSeed},
    error::SinkError,
    sink::{Demand, Sink},
};

/// Google BigQuery.
pub(crate) struct BigqueryBackend;

#[async_trait]
impl Backend for BigqueryBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Bigquery]
    }

    fn demand(&self, _: &SinkSpec) -> Demand {
        Demand::Changes
    }

    fn keeps_held(&self, _: &SinkSpec) -> bool {
        true
    }

    fn check(&self, spec: &SinkSpec) -> Result<(), SinkError> {
        Names::of(names::block(spec)?)?;
        Options::of(spec.common()).map(drop)
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let service = Service::of_environment();
        let sink = BigquerySink::new(&seed.spec, seed.materials, environment, service)?;
        Ok(Arc::new(sink))
    }

    fn preview(&self, spec: &SinkSpec, _: &str, _: Timestamp, preview: &mut Preview) {
        let (Ok(block), Ok(options)) = (names::block(spec), Options::of(spec.common())) else {
            return;
        };
        preview.bigquery = Some(BigqueryPreview {
            expected_ddl: expected_ddl(block, options.partitioned),
        });
    }
}
