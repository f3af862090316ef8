//! What the program has to know of MongoDB before there is a sink.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::sink::{
    SinkSpec, SinkType,
    status::{MongodbPreview, Preview},
};

use super::{
    MongoSink,
    names::{self, KEY, Names},
};
use crate::{
    backend::{Backend, Environment, SinkSeed},
    error::SinkError,
    sink::{Demand, Sink},
};

/// MongoDB and what speaks its language.
pub(crate) struct MongoBackend;

#[async_trait]
impl Backend for MongoBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Mongodb]
    }

    fn demand(&self, _: &SinkSpec) -> Demand {
        Demand::Changes
    }

    fn keeps_held(&self, _: &SinkSpec) -> bool {
        true
    }

    fn check(&self, spec: &SinkSpec) -> Result<(), SinkError> {
        Names::of(names::block(spec)?).map(drop)
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let sink = MongoSink::new(&seed.spec, seed.materials, environment)?;
        Ok(Arc::new(sink))
    }

    fn preview(&self, spec: &SinkSpec, _: &str, _: Timestamp, preview: &mut Preview) {
        let Ok(block) = names::block(spec) else {
            return;
        };
        preview.warnings.push(format!(
            "mongodb: documents upserted into {}.{}",
            block.database.trim(),
            block.collection.trim()
        ));
        preview.mongodb = Some(MongodbPreview {
            expected_index_keys: KEY.map(str::to_owned).to_vec(),
        });
    }
}
