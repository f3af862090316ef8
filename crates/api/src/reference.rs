//! References between objects: Secrets, profiles, sinks.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::{duration::Duration, schema};

/// Points at a Secret.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecretReference {
    /// Name of the Secret.
    #[schemars(length(min = 1), regex(pattern = schema::NOT_BLANK))]
    pub name: String,
    /// Namespace of the Secret. Defaults to the namespace of the sink; another namespace is
    /// refused unless the operator allows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Points at an object in a namespace, from a kind that has no namespace of its own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "has(self.namespace) && self.namespace != ''",
    "namespace is required: a cluster-scoped object has none of its own",
)])))]
pub struct NamespacedReference {
    /// Name of the object.
    #[schemars(length(min = 1))]
    pub name: String,
    /// Namespace of the object. Required; there is no default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl NamespacedReference {
    /// The namespace without blanks around it, empty when not given.
    pub fn namespace(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default().trim()
    }
}

/// The three families of sinks, in the order in which they are listed everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SinkFamily {
    /// Git, GitLab and object stores: the inventory written as a whole.
    Snapshot,
    /// Postgres, MongoDB, BigQuery: rows that are kept in step.
    Database,
    /// Kafka, NATS: a stream of changes.
    Event,
}

impl SinkFamily {
    /// All families in listing order.
    pub const ALL: [SinkFamily; 3] = [
        SinkFamily::Snapshot,
        SinkFamily::Database,
        SinkFamily::Event,
    ];

    /// The word used in sink keys, such as `database` in `database/warehouse`.
    pub fn as_str(self) -> &'static str {
        match self {
            SinkFamily::Snapshot => "snapshot",
            SinkFamily::Database => "database",
            SinkFamily::Event => "event",
        }
    }

    /// The kind of this family's sinks.
    pub fn kind(self) -> &'static str {
        match self {
            SinkFamily::Snapshot => "KollectSnapshotSink",
            SinkFamily::Database => "KollectDatabaseSink",
            SinkFamily::Event => "KollectEventSink",
        }
    }

    /// The name of the reference list of this family in inventories and scopes.
    pub fn refs_field(self) -> &'static str {
        match self {
            SinkFamily::Snapshot => "snapshotSinkRefs",
            SinkFamily::Database => "databaseSinkRefs",
            SinkFamily::Event => "eventSinkRefs",
        }
    }
}

impl fmt::Display for SinkFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One sink an inventory is delivered to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = schema::rules(&[(
    "!has(self.maxExportBytes) || self.maxExportBytes > 0",
    "maxExportBytes must be positive",
)])))]
pub struct SinkRef {
    /// Name of the sink. The list it stands in decides the kind.
    #[schemars(length(min = 1, max = 253), regex(pattern = schema::PLAIN_NAME))]
    pub name: String,
    /// Namespace of the sink, on cluster inventories only. Defaults to `spec.sinkNamespace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 63), regex(pattern = schema::DNS_LABEL_OR_BLANK))]
    pub namespace: Option<String>,
    /// Overrides the minimum time between exports of unchanged content for this sink.
    /// `0s` exports on change only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export_min_interval: Option<Duration>,
    /// Overrides the least time between two exports of changed rows for this sink.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_interval: Option<Duration>,
    /// Replaces the inventory's size ceiling for this sink. Larger documents are split into parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_export_bytes: Option<i64>,
}

impl SinkRef {
    /// A reference by name alone.
    pub fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }
}

/// Reads a list of sink references. Objects are the form of the API; files may also give plain
/// names, and may mix both.
pub(crate) fn sink_refs<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<SinkRef>, D::Error> {
    struct Item(SinkRef);

    impl<'de> Deserialize<'de> for Item {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct NameOrObject;

            impl<'de> de::Visitor<'de> for NameOrObject {
                type Value = Item;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("the name of a sink, or an object with its name")
                }

                fn visit_str<E: de::Error>(self, name: &str) -> Result<Item, E> {
                    Ok(Item(SinkRef::named(name)))
                }

                fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Item, A::Error> {
                    SinkRef::deserialize(de::value::MapAccessDeserializer::new(map)).map(Item)
                }
            }

            deserializer.deserialize_any(NameOrObject)
        }
    }

    Ok(Option::<Vec<Item>>::deserialize(deserializer)?
        .unwrap_or_default()
        .into_iter()
        .map(|Item(sink)| sink)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Deserialize)]
    struct List(#[serde(deserialize_with = "sink_refs")] Vec<SinkRef>);

    #[test]
    fn lists_hold_names_objects_or_both() {
        let names = |value| {
            serde_json::from_value::<List>(value)
                .map(|List(refs)| refs.into_iter().map(|sink| sink.name).collect::<Vec<_>>())
        };
        assert_eq!(names(json!(["pg", "git"])).unwrap(), ["pg", "git"]);
        assert_eq!(
            names(json!(["pg", {"name": "git"}])).unwrap(),
            ["pg", "git"]
        );
        assert_eq!(names(json!(null)).unwrap(), Vec::<String>::new());
        assert!(names(json!("pg")).is_err());
        assert!(names(json!([{"exportMinInterval": "1h"}])).is_err());

        let List(refs) =
            serde_json::from_value(json!([{"name": "pg", "exportMinInterval": "1h"}])).unwrap();
        assert_eq!(refs[0].export_min_interval, Some(Duration::new("1h")));
    }
}
