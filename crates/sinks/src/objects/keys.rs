//! Who asks: keys of a Secret, or, where an administrator allowed it, this process itself.

use std::sync::Arc;

use async_trait::async_trait;
use base64::{Engine, prelude::BASE64_STANDARD};
use jiff::{Timestamp, fmt::rfc2822};
use object_store::{CredentialProvider, aws::AwsCredential};
use ring::hmac;

use super::rest::Call;
use crate::{
    error::SinkError,
    http::object_store::given,
    identity::{
        google::{ServiceAccountKey, Tokens},
        workload::Workload,
    },
    secret::{SecretData, SecretText},
};

/// What is said where there are no credentials and this process may not stand in.
fn missing(put: &str) -> SinkError {
    SinkError::terminal(format!(
        "there are no credentials: put {put} into the Secret of spec.secretRef (without a secretRef \
         the operator's own identity is used, if its administrator starts it with \
         --allow-workload-identity)"
    ))
}

/// The keys of S3.
pub(super) enum S3Keys {
    /// From a Secret.
    Given {
        access: SecretText,
        secret: SecretText,
        session: Option<SecretText>,
    },
    /// This process.
    Own(Arc<Workload>),
}

impl S3Keys {
    pub(super) fn of(
        secret: &SecretData,
        workload: Option<&Arc<Workload>>,
    ) -> Result<Self, SinkError> {
        let access = secret.first_text(&["accessKeyID", "AWS_ACCESS_KEY_ID"]);
        let secret_key = secret.first_text(&["secretAccessKey", "AWS_SECRET_ACCESS_KEY"]);
        match (access, secret_key, workload) {
            (Some(access), Some(secret_key), _) => Ok(Self::Given {
                access,
                secret: secret_key,
                session: secret.first_text(&["sessionToken", "AWS_SESSION_TOKEN"]),
            }),
            (None, None, Some(workload)) => Ok(Self::Own(Arc::clone(workload))),
            (None, None, None) => Err(missing("accessKeyID and secretAccessKey")),
            (Some(_), None, _) => Err(SinkError::terminal(
                "the Secret of spec.secretRef has accessKeyID and lacks secretAccessKey",
            )),
            (None, Some(_), _) => Err(SinkError::terminal(
                "the Secret of spec.secretRef has secretAccessKey and lacks accessKeyID",
            )),
        }
    }
}

/// Gives the library the keys of this process.
#[derive(Debug)]
pub(super) struct OwnAws {
    pub(super) workload: Arc<Workload>,
    pub(super) region: String,
}

#[async_trait]
impl CredentialProvider for OwnAws {
    type Credential = AwsCredential;

    async fn get_credential(&self) -> object_store::Result<Arc<AwsCredential>> {
        let keys = self.workload.aws(&self.region).await.map_err(given)?;
        Ok(Arc::new(AwsCredential {
            key_id: keys.access.expose().to_owned(),
            secret_key: keys.secret.expose().to_owned(),
            token: keys.session.map(|session| session.expose().to_owned()),
        }))
    }
}

/// What Google's own protocol is spoken with.
pub(super) enum GoogleKeys {
    /// A service account's key.
    Key(Box<Tokens>),
    /// This process.
    Own(Arc<Workload>),
}

/// Where a Secret may hold a service account's key.
const SERVICE_ACCOUNT: [&str; 4] = [
    "credentials.json",
    "serviceAccount.json",
    "key.json",
    "GOOGLE_SERVICE_ACCOUNT_KEY",
];

impl GoogleKeys {
    /// The key of a service account in a Secret, if it holds one.
    pub(super) fn service_account(secret: &SecretData) -> Option<SecretText> {
        secret.first_text(&SERVICE_ACCOUNT)
    }

    pub(super) fn parse(text: &SecretText, plain: bool) -> Result<ServiceAccountKey, SinkError> {
        ServiceAccountKey::parse(text.expose(), plain).map_err(|error| {
            SinkError::terminal(format!(
                "credentials.json in the Secret of spec.secretRef is no key of a service account: \
                 {error}"
            ))
        })
    }

