//! Secrets that are watched, and Secrets that are asked for in turn.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kollect_operator::{
    secrets::{SecretState, Secrets},
    wakeups::Wakeups,
};
use kollect_testkit::{
    Cluster,
    cluster::User,
    rbac::{Rule, Scope},
};
use kollect_watch::{ApiServer, connection};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::sleep;
use tokio_util::sync::{CancellationToken, DropGuard};

struct Stage {
    secrets: Secrets,
    changed: Arc<Wakeups>,
    _stop: DropGuard,
}

fn client(cluster: &Cluster, user: &User) -> Result<Client> {
    // Installs the TLS provider of the process.
    cluster.client(user)?;
    Ok(connection::client(cluster.kube_config(user)?)?)
}

fn stage(cluster: &Cluster, user: &User, most: usize) -> Result<Stage> {
    let client = client(cluster, user)?;
    let (changed, stop) = (Arc::new(Wakeups::default()), CancellationToken::new());
    let server = ApiServer::new(client.clone());
    let secrets = Secrets::new(server, client, Arc::clone(&changed), &stop);
    Ok(Stage {
        secrets: secrets.watching_at_most(most),
        changed,
        _stop: stop.drop_guard(),
    })
}

async fn create(client: &Client, namespace: &str, name: &str, value: &str) -> Result<()> {
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {"dsn": value},
    });
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let secret = serde_json::from_value(secret)?;
    api.create(&PostParams::default(), &secret).await?;
    Ok(())
}

async fn rotate(client: &Client, namespace: &str, name: &str, value: &str) -> Result<()> {
    let api: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let patch = Patch::Merge(json!({"stringData": {"dsn": value}}));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

impl Stage {
    /// Waits for what a Secret holds, and for being told of it.
    async fn holds(&self, namespace: &str, name: &str, value: &str) -> Result<()> {
        let begun = Instant::now();
        loop {
            let state = self.secrets.get(namespace, name);
            if let SecretState::Found { data, .. } = &state
                && data.text("dsn").is_some_and(|text| text.expose() == value)
            {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < Duration::from_secs(30),
                "{name}: {state:?}"
            );
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn wanted(namespace: &str, names: &[&str]) -> BTreeSet<(String, String)> {
    let key = |name: &&str| (namespace.to_owned(), (*name).to_owned());
    names.iter().map(key).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f2_secrets_beyond_the_limit_are_asked_for() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("asked")?;
    let client = client(cluster, cluster.admin())?;
    for name in ["a", "b", "c"] {
        create(&client, &namespace, name, name).await?;
    }
    let stage = stage(cluster, cluster.admin(), 1)?;
    let told = stage.changed.subscribe();
    told.notified().await;
    stage
        .secrets
        .follow(&wanted(&namespace, &["a", "b", "c", "d"]));
    for name in ["a", "b", "c"] {
        stage.holds(&namespace, name, name).await?;
    }
    tokio::time::timeout(Duration::from_secs(30), told.notified()).await?;
    let begun = Instant::now();
    while !matches!(stage.secrets.get(&namespace, "d"), SecretState::Missing) {
        ensure!(begun.elapsed() < Duration::from_secs(30), "d is missing");
        sleep(Duration::from_millis(20)).await;
    }
    // The one that is watched is known to have changed at once, the others when there is a reason.
    for name in ["a", "b"] {
        rotate(&client, &namespace, name, "new").await?;
    }
    stage.holds(&namespace, "a", "new").await?;
    stage.holds(&namespace, "c", "c").await?;
    stage.secrets.hurry(&namespace, "b");
    stage.holds(&namespace, "b", "new").await?;
    // Those that nobody wants are forgotten.
    stage.secrets.follow(&wanted(&namespace, &["a"]));
    let gone = stage.secrets.get(&namespace, "c");
    ensure!(matches!(gone, SecretState::Reading), "{gone:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t9_the_right_to_get_is_enough() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("get-only")?;
    let admin = client(cluster, cluster.admin())?;
    create(&admin, &namespace, "a", "one").await?;
    let user = cluster.create_service_account(&namespace, "reader")?;
    let stage = stage(cluster, &user, 50)?;
    let told = stage.changed.subscribe();
    let names = wanted(&namespace, &["a"]);
    // As the operator does it: whenever it is told that something changed.
    let begun = Instant::now();
    let forbidden = loop {
        stage.secrets.follow(&names);
        let state = stage.secrets.get(&namespace, "a");
        if matches!(
            state,
            SecretState::Unreadable {
                forbidden: true,
                ..
            }
        ) {
            break state;
        }
        ensure!(begun.elapsed() < Duration::from_secs(30), "{state:?}");
        let _ = tokio::time::timeout(Duration::from_secs(1), told.notified()).await;
    };
    let get = Rule {
        group: "",
        resources: &["secrets"],
        verbs: &["get"],
    };
    cluster.grant(Scope::Namespace(&namespace), &user, &[get])?;
    stage.secrets.follow(&names);
    stage.secrets.hurry(&namespace, "a");
    let granted = stage.holds(&namespace, "a", "one").await;
    ensure!(granted.is_ok(), "{granted:?}, before {forbidden:?}");
    rotate(&admin, &namespace, "a", "two").await?;
    stage.secrets.hurry(&namespace, "a");
    stage.holds(&namespace, "a", "two").await
}
