//! What a sink says about its server, its stream and who it is there.

use std::sync::Arc;

use async_nats::ConnectOptions;
use kollect_api::{
    effective,
    rules::nats::{self, Server},
    sink::{SinkSpec, common::ProvisioningMode, event::EventMode},
};
use rustls::ClientConfig;

use crate::{
    credentials::Materials,
    error::SinkError,
    secret::{SecretData, SecretText},
    tls::{self, Trust},
};

/// The stream of a sink that names none.
pub(super) const DEFAULT_STREAM: &str = "kollect_events";

/// Everything that a sink is configured with.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) servers: Vec<Server>,
    /// The URLs as they stand in the object.
    pub(super) url: String,
    pub(super) subject: String,
    /// The stream that the sink names; none for the default.
    pub(super) stream: Option<String>,
    pub(super) provisioning: ProvisioningMode,
    pub(super) mode: EventMode,
    pub(super) cluster: String,
}

impl Settings {
    pub(super) fn of(spec: &SinkSpec) -> Result<Self, SinkError> {
        let SinkSpec::Event(event) = spec else {
            return Err(SinkError::terminal("nats sink requires spec.nats"));
        };
        let Some(block) = &event.nats else {
            return Err(SinkError::terminal("nats sink requires spec.nats"));
        };
        let filled = |text: &Option<String>| {
            let text = text.as_deref().map(str::trim);
            text.filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let subject = block.subject.trim().to_owned();
        if subject.is_empty() {
            return Err(SinkError::terminal("nats sink requires spec.nats.subject"));
        }
        nats::subject(&subject)
            .map_err(|detail| SinkError::terminal(format!("spec.nats.subject: {detail}")))?;
        let stream = filled(&block.stream);
        if let Some(stream) = &stream {
            nats::stream(stream)
                .map_err(|detail| SinkError::terminal(format!("spec.nats.stream: {detail}")))?;
        }
        let own = filled(&block.url);
        let field = if own.is_some() {
            "spec.nats.url"
        } else {
            "spec.endpoint"
        };
        let Some(url) = own.or_else(|| filled(&event.common.endpoint)) else {
            let text = "nats sink requires spec.nats.url or spec.endpoint";
            return Err(SinkError::terminal(text));
        };
        let servers = nats::servers(&url)
            .map_err(|error| SinkError::terminal(format!("{field}: {error}")))?;
        Ok(Settings {
            servers,
            url,
            subject,
            stream: stream.map(|stream| stream.replace('.', "_")),
            provisioning: effective::provisioning_mode(&event.common),
            mode: event.mode(),
            cluster: spec.cluster().to_owned(),
        })
    }

    /// What has to be covered by the stream.
    pub(super) fn needed(&self) -> String {
        match self.mode {
            EventMode::Changes => format!("{}.>", self.subject),
            EventMode::Snapshots => self.subject.clone(),
        }
    }

    /// The name of the default stream of this subject, where the usual one is somebody else's.
    pub(super) fn own_default_stream(&self) -> String {
        let word = |c: char| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        };
        let subject: String = self.subject.chars().map(word).collect();
        format!("{DEFAULT_STREAM}_{subject}")
    }
}

/// Who the sink is at its server.
#[derive(Debug, Clone)]
pub(super) enum Login {
    /// Nobody, or whoever the certificate says.
    Anonymous,
    /// By a credentials file: a JWT and the seed that belongs to it.
    Credentials(SecretText),
    /// By the seed of an NKey.
    NKey(SecretText),
    /// By a token.
    Token(SecretText),
    /// By a name and a password.
    User(SecretText, SecretText),
}

impl Login {
    /// What the Secret offers, the strongest first.
    pub(super) fn of(secret: &SecretData) -> Self {
        let value = |key: &str| {
            let text = secret.text(key).map(|text| without_line_break(key, text));
            text.filter(|text| !text.expose().is_empty())
        };
        if let Some(creds) = value("creds") {
            Login::Credentials(creds)
        } else if let Some(seed) = value("nkey") {
            Login::NKey(seed)
        } else if let Some(token) = value("token") {
            Login::Token(token)
        } else if let Some(user) = value("username") {
            Login::User(user, value("password").unwrap_or_default())
        } else {
            Login::Anonymous
        }
    }

    /// Tells it to the client.
    pub(super) fn put(&self, options: ConnectOptions) -> Result<ConnectOptions, SinkError> {
        Ok(match self {
            Login::Anonymous => options,
            Login::Credentials(creds) => options.credentials(creds.expose()).map_err(|_| {
                SinkError::terminal(
                    "nats: the key creds of the Secret is no credentials file with a JWT and a seed",
                )
            })?,
            Login::NKey(seed) => options.nkey(seed.expose().to_owned()),
            Login::Token(token) => options.token(token.expose().to_owned()),
            Login::User(user, password) => {
                options.user_and_password(user.expose().to_owned(), password.expose().to_owned())
            }
        })
    }
}

