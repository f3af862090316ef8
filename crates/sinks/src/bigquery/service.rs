//! Which service, and who asks there.

use crate::{
    credentials::Materials,
    dial::Dialer,
    error::SinkError,
    http::HttpClient,
    identity::google::{ServiceAccountKey, Tokens},
    secret::SecretText,
    tls::Trust,
};

use super::{api::Api, sql::Dialect};

/// What a key is asked to allow.
const SCOPE: &str = "https://www.googleapis.com/auth/bigquery";
/// The key of the Secret.
const KEY: &str = "credentials.json";
/// The variable that leads to an emulator.
const EMULATOR: &str = "BIGQUERY_EMULATOR_HOST";
const GOOGLE: &str = "https://bigquery.googleapis.com";

/// A service that speaks BigQuery v2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Scheme and host.
    pub(super) base: String,
    pub(super) dialect: Dialect,
    /// Whether it asks who comes.
    guarded: bool,
}

impl Service {
    /// Google's.
    pub fn google() -> Self {
        Self {
            base: GOOGLE.to_owned(),
            dialect: Dialect::Merge,
            guarded: true,
        }
    }

    /// An emulator at `host:port` or a URL, which asks nobody for credentials.
    pub fn emulator(host: &str) -> Self {
        let host = host.trim().trim_end_matches('/');
        let base = if host.starts_with("http://") || host.starts_with("https://") {
            host.to_owned()
        } else {
            format!("http://{host}")
        };
        Self {
            base,
            dialect: Dialect::DeleteInsert,
            guarded: false,
        }
    }

    /// The same service behind somebody who asks for tokens.
    #[must_use]
    pub fn with_credentials(self) -> Self {
        Self {
            guarded: true,
            ..self
        }
    }

    /// The same service, given the statements that Google's is given.
    #[must_use]
    pub fn with_merge(self) -> Self {
        Self {
            dialect: Dialect::Merge,
            ..self
        }
    }

    /// As whoever started the program says.
    pub fn of_environment() -> Self {
        match std::env::var(EMULATOR) {
            Ok(host) if !host.trim().is_empty() => Self::emulator(&host),
            _ => Self::google(),
        }
    }
}

/// What a connection to a service is made of.
#[derive(Debug)]
pub(super) struct Access {
    pub(super) service: Service,
    credentials: Option<SecretText>,
    dialer: Dialer,
    trust: Trust,
}

impl Access {
    /// As spec and Secret say; `named` is whether the spec names a Secret at all.
    pub(super) fn of(
        service: Service,
        materials: &Materials,
        named: bool,
        dialer: Dialer,
        trust: Trust,
    ) -> Result<Self, SinkError> {
        let access = Self {
            credentials: if service.guarded {
                Some(key_text(materials, named)?)
            } else {
                None
            },
            service,
            dialer,
            trust,
        };
        // A broken key is told before anything is connected.
        access.key().map(|_| access)
    }

    fn key(&self) -> Result<Option<ServiceAccountKey>, SinkError> {
        let plain = self.service.base.starts_with("http://");
        self.credentials
            .as_ref()
            .map(|text| ServiceAccountKey::parse(text.expose(), plain))
            .transpose()
            .map_err(|error| {
                SinkError::terminal(format!(
                    "bigquery client options: parse bigquery {KEY}: {error}"
                ))
            })
    }

    /// A client with connections and a token of its own.
    pub(super) fn connect(&self) -> Result<Api, SinkError> {
        let http = HttpClient::new(self.dialer.clone(), &self.trust)?;
        let tokens = self.key()?.map(|key| Tokens::new(key, SCOPE, http.clone()));
        let base = format!("{}/bigquery/v2", self.service.base);
        Ok(Api::new(http, base, tokens))
    }
}

fn key_text(materials: &Materials, named: bool) -> Result<SecretText, SinkError> {
    if !named {
        return Err(SinkError::terminal(
            "bigquery sink requires spec.bigquery.secretRef: the identity of the operator's own pod is \
             not lent to sinks",
        ));
    }
    if materials.credentials.is_empty() {
        return Err(SinkError::terminal("bigquery secretRef secret is empty"));
    }
    let text = materials.credentials.first_text(&[KEY]);
    text.ok_or_else(|| SinkError::terminal(format!("bigquery secret must contain {KEY}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulator_is_named_with_or_without_a_scheme() {
        for (given, base) in [
            ("127.0.0.1:9050", "http://127.0.0.1:9050"),
            (" http://emulator:9050/ ", "http://emulator:9050"),
            ("https://emulator", "https://emulator"),
        ] {
            let service = Service::emulator(given);
            assert_eq!(service.base, base);
            assert_eq!(service.dialect, Dialect::DeleteInsert);
        }
        assert_eq!(Service::google().dialect, Dialect::Merge);
    }
}
