//! What a sink's description and its Secret say about a bucket.

use std::{sync::Arc, time::Duration};

use kollect_api::sink::{
    SinkSpec, SinkType,
    snapshot::{KollectSnapshotSinkSpec, Partitioning},
};
use object_store::{BackoffConfig, RetryConfig, aws::AmazonS3Builder};

use super::{address::Address, bucket::Bucket, s3::S3Requests};
use crate::{
    backend::Environment,
    credentials::Materials,
    error::SinkError,
    http::{HttpClient, object_store::GuardedConnector},
    layout::Layout,
    secret::{SecretData, SecretText},
    tls::Trust,
};

/// How long a server may take to take a request and to begin its answer.
const PATIENCE: Duration = Duration::from_mins(1);
/// The region when nobody names one.
const DEFAULT_REGION: &str = "us-east-1";

/// What happens to the files of an inventory that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OnDelete {
    /// They stay, and belong to nobody.
    Retain,
    /// They go.
    Prune,
}

/// The keys of S3.
struct Keys {
    access: SecretText,
    secret: SecretText,
    session: Option<SecretText>,
}

/// A bucket as described; nothing is connected.
pub(super) fn bucket(
    spec: &SinkSpec,
    materials: &Materials,
    environment: &Environment,
) -> Result<Bucket, SinkError> {
    let kind = spec.sink_type();
    let endpoint = spec.common().endpoint.as_deref().unwrap_or_default();
    let mut address = Address::parse(kind, endpoint)?;
    if address.server.is_none()
        && let Some(server) = option(spec, "endpoint")
    {
        // As if it stood in front of the bucket, and judged like that.
        let whole = format!("{}/{}", server.trim_end_matches('/'), address.bucket);
        environment
            .dialer
            .check_endpoint(kind, &whole, false)
            .map_err(|error| error.at("spec.options.endpoint"))?;
        address.server = Address::parse(kind, &whole)?.server;
    }
    let trust = Trust::of(spec, materials);
    let client = HttpClient::new(environment.dialer.clone(), &trust)?;
    match kind {
        SinkType::S3 => s3(spec, &address, &materials.credentials, client),
        other => Err(SinkError::terminal(format!(
            "sink type {:?} is not built into this program",
            other.as_str()
        ))),
    }
}

fn s3(
    spec: &SinkSpec,
    address: &Address,
    secret: &SecretData,
    client: HttpClient,
) -> Result<Bucket, SinkError> {
    let keys = keys(secret)?;
    let region = option(spec, "region")
        .map(str::to_owned)
        .or_else(|| {
            std::env::var("AWS_REGION")
                .ok()
                .filter(|region| !region.is_empty())
        })
        .unwrap_or_else(|| DEFAULT_REGION.to_owned());
    // Servers of one's own rarely have a name per bucket.
    let path_style = match option(spec, "forcePathStyle") {
        None => address.server.is_some(),
        Some("true") => true,
        Some("false") => false,
        Some(_) => {
            return Err(SinkError::terminal(
                "spec.options.forcePathStyle must be \"true\" or \"false\"",
            ));
        }
    };
    let mut builder = AmazonS3Builder::new()
        .with_bucket_name(&address.bucket)
        .with_region(region)
        .with_access_key_id(keys.access.expose())
        .with_secret_access_key(keys.secret.expose())
        .with_virtual_hosted_style_request(!path_style)
        // One request per object: not every server takes many at once.
        .with_disable_bulk_delete(true)
        .with_retry(retries())
        .with_http_connector(GuardedConnector::new(client.clone(), PATIENCE));
    if let Some(session) = &keys.session {
        builder = builder.with_token(session.expose());
    }
    if let Some(server) = &address.server {
        let endpoint = match (path_style, server.split_once("://")) {
            (false, Some((scheme, host))) => format!("{scheme}://{}.{host}", address.bucket),
            _ => server.clone(),
        };
        builder = builder
            .with_endpoint(endpoint)
            .with_allow_http(server.starts_with("http://"));
    }
    let store = builder.build().map_err(|_| {
        SinkError::terminal("spec.endpoint, spec.options and the Secret make no S3 client")
    })?;
    let store = Arc::new(store);
    Ok(Bucket {
        objects: Arc::clone(&store) as _,
        uploads: Arc::clone(&store) as _,
        s3: Some(S3Requests {
            store,
            client,
            patience: PATIENCE,
        }),
        prefix: address.prefix.clone(),
        shown: address.shown(),
    })
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

fn keys(secret: &SecretData) -> Result<Keys, SinkError> {
    let access = secret.first_text(&["accessKeyID", "AWS_ACCESS_KEY_ID"]);
    let key = secret.first_text(&["secretAccessKey", "AWS_SECRET_ACCESS_KEY"]);
    match (access, key) {
        (Some(access), Some(secret_key)) => Ok(Keys {
            access,
            secret: secret_key,
            session: secret.first_text(&["sessionToken", "AWS_SESSION_TOKEN"]),
        }),
        (None, None) => Err(SinkError::terminal(
            "there are no credentials: put accessKeyID and secretAccessKey into the Secret of \
             spec.secretRef",
        )),
        (Some(_), None) => Err(SinkError::terminal(
            "the Secret of spec.secretRef has accessKeyID and lacks secretAccessKey",
        )),
        (None, Some(_)) => Err(SinkError::terminal(
            "the Secret of spec.secretRef has secretAccessKey and lacks accessKeyID",
        )),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_keys_or_none() {
        let of = |pairs: &[(&str, &str)]| {
            let secret: SecretData = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect();
            keys(&secret)
                .map(|keys| keys.session.is_some())
                .map_err(|error| error.message().to_owned())
        };
        assert_eq!(
            of(&[("accessKeyID", "a"), ("secretAccessKey", "b\n")]),
            Ok(false)
        );
        assert_eq!(
            of(&[
                ("AWS_ACCESS_KEY_ID", "a"),
                ("AWS_SECRET_ACCESS_KEY", "b"),
                ("AWS_SESSION_TOKEN", "c")
            ]),
            Ok(true)
        );
        for (pairs, lacking) in [
            (&[][..], "no credentials"),
            (&[("accessKeyID", "a")][..], "lacks secretAccessKey"),
            (
                &[("secretAccessKey", "a"), ("accessKeyID", " ")][..],
                "lacks accessKeyID",
            ),
        ] {
            let error = of(pairs).unwrap_err();
            assert!(error.contains(lacking), "{error}");
        }
    }
}
