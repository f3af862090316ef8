//! Keys of AWS: for a web identity, from the agent for pods and tasks, or from the instance.

use std::time::Duration;

use http::{Method, Request, header};
use jiff::Timestamp;
use serde::Deserialize;

use super::{Workload, kept::Lasting, malformed};
use crate::{
    error::SinkError,
    http::{
        empty, full,
        text::{element, encoded},
    },
    secret::SecretText,
};

const INSTANCE: &str = "http://169.254.169.254";
const TASKS: &str = "http://169.254.170.2";

/// Keys that end after a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AwsKeys {
    /// Which key.
    pub access: SecretText,
    /// What requests are signed with.
    pub secret: SecretText,
    /// What goes along with every request.
    pub session: Option<SecretText>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Granted {
    access_key_id: String,
    secret_access_key: String,
    token: Option<String>,
    expiration: Option<Timestamp>,
}

pub(super) async fn keys(workload: &Workload, region: &str) -> Result<Lasting<AwsKeys>, SinkError> {
    if let (Some(file), Some(role)) = (
        workload.variable("AWS_WEB_IDENTITY_TOKEN_FILE"),
        workload.variable("AWS_ROLE_ARN"),
    ) {
        return web_identity(workload, file, role, region).await;
    }
    let relative = workload.variable("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
    let relative = relative.map(|path| format!("{TASKS}{path}"));
    let whole = workload.variable("AWS_CONTAINER_CREDENTIALS_FULL_URI");
    match relative.or_else(|| whole.map(str::to_owned)) {
        Some(url) => agent(workload, &url).await,
        None => instance(workload).await,
    }
}

async fn web_identity(
    workload: &Workload,
    file: &str,
    role: &str,
    region: &str,
) -> Result<Lasting<AwsKeys>, SinkError> {
    let whom = "the token service (AssumeRoleWithWebIdentity)";
    let token = workload.token_in(file).await?;
    let session = workload.variable("AWS_ROLE_SESSION_NAME");
    let form = [
        ("Action", "AssumeRoleWithWebIdentity"),
        ("Version", "2011-06-15"),
        ("RoleArn", role),
        ("RoleSessionName", session.unwrap_or("kollect")),
        ("WebIdentityToken", token.expose()),
    ];
    let form: Vec<String> = form
        .iter()
        .map(|(name, value)| format!("{name}={}", encoded(value)))
        .collect();
    let usual = format!("https://sts.{region}.amazonaws.com");
    let server = workload.variable("AWS_ENDPOINT_URL_STS").unwrap_or(&usual);
    let request = Request::post(format!("{}/", server.trim_end_matches('/')))
        .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(full(form.join("&")))
        .map_err(|_| malformed("AWS_ENDPOINT_URL_STS"))?;
    let body = workload.ask(whom, request).await?;
    let text = String::from_utf8_lossy(&body);
    let granted = || {
        Some(Granted {
            access_key_id: element(&text, "AccessKeyId")?,
            secret_access_key: element(&text, "SecretAccessKey")?,
            token: element(&text, "SessionToken"),
            expiration: element(&text, "Expiration").and_then(|text| text.parse().ok()),
        })
    };
    lasting(granted().ok_or_else(|| unreadable(whom))?)
}

async fn agent(workload: &Workload, url: &str) -> Result<Lasting<AwsKeys>, SinkError> {
    let whom = "the credentials agent of the pod";
    let mut request = Request::get(url);
    let token = match workload.variable("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
        Some(file) => Some(workload.token_in(file).await?),
        None => workload
            .variable("AWS_CONTAINER_AUTHORIZATION_TOKEN")
            .map(SecretText::from),
    };
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, token.expose());
    }
    let request = request
        .body(empty())
        .map_err(|_| malformed("AWS_CONTAINER_CREDENTIALS_FULL_URI"))?;
    let body = workload.ask(whom, request).await?;
    lasting(serde_json::from_slice(&body).map_err(|_| unreadable(whom))?)
}

/// Asks with a token for the session, which other processes that a pod could be tricked into asking
/// through cannot get.
async fn instance(workload: &Workload) -> Result<Lasting<AwsKeys>, SinkError> {
    let whom = "the metadata service of the instance";
    let server = workload
        .variable("AWS_EC2_METADATA_SERVICE_ENDPOINT")
        .unwrap_or(INSTANCE)
        .trim_end_matches('/');
    let wrong = |_| malformed("AWS_EC2_METADATA_SERVICE_ENDPOINT");
    let request = Request::builder()
        .method(Method::PUT)
        .uri(format!("{server}/latest/api/token"))
        .header("x-aws-ec2-metadata-token-ttl-seconds", "300")
        .body(empty())
        .map_err(wrong)?;
    let session = workload.ask(whom, request).await?;
    let session = String::from_utf8_lossy(&session).trim().to_owned();
    let read = async |path: &str| {
        let request = Request::get(format!(
            "{server}/latest/meta-data/iam/security-credentials/{path}"
        ))
        .header("x-aws-ec2-metadata-token", &session)
        .body(empty())
        .map_err(wrong)?;
        workload.ask(whom, request).await
    };
    let roles = read("").await?;
    let roles = String::from_utf8_lossy(&roles).into_owned();
    let Some(role) = roles.lines().next().map(str::trim) else {
        return Err(unreadable(whom));
    };
    let body = read(&encoded(role)).await?;
    lasting(serde_json::from_slice(&body).map_err(|_| unreadable(whom))?)
}

fn lasting(granted: Granted) -> Result<Lasting<AwsKeys>, SinkError> {
    let life = match granted.expiration {
        None => Duration::from_mins(15),
        Some(end) => Duration::try_from(end.duration_since(Timestamp::now())).map_err(|_| {
            SinkError::transient("the keys have ended already; the clock may be wrong")
        })?,
    };
    Ok(Lasting {
        value: AwsKeys {
            access: SecretText::from(granted.access_key_id.trim()),
            secret: SecretText::from(granted.secret_access_key.trim()),
            session: granted
                .token
                .map(|token| SecretText::from(token.trim()))
                .filter(|token| !token.is_blank()),
        },
        life,
    })
}

fn unreadable(whom: &str) -> SinkError {
    SinkError::transient(format!("{whom}: the answer holds no keys"))
}
