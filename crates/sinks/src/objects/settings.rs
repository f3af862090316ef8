//! What a sink's description and its Secret say about a bucket.

use std::{sync::Arc, time::Duration};

use kollect_api::{
    effective,
    sink::{
        SinkSpec, SinkType,
        snapshot::{KollectSnapshotSinkSpec, Partitioning},
    },
};
use object_store::{BackoffConfig, RetryConfig, aws::AmazonS3Builder};

use super::{
    address::Address,
    azure::AzureStore,
    bucket::Bucket,
    gcs::GcsStore,
    keys::{AzureKeys, GoogleKeys, OwnAws, S3Keys},
    rest::Rest,
    s3::S3Store,
    store::Store,
};
use crate::{
    backend::Environment,
    credentials::Materials,
    error::SinkError,
    http::{HttpClient, object_store::GuardedConnector},
    identity::{google::Tokens, workload::Workload},
    layout::Layout,
    secret::SecretData,
    tls::Trust,
};

/// How long a server may take to take a request and to begin its answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// The region when nobody names one.
const DEFAULT_REGION: &str = "us-east-1";
/// Google's server.
const GOOGLE: &str = "https://storage.googleapis.com";
/// What tokens of Google are asked for.
const SCOPE: &str = "https://www.googleapis.com/auth/devstorage.read_write";

/// What happens to the files of an inventory that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// They stay, and belong to nobody.
    Retain,
    /// They go.
    Prune,
}

/// A bucket as described; nothing is connected.
pub(super) fn bucket(
    spec: &SinkSpec,
    materials: &Materials,
    environment: &Environment,
) -> Result<Bucket, SinkError> {
    let kind = spec.sink_type();
    let endpoint = spec.common().endpoint.as_deref().unwrap_or_default();
    let account = azure_account(spec);
    let mut address = Address::parse(kind, endpoint, account.as_deref())?;
    if address.server.is_none()
        && let Some(server) = option(spec, "endpoint")
    {
        // As if it stood in front of the bucket, and judged like that.
        let whole = format!("{}/{}", server.trim_end_matches('/'), address.bucket);
        environment
            .dialer
            .check_endpoint(kind, &whole, false)
            .map_err(|error| error.at("spec.options.endpoint"))?;
        address.server = Address::parse(kind, &whole, account.as_deref())?.server;
    }
    let trust = Trust::of(spec, materials);
    let client = HttpClient::new(environment.dialer.clone(), &trust)?;
    let place = Place {
        spec,
        address: &address,
        secret: &materials.credentials,
        trust: &trust,
        rest: Rest {
            client,
            patience: PATIENCE,
        },
        // A Secret that lacks its keys is a mistake, not a wish to be somebody else.
        workload: environment
            .workload
            .as_ref()
            .filter(|_| spec.common().secret_ref.is_none() && materials.credentials.is_empty()),
    };
    let store: Box<dyn Store> = match kind {
        SinkType::S3 => place.s3()?,
        SinkType::Gcs => place.gcs()?,
        SinkType::Azureblob => place.azure(account.as_deref().unwrap_or_default())?,
        other => {
            return Err(SinkError::terminal(format!(
                "sink type {:?} is not built into this program",
                other.as_str()
            )));
        }
    };
    Ok(Bucket {
        store,
        shown: address.shown(),
        prefix: address.prefix,
    })
}

/// What a store is made from.
struct Place<'p> {
    spec: &'p SinkSpec,
    address: &'p Address,
    secret: &'p SecretData,
    trust: &'p Trust,
    rest: Rest,
    workload: Option<&'p Arc<Workload>>,
}

