use base64::{Engine, prelude::BASE64_STANDARD};
use serde::Deserialize;
use serde_json::Value;

use super::*;
use kollect_testkit::pki::Authority;

const NAMESPACE: &str = "team-a";

/// A PEM frame around something that is no certificate.
const BROKEN: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    sink: Value,
    #[serde(default)]
    secrets: BTreeMap<String, BTreeMap<String, String>>,
    credentials: Option<BTreeMap<String, String>>,
    authority: Option<String>,
    error: Option<String>,
}

/// The real certificates behind the words of the vectors.
struct Certificates(BTreeMap<&'static str, String>);

impl Certificates {
    fn new() -> Self {
        let pem = |name| Authority::new(name).unwrap().pem();
        let real = ["ONE", "TWO", "THREE"].map(|name| (name, pem(name)));
        Self(
            real.into_iter()
                .chain([("BROKEN", BROKEN.to_owned())])
                .collect(),
        )
    }

    fn expand(&self, text: String) -> String {
        self.0.get(text.as_str()).cloned().unwrap_or(text)
    }
}

fn sink(mut spec: Value, certificates: impl Fn(String) -> String) -> SinkSpec {
    if let Some(bundle) = spec.pointer_mut("/tls/caBundle") {
        let pem = certificates(bundle.as_str().unwrap().to_owned());
        *bundle = Value::String(BASE64_STANDARD.encode(pem));
    }
    match spec["type"].as_str().unwrap() {
        "postgres" | "mongodb" | "bigquery" => {
            SinkSpec::Database(serde_json::from_value(spec).unwrap())
        }
        "kafka" | "nats" => SinkSpec::Event(serde_json::from_value(spec).unwrap()),
        _ => SinkSpec::Snapshot(serde_json::from_value(spec).unwrap()),
    }
}

#[test]
fn each_backend_gets_its_secret() {
    let certificates = Certificates::new();
    let vectors: Vec<Vector> = serde_saphyr::from_str(include_str!("vectors.yaml")).unwrap();
    for vector in vectors {
        let id = &vector.id;
        let spec = sink(vector.sink, |text| certificates.expand(text));
        let result = materials(&spec, NAMESPACE, |wanted| {
            let place = format!("{}/{}", wanted.namespace, wanted.name);
            let data = vector.secrets.get(&place)?.clone().into_iter();
            Some(
                data.map(|(key, text)| (key, certificates.expand(text)))
                    .collect(),
            )
        });
        match (result, vector.error) {
            (Ok(materials), None) => {
                if let Some(credentials) = vector.credentials {
                    let expected: SecretData = credentials.into_iter().collect();
                    // Not assert_eq: it would print nothing but "[secret]".
                    assert!(materials.credentials == expected, "{id}");
                }
                let authority = vector.authority.map(|name| certificates.expand(name));
                assert_eq!(
                    materials
                        .authority
                        .map(|pem| String::from_utf8(pem).unwrap()),
                    authority,
                    "{id}"
                );
            }
            (Err(error), Some(expected)) => {
                assert_eq!(error, SinkError::Terminal(expected), "{id}");
            }
            (result, expected) => panic!("{id}: {result:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn a_token_is_offered_in_place_of_a_password() {
    let data: SecretData = [("username", "bot"), ("password", "x")]
        .into_iter()
        .collect();
    let login = Login::from(&data);
    let exposed = |text: &Option<SecretText>| text.as_ref().map(|text| text.expose().to_owned());
    assert_eq!(exposed(&login.username).as_deref(), Some("bot"));
    assert_eq!(exposed(&login.password).as_deref(), Some("x"));
    assert_eq!(exposed(&login.token).as_deref(), Some("x"));
    let data: SecretData = [("password", "x"), ("token", "")].into_iter().collect();
    assert_eq!(exposed(&Login::from(&data).token).as_deref(), Some(""));
}

#[test]
fn secrets_are_wanted_in_order_with_their_namespaces() {
    let spec = sink(
        serde_json::json!({
            "type": "nats",
            "secretRef": {"name": "top", "namespace": "shared"},
            "nats": {"subject": "s", "secretRef": {"name": " own ", "namespace": " "}},
            "tls": {"caSecretRef": {"name": "ca"}},
        }),
        |text| text,
    );
    for (sink_namespace, own) in [("team-a", "team-a"), (" ", "kollect-system")] {
        let expected = [
            (Role::Common, "shared", "top"),
            (Role::Backend, own, "own"),
            (Role::Authority, own, "ca"),
        ]
        .map(|(role, namespace, name)| Wanted {
            role,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        });
        assert_eq!(wanted(&spec, sink_namespace), expected);
    }
}

/// W13
#[test]
fn a_foreign_secret_needs_consent() {
    let closed = Settings::default();
    let open = Settings {
        secret_namespaces: vec!["team-b".to_owned()],
        ..Settings::default()
    };
    for (namespace, sink_namespace, settings, allowed) in [
        ("team-a", "team-a", &closed, true),
        ("team-b", "team-a", &closed, false),
        ("kollect-system", "team-a", &closed, false),
        ("kollect-system", "", &closed, true),
        ("team-b", "", &closed, false),
        ("team-b", "team-a", &open, true),
        ("team-c", "team-a", &open, false),
    ] {
        let wanted = Wanted {
            role: Role::Common,
            namespace: namespace.to_owned(),
            name: "login".to_owned(),
        };
        let verdict = permitted(&wanted, sink_namespace, settings);
        assert_eq!(
            verdict.is_ok(),
            allowed,
            "{namespace} from {sink_namespace:?}"
        );
        if let Err(error) = verdict {
            let SinkError::Terminal(text) = &error else {
                panic!("{error:?}")
            };
            assert!(text.contains(namespace), "{text}");
        }
    }
}

#[test]
fn every_secret_of_a_sink_is_redacted() {
    let spec = sink(
        serde_json::json!({
            "type": "kafka",
            "secretRef": {"name": "top"},
            "kafka": {"brokers": ["b"], "topic": "t", "secretRef": {"name": "own"}},
        }),
        |text| text,
    );
    let materials = materials(&spec, NAMESPACE, |wanted| {
        Some(
            [("password", format!("pass-of-{}", wanted.name))]
                .into_iter()
                .collect(),
        )
    });
    let text = materials
        .unwrap()
        .redaction
        .clean("pass-of-top pass-of-own pass-of-none");
    assert_eq!(text, "[redacted] [redacted] pass-of-none");
}

/// The example of the documentation is a sink, and says what it means to.
#[test]
fn the_documented_sink_wants_its_login_and_its_authority() {
    let page = include_str!("../../../../docs/sinks.md");
    let example = page
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let object: kollect_api::sink::KollectSnapshotSink = serde_saphyr::from_str(example).unwrap();
    let namespace = object.metadata.namespace.clone().unwrap();
    let names: Vec<_> = wanted(&SinkSpec::Snapshot(object.spec), &namespace)
        .into_iter()
        .map(|wanted| (wanted.role, wanted.name))
        .collect();
    let expected = [
        (Role::Common, "git-login"),
        (Role::Authority, "git-authority"),
    ];
    assert_eq!(names, expected.map(|(role, name)| (role, name.to_owned())));
}
