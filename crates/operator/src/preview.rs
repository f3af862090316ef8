//! What an export would look like, for people who are about to point an inventory at a sink.
//!
//! Rendered from made-up rows; no backend is asked.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::sink::status::{KafkaPreview, MongodbPreview, PostgresPreview, Preview};
use kollect_sinks::{SinkSpec, layout, postgres};

/// A preview, the same one again if nothing about it changed.
pub fn render(spec: &SinkSpec, previous: Option<&Preview>, now: &Time) -> Preview {
    let mut preview = rendered(spec);
    let known = previous.and_then(|previous| {
        let mut known = previous.clone();
        let at = known.rendered_at.take();
        (known == preview).then_some(at).flatten()
    });
    preview.rendered_at = Some(known.unwrap_or_else(|| now.clone()));
    preview
}

fn rendered(spec: &SinkSpec) -> Preview {
    let mut preview = layout::preview::preview(spec);
    match spec {
        SinkSpec::Database(database) => {
            preview.postgres = database.postgres.as_ref().map(|table| PostgresPreview {
                expected_ddl: Some(postgres::expected_ddl(table)),
            });
            if let Some(mongodb) = &database.mongodb {
                let keys = [
                    "inventory_namespace",
                    "inventory_name",
                    "target_name",
                    "source_uid",
                ];
                preview.mongodb = Some(MongodbPreview {
                    expected_index_keys: keys.map(str::to_owned).to_vec(),
                });
                preview.warnings.push(format!(
                    "mongodb: documents upserted into {}.{}",
                    mongodb.database, mongodb.collection
                ));
            }
        }
        SinkSpec::Event(event) => {
            preview.kafka = event.kafka.as_ref().map(|kafka| KafkaPreview {
                topic: Some(kafka.topic.clone()),
            });
        }
        SinkSpec::Snapshot(_) => {}
    }
    preview
}
