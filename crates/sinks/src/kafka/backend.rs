//! How the program knows Kafka.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::sink::{
    SinkSpec, SinkType,
    event::EventMode,
    status::{KafkaPreview, Preview},
};

use super::{KafkaSink, demand, settings, settings::Settings};
use crate::{
    backend::{Backend, Environment, SinkSeed},
    error::SinkError,
    sink::{Demand, Sink},
};

/// Sinks of type `kafka`.
#[derive(Debug)]
pub(crate) struct KafkaBackend;

#[async_trait]
impl Backend for KafkaBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Kafka]
    }

    fn demand(&self, spec: &SinkSpec) -> Demand {
        demand(settings::block(spec).map_or(EventMode::Changes, |(event, _)| event.mode()))
    }

    fn check(&self, spec: &SinkSpec) -> Result<(), SinkError> {
        settings::block(spec).map(drop)
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let settings = Settings::new(&seed.spec, &seed.materials)?;
        for broker in &settings.brokers {
            let checked =
                environment
                    .dialer
                    .check_endpoint(SinkType::Kafka, &broker.to_string(), false);
            checked.map_err(|error| error.at("spec.kafka.brokers"))?;
        }
        Ok(Arc::new(KafkaSink::new(
            settings,
            environment.dialer.clone(),
        )))
    }

    fn keeps_held(&self, spec: &SinkSpec) -> bool {
        self.demand(spec) == Demand::Stream
    }

    fn preview(&self, spec: &SinkSpec, _sink: &str, _at: Timestamp, preview: &mut Preview) {
        if let Ok((_, kafka)) = settings::block(spec) {
            preview.kafka = Some(KafkaPreview {
                topic: Some(kafka.topic.trim().to_owned()),
            });
        }
    }
}
