//! What a sink's description and Secret say about Kafka.

use std::{fmt, sync::Arc};

use kollect_api::{
    effective,
    sink::{
        SinkSpec,
        common::{Compression, ProvisioningMode},
        event::{EventMode, Kafka, KollectEventSinkSpec, SaslMechanism},
    },
};
use rustls::ClientConfig;

use super::{compression::Codec, sasl::Login};
use crate::{
    credentials::Materials,
    error::SinkError,
    secret::{SecretData, SecretText},
    tls::{self, Trust},
};

/// The port of a broker that is given without one.
const PORT: u16 = 9092;

/// How much is read back at most, unless the sink says otherwise.
const READ_BACK: u64 = 1 << 30;

/// Everything that is known before a broker is asked.
#[derive(Clone)]
pub(super) struct Settings {
    pub(super) brokers: Vec<Broker>,
    pub(super) topic: String,
    pub(super) cluster: String,
    pub(super) mode: EventMode,
    pub(super) login: Option<Login>,
    pub(super) tls: Option<Arc<ClientConfig>>,
    pub(super) codec: Codec,
    pub(super) provisioning: ProvisioningMode,
    pub(super) read_back_limit: u64,
}

/// Where a broker listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Broker {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Broker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Broker { host, port } = self;
        if host.contains(':') {
            write!(f, "[{host}]:{port}")
        } else {
            write!(f, "{host}:{port}")
        }
    }
}

/// The block of a sink of this type.
pub(super) fn block(spec: &SinkSpec) -> Result<(&KollectEventSinkSpec, &Kafka), SinkError> {
    match spec {
        SinkSpec::Event(event) => event.kafka.as_ref().map(|kafka| (event, kafka)),
        SinkSpec::Snapshot(_) | SinkSpec::Database(_) => None,
    }
    .ok_or_else(|| SinkError::terminal("kafka sink requires spec.kafka"))
}

impl Settings {
    pub(super) fn new(spec: &SinkSpec, materials: &Materials) -> Result<Self, SinkError> {
        let (event, kafka) = block(spec)?;
        let topic = kafka.topic.trim();
        if topic.is_empty() {
            return Err(SinkError::terminal("kafka sink requires spec.kafka.topic"));
        }
        let brokers = brokers(&kafka.brokers)?;
        let secret = &materials.credentials;
        let tls = encryption(spec, materials)?;
        let login = login(kafka.sasl_mechanism, secret);
        if let Some(login) = &login {
            login.check()?;
            let open = matches!(
                login.mechanism,
                SaslMechanism::Plain | SaslMechanism::Oauthbearer
            );
            if open && tls.is_none() {
                return Err(SinkError::terminal(format!(
                    "kafka SASL: {} shows the password to everybody on the way; set spec.tls (an \
                     empty object trusts the system's authorities), or use SCRAM-SHA-512",
                    login.mechanism.as_str()
                )));
            }
        }
        let common = &event.common;
        Ok(Self {
            brokers,
            topic: topic.to_owned(),
            cluster: common
                .cluster
                .as_deref()
                .unwrap_or_default()
                .trim()
                .to_owned(),
            mode: event.mode(),
            login,
            tls,
            codec: match effective::asked_compression(common) {
                Compression::None => Codec::None,
                Compression::Gzip => Codec::Gzip,
                Compression::Snappy => Codec::Snappy,
                Compression::Zstd => Codec::Zstd,
            },
            provisioning: effective::provisioning_mode(common),
            read_back_limit: kafka
                .read_back_limit
                .map_or(READ_BACK, |bytes| u64::try_from(bytes).unwrap_or(0)),
        })
    }
}

/// Bootstrap addresses; blank ones are dropped.
fn brokers(texts: &[String]) -> Result<Vec<Broker>, SinkError> {
    if texts.is_empty() {
        return Err(SinkError::terminal(
            "kafka sink requires spec.kafka.brokers",
        ));
    }
    let brokers: Vec<_> = texts
        .iter()
        .map(|text| text.trim())
        .filter(|text| !text.is_empty())
        .map(broker)
        .collect::<Result<_, _>>()?;
    if brokers.is_empty() {
        return Err(SinkError::terminal(
            "kafka sink requires at least one broker",
        ));
    }
    Ok(brokers)
}

