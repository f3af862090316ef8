//! KollectEventSink: NATS and Kafka.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::common::{SinkCommon, SinkType};
use super::database::{JSON_ONLY, NO_LAYOUT};
use super::status::SinkStatus;
use crate::{reference::SecretReference, schema};

/// Publish the changes of inventories.
#[derive(CustomResource, Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "kollect.dev",
    version = "v1alpha1",
    kind = "KollectEventSink",
    plural = "kollecteventsinks",
    singular = "kollecteventsink",
    shortname = "kevt",
    category = "kollect",
    namespaced,
    status = "SinkStatus",
    derive = "PartialEq",
    doc = "A stream that carries the changes of inventories.",
    printcolumn(
        name = "Type",
        type_ = "string",
        json_path = ".spec.type",
        description = "Backend"
    ),
    printcolumn(
        name = "Verified",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].status",
        description = "Whether the last probe succeeded"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"ConnectionVerified\")].reason",
        description = "Why it did or did not"
    ),
    printcolumn(
        name = "Cluster",
        type_ = "string",
        json_path = ".spec.cluster",
        priority = 1,
        description = "Cluster name written into messages"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[
    ("(self.type == 'nats') == has(self.nats)", "nats is required for type nats and only allowed there"),
    ("(self.type == 'kafka') == has(self.kafka)", "kafka is required for type kafka and only allowed there"),
    NO_LAYOUT,
    JSON_ONLY,
    ("!has(self.pathTemplate)", "pathTemplate is only for files; topics and subjects have no path"),
    (
        "self.type != 'nats' || !has(self.serialization) || !has(self.serialization.compression) || self.serialization.compression == 'none'",
        "NATS has no compression of messages",
    ),
])))]
pub struct KollectEventSinkSpec {
    /// Backend: `nats` or `kafka`.
    #[serde(rename = "type")]
    pub type_: EventSinkType,
    /// What is published: `changes` (the default) is one message per row that changed, `snapshots`
    /// the whole inventory with every export.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<EventMode>,
    /// What all sinks have in common.
    #[serde(flatten)]
    pub common: SinkCommon,
    /// NATS settings, for type `nats`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nats: Option<Nats>,
    /// Kafka settings, for type `kafka`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kafka: Option<Kafka>,
}

impl KollectEventSinkSpec {
    /// What is published.
    pub fn mode(&self) -> EventMode {
        self.mode.unwrap_or_default()
    }
}

/// What an event sink publishes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventMode {
    /// One message per row that changed; the newest message per key is the inventory.
    #[default]
    Changes,
    /// The whole inventory with every export, in parts if it is large.
    Snapshots,
}

/// Backends of event sinks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EventSinkType {
    /// NATS JetStream.
    Nats,
    /// Apache Kafka.
    Kafka,
}

impl From<EventSinkType> for SinkType {
    fn from(type_: EventSinkType) -> Self {
        match type_ {
            EventSinkType::Nats => SinkType::Nats,
            EventSinkType::Kafka => SinkType::Kafka,
        }
    }
}

/// Settings of NATS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Nats {
    /// Server URL, or several with commas between them. Defaults to `spec.endpoint`. Never with
    /// credentials.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Subject to publish to, without wildcards. In mode `changes` every row has a subject of its
    /// own below it.
    #[schemars(length(max = 255), regex(pattern = schema::NATS_SUBJECT))]
    pub subject: String,
    /// JetStream stream. Defaults to `kollect_events`. Dots become underscores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), regex(pattern = schema::NATS_STREAM))]
    pub stream: Option<String>,
    /// Secret with a token, user name and password, NKey or credentials file, and with the keys of
    /// a TLS client. Defaults to `spec.secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
}

/// Settings of Kafka.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Kafka {
    /// Bootstrap addresses, `host:port`.
    #[schemars(length(min = 1), inner(regex(pattern = schema::NOT_BLANK)), extend("x-kubernetes-list-type" = "atomic"))]
    pub brokers: Vec<String>,
    /// Topic to produce to.
    #[schemars(regex(pattern = schema::NOT_BLANK))]
    pub topic: String,
    /// Secret with SASL credentials and TLS client keys. Defaults to `spec.secretRef`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretReference>,
    /// How credentials are shown to brokers. Defaults to `SCRAM-SHA-256`. `PLAIN` and `OAUTHBEARER`
    /// need TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sasl_mechanism: Option<SaslMechanism>,
    /// How many bytes of the topic are read, after a start or a failure, to find out what it holds.
    /// Beyond that all rows are published again. Defaults to 1 GiB; 0 never reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub read_back_limit: Option<i64>,
}

/// How credentials are shown to a Kafka broker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SaslMechanism {
    /// The password as it is.
    #[serde(rename = "PLAIN")]
    Plain,
    /// Both sides prove that they know the password.
    #[default]
    #[serde(rename = "SCRAM-SHA-256")]
    ScramSha256,
    /// The same with a longer hash.
    #[serde(rename = "SCRAM-SHA-512")]
    ScramSha512,
    /// A token of an identity provider.
    #[serde(rename = "OAUTHBEARER")]
    Oauthbearer,
}

impl SaslMechanism {
    /// The word of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            SaslMechanism::Plain => "PLAIN",
            SaslMechanism::ScramSha256 => "SCRAM-SHA-256",
            SaslMechanism::ScramSha512 => "SCRAM-SHA-512",
            SaslMechanism::Oauthbearer => "OAUTHBEARER",
        }
    }
}
