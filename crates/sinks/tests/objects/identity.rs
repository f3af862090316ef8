//! Sinks without credentials, where the operator may be somebody itself.

use std::{collections::BTreeMap, sync::Arc};

use kollect_api::address::AddressPolicy;
use kollect_sinks::{
    Sink, SinkError,
    backend::Environment,
    identity::workload::{Surroundings, Workload},
};
use kollect_testkit::{Azure, Cloud, Gcs, RunDir, S3, s3};
use serde_json::json;

use crate::{
    liar::Liar,
    places::{ALL, Kind, Place},
    stage::{Sketch, blocking, delivery, environment, rows},
};

const AT: &str = "2026-08-01T12:00:00Z";
const KEY: &str = "pre/fix/inventory/team-a/web.json";

/// An environment whose process has these variables, on a cloud at this port.
fn allowed(variables: &[(&str, String)], cloud: u16) -> Environment {
    let variables: BTreeMap<String, String> = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.clone()))
        .collect();
    let surroundings = Surroundings {
        variables,
        servers: vec![
            format!("http://127.0.0.1:{cloud}"),
            format!(
                "http://127.0.0.1:{cloud}/{}",
                kollect_testkit::azure::ACCOUNT
            ),
        ],
        addresses: AddressPolicy {
            allowed_networks: vec!["127.0.0.0/8".parse().unwrap()],
            ..AddressPolicy::default()
        },
    };
    Environment {
        workload: Some(Arc::new(Workload::new(surroundings).expect("a workload"))),
        ..environment()
    }
}

/// A sink without a Secret.
fn bare(place: &Place, port: u16) -> Sketch {
    let mut sketch = place.sketch(port, json!({}));
    sketch.secret.clear();
    sketch
}

async fn works(sink: &dyn Sink, place: &Place) {
    let line = ("Deployment", "team-a", "api", json!({"replicas": 1}));
    sink.deliver(&delivery(rows(&[line]), AT)).await.unwrap();
    sink.deliver(&delivery(rows(&[]), AT)).await.unwrap();
    sink.probe().await.unwrap();
    assert!(place.read(KEY).await.is_some());
}

/// Without the administrator's word nobody is asked, and the sink says what to do.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_somebody_unasked() {
    for kind in ALL {
        let place = Place::new(kind, "unasked").await;
        let refused = bare(&place, place.port()).open().await.err();
        let says = |text: &str| {
            text.contains("spec.secretRef") && text.contains("--allow-workload-identity")
        };
        assert!(
            matches!(&refused, Some(SinkError::Terminal(text)) if says(text)),
            "{kind:?}: {refused:?}"
        );
    }
}

/// A web identity, the agent for pods, and the instance give keys of AWS.
#[tokio::test(flavor = "multi_thread")]
async fn roles_of_aws() {
    let place = Place::new(Kind::S3, "roles").await;
    let secret = blocking(|| S3::shared().unwrap().secret_key().to_owned()).await;
    let run = RunDir::new("identity").unwrap();
    let file = run.write_private("token", "pod-token\n").unwrap();
    let file = file.display().to_string();
    for source in ["web identity", "agent", "instance"] {
        let cloud = Cloud::with_keys(s3::ACCESS_KEY, &secret).unwrap();
        let server = format!("http://127.0.0.1:{}", cloud.port());
        let variables = match source {
            "web identity" => vec![
                ("AWS_ROLE_ARN", "arn:aws:iam::1:role/kollect".to_owned()),
                ("AWS_WEB_IDENTITY_TOKEN_FILE", file.clone()),
                ("AWS_ENDPOINT_URL_STS", server),
            ],
            "agent" => vec![
                (
                    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
                    format!("{server}/agent"),
                ),
                ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", file.clone()),
            ],
            _ => vec![("AWS_EC2_METADATA_SERVICE_ENDPOINT", server)],
        };
        let environment = allowed(&variables, cloud.port());
        let sink = bare(&place, place.port()).open_in(&environment).await;
        works(&*sink.unwrap(), &place).await;
        let asked = cloud.asked();
        // Once for all requests: token, role and keys of an instance are three.
        assert_eq!(
            asked.len(),
            if source == "instance" { 3 } else { 1 },
            "{source}: {asked:?}"
        );
        if source == "web identity" {
            let role = "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fkollect";
            assert!(asked[0].body.contains(role), "{asked:?}");
        }
        place.clear().await;
    }
}