/// Whom the sink believes and what it shows of itself; and whether it asks for TLS whatever the server
/// says, because it names authorities, skips verification or shows a certificate.
pub(super) fn tls(
    spec: &SinkSpec,
    materials: &Materials,
) -> Result<(Arc<ClientConfig>, bool), SinkError> {
    let trust = Trust::of(spec, materials);
    let mut config = trust.client_config()?;
    tls::client_certificate::identify(&mut config, &materials.credentials)?;
    let shows = materials.credentials.get("tls.key").is_some();
    let wanted = trust.authority.is_some() || trust.insecure_skip_verify || shows;
    Ok((Arc::new(config), wanted))
}

/// Whoever made the Secret from a file has a line break in it that no server knows of.
fn without_line_break(key: &str, text: SecretText) -> SecretText {
    let plain = text.expose();
    let cut = plain
        .strip_suffix('\n')
        .map(|cut| cut.strip_suffix('\r').unwrap_or(cut));
    match cut {
        Some(cut) => {
            tracing::warn!(
                key,
                "the Secret of a nats sink has a line break at the end of a value; it is left out"
            );
            SecretText::from(cut)
        }
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::{Value, json};

    use super::*;

    fn settings(spec: Value) -> Result<Settings, SinkError> {
        Settings::of(&SinkSpec::Event(serde_json::from_value(spec).unwrap()))
    }

    /// E29, E30, E31 of the specification, and what is refused without a server.
    #[test]
    fn what_the_object_says() {
        let spec = json!({
            "type": "nats", "endpoint": "nats://fallback:4222", "cluster": " west ",
            "nats": {"subject": " s ", "url": "nats://primary:4222", "stream": "team.inventory"},
        });
        let known = settings(spec).unwrap();
        assert_eq!(known.servers[0].host, "primary");
        assert_eq!(known.stream.as_deref(), Some("team_inventory"));
        assert_eq!((&*known.subject, &*known.cluster), ("s", "west"));
        assert_eq!(known.needed(), "s.>");
        let spec = json!({
            "type": "nats", "endpoint": "a,tls://b", "mode": "snapshots",
            "nats": {"subject": "inventory.events", "url": " "},
        });
        let known = settings(spec).unwrap();
        assert_eq!(known.servers.len(), 2);
        assert_eq!(known.stream, None);
        assert_eq!(known.needed(), "inventory.events");
        assert_eq!(
            known.own_default_stream(),
            "kollect_events_inventory_events"
        );
        for (spec, text) in [
            (json!({"type": "nats"}), "nats sink requires spec.nats"),
            (
                json!({"type": "nats", "nats": {"subject": " "}}),
                "nats sink requires spec.nats.subject",
            ),
            (
                json!({"type": "nats", "nats": {"subject": "s"}}),
                "nats sink requires spec.nats.url or spec.endpoint",
            ),
        ] {
            assert_eq!(settings(spec).unwrap_err(), SinkError::terminal(text));
        }
        let spec = json!({"type": "nats", "nats": {"subject": "s", "url": "nats://u:hunter2@a"}});
        let error = settings(spec).unwrap_err().to_string();
        assert!(
            error.starts_with("spec.nats.url: ") && !error.contains("hunter2"),
            "{error}"
        );
    }

    /// E34, and the line break that a file ends with.
    #[test]
    fn the_strongest_credential_counts() {
        let login = |pairs: &[(&str, &str)]| {
            let data: BTreeMap<String, Vec<u8>> = pairs
                .iter()
                .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
                .collect();
            match Login::of(&SecretData::from(data)) {
                Login::Anonymous => "nobody".to_owned(),
                Login::Credentials(text) => format!("creds {}", text.expose()),
                Login::NKey(text) => format!("nkey {}", text.expose()),
                Login::Token(text) => format!("token {}", text.expose()),
                Login::User(user, password) => {
                    format!("user {} {}", user.expose(), password.expose())
                }
            }
        };
        let user = [("username", "u"), ("password", "p\n")];
        assert_eq!(login(&user), "user u p");
        let mut all = user.to_vec();
        for (key, value, expected) in [
            ("token", "t\r\n", "token t"),
            ("nkey", "SU", "nkey SU"),
            ("creds", "c", "creds c"),
        ] {
            all.push((key, value));
            assert_eq!(login(&all), expected);
        }
        assert_eq!(login(&[("token", ""), ("username", "u")]), "user u ");
        assert_eq!(login(&[("token", "\n")]), "nobody");
        assert_eq!(login(&[]), "nobody");
    }
}
