//! Buckets of all kinds of object stores, each read past whoever writes into it.

use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

use kollect_testkit::{
    Azure, Cloud, Gcs, S3,
    azure::{self, Container},
    gcs, pki, s3,
};
use serde_json::{Value, json};

use crate::stage::{Sketch, blocking};

/// Which server, and who asks it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    S3,
    /// With the key of a service account.
    Gcs,
    /// With the key of the account.
    AzureKey,
    /// With a shared access signature.
    AzureSignature,
}

pub(crate) const ALL: [Kind; 4] = [Kind::S3, Kind::Gcs, Kind::AzureKey, Kind::AzureSignature];

/// A bucket.
#[derive(Clone)]
pub(crate) struct Place {
    kind: Kind,
    bucket: Bucket,
    /// In front of a server that believes everybody.
    cloud: Option<Arc<Cloud>>,
}

#[derive(Clone)]
enum Bucket {
    S3(s3::Bucket),
    Gcs(gcs::Bucket),
    Azure(Container),
}

const WRONG: &str = "wrong-donkey-battery-staple";
/// The same, as a key of Azure has to be.
const WRONG_KEY: &str = "d3JvbmctZG9ua2V5LWJhdHRlcnktc3RhcGxl";

/// One key for all service accounts: it takes a moment to make.
static RSA_KEY: LazyLock<String> = LazyLock::new(|| pki::rsa_key().expect("a key"));

impl Place {
    pub(crate) async fn new(kind: Kind, prefix: &'static str) -> Self {
        blocking(move || {
            let (bucket, cloud) = match kind {
                Kind::S3 => {
                    let server = S3::shared().expect("a server");
                    (Bucket::S3(server.create_bucket(prefix).unwrap()), None)
                }
                Kind::Gcs => {
                    let server = Gcs::shared().expect("a server");
                    let cloud = Cloud::in_front_of(server.port()).unwrap();
                    LazyLock::force(&RSA_KEY);
                    let bucket = server.create_bucket(prefix).unwrap();
                    (Bucket::Gcs(bucket), Some(Arc::new(cloud)))
                }
                Kind::AzureKey | Kind::AzureSignature => {
                    let server = Azure::shared().expect("a server");
                    let container = server.create_container(prefix).unwrap();
                    (Bucket::Azure(container), None)
                }
            };
            Self {
                kind,
                bucket,
                cloud,
            }
        })
        .await
    }

    pub(crate) fn name(&self) -> &str {
        match &self.bucket {
            Bucket::S3(bucket) => &bucket.name,
            Bucket::Gcs(bucket) => &bucket.name,
            Bucket::Azure(container) => &container.name,
        }
    }

    /// Of the server, or of what stands in front of it.
    pub(crate) fn port(&self) -> u16 {
        match (&self.cloud, &self.bucket) {
            (Some(cloud), _) => cloud.port(),
            (None, Bucket::S3(_)) => S3::shared().unwrap().port(),
            (None, Bucket::Gcs(_)) => Gcs::shared().unwrap().port(),
            (None, Bucket::Azure(_)) => Azure::shared().unwrap().port(),
        }
    }

    pub(crate) fn cloud(&self) -> &Cloud {
        self.cloud.as_deref().expect("a cloud in front")
    }

    /// A sink for it, reached on a port.
    pub(crate) fn sketch(&self, port: u16, extra: Value) -> Sketch {
        self.sketch_of(self.name(), port, extra)
    }

    /// A sink for another bucket of the same server.
    pub(crate) fn sketch_of(&self, name: &str, port: u16, extra: Value) -> Sketch {
        let server = format!("http://127.0.0.1:{port}");
        let (type_, endpoint) = match self.bucket {
            Bucket::S3(_) => ("s3", format!("{server}/{name}/pre/fix")),
            Bucket::Gcs(_) => ("gcs", format!("{server}/{name}/pre/fix")),
            Bucket::Azure(_) => (
                "azureblob",
                format!("{server}/{}/{name}/pre/fix", azure::ACCOUNT),
            ),
        };
        let mut spec = json!({ "type": type_, "endpoint": endpoint });
        if type_ == "azureblob" {
            spec["azureBlob"] = json!({ "account": azure::ACCOUNT });
        }
        if let Value::Object(extra) = extra {
            spec.as_object_mut().unwrap().extend(extra);
        }
        let secret = match self.kind {
            Kind::S3 => vec![
                ("accessKeyID", s3::ACCESS_KEY.to_owned()),
                (
                    "secretAccessKey",
                    format!("{}\n", S3::shared().unwrap().secret_key()),
                ),
            ],
            Kind::Gcs => vec![("credentials.json", service_account(port, "/token"))],
            Kind::AzureKey => vec![("accountKey", Azure::shared().unwrap().key())],
            Kind::AzureSignature => {
                vec![("sasToken", Azure::shared().unwrap().signature("racwdl"))]
            }
        };
        let secret = secret
            .into_iter()
            .map(|(key, value)| (key.to_owned(), value));
        Sketch {
            name: "lake".to_owned(),
            spec,
            secret: secret.collect(),
        }
    }