impl Place<'_> {
    fn s3(self) -> Result<Box<dyn Store>, SinkError> {
        let keys = S3Keys::of(self.secret, self.workload)?;
        let region = option(self.spec, "region")
            .map(str::to_owned)
            .or_else(|| {
                std::env::var("AWS_REGION")
                    .ok()
                    .filter(|region| !region.is_empty())
            })
            .unwrap_or_else(|| DEFAULT_REGION.to_owned());
        let server = self.address.server.clone();
        self.signed(keys, &region, server.as_deref())
    }

    /// Google's own protocol; that of S3 with the keys that Google has for it.
    fn gcs(self) -> Result<Box<dyn Store>, SinkError> {
        let server = self.address.server.as_deref().unwrap_or(GOOGLE).to_owned();
        let hmac = self
            .secret
            .first_text(&["accessKeyID", "AWS_ACCESS_KEY_ID"]);
        let key = GoogleKeys::service_account(self.secret);
        if hmac.is_some() && key.is_none() {
            let keys = S3Keys::of(self.secret, None)?;
            return self.signed(keys, "auto", Some(&server));
        }
        let keys = match key {
            Some(text) => {
                // Who speaks to an emulator without TLS gets its tokens there too.
                let key = GoogleKeys::parse(&text, server.starts_with("http://"))?;
                GoogleKeys::Key(Box::new(Tokens::new(key, SCOPE, self.rest.client.clone())))
            }
            None => {
                let workload = GoogleKeys::own(self.workload)?;
                workload.may_show_google(&server, self.trust)?;
                GoogleKeys::Own(workload)
            }
        };
        Ok(Box::new(GcsStore {
            server,
            bucket: self.address.bucket.clone(),
            keys,
            rest: self.rest,
            shown: self.address.shown(),
        }))
    }

    fn azure(self, account: &str) -> Result<Box<dyn Store>, SinkError> {
        let SinkSpec::Snapshot(snapshot) = self.spec else {
            return Err(SinkError::terminal("azureblob is a KollectSnapshotSink"));
        };
        if account.is_empty() {
            return Err(SinkError::terminal(
                "the storage account is not known: set spec.azureBlob.account",
            ));
        }
        let block = snapshot.azure_blob.as_ref();
        let client_id = block.and_then(|block| block.client_id.as_deref());
        let keys = AzureKeys::of(account, client_id, self.secret, self.workload)?;
        let server = match &self.address.server {
            Some(server) => server.clone(),
            None => format!("https://{account}.blob.core.windows.net"),
        };
        if let AzureKeys::Own { workload, .. } = &keys {
            workload.may_show_azure(&server, self.trust)?;
        }
        Ok(Box::new(AzureStore {
            server,
            container: self.address.bucket.clone(),
            keys,
            rest: self.rest,
            shown: self.address.shown(),
        }))
    }

    /// The protocol of S3.
    fn signed(
        self,
        keys: S3Keys,
        region: &str,
        server: Option<&str>,
    ) -> Result<Box<dyn Store>, SinkError> {
        let bucket = &self.address.bucket;
        // Servers of one's own rarely have a name per bucket.
        let path_style = match option(self.spec, "forcePathStyle") {
            None => server.is_some(),
            Some("true") => true,
            Some("false") => false,
            Some(_) => {
                return Err(SinkError::terminal(
                    "spec.options.forcePathStyle must be \"true\" or \"false\"",
                ));
            }
        };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_region(region)
            .with_virtual_hosted_style_request(!path_style)
            // One request per object: not every server takes many at once.
            .with_disable_bulk_delete(true)
            .with_retry(retries())
            .with_http_connector(GuardedConnector::new(self.rest.client.clone(), PATIENCE));
        builder = match keys {
            S3Keys::Given {
                access,
                secret,
                session,
            } => {
                let builder = builder
                    .with_access_key_id(access.expose())
                    .with_secret_access_key(secret.expose());
                match session {
                    Some(session) => builder.with_token(session.expose()),
                    None => builder,
                }
            }
            S3Keys::Own(workload) => builder.with_credentials(Arc::new(OwnAws {
                workload,
                region: region.to_owned(),
            })),
        };
        if let Some(server) = server {
            let endpoint = match (path_style, server.split_once("://")) {
                (false, Some((scheme, host))) => format!("{scheme}://{bucket}.{host}"),
                _ => server.to_owned(),
            };
            builder = builder
                .with_endpoint(endpoint)
                .with_allow_http(server.starts_with("http://"));
        }
        let store = builder.build().map_err(|_| {
            SinkError::terminal("spec.endpoint, spec.options and the Secret make no S3 client")
        })?;
        Ok(Box::new(S3Store {
            store: Arc::new(store),
            rest: self.rest,
            shown: self.address.shown(),
        }))
    }
}

/// The storage account of a sink.
fn azure_account(spec: &SinkSpec) -> Option<String> {
    let SinkSpec::Snapshot(snapshot) = spec else {
        return None;
    };
    let named = snapshot
        .azure_blob
        .as_ref()
        .and_then(|block| block.account.as_deref())
        .map(str::trim)
        .filter(|account| !account.is_empty());
    let endpoint = snapshot.common.endpoint.as_deref().unwrap_or_default();
    named
        .or_else(|| effective::azure_account(endpoint))
        .map(str::to_ascii_lowercase)
}

/// A few attempts in quick succession; whoever calls a sink has back-off of its own.
fn retries() -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig {
            init_backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(2),
            base: 2.0,
        },
        max_retries: 2,
        retry_timeout: Duration::from_secs(30),
    }
}

/// What happens to files of an inventory that is no more. Files that are replaced in place show what
/// is there now, so they go; sets of days and generations are a history, and stay.
pub(super) fn on_delete(
    spec: &KollectSnapshotSinkSpec,
    layout: &Layout,
) -> Result<OnDelete, SinkError> {
    let asked = spec.common.options.get("onInventoryDelete");
    match asked.map(|text| text.trim()) {
        Some("retain") => Ok(OnDelete::Retain),
        Some("prune") => Ok(OnDelete::Prune),
        None | Some("") => Ok(match layout.lake().map(|lake| lake.partitioning) {
            Some(Partitioning::Dated | Partitioning::Generation) => OnDelete::Retain,
            None if layout.keeps_generations() => OnDelete::Retain,
            None | Some(Partitioning::Current) => OnDelete::Prune,
        }),
        Some(_) => Err(SinkError::terminal(
            "options.onInventoryDelete must be retain or prune",
        )),
    }
}

fn option<'s>(spec: &'s SinkSpec, name: &str) -> Option<&'s str> {
    let value = spec.common().options.get(name)?.trim();
    (!value.is_empty()).then_some(value)
}