    pub(super) fn own(workload: Option<&Arc<Workload>>) -> Result<Arc<Workload>, SinkError> {
        workload.cloned().ok_or_else(|| {
            missing(
                "credentials.json (the key of a service account), or accessKeyID and \
                 secretAccessKey (an HMAC key),",
            )
        })
    }

    pub(super) async fn token(&self) -> Result<SecretText, SinkError> {
        match self {
            Self::Key(tokens) => tokens.token().await,
            Self::Own(workload) => workload.google().await,
        }
    }

    /// A server did not take this token.
    pub(super) async fn forget(&self, token: &SecretText) {
        match self {
            Self::Key(tokens) => tokens.forget(token).await,
            Self::Own(workload) => workload.forget(token).await,
        }
    }
}

/// The keys of Azure.
pub(super) enum AzureKeys {
    /// The key of an account.
    Shared { account: String, key: hmac::Key },
    /// A signature that somebody with the key made: part of every address.
    Signature(SecretText),
    /// This process.
    Own {
        workload: Arc<Workload>,
        client_id: Option<String>,
    },
}

impl AzureKeys {
    pub(super) fn of(
        account: &str,
        client_id: Option<&str>,
        secret: &SecretData,
        workload: Option<&Arc<Workload>>,
    ) -> Result<Self, SinkError> {
        let key = secret.first_text(&[
            "accountKey",
            "AZURE_STORAGE_KEY",
            "AZURE_STORAGE_ACCOUNT_KEY",
        ]);
        let signature = secret.first_text(&["sasToken", "AZURE_STORAGE_SAS_TOKEN"]);
        match (key, signature, workload) {
            (Some(key), None, _) => {
                let bytes = BASE64_STANDARD.decode(key.expose()).map_err(|_| {
                    SinkError::terminal(
                        "accountKey in the Secret of spec.secretRef is no key of an account: it is \
                         not base64",
                    )
                })?;
                Ok(Self::Shared {
                    account: account.to_owned(),
                    key: hmac::Key::new(hmac::HMAC_SHA256, &bytes),
                })
            }
            (None, Some(signature), _) => {
                let text = signature.expose().trim_start_matches('?');
                let usual = |b: u8| b.is_ascii_graphic() && b != b'#';
                if !text.contains("sig=") || !text.bytes().all(usual) {
                    return Err(SinkError::terminal(
                        "sasToken in the Secret of spec.secretRef is no shared access signature",
                    ));
                }
                Ok(Self::Signature(SecretText::from(text)))
            }
            (Some(_), Some(_), _) => Err(SinkError::terminal(
                "the Secret of spec.secretRef has accountKey and sasToken; keep one of them",
            )),
            (None, None, Some(workload)) => Ok(Self::Own {
                workload: Arc::clone(workload),
                client_id: client_id.map(str::to_owned),
            }),
            (None, None, None) => Err(missing("accountKey or sasToken")),
        }
    }

    /// Adds to a request who asks.
    pub(super) async fn sign(&self, call: Call) -> Result<Call, SinkError> {
        let call = call.header("x-ms-date", &date(Timestamp::now()));
        match self {
            Self::Shared { account, key } => {
                let signature = hmac::sign(key, signed_text(account, &call).as_bytes());
                let signature = BASE64_STANDARD.encode(signature);
                Ok(call.header("authorization", &format!("SharedKey {account}:{signature}")))
            }
            Self::Signature(signature) => {
                let joint = if call.url.contains('?') { '&' } else { '?' };
                let url = format!("{}{joint}{}", call.url, signature.expose());
                Ok(Call { url, ..call })
            }
            Self::Own {
                workload,
                client_id,
            } => {
                let token = workload.azure(client_id.as_deref()).await?;
                Ok(call.header("authorization", &format!("Bearer {}", token.expose())))
            }
        }
    }

    /// Makes another signature possible where one was not taken; says whether that may help.
    pub(super) async fn renew(&self) -> bool {
        let Self::Own {
            workload,
            client_id,
        } = self
        else {
            return false;
        };
        if let Ok(token) = workload.azure(client_id.as_deref()).await {
            workload.forget(&token).await;
        }
        true
    }
}