    /// Makes the credentials of a sink wrong.
    pub(crate) fn spoil(&self, sketch: &mut Sketch, port: u16) {
        sketch.secret = match self.kind {
            Kind::S3 => vec![
                ("accessKeyID".to_owned(), s3::ACCESS_KEY.to_owned()),
                ("secretAccessKey".to_owned(), WRONG.to_owned()),
            ],
            Kind::Gcs => vec![(
                "credentials.json".to_owned(),
                service_account(port, "/who-knows-nobody"),
            )],
            Kind::AzureKey => vec![("accountKey".to_owned(), WRONG_KEY.to_owned())],
            Kind::AzureSignature => vec![(
                "sasToken".to_owned(),
                format!(
                    "sv=2020-08-04&ss=b&srt=sco&sp=rwl&se=2099-01-01T00%3A00%3A00Z&sig={WRONG}"
                ),
            )],
        };
    }

    /// Makes the credentials those of one who may read and list, if there is such a one.
    pub(crate) fn reader(&self, sketch: &mut Sketch) -> bool {
        match self.kind {
            Kind::S3 => s3::READER_KEY.clone_into(&mut sketch.secret[0].1),
            Kind::AzureSignature => {
                sketch.secret[0].1 = Azure::shared().unwrap().signature("rl");
            }
            Kind::Gcs | Kind::AzureKey => return false,
        }
        true
    }

    pub(crate) fn secrets(&self) -> Vec<String> {
        let key = match self.kind {
            Kind::S3 => S3::shared().unwrap().secret_key().to_owned(),
            Kind::Gcs => RSA_KEY.lines().nth(3).unwrap().to_owned(),
            Kind::AzureKey => Azure::shared().unwrap().key(),
            Kind::AzureSignature => {
                let signature = Azure::shared().unwrap().signature("racwdl");
                signature.rsplit_once("sig=").unwrap().1.to_owned()
            }
        };
        vec![key, WRONG.to_owned(), WRONG_KEY.to_owned()]
    }

    /// All keys, each with a mark that changes with every write.
    pub(crate) async fn marks(&self) -> BTreeMap<String, String> {
        let bucket = self.bucket.clone();
        blocking(move || match bucket {
            Bucket::S3(bucket) => {
                let objects = bucket.objects().unwrap().into_iter();
                objects.map(|(key, entry)| (key, entry.mark)).collect()
            }
            Bucket::Gcs(bucket) => bucket.objects().unwrap(),
            Bucket::Azure(container) => {
                let blobs = container.blobs().unwrap().into_iter();
                blobs.map(|(key, blob)| (key, blob.mark)).collect()
            }
        })
        .await
    }

    pub(crate) async fn read(&self, key: &str) -> Option<Vec<u8>> {
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        blocking(move || match bucket {
            Bucket::S3(bucket) => bucket.read(&key).unwrap(),
            Bucket::Gcs(bucket) => bucket.read(&key).unwrap(),
            Bucket::Azure(container) => container.read(&key).unwrap(),
        })
        .await
    }

    pub(crate) async fn write(&self, key: &str, content: Value) {
        let (bucket, key) = (self.bucket.clone(), key.to_owned());
        blocking(move || match bucket {
            Bucket::S3(bucket) => bucket.write(&key, &content).unwrap(),
            Bucket::Gcs(bucket) => bucket.write(&key, &content).unwrap(),
            Bucket::Azure(container) => container.write(&key, &content).unwrap(),
        })
        .await;
    }

    pub(crate) async fn clear(&self) {
        let bucket = self.bucket.clone();
        blocking(move || match bucket {
            Bucket::S3(bucket) => bucket.clear().unwrap(),
            Bucket::Gcs(bucket) => bucket.clear().unwrap(),
            Bucket::Azure(container) => container.clear().unwrap(),
        })
        .await;
    }
}

/// A key file whose tokens come from a port.
fn service_account(port: u16, path: &str) -> String {
    json!({
        "type": "service_account",
        "client_email": "lake@kollect-tests.iam.gserviceaccount.com",
        "private_key_id": "k1",
        "private_key": *RSA_KEY,
        "token_uri": format!("http://127.0.0.1:{port}{path}"),
    })
    .to_string()
}
