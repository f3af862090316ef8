//! The sinks as they are configured, with the credentials they refer to.
//!
//! Everybody who uses a sink (inventories, probes, connection tests) asks here, so there is one
//! answer to what a sink is. Whether it can be used, [`sink_usability`](crate::sink_usability) says.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use kollect_api::{
    KollectDatabaseSink, KollectEventSink, KollectSnapshotSink, SinkKey,
    meta::REQUESTED_AT_ANNOTATION, reference::SinkFamily, rules, sink::SinkSpec,
};
use kollect_export::SinkSource;
use kollect_sinks::{
    SinkError, backend,
    credentials::{self, Wanted},
};
use kube::core::ObjectMeta;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use crate::{
    configuration::Configuration,
    secrets::{SecretState, Secrets},
};

/// A sink object of any family.
#[derive(Debug, Clone, PartialEq)]
pub struct SinkObject {
    /// Which sink.
    pub key: SinkKey,
    /// Its metadata.
    pub meta: ObjectMeta,
    /// Its configuration.
    pub spec: Arc<SinkSpec>,
    /// Its status.
    pub status: Option<kollect_api::sink::SinkStatus>,
    /// Why it is not used although it is there: its namespace has more sinks than it may have.
    pub over_quota: Option<String>,
}

impl SinkObject {
    /// The object as the rules see it.
    fn object(&self) -> rules::Object {
        let metadata = self.meta.clone();
        match &*self.spec {
            SinkSpec::Snapshot(spec) => rules::Object::SnapshotSink(KollectSnapshotSink {
                metadata,
                spec: spec.clone(),
                status: None,
            }),
            SinkSpec::Database(spec) => rules::Object::DatabaseSink(KollectDatabaseSink {
                metadata,
                spec: spec.clone(),
                status: None,
            }),
            SinkSpec::Event(spec) => rules::Object::EventSink(KollectEventSink {
                metadata,
                spec: spec.clone(),
                status: None,
            }),
        }
    }
}

/// What became of looking for a sink.
#[derive(Debug, Clone)]
pub enum Lookup {
    /// There is none.
    Missing,
    /// It cannot be read.
    Unreadable {
        /// Whether a right is missing.
        forbidden: bool,
        /// What the API server said.
        why: String,
    },
    /// It is there.
    Found(Box<SinkObject>),
}

/// Whether a sink's credentials are at hand.
#[derive(Debug, Clone)]
pub enum Access {
    /// They are being read.
    Reading,
    /// They are.
    Ready(Arc<SinkSource>),
    /// The rules stand against the sink, so nobody looks for them.
    Invalid(SinkError),
    /// They cannot be had.
    Failed(SinkError),
    /// Whether they can be had is not known: the API server does not say.
    Unread(SinkError),
}

/// All sinks and the Secrets behind them.
pub struct SinkObjects {
    configuration: Arc<Configuration>,
    secrets: Secrets,
    rules: rules::Settings,
    doubts: Doubts,
}

/// Sinks that an export failed at in a way that a probe should have foreseen: what their last probe
/// said is not to be believed any longer.
#[derive(Debug, Default)]
struct Doubts {
    sinks: Mutex<BTreeSet<SinkKey>>,
    raised: Notify,
}

impl SinkObjects {
    /// Looks sinks up in `configuration` and credentials in `secrets`.
    pub fn new(
        configuration: Arc<Configuration>,
        secrets: Secrets,
        rules: rules::Settings,
    ) -> Self {
        Self {
            configuration,
            secrets,
            rules,
            doubts: Doubts::default(),
        }
    }

    /// Doubts that these sinks can be used: they are probed soon.
    pub fn doubt(&self, sinks: impl IntoIterator<Item = SinkKey>) {
        let sinks: Vec<SinkKey> = sinks.into_iter().collect();
        for sink in &sinks {
            self.doubt_secrets(sink);
        }
        let mut doubts = lock(&self.doubts.sinks);
        let before = doubts.len();
        doubts.extend(sinks);
        if doubts.len() > before {
            self.doubts.raised.notify_one();
        }
    }

