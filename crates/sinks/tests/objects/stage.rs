//! A bucket of a test and sinks that write into it.

use std::{collections::BTreeMap, path::PathBuf, sync::Arc};

use jiff::Timestamp;
use kollect_api::{
    InventoryId, SinkKey,
    address::AddressPolicy,
    reference::SinkFamily,
    sink::{KollectSnapshotSinkSpec, SinkSpec},
};
use kollect_inventory::{AttributesBuffer, Interner, OriginParts, Snapshot, TargetKind};
use kollect_sinks::{
    AttributeTypes, Delivery, DeliveryRows, DocumentOptions, Sink, SinkError,
    backend::{Environment, SinkSeed, open},
    credentials::Materials,
    dial::Dialer,
    redact::Redaction,
    secret::SecretData,
};
use kollect_testkit::{
    S3,
    s3::{ACCESS_KEY, Bucket},
};
use serde_json::{Value, json};

/// An environment that may reach this machine.
pub(crate) fn environment() -> Environment {
    Environment {
        dialer: Dialer::new(AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse().unwrap()],
            ..AddressPolicy::default()
        }),
        work_dir: PathBuf::new(),
        local_repositories: false,
        census: Arc::default(),
        local_files: false,
        workload: None,
    }
}

/// What a sink is made of, to be changed before it is.
#[derive(Debug, Clone)]
pub(crate) struct Sketch {
    pub(crate) name: String,
    pub(crate) spec: Value,
    pub(crate) secret: Vec<(String, String)>,
}

impl Sketch {
    /// A sink for a bucket, reached on a port.
    pub(crate) fn s3(bucket: &Bucket, port: u16, extra: Value) -> Self {
        let mut spec = json!({
            "type": "s3",
            "endpoint": format!("http://127.0.0.1:{port}/{}/pre/fix", bucket.name),
        });
        if let Value::Object(extra) = extra {
            spec.as_object_mut().unwrap().extend(extra);
        }
        let key = S3::shared().expect("a server").secret_key().to_owned();
        Self {
            name: "lake".to_owned(),
            spec,
            secret: vec![
                ("accessKeyID".to_owned(), ACCESS_KEY.to_owned()),
                ("secretAccessKey".to_owned(), format!("{key}\n")),
            ],
        }
    }

    pub(crate) async fn open(&self) -> Result<Arc<dyn Sink>, SinkError> {
        self.open_in(&environment()).await
    }

    pub(crate) async fn open_in(
        &self,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let spec: KollectSnapshotSinkSpec =
            serde_json::from_value(self.spec.clone()).expect("a description");
        let secret: SecretData = self.secret.iter().cloned().collect();
        let seed = SinkSeed {
            key: SinkKey::new(SinkFamily::Snapshot, "team-a", &*self.name),
            spec: Arc::new(SinkSpec::Snapshot(spec)),
            materials: Materials {
                redaction: Redaction::of_secrets([&secret]),
                credentials: secret,
                authority: None,
            },
        };
        open(seed, environment).await
    }
}

/// A bucket on the shared server.
pub(crate) async fn bucket(prefix: &'static str) -> (Bucket, u16) {
    tokio::task::spawn_blocking(move || {
        let server = S3::shared().expect("a server");
        let bucket = server.create_bucket(prefix).expect("a bucket");
        (bucket, server.port())
    })
    .await
    .expect("a bucket")
}

/// Does something with the testkit, which waits.
pub(crate) async fn blocking<T: Send + 'static>(act: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(act).await.expect("no panic")
}

/// The objects below the prefix of sinks, without records.
pub(crate) async fn objects(bucket: &Bucket) -> BTreeMap<String, Vec<u8>> {
    let bucket = bucket.clone();
    blocking(move || {
        let keys = bucket.objects().expect("a listing").into_keys();
        let own = keys.filter_map(|key| {
            let path = key.strip_prefix("pre/fix/")?;
            if path.starts_with(".kollect/") {
                return None;
            }
            let bytes = bucket.read(&key).expect("an object")?;
            Some((path.to_owned(), bytes))
        });
        own.collect()
    })
    .await
}

/// A delivery of rows.
pub(crate) fn delivery(rows: Snapshot, at: &str) -> Delivery {
    Delivery {
        inventory: InventoryId::namespaced("team-a", "web"),
        generation: 4,
        at: at.parse::<Timestamp>().expect("a time"),
        rows: DeliveryRows::All(rows),
        documents: DocumentOptions::default(),
    }
}

/// Declared types, each as name and word.
pub(crate) fn types(pairs: &[(&str, &str)]) -> Arc<AttributeTypes> {
    let mut types = AttributeTypes::new();
    for (name, word) in pairs {
        let words = types.entry((*name).to_owned()).or_default();
        if !word.is_empty() {
            words.insert((*word).to_owned());
        }
    }
    Arc::new(types)
}

/// A row: kind, namespace, name, attributes (null for none).
pub(crate) type Line<'a> = (&'a str, &'a str, &'a str, Value);

/// Rows of the target `team-a/deploys`.
pub(crate) fn rows(lines: &[Line<'_>]) -> Snapshot {
    let mut interner = Interner::new();
    let mut buffer = AttributesBuffer::new();
    let mut rows = Vec::new();
    for (kind, namespace, name, attributes) in lines {
        let group = match *kind {
            "Deployment" => "apps",
            _ => "",
        };
        let origin = interner.origin(OriginParts {
            owner: TargetKind::Target,
            target_namespace: "team-a",
            target_name: "deploys",
            namespace,
            group,
            version: "v1",
            kind,
        });
        match attributes.as_object() {
            Some(object) => buffer.set(object),
            None => buffer.set_null(),
        }
        rows.push(interner.row(&origin, name, &format!("uid-{name}"), buffer.view()));
    }
    Snapshot::new(rows)
}