/// A time as HTTP writes it.
fn date(at: Timestamp) -> String {
    rfc2822::DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&at)
        .unwrap_or_default()
}

/// The text that a request with an account's key is signed by.
fn signed_text(account: &str, call: &Call) -> String {
    let header = |name: &str| {
        let value = call.headers.get(name).and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let length = match call.body.len() {
        0 => String::new(),
        length => length.to_string(),
    };
    let mut text = format!(
        "{}\n{}\n{}\n{length}\n{}\n{}\n\n{}\n{}\n{}\n{}\n{}\n",
        call.method,
        header("content-encoding"),
        header("content-language"),
        header("content-md5"),
        header("content-type"),
        header("if-modified-since"),
        header("if-match"),
        header("if-none-match"),
        header("if-unmodified-since"),
        header("range"),
    );
    let mut own: Vec<(&str, &str)> = call
        .headers
        .iter()
        .filter(|(name, _)| name.as_str().starts_with("x-ms-"))
        .filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?.trim())))
        .collect();
    own.sort_unstable();
    for (name, value) in own {
        text.push_str(&format!("{name}:{value}\n"));
    }
    let (path, query) = call.url.split_once('?').unwrap_or((&call.url, ""));
    let path = path.split_once("://").map_or(path, |(_, rest)| rest);
    let path = path.find('/').map_or("/", |at| &path[at..]);
    text.push_str(&format!("/{account}{path}"));
    let mut pairs: Vec<(String, String)> = query
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = percent_encoding::percent_decode_str(value).decode_utf8_lossy();
            (name.to_ascii_lowercase(), value.into_owned())
        })
        .collect();
    pairs.sort_unstable();
    for (name, value) in pairs {
        text.push_str(&format!("\n{name}:{value}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::*;

    fn secret(pairs: &[(&str, &str)]) -> SecretData {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn both_keys_or_none() {
        let of = |pairs: &[(&str, &str)]| match S3Keys::of(&secret(pairs), None) {
            Ok(S3Keys::Given { session, .. }) => Ok(session.is_some()),
            Ok(S3Keys::Own(_)) => Err("own".to_owned()),
            Err(error) => Err(error.message().to_owned()),
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
            (&[][..], "--allow-workload-identity"),
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

    #[test]
    fn one_key_of_azure() {
        let of = |pairs: &[(&str, &str)]| {
            let keys = AzureKeys::of("acct", None, &secret(pairs), None);
            keys.map(|keys| match keys {
                AzureKeys::Shared { .. } => "key",
                AzureKeys::Signature(_) => "signature",
                AzureKeys::Own { .. } => "own",
            })
            .map_err(|error| error.message().to_owned())
        };
        assert_eq!(of(&[("accountKey", "c2VjcmV0\n")]), Ok("key"));
        assert_eq!(of(&[("sasToken", "?sv=1&sig=a%3D")]), Ok("signature"));
        for (pairs, says) in [
            (&[][..], "--allow-workload-identity"),
            (&[("accountKey", "no base64!")][..], "not base64"),
            (&[("sasToken", "sv=1")][..], "no shared access signature"),
            (
                &[("sasToken", "sig=1\r\nx")][..],
                "no shared access signature",
            ),
            (
                &[("accountKey", "c2VjcmV0"), ("sasToken", "sig=1")][..],
                "keep one",
            ),
        ] {
            let error = of(pairs).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The example of the protocol's documentation, with the headers that it has.
    #[test]
    fn the_text_of_a_shared_key() {
        let url = "http://myaccount.blob.core.windows.net/mycontainer?restype=container&comp=metadata&timeout=20";
        let call = Call::new(Method::GET, url.to_owned())
            .header("x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT")
            .header("x-ms-version", "2015-02-21");
        assert_eq!(
            signed_text("myaccount", &call),
            "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\n\
             x-ms-version:2015-02-21\n/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20"
        );
        let at = Timestamp::from_second(1_435_361_952).unwrap();
        assert_eq!(date(at), "Fri, 26 Jun 2015 23:39:12 GMT");
    }
}