    /// A sink could not be used with what its Secrets were when they were read last: they are read
    /// again soon, unless they are watched.
    pub fn doubt_secrets(&self, sink: &SinkKey) {
        if let Lookup::Found(sink) = self.find(sink) {
            for wanted in self.wanted(&sink).into_iter().flatten() {
                self.secrets.hurry(&wanted.namespace, &wanted.name);
            }
        }
    }

    /// Waits until somebody doubts a sink. May be given up at any time.
    pub async fn doubted(&self) {
        self.doubts.raised.notified().await;
    }

    /// The sinks that were doubted since this was last asked.
    pub fn take_doubts(&self) -> BTreeSet<SinkKey> {
        std::mem::take(&mut lock(&self.doubts.sinks))
    }

    /// All sinks.
    pub fn all(&self) -> Vec<SinkObject> {
        let configuration = &self.configuration;
        let mut all = Vec::new();
        for sink in configuration.snapshot_sinks.all() {
            let spec = SinkSpec::Snapshot(sink.spec.clone());
            all.push(object(
                SinkFamily::Snapshot,
                &sink.metadata,
                spec,
                sink.status.as_ref(),
            ));
        }
        for sink in configuration.database_sinks.all() {
            let spec = SinkSpec::Database(sink.spec.clone());
            all.push(object(
                SinkFamily::Database,
                &sink.metadata,
                spec,
                sink.status.as_ref(),
            ));
        }
        for sink in configuration.event_sinks.all() {
            let spec = SinkSpec::Event(sink.spec.clone());
            all.push(object(
                SinkFamily::Event,
                &sink.metadata,
                spec,
                sink.status.as_ref(),
            ));
        }
        all
    }

    /// One sink.
    pub fn find(&self, key: &SinkKey) -> Lookup {
        find(&self.configuration, key)
    }

    /// Watches the Secrets that sinks refer to, and no others.
    pub fn follow_secrets(&self) {
        let all = self.all();
        let wanted: BTreeSet<(String, String)> = all
            .iter()
            .flat_map(|sink| self.wanted(sink))
            .filter_map(Result::ok)
            .map(|wanted| (wanted.namespace, wanted.name))
            .collect();
        self.secrets.follow(&wanted);
    }

    /// The Secrets that a sink refers to, as far as it may.
    fn wanted(&self, sink: &SinkObject) -> Vec<Result<Wanted, SinkError>> {
        let namespace = &sink.key.namespace;
        credentials::wanted(&sink.spec, namespace)
            .into_iter()
            .map(|wanted| credentials::permitted(&wanted, namespace, &self.rules).map(|()| wanted))
            .collect()
    }

    /// The credentials of a sink.
    pub fn access(&self, sink: &SinkObject) -> Access {
        if let Some(denial) = rules::objection(&sink.object(), &self.rules) {
            return Access::Invalid(SinkError::Terminal(denial.to_string()));
        }
        let mut read = Vec::new();
        let mut secrets = Vec::new();
        for wanted in self.wanted(sink) {
            let wanted = match wanted {
                Ok(wanted) => wanted,
                Err(error) => return Access::Failed(error),
            };
            match self.secrets.get(&wanted.namespace, &wanted.name) {
                SecretState::Reading => return Access::Reading,
                SecretState::Found { version: at, data } => {
                    secrets.push(format!("{}/{}@{at}", wanted.namespace, wanted.name));
                    read.push((wanted, data));
                }
                SecretState::Missing => {}
                SecretState::Unreadable { forbidden, why } => {
                    let text = format!(
                        "secret {:?} in namespace {:?} cannot be read: {why}",
                        wanted.name, wanted.namespace
                    );
                    return Access::Unread(if forbidden {
                        SinkError::Forbidden(text)
                    } else {
                        SinkError::Transient(text)
                    });
                }
            }
        }
        let find = |wanted: &Wanted| {
            let known = read.iter().find(|(known, _)| known == wanted);
            known.map(|(_, data)| data.clone())
        };
        match credentials::materials(&sink.spec, &sink.key.namespace, find) {
            Err(error) => Access::Failed(error),
            Ok(materials) => Access::Ready(Arc::new(SinkSource {
                key: sink.key.clone(),
                uid: sink.meta.uid.clone().unwrap_or_default(),
                version: version(sink, &secrets),
                demand: backend::demand(&sink.spec),
                spec: Arc::clone(&sink.spec),
                materials: Arc::new(materials),
            })),
        }
    }
}

