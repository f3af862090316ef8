//! The guarded endpoint against a real API server.

use std::{fs, sync::Arc, time::Duration};

use anyhow::Result;
use kollect_operator::{
    listeners::{Certificate, CertificateFiles, Guard, Scrape, bind, serve},
    metrics::Metrics,
};
use kollect_testkit::{Cluster, http::Client, names::unique, pki::Authority};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::fabricated::Fabricated;

#[tokio::test(flavor = "multi_thread")]
async fn only_those_who_may_get_the_path_read_the_metrics() -> Result<()> {
    let cluster = spawn_blocking(Cluster::shared).await??;
    let (reader, stranger) = spawn_blocking(move || accounts(cluster)).await??;
    let all = Fabricated::new(Duration::ZERO);
    let directory = tempfile::tempdir()?;
    let files = CertificateFiles {
        certificate: directory.path().join("tls.crt"),
        key: directory.path().join("tls.key"),
    };
    let old = write(&files)?;
    let certificate = Arc::new(Certificate::from_files(files.clone())?);
    let bound = bind("metrics-bind-address", "127.0.0.1:0").await?;
    let bound = bound.expect("a listener");
    let port = bound.address.port();
    let stop = CancellationToken::new();
    let scrape = Arc::new(Scrape {
        metrics: Arc::new(Metrics::new(Arc::clone(&all.observed), Duration::ZERO)),
        guard: Some(Guard::new(cluster.client(cluster.admin())?)),
    });
    let server = tokio::spawn(serve(bound, Some(certificate), scrape, stop.clone()));
    let ask = async |authority: &str, token: Option<&str>| -> Result<(u16, String)> {
        let mut client = Client::tls(port, authority)?;
        if let Some(token) = token {
            client = client.bearer(token);
        }
        let answer = spawn_blocking(move || client.request("GET", "/metrics", None)).await??;
        Ok((
            answer.status,
            String::from_utf8_lossy(&answer.body).into_owned(),
        ))
    };
    assert_eq!(ask(&old, None).await?, (401, "Unauthorized".to_owned()));
    let nonsense = ask(&old, Some("nonsense")).await?;
    assert_eq!(nonsense, (401, "Unauthorized".to_owned()));
    let denied = format!("Authorization denied for user {}", stranger.name);
    assert_eq!(ask(&old, Some(&stranger.token)).await?, (403, denied));
    let (status, page) = ask(&old, Some(&reader.token)).await?;
    assert_eq!(status, 200, "{page}");
    assert!(page.ends_with("# EOF\n"));
    // The second time from memory.
    assert_eq!(ask(&old, Some(&reader.token)).await?.0, 200);

    // Another certificate in the same files is served without a restart.
    let new = write(&files)?;
    assert_eq!(ask(&new, Some(&reader.token)).await?.0, 200);
    assert!(ask(&old, Some(&reader.token)).await.is_err());
    // Files that make no sense leave it in force.
    fs::write(&files.key, "no key")?;
    assert_eq!(ask(&new, Some(&reader.token)).await?.0, 200);
    stop.cancel();
    server.await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guard_that_may_not_review_answers_500() -> Result<()> {
    let cluster = spawn_blocking(Cluster::shared).await??;
    let (_, stranger) = spawn_blocking(move || accounts(cluster)).await??;
    let all = Fabricated::new(Duration::ZERO);
    let bound = bind("metrics-bind-address", "127.0.0.1:0").await?;
    let bound = bound.expect("a listener");
    let port = bound.address.port();
    let stop = CancellationToken::new();
    let scrape = Arc::new(Scrape {
        metrics: Arc::new(Metrics::new(Arc::clone(&all.observed), Duration::ZERO)),
        guard: Some(Guard::new(cluster.client(&stranger)?)),
    });
    let server = tokio::spawn(serve(bound, None, scrape, stop.clone()));
    let client = Client::plain(port).bearer(&stranger.token);
    let answer = spawn_blocking(move || client.request("GET", "/metrics", None)).await??;
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    assert_eq!(
        (answer.status, &*body),
        (500, "TokenReview failed; see the log\n")
    );
    stop.cancel();
    server.await?;
    Ok(())
}

#[test]
fn a_certificate_is_made_when_there_is_none_and_missing_files_are_named() {
    Certificate::self_signed().expect("a certificate");
    let missing = CertificateFiles {
        certificate: "/nowhere/tls.crt".into(),
        key: "/nowhere/tls.key".into(),
    };
    let error = Certificate::from_files(missing).err().expect("no files");
    assert!(
        error
            .to_string()
            .starts_with("cannot read /nowhere/tls.crt"),
        "{error}"
    );
}

/// Writes a certificate of a new authority. Returns the authority.
fn write(files: &CertificateFiles) -> Result<String> {
    let authority = Authority::new(&unique("authority"))?;
    let identity = authority.server(&["127.0.0.1"])?;
    fs::write(&files.certificate, identity.cert_pem)?;
    fs::write(&files.key, identity.key_pem)?;
    Ok(authority.pem())
}

/// One account that may get /metrics and one that may not.
fn accounts(
    cluster: &Cluster,
) -> Result<(
    kollect_testkit::cluster::User,
    kollect_testkit::cluster::User,
)> {
    let namespace = cluster.create_namespace("metrics")?;
    let reader = cluster.create_service_account(&namespace, "reader")?;
    let stranger = cluster.create_service_account(&namespace, "stranger")?;
    let role = unique("metrics-reader");
    cluster.apply(&format!(
        "{{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {{name: {role}}}, \
         rules: [{{nonResourceURLs: [/metrics], verbs: [get]}}]}}\n---\n\
         {{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {{name: {role}}}, \
         roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: {role}}}, \
         subjects: [{{kind: ServiceAccount, name: reader, namespace: {namespace}}}]}}\n"
    ))?;
    // Roles reach the authoriser through a cache.
    let api = cluster.api(&reader)?;
    kollect_testkit::wait::eventually("the right to read metrics", || {
        let answer = api.request("GET", "/metrics", None)?;
        anyhow::ensure!(answer.status == 200, "{}", answer.status);
        Ok(())
    })?;
    Ok((reader, stranger))
}
