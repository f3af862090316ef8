//! What an export would look like, for people who are about to point an inventory at a sink.
//!
//! Rendered from made-up rows; no backend is asked.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kollect_api::{
    effective,
    sink::{
        common::ProvisioningMode,
        status::{KafkaPreview, MongodbPreview, Preview},
    },
};
use kollect_sinks::SinkSpec;

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
    let common = spec.common();
    let existing = effective::provisioning_mode(common) == ProvisioningMode::Existing;
    let store = match spec {
        SinkSpec::Snapshot(snapshot) => snapshot.object_store.as_ref(),
        _ => None,
    };
    let format = effective::format(spec.sink_type(), common, store);
    let mut preview = Preview {
        input_sample_source: Some("synthetic".to_owned()),
        provisioning_mode: Some(if existing { "existing" } else { "ensure" }.to_owned()),
        serialization_format: Some(format.as_str().to_owned()),
        ..Preview::default()
    };
    if existing {
        preview.warnings.push(
            "provisioning.mode=existing: kollect will NOT create destination resources; preflight verifies existence".to_owned(),
        );
    }
    match spec {
        SinkSpec::Database(database) => {
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
