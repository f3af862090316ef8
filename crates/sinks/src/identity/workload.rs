//! Who this process itself is to a cloud.
//!
//! A pod or a machine may be somebody: a role of AWS, a service account of Google, a managed identity
//! of Azure. Whoever may write a sink would write with the operator's rights, so this is used only
//! where an administrator allowed it (`--allow-workload-identity`), and only by sinks that have no
//! credentials of their own.
//!
//! | Cloud | Who says so, in this order |
//! | --- | --- |
//! | AWS | a web identity (IRSA), the agent for pods or tasks, the instance |
//! | Google | the metadata server, of GKE or of the instance |
//! | Azure | a federated token (workload identity), the instance (managed identity) |
//!
//! The variables that the clouds set in a pod say which; they belong to the administrator, as the
//! addresses in them do, so those are asked with a dialler of their own that may reach the
//! platform. A token that whoever has it may use (Google, Azure) is given to the cloud's own servers
//! only, over TLS that the system's authorities vouch for: a sink can be pointed anywhere.

mod aws;
mod azure;
mod google;
mod kept;

use std::{collections::BTreeMap, fmt, fs, io::Read as _, path::PathBuf, time::Duration};

use bytes::Bytes;
use http::{Request, StatusCode};
use kollect_api::address::AddressPolicy;
use tokio::{task::spawn_blocking, time::timeout};

pub use self::aws::AwsKeys;
use self::kept::Kept;
use crate::{
    dial::Dialer,
    error::SinkError,
    http::{self as client, HttpClient},
    secret::SecretText,
    tls::Trust,
};

/// How long a token service may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most bytes of its answer.
const ANSWER: usize = 64 << 10;
/// Most bytes of a token in a file.
const TOKEN_FILE: u64 = 64 << 10;

/// Where Google's tokens may be sent.
const GOOGLE: &[&str] = &[".googleapis.com"];
/// Where Azure's may: storage of its public and its sovereign clouds.
const AZURE: &[&str] = &[
    ".blob.core.windows.net",
    ".blob.core.usgovcloudapi.net",
    ".blob.core.chinacloudapi.cn",
];

/// What a process knows about itself.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// Its environment variables.
    pub variables: BTreeMap<String, String>,
    /// Servers (`http://host:port`) that are the cloud's own besides the usual ones, such as
    /// emulators.
    pub servers: Vec<String>,
    /// What is reachable beyond the internet, besides the platform.
    pub addresses: AddressPolicy,
}

impl Surroundings {
    /// Of this process.
    pub fn of_process(addresses: AddressPolicy) -> Self {
        Self {
            variables: std::env::vars().collect(),
            servers: Vec::new(),
            addresses,
        }
    }
}

/// The identity of this process.
pub struct Workload {
    surroundings: Surroundings,
    client: HttpClient,
    aws: Kept<AwsKeys>,
    tokens: Kept<SecretText>,
}

impl fmt::Debug for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workload").finish_non_exhaustive()
    }
}

impl Workload {
    /// Asks nobody yet.
    pub fn new(surroundings: Surroundings) -> Result<Self, SinkError> {
        let policy = AddressPolicy {
            platform: true,
            allow_private: true,
            ..surroundings.addresses.clone()
        };
        Ok(Self {
            client: HttpClient::new(Dialer::new(policy), &Trust::default())?,
            surroundings,
            aws: Kept::default(),
            tokens: Kept::default(),
        })
    }

    /// Keys of AWS for a region.
    pub async fn aws(&self, region: &str) -> Result<AwsKeys, SinkError> {
        self.aws
            .get(region, || aws::keys(self, region))
            .await
            .map_err(|error| error.at("the operator's own identity (AWS)"))
    }

    /// A token of Google.
    pub async fn google(&self) -> Result<SecretText, SinkError> {
        self.tokens
            .get("google", || google::token(self))
            .await
            .map_err(|error| error.at("the operator's own identity (Google Cloud)"))
    }

    /// A token of Azure for storage; `client_id` says whose, where there are several.
    pub async fn azure(&self, client_id: Option<&str>) -> Result<SecretText, SinkError> {
        let key = format!("azure {}", client_id.unwrap_or_default());
        self.tokens
            .get(&key, || azure::token(self, client_id))
            .await
            .map_err(|error| error.at("the operator's own identity (Azure)"))
    }

    /// A token that a server did not take is not used again.
    pub async fn forget(&self, token: &SecretText) {
        self.tokens.forget(token).await;
    }

    /// Refuses to show Google's token to anybody but Google. `server` is `https://host:port`.
    pub fn may_show_google(&self, server: &str, trust: &Trust) -> Result<(), SinkError> {
        self.may_show(server, trust, GOOGLE)
    }

    /// Refuses to show Azure's token to anybody but Azure.
    pub fn may_show_azure(&self, server: &str, trust: &Trust) -> Result<(), SinkError> {
        self.may_show(server, trust, AZURE)
    }

    fn may_show(&self, server: &str, trust: &Trust, own: &[&str]) -> Result<(), SinkError> {
        if self.surroundings.servers.iter().any(|one| one == server) {
            return Ok(());
        }
        let host = server.strip_prefix("https://").map(|rest| {
            let host = rest.split(['/', ':']).next().unwrap_or_default();
            host.to_ascii_lowercase()
        });
        if !host.is_some_and(|host| own.iter().any(|suffix| host.ends_with(suffix))) {
            return Err(SinkError::terminal(
                "the operator's own identity is shown to the cloud's own servers only, over https; \
                 use its usual endpoint, or put credentials into the Secret of spec.secretRef",
            ));
        }
        if *trust != Trust::default() {
            return Err(SinkError::terminal(
                "the operator's own identity is shown only to servers that the system's authorities \
                 vouch for; remove spec.tls, or put credentials into the Secret of spec.secretRef",
            ));
        }
        Ok(())
    }