/// `host`, `host:port`, `[v6]`, `[v6]:port` or a bare v6 address.
fn broker(text: &str) -> Result<Broker, SinkError> {
    let wrong = || {
        SinkError::terminal(format!(
            "spec.kafka.brokers: {text:?} is no host:port; write it as kafka.example.com:9092"
        ))
    };
    let (host, port) = if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']').ok_or_else(wrong)?;
        match rest {
            "" => (host, None),
            _ => (host, Some(rest.strip_prefix(':').ok_or_else(wrong)?)),
        }
    } else {
        match text.split_once(':') {
            Some((_, rest)) if rest.contains(':') => (text, None),
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let port = port.map_or(Ok(PORT), |port| port.parse().map_err(|_| wrong()))?;
    if host.is_empty() || host.contains(['/', '@']) || port == 0 {
        return Err(wrong());
    }
    Ok(Broker {
        host: host.to_owned(),
        port,
    })
}

/// SASL is used if there is a user, or a token where one is asked for.
fn login(mechanism: Option<SaslMechanism>, secret: &SecretData) -> Option<Login> {
    let mechanism = mechanism.unwrap_or_default();
    let text = |key: &str| secret.text(key).map(|text| without_line_break(&text));
    let user = text("username").filter(|user| !user.expose().is_empty());
    let token = text("token");
    let password = token
        .clone()
        .or_else(|| text("password"))
        .unwrap_or_default();
    let user = match mechanism {
        SaslMechanism::Oauthbearer => {
            token.filter(|token| !token.expose().is_empty())?;
            user.unwrap_or_default()
        }
        _ => user?,
    };
    Some(Login {
        mechanism,
        user,
        password,
    })
}

/// Files made with an editor end with a line break that is not part of the secret.
fn without_line_break(text: &SecretText) -> SecretText {
    let exposed = text.expose();
    let Some(cut) = exposed.strip_suffix('\n') else {
        return text.clone();
    };
    tracing::warn!("a value of a Kafka sink's Secret ends with a line break, which is left out");
    cut.strip_suffix('\r').unwrap_or(cut).into()
}

/// TLS if the sink speaks of it, or if its Secret holds a client's certificate.
fn encryption(
    spec: &SinkSpec,
    materials: &Materials,
) -> Result<Option<Arc<ClientConfig>>, SinkError> {
    let secret = &materials.credentials;
    if spec.common().tls.is_none() && secret.get("tls.key").is_none() {
        return Ok(None);
    }
    let mut config = Trust::of(spec, materials).client_config()?;
    tls::client_certificate::identify(&mut config, secret)
        .map_err(|error| error.at("kafka connect"))?;
    Ok(Some(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    fn settings(spec: serde_json::Value, secret: &[(&str, &str)]) -> Result<Settings, SinkError> {
        let spec = SinkSpec::Event(serde_json::from_value(spec).unwrap());
        let data: BTreeMap<String, Vec<u8>> = secret
            .iter()
            .map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec()))
            .collect();
        let materials = Materials {
            credentials: data.into(),
            ..Materials::default()
        };
        Settings::new(&spec, &materials)
    }

    fn kafka(brokers: &[&str]) -> serde_json::Value {
        json!({"type": "kafka", "kafka": {"brokers": brokers, "topic": " t "}})
    }

    #[test]
    fn brokers_are_hosts_with_ports() {
        for (text, host, port) in [
            ("kafka.example.com:9093", "kafka.example.com", 9093),
            (" kafka ", "kafka", 9092),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[2001:db8::1]:9093", "2001:db8::1", 9093),
            ("[2001:db8::1]", "2001:db8::1", 9092),
            ("2001:db8::1", "2001:db8::1", 9092),
        ] {
            let found = settings(kafka(&["  ", text]), &[]).unwrap().brokers;
            let expected = Broker {
                host: host.to_owned(),
                port,
            };
            assert_eq!(found, [expected], "{text}");
        }
        for text in [
            "kafka:x",
            "kafka:0",
            "kafka:70000",
            ":9092",
            "[::1",
            "[::1]x",
            "a/b",
            "u@h",
        ] {
            assert!(settings(kafka(&[text]), &[]).is_err(), "{text}");
        }
    }

    /// E14 and the other texts of 4.4.
    #[test]
    fn e14_what_is_missing_is_named() {
        for (spec, expected) in [
            (json!({"type": "kafka"}), "kafka sink requires spec.kafka"),
            (kafka(&["  "]), "kafka sink requires at least one broker"),
            (kafka(&[]), "kafka sink requires spec.kafka.brokers"),
            (
                json!({"type": "kafka", "kafka": {"brokers": ["a"], "topic": " "}}),
                "kafka sink requires spec.kafka.topic",
            ),
        ] {
            let error = settings(spec, &[]).err().unwrap();
            assert_eq!(error, SinkError::terminal(expected));
        }
        assert_eq!(settings(kafka(&["a"]), &[]).unwrap().topic, "t");
    }

    /// E15, E16 and W19.
    #[test]
    fn e15_e16_users_passwords_and_tokens() {
        let login = |secret: &[(&str, &str)]| {
            let login = settings(kafka(&["a"]), secret).unwrap().login?;
            let (user, password) = (login.user.expose(), login.password.expose());
            Some((user.to_owned(), password.to_owned()))
        };
        let pair = |user: &str, password: &str| Some((user.to_owned(), password.to_owned()));
        assert_eq!(login(&[("password", "pass"), ("token", "tok")]), None);
        assert_eq!(login(&[("username", ""), ("password", "p")]), None);
        let all = [("username", "u"), ("password", "p"), ("token", "")];
        assert_eq!(login(&all), pair("u", ""));
        assert_eq!(
            login(&[("username", "u"), ("password", "p")]),
            pair("u", "p")
        );
        let broken = [("username", "u\n"), ("password", " p \r\n")];
        assert_eq!(login(&broken), pair("u", " p "));
    }

    #[test]
    fn passwords_are_not_shown_to_everybody() {
        let secret = [("username", "u"), ("password", "hunter22")];
        let mut spec = kafka(&["a"]);
        spec["kafka"]["saslMechanism"] = json!("PLAIN");
        let error = settings(spec.clone(), &secret).err().unwrap();
        assert!(error.message().contains("spec.tls"), "{error}");
        assert!(!error.message().contains("hunter22"), "{error}");
        spec["tls"] = json!({"insecureSkipVerify": true});
        let settings = settings(spec, &secret).unwrap();
        assert!(settings.tls.is_some());
        assert_eq!(settings.login.unwrap().mechanism, SaslMechanism::Plain);
    }
}
