//! One description for the three kinds of sink.

use serde::Serialize;

use super::{
    KollectDatabaseSinkSpec, KollectEventSinkSpec, KollectSnapshotSinkSpec, SinkCommon, SinkType,
};
use crate::{
    reference::{SecretReference, SinkFamily},
    rules::Object,
};

/// The configuration of one sink, whatever its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum SinkSpec {
    /// Of a `KollectSnapshotSink`.
    Snapshot(KollectSnapshotSinkSpec),
    /// Of a `KollectDatabaseSink`.
    Database(KollectDatabaseSinkSpec),
    /// Of a `KollectEventSink`.
    Event(KollectEventSinkSpec),
}

/// The Secret that a backend names in its own block of the spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnSecret<'s> {
    /// The field, such as `spec.postgres.databaseRef`.
    pub field: &'static str,
    /// What the field says, if it is there and counts.
    pub reference: Option<&'s SecretReference>,
    /// What it means that it is not there.
    pub otherwise: Otherwise,
}

/// What a backend does without a Secret of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Otherwise {
    /// It takes `spec.secretRef`, or goes without.
    Common,
    /// It takes the credentials of its environment, never `spec.secretRef`.
    Environment,
    /// It cannot work.
    Nothing,
}

impl SinkSpec {
    /// The configuration of an object, if it is a sink.
    pub fn of(object: &Object) -> Option<Self> {
        match object {
            Object::SnapshotSink(sink) => Some(SinkSpec::Snapshot(sink.spec.clone())),
            Object::DatabaseSink(sink) => Some(SinkSpec::Database(sink.spec.clone())),
            Object::EventSink(sink) => Some(SinkSpec::Event(sink.spec.clone())),
            _ => None,
        }
    }

    /// The family.
    pub fn family(&self) -> SinkFamily {
        match self {
            SinkSpec::Snapshot(_) => SinkFamily::Snapshot,
            SinkSpec::Database(_) => SinkFamily::Database,
            SinkSpec::Event(_) => SinkFamily::Event,
        }
    }

    /// The backend.
    pub fn sink_type(&self) -> SinkType {
        match self {
            SinkSpec::Snapshot(spec) => spec.type_.into(),
            SinkSpec::Database(spec) => spec.type_.into(),
            SinkSpec::Event(spec) => spec.type_.into(),
        }
    }

    /// What all sinks have in common.
    pub fn common(&self) -> &SinkCommon {
        match self {
            SinkSpec::Snapshot(spec) => &spec.common,
            SinkSpec::Database(spec) => &spec.common,
            SinkSpec::Event(spec) => &spec.common,
        }
    }

    /// What all sinks have in common, to be changed.
    pub fn common_mut(&mut self) -> &mut SinkCommon {
        match self {
            SinkSpec::Snapshot(spec) => &mut spec.common,
            SinkSpec::Database(spec) => &mut spec.common,
            SinkSpec::Event(spec) => &mut spec.common,
        }
    }

    /// The cluster's name as rows and paths show it, without blanks around it; empty when not set.
    pub fn cluster(&self) -> &str {
        self.common().cluster.as_deref().unwrap_or_default().trim()
    }

    /// The Secret of the backend's own block. Databases have a reference of their own for
    /// everything: a required one, or the credentials of the environment. GitLab takes its own only
    /// in place of a missing `spec.secretRef`.
    pub fn own_secret(&self) -> OwnSecret<'_> {
        let own = |field, reference, otherwise| OwnSecret {
            field,
            reference,
            otherwise,
        };
        // A backend without a block of its own.
        let none = own("spec.secretRef", None, Otherwise::Common);
        match self {
            SinkSpec::Snapshot(spec) => {
                let git = spec.git.as_ref();
                let login = git.and_then(|git| git.auth.as_ref()?.secret_ref.as_ref());
                let common = spec.common.secret_ref.as_ref();
                let has_common = common.is_some_and(|secret| !secret.name.trim().is_empty());
                let reference = login.filter(|_| match self.sink_type() {
                    SinkType::Git => true,
                    SinkType::Gitlab => !has_common,
                    _ => false,
                });
                own("spec.git.auth.secretRef", reference, Otherwise::Common)
            }
            SinkSpec::Database(spec) => match self.sink_type() {
                SinkType::Postgres => {
                    let block = spec.postgres.as_ref();
                    let reference = block.map(|block| &block.database_ref);
                    own("spec.postgres.databaseRef", reference, Otherwise::Nothing)
                }
                SinkType::Mongodb => {
                    let block = spec.mongodb.as_ref();
                    let reference = block.map(|block| &block.database_ref);
                    own("spec.mongodb.databaseRef", reference, Otherwise::Nothing)
                }
                SinkType::Bigquery => {
                    let block = spec.bigquery.as_ref();
                    let reference = block.and_then(|block| block.secret_ref.as_ref());
                    own("spec.bigquery.secretRef", reference, Otherwise::Environment)
                }
                _ => none,
            },
            SinkSpec::Event(spec) => match self.sink_type() {
                SinkType::Kafka => {
                    let block = spec.kafka.as_ref();
                    let reference = block.and_then(|block| block.secret_ref.as_ref());
                    own("spec.kafka.secretRef", reference, Otherwise::Common)
                }
                SinkType::Nats => {
                    let block = spec.nats.as_ref();
                    let reference = block.and_then(|block| block.secret_ref.as_ref());
                    own("spec.nats.secretRef", reference, Otherwise::Common)
                }
                _ => none,
            },
        }
    }
}
