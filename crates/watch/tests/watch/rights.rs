//! Rights that are missing, granted, withdrawn and restored.

use std::time::Duration;

use anyhow::Result;
use kollect_testkit::{Cluster, cluster::User, rbac::Scope, wait::eventually};
use kollect_watch::{InterruptionClass, ListingCause, WatchSettings};
use serde_json::{Value, json};

use crate::mirror::Mirror;
use crate::setup::{BOTH, Place, client, listed};

/// A role and its binding, which can be taken away again.
fn role(namespace: &str, user: &User) -> Value {
    let metadata = json!({ "name": "reader", "namespace": namespace });
    let api = "rbac.authorization.k8s.io";
    json!({ "apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": format!("{api}/v1"), "kind": "Role", "metadata": metadata,
            "rules": [{ "apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"] }],
        },
        {
            "apiVersion": format!("{api}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": { "apiGroup": api, "kind": "Role", "name": "reader" },
            "subjects": [{ "apiGroup": api, "kind": "User", "name": user.name }],
        },
    ] })
}

fn until_allowed(cluster: &Cluster, namespace: &str, user: &User, allowed: bool) -> Result<()> {
    eventually("the change of rights", || {
        for verb in ["list", "watch"] {
            let scope = Scope::Namespace(namespace);
            let now = cluster.allows(scope, user, verb, "", "configmaps")?;
            anyhow::ensure!(now == allowed, "{verb}: {now}");
        }
        Ok(())
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_that_come_and_go() -> Result<()> {
    let cluster = Cluster::shared()?;
    for listing in BOTH {
        let place = Place::new("rights")?;
        place.create_many(30).await?;
        let user = cluster.create_service_account(&place.namespace, "reader")?;
        let reader = Place {
            client: client(cluster, &user)?,
            namespace: place.namespace.clone(),
        };
        let mirror = Mirror::new();
        // Rights are checked when a stream is opened, so it must not stay open for long.
        let settings = WatchSettings {
            stream: Duration::from_secs(2),
            listing_stream: Duration::from_secs(2),
            ..listed(listing)
        };
        let source = reader.watch(&mirror, settings);
        mirror.until_interrupted(InterruptionClass::Forbidden).await;
        assert_eq!(mirror.finished_listings(), 0, "nothing was listed yet");

        let grant = role(&place.namespace, &user).to_string();
        cluster.apply(&grant)?;
        until_allowed(cluster, &place.namespace, &user, true)?;
        place.converge(&mirror).await?;
        assert_eq!(source.counters().listings(ListingCause::Initial), 1);

        let before = mirror.interruptions().len();
        let namespace = ["-n", &place.namespace];
        cluster.kubectl(&[&["delete", "rolebinding", "reader"][..], &namespace].concat())?;
        until_allowed(cluster, &place.namespace, &user, false)?;
        mirror
            .until("the loss", |mirror| {
                mirror.interruptions()[before..].contains(&InterruptionClass::Forbidden)
            })
            .await;
        assert_eq!(mirror.objects().len(), 0);
        place.change("m-0", "while nobody looked").await?;
        place.delete("m-1").await?;

        cluster.apply(&grant)?;
        until_allowed(cluster, &place.namespace, &user, true)?;
        let held = place.converge(&mirror).await?;
        assert!(held.len() >= 29);
        assert!(source.counters().listings(ListingCause::Forbidden) >= 1);
    }
    Ok(())
}

/// A token that the server does not know says nothing about rights: rows are kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_is_not_known_is_no_lack_of_rights() -> Result<()> {
    let cluster = Cluster::shared()?;
    let place = Place::new("token")?;
    let stranger = User {
        name: "stranger".to_owned(),
        token: "not-a-token".to_owned(),
    };
    let mirror = Mirror::new();
    let reader = Place {
        client: client(cluster, &stranger)?,
        namespace: place.namespace,
    };
    let _source = reader.watch(&mirror, listed(BOTH[0]));
    mirror
        .until_interrupted(InterruptionClass::Unauthenticated)
        .await;
    Ok(())
}
