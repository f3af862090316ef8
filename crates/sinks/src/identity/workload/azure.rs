//! Tokens of Azure for storage: for a federated token of the pod, or from the instance.

use std::time::Duration;

use http::{Request, header};
use serde::{Deserialize, Deserializer};

use super::{Workload, kept::Lasting, malformed};
use crate::{
    error::SinkError,
    http::{empty, full, text::encoded},
    secret::SecretText,
};

const AUTHORITY: &str = "https://login.microsoftonline.com";
const INSTANCE: &str = "http://169.254.169.254";
const RESOURCE: &str = "https://storage.azure.com/";

#[derive(Deserialize)]
struct Granted {
    access_token: String,
    /// A number, or the digits of one.
    #[serde(deserialize_with = "seconds")]
    expires_in: u64,
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u64),
        Text(String),
    }
    match Either::deserialize(deserializer)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => text.trim().parse().map_err(serde::de::Error::custom),
    }
}

pub(super) async fn token(
    workload: &Workload,
    client_id: Option<&str>,
) -> Result<Lasting<SecretText>, SinkError> {
    let of_pod = client_id.or_else(|| workload.variable("AZURE_CLIENT_ID"));
    let (whom, body) = match (
        workload.variable("AZURE_FEDERATED_TOKEN_FILE"),
        workload.variable("AZURE_TENANT_ID"),
        of_pod,
    ) {
        (Some(file), Some(tenant), Some(client_id)) => {
            federated(workload, file, tenant, client_id).await?
        }
        _ => instance(workload, of_pod).await?,
    };
    let granted: Granted = serde_json::from_slice(&body)
        .map_err(|_| SinkError::transient(format!("{whom}: the answer holds no token")))?;
    Ok(Lasting {
        value: SecretText::from(granted.access_token.trim()),
        life: Duration::from_secs(granted.expires_in),
    })
}

async fn federated(
    workload: &Workload,
    file: &str,
    tenant: &str,
    client_id: &str,
) -> Result<(&'static str, bytes::Bytes), SinkError> {
    let whom = "the token service";
    let assertion = workload.token_in(file).await?;
    let authority = workload
        .variable("AZURE_AUTHORITY_HOST")
        .unwrap_or(AUTHORITY)
        .trim_end_matches('/');
    let form = [
        ("grant_type", "client_credentials"),
        ("client_id", client_id),
        ("scope", &format!("{RESOURCE}.default")),
        (
            "client_assertion_type",
            "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        ),
        ("client_assertion", assertion.expose()),
    ];
    let form: Vec<String> = form
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let request = Request::post(format!("{authority}/{}/oauth2/v2.0/token", encoded(tenant)))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(full(form.join("&")))
        .map_err(|_| malformed("AZURE_AUTHORITY_HOST"))?;
    Ok((whom, workload.ask(whom, request).await?))
}

async fn instance(
    workload: &Workload,
    client_id: Option<&str>,
) -> Result<(&'static str, bytes::Bytes), SinkError> {
    let whom = "the metadata service of the instance";
    let server = workload
        .variable("AZURE_POD_IDENTITY_AUTHORITY_HOST")
        .unwrap_or(INSTANCE)
        .trim_end_matches('/');
    let mut url = format!(
        "{server}/metadata/identity/oauth2/token?api-version=2018-02-01&resource={}",
        encoded(RESOURCE)
    );
    if let Some(client_id) = client_id {
        url.push_str(&format!("&client_id={}", encoded(client_id)));
    }
    let request = Request::get(url)
        .header("metadata", "true")
        .body(empty())
        .map_err(|_| malformed("AZURE_POD_IDENTITY_AUTHORITY_HOST"))?;
    Ok((whom, workload.ask(whom, request).await?))
}