/// Changes with everything that what a sink does depends on: its spec, the versions of the Secrets
/// it refers to, and requests of people.
fn version(sink: &SinkObject, secrets: &[String]) -> u128 {
    let mut version = Sha256::new();
    version.update(serde_json::to_vec(&*sink.spec).unwrap_or_default());
    // Whoever asks for it gets a new connection, a probe and full exports.
    if let Some(requested_at) = requested_at(sink) {
        version.update(format!("\0{requested_at}"));
    }
    for secret in secrets {
        version.update(format!("\0{secret}"));
    }
    truncated(version)
}

/// The value of the annotation that asks for a probe and for full exports.
fn requested_at(sink: &SinkObject) -> Option<&String> {
    let annotations = sink.meta.annotations.as_ref()?;
    annotations.get(REQUESTED_AT_ANNOTATION)
}

/// Looks for a sink in the configuration.
pub fn find(configuration: &Configuration, key: &SinkKey) -> Lookup {
    let SinkKey {
        family,
        namespace,
        name,
    } = key;
    macro_rules! look {
        ($kind:expr, $spec:path) => {{
            if let Some(sink) = $kind.get(namespace, name) {
                let spec = $spec(sink.spec.clone());
                let mut found = object(*family, &sink.metadata, spec, sink.status.as_ref());
                found.over_quota = configuration.over_quota(key);
                return Lookup::Found(Box::new(found));
            }
            ($kind.unreadable(), $kind.unknown_in(namespace))
        }};
    }
    let (unreadable, unknown) = match family {
        SinkFamily::Snapshot => look!(configuration.snapshot_sinks, SinkSpec::Snapshot),
        SinkFamily::Database => look!(configuration.database_sinks, SinkSpec::Database),
        SinkFamily::Event => look!(configuration.event_sinks, SinkSpec::Event),
    };
    let own = (namespace.clone(), name.clone());
    if let Some((_, why)) = unreadable.into_iter().find(|(key, _)| *key == own) {
        return Lookup::Unreadable {
            forbidden: false,
            why,
        };
    }
    match unknown {
        // Whether there is one is not known.
        Some(unknown) => Lookup::Unreadable {
            forbidden: unknown.forbidden,
            why: unknown.why,
        },
        None => Lookup::Missing,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first half of a digest: enough to tell versions apart.
pub fn truncated(digest: Sha256) -> u128 {
    let bytes = digest.finalize();
    u128::from_be_bytes(bytes[..16].try_into().expect("a digest of 32 bytes"))
}

fn object(
    family: SinkFamily,
    meta: &ObjectMeta,
    spec: SinkSpec,
    status: Option<&kollect_api::sink::SinkStatus>,
) -> SinkObject {
    SinkObject {
        key: SinkKey {
            family,
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        },
        meta: meta.clone(),
        spec: Arc::new(spec),
        status: status.cloned(),
        over_quota: None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn sink(table: &str) -> SinkObject {
        let spec = json!({
            "type": "postgres", "postgres": {"databaseRef": {"name": "dsn"}, "table": table},
        });
        let spec = SinkSpec::Database(serde_json::from_value(spec).expect("a sink"));
        object(SinkFamily::Database, &ObjectMeta::default(), spec, None)
    }

    #[test]
    fn s13_another_spec_another_secret_and_a_request_make_another_version() {
        let secrets = ["team-a/dsn@1".to_owned()];
        let before = version(&sink("items"), &secrets);
        assert_eq!(before, version(&sink("items"), &secrets));
        let mut touched = sink("items");
        touched.meta.resource_version = Some("77".to_owned());
        touched.status = Some(kollect_api::sink::SinkStatus::default());
        assert_eq!(before, version(&touched, &secrets), "nothing that counts");
        let mut asked = sink("items");
        let request = (REQUESTED_AT_ANNOTATION.to_owned(), "now".to_owned());
        asked.meta.annotations = Some(BTreeMap::from([request]));
        for other in [
            version(&sink("others"), &secrets),
            version(&sink("items"), &["team-a/dsn@2".to_owned()]),
            version(&sink("items"), &[]),
            version(&asked, &secrets),
        ] {
            assert_ne!(before, other);
        }
    }
}
