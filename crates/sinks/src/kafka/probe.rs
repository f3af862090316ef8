//! A look at the brokers that changes nothing.

use kollect_api::sink::common::ProvisioningMode;

use super::{KafkaSink, client::Client, code::Meaning, fault::Fault};
use crate::error::SinkError;

impl KafkaSink {
    pub(super) async fn ping(&self) -> Result<String, SinkError> {
        let topic = self.client.topic();
        // With connections of its own.
        let client = Client::new(self.settings().clone(), self.dialer.clone());
        let about = match client.look().await {
            Ok(map) if !map.may_write() => {
                return Err(SinkError::Forbidden(format!(
                    "kafka metadata: the sink's user may not write to topic {topic:?}; grant it Write"
                )));
            }
            Ok(map) => {
                let count = map.partitions();
                let reading = if map.may_read() {
                    ""
                } else {
                    "; it may not be read, so every first delivery repeats all rows"
                };
                format!("topic {topic:?} has {count} partition(s){reading}")
            }
            Err(Fault::Refused(code))
                if code.meaning() == Meaning::NoTopic
                    && self.settings().provisioning == ProvisioningMode::Ensure =>
            {
                format!("topic {topic:?} does not exist yet and is created with the first export")
            }
            Err(fault) => return Err(self.explain("kafka metadata", fault)),
        };
        Ok(format!("Kafka broker metadata request succeeded: {about}"))
    }
}