    /// A variable that is set and not blank.
    fn variable(&self, name: &str) -> Option<&str> {
        let value = self.surroundings.variables.get(name)?.trim();
        (!value.is_empty()).then_some(value)
    }

    /// The token in a file, read anew each time: whoever wrote it replaces it.
    async fn token_in(&self, file: &str) -> Result<SecretText, SinkError> {
        let path = PathBuf::from(file);
        let reading = spawn_blocking(move || {
            let mut text = String::new();
            let file = fs::File::open(path)?;
            file.take(TOKEN_FILE).read_to_string(&mut text)?;
            Ok::<_, std::io::Error>(text)
        });
        let text = reading
            .await
            .map_err(|_| SinkError::transient("the token in its file could not be read"))?;
        let text = text.map_err(|error| {
            SinkError::transient(format!("the token in {file:?} cannot be read: {error}"))
        })?;
        Ok(SecretText::from(text.trim()))
    }

    /// An answer that is no refusal.
    async fn ask(&self, whom: &str, request: Request<client::Body>) -> Result<Bytes, SinkError> {
        let exchange = async {
            let response = self.client.send(request).await?;
            let status = response.status();
            let body = client::read(response.into_body(), ANSWER).await?;
            Ok::<_, SinkError>((status, body))
        };
        let (status, body) = timeout(PATIENCE, exchange)
            .await
            .unwrap_or_else(|_| {
                let limit = PATIENCE.as_secs();
                Err(SinkError::transient(format!("no answer within {limit} s")))
            })
            .map_err(|error| error.at(whom))?;
        if status.is_success() {
            return Ok(body);
        }
        Err(refused(whom, status, &body))
    }
}

/// A refusal in words. Somebody may change what this process is allowed at any time, so it is asked
/// again.
fn refused(whom: &str, status: StatusCode, body: &[u8]) -> SinkError {
    let word = word(body).map_or_else(String::new, |word| format!(" ({word})"));
    let text = format!("{whom} answered {}{word}", status.as_u16());
    match status.as_u16() {
        429 | 500.. => SinkError::Transient(text),
        _ => SinkError::Forbidden(format!(
            "{text}; let the operator's pod be somebody who may write there, or put credentials into \
             the Secret of spec.secretRef"
        )),
    }
}

/// The word that a service has for a refusal. Its sentence is not repeated: it may name accounts.
fn word(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let between = |open: &str, close: &str| {
        let (_, rest) = text.split_once(open)?;
        let (word, _) = rest.split_once(close)?;
        let word = word.trim_matches(|c: char| c == '"' || c == ':' || c.is_whitespace());
        let usual = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
        ((1..=64).contains(&word.len()) && word.bytes().all(usual)).then(|| word.to_owned())
    };
    between("<Code>", "</Code>").or_else(|| between("\"error\"", ","))
}

/// A request that could not be put together: a variable holds no address.
fn malformed(variable: &str) -> SinkError {
    SinkError::terminal(format!(
        "{variable} of the operator's pod is no address that can be asked"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_shown_to_the_cloud_alone() {
        let workload = Workload::new(Surroundings {
            servers: vec!["http://127.0.0.1:7".to_owned()],
            ..Surroundings::default()
        })
        .unwrap();
        let careless = Trust {
            insecure_skip_verify: true,
            ..Trust::default()
        };
        let plain = Trust::default();
        for (server, trust, google, azure) in [
            ("https://storage.googleapis.com", &plain, true, false),
            ("https://acct.blob.core.windows.net", &plain, false, true),
            (
                "https://ACCT.blob.core.usgovcloudapi.net",
                &plain,
                false,
                true,
            ),
            ("http://127.0.0.1:7", &plain, true, true),
            ("http://storage.googleapis.com", &plain, false, false),
            ("https://storage.googleapis.com", &careless, false, false),
            (
                "https://storage.googleapis.com.evil.example",
                &plain,
                false,
                false,
            ),
            ("https://evilgoogleapis.com", &plain, false, false),
            ("https://evil.example/.googleapis.com", &plain, false, false),
            ("https://evil.example:443", &plain, false, false),
        ] {
            assert_eq!(
                workload.may_show_google(server, trust).is_ok(),
                google,
                "{server}"
            );
            assert_eq!(
                workload.may_show_azure(server, trust).is_ok(),
                azure,
                "{server}"
            );
        }
    }

    #[test]
    fn only_words_of_a_refusal_are_repeated() {
        let refusal = |status: u16, body: &[u8]| {
            let status = StatusCode::from_u16(status).unwrap();
            refused("the token service", status, body)
        };
        let denied = refusal(403, b"<Error><Code>AccessDenied</Code><Message>arn:aws:x");
        assert!(
            matches!(&denied, SinkError::Forbidden(text) if text.contains("403 (AccessDenied)") && !text.contains("arn")),
            "{denied:?}"
        );
        let busy = refusal(503, b"{\"error\": \"temporarily_unavailable\", \"x\": 1}");
        assert!(
            matches!(&busy, SinkError::Transient(text) if text.contains("(temporarily_unavailable)")),
            "{busy:?}"
        );
    }
}
