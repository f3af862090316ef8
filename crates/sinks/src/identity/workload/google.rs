//! The metadata server of Google Cloud.

use std::time::Duration;

use http::Request;
use serde::Deserialize;

use super::{Workload, kept::Lasting, malformed};
use crate::{error::SinkError, http::empty, secret::SecretText};

/// Where it is, unless a variable says otherwise.
const SERVER: &str = "169.254.169.254";
const WHOM: &str = "the metadata server";

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    expires_in: u64,
}

pub(super) async fn token(workload: &Workload) -> Result<Lasting<SecretText>, SinkError> {
    let server = workload.variable("GCE_METADATA_HOST").unwrap_or(SERVER);
    let url = format!("http://{server}/computeMetadata/v1/instance/service-accounts/default/token");
    let request = Request::get(url)
        .header("metadata-flavor", "Google")
        .body(empty())
        .map_err(|_| malformed("GCE_METADATA_HOST"))?;
    let body = workload.ask(WHOM, request).await?;
    let granted: Granted = serde_json::from_slice(&body)
        .map_err(|_| SinkError::transient(format!("{WHOM}: the answer holds no token")))?;
    Ok(Lasting {
        value: SecretText::from(granted.access_token.trim()),
        life: Duration::from_secs(granted.expires_in),
    })
}