/// The metadata server of Google gives tokens, again when one is taken back.
#[tokio::test(flavor = "multi_thread")]
async fn service_accounts_of_google() {
    let place = Place::new(Kind::Gcs, "metadata").await;
    let cloud = blocking(|| Cloud::in_front_of(Gcs::shared().unwrap().port()).unwrap()).await;
    let host = format!("127.0.0.1:{}", cloud.port());
    let environment = allowed(&[("GCE_METADATA_HOST", host)], cloud.port());
    let sink = bare(&place, cloud.port()).open_in(&environment).await;
    let sink = sink.unwrap();
    works(&*sink, &place).await;
    assert_eq!(cloud.asked().len(), 1);
    cloud.revoke();
    works(&*sink, &place).await;
    assert_eq!(cloud.asked().len(), 2);
    cloud.revoke();
    cloud.refuse(true);
    let refused = sink.probe().await;
    assert!(
        matches!(&refused, Err(SinkError::Forbidden(text)) if text.contains("metadata server")),
        "{refused:?}"
    );
}

/// A federated token, and the instance, give tokens of Azure.
#[tokio::test(flavor = "multi_thread")]
async fn managed_identities_of_azure() {
    let run = RunDir::new("identity").unwrap();
    let file = run.write_private("token", "pod-token").unwrap();
    for federated in [true, false] {
        let place = Place::new(Kind::AzureKey, "managed").await;
        let cloud = blocking(|| {
            let server = Azure::shared().unwrap();
            Cloud::signing(server.port(), &server.signature("racwdl")).unwrap()
        })
        .await;
        let server = format!("http://127.0.0.1:{}", cloud.port());
        let variables = if federated {
            vec![
                ("AZURE_FEDERATED_TOKEN_FILE", file.display().to_string()),
                ("AZURE_TENANT_ID", "the-tenant".to_owned()),
                ("AZURE_CLIENT_ID", "of-the-pod".to_owned()),
                ("AZURE_AUTHORITY_HOST", format!("{server}/")),
            ]
        } else {
            vec![("AZURE_POD_IDENTITY_AUTHORITY_HOST", server)]
        };
        let environment = allowed(&variables, cloud.port());
        let mut sketch = bare(&place, cloud.port());
        sketch.spec["azureBlob"]["clientID"] = json!("chosen");
        let sink = sketch.open_in(&environment).await.unwrap();
        works(&*sink, &place).await;
        cloud.revoke();
        works(&*sink, &place).await;
        let asked = cloud.asked();
        assert_eq!(asked.len(), 2, "{asked:?}");
        let (line, body) = (&asked[0].line, &asked[0].body);
        if federated {
            assert!(line.contains("/the-tenant/oauth2/v2.0/token"), "{line}");
            assert!(body.contains("client_id=chosen"), "{body}");
        } else {
            assert!(line.contains("client_id=chosen"), "{line}");
        }
    }
}

/// A token that anybody could use is shown to nobody but the cloud, and a Secret without its keys is
/// a mistake.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_go_nowhere_else() {
    for kind in [Kind::Gcs, Kind::AzureKey] {
        let place = Place::new(kind, "elsewhere").await;
        let cloud = Cloud::with_keys("", "").unwrap();
        let server = format!("127.0.0.1:{}", cloud.port());
        let variables = [
            ("GCE_METADATA_HOST", server.clone()),
            (
                "AZURE_POD_IDENTITY_AUTHORITY_HOST",
                format!("http://{server}"),
            ),
        ];
        let environment = allowed(&variables, cloud.port());
        let refused = bare(&place, place.port()).open_in(&environment).await.err();
        assert!(
            matches!(&refused, Some(SinkError::Terminal(text)) if text.contains("the cloud's own servers")),
            "{kind:?}: {refused:?}"
        );
        let mut sketch = bare(&place, cloud.port());
        sketch
            .secret
            .push(("acountKey".to_owned(), "typo".to_owned()));
        let refused = sketch.open_in(&environment).await.err();
        assert!(
            matches!(&refused, Some(SinkError::Terminal(text)) if text.contains("no credentials")),
            "{kind:?}: {refused:?}"
        );
        assert_eq!(cloud.asked(), []);
    }
}

/// The third part of temporary keys goes along with every request, and a changed Secret is used.
#[tokio::test(flavor = "multi_thread")]
async fn session_tokens_go_along() {
    let place = Place::new(Kind::S3, "session").await;
    let liar = Liar::to(place.port());
    let mut sketch = place.sketch(liar.port, json!({}));
    let name = "sessionToken".to_owned();
    sketch.secret.push((name, "of-monday\n".to_owned()));
    let monday = sketch.open().await.unwrap();
    let _ = monday.probe().await;
    let _ = sketch.secret.pop();
    let without = sketch.open().await.unwrap();
    let seen = liar.sessions();
    assert!(
        !seen.is_empty() && seen.iter().all(|token| token == "of-monday"),
        "{seen:?}"
    );
    without.probe().await.unwrap();
    assert!(liar.sessions()[seen.len()..].iter().all(String::is_empty));
}
