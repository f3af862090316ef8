//! Access reviews on a real API server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use kollect_testkit::{
    Cluster,
    cluster::User,
    rbac::{Rule, Scope},
    wait::eventually,
};
use kollect_watch::{
    Resource, WatchScope,
    access::{Permission, Review, Reviewer},
};

const WATCH: Rule<'_> = Rule {
    group: "apps",
    resources: &["deployments"],
    verbs: &["list", "watch"],
};
const LIST: Rule<'_> = Rule {
    verbs: &["list"],
    ..WATCH
};

fn review(namespace: Option<&str>) -> Review {
    Review {
        resource: Arc::new(Resource {
            group: "apps".to_owned(),
            version: "v1".to_owned(),
            plural: "deployments".to_owned(),
            namespaced: true,
        }),
        scope: namespace.map_or(WatchScope::All, |name| WatchScope::Namespace(name.into())),
    }
}

/// Somebody new with a namespace of their own.
fn somebody(cluster: &Cluster) -> Result<User> {
    let home = cluster.create_namespace("access-home")?;
    cluster.create_service_account(&home, "robot")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_in_the_whole_cluster_cover_all_namespaces() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    cluster.grant(Scope::Cluster, &user, &[WATCH])?;
    let reviewer = Reviewer::new(cluster.client(&user)?);
    for (namespace, hits, misses) in [
        // list and watch are two questions
        (None, 0, 2),
        (None, 2, 2),
        (Some("default"), 2, 4),
        (Some("kube-system"), 2, 6),
        (Some("default"), 4, 6),
    ] {
        let permission = reviewer.permission(&review(namespace)).await;
        assert_eq!(permission, Permission::Allowed, "{namespace:?}");
        assert_eq!(
            (reviewer.hits(), reviewer.misses()),
            (hits, misses),
            "{namespace:?}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_them_each_namespace_counts() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let [both, list, none] = ["access-both", "access-list", "access-none"]
        .map(|name| cluster.create_namespace(name).expect("a namespace"));
    cluster.grant(Scope::Namespace(&both), &user, &[WATCH])?;
    cluster.grant(Scope::Namespace(&list), &user, &[LIST])?;
    let reviewer = Reviewer::new(cluster.client(&user)?);
    let cases = [
        (None, Permission::Denied),
        (Some(both.as_str()), Permission::Allowed),
        // Listing alone is not enough to watch.
        (Some(list.as_str()), Permission::Denied),
        (Some(none.as_str()), Permission::Denied),
    ];
    for (namespace, expected) in cases {
        let permission = reviewer.permission(&review(namespace)).await;
        assert_eq!(permission, expected, "{namespace:?}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_rights_is_seen_when_the_answer_is_old() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let namespace = cluster.create_namespace("access")?;
    let lifetime = Duration::from_secs(2);
    let reviewer = Reviewer::with_cache(cluster.client(&user)?, 100, lifetime);
    let question = review(Some(&namespace));
    assert_eq!(reviewer.permission(&question).await, Permission::Denied);
    cluster.grant(Scope::Namespace(&namespace), &user, &[WATCH])?;
    reviewer.forget();
    assert_eq!(reviewer.permission(&question).await, Permission::Allowed);

    cluster.kubectl(&["delete", "rolebinding", "--all", "-n", &namespace])?;
    eventually("the loss", || {
        let scope = Scope::Namespace(&namespace);
        let still = cluster.allows(scope, &user, "watch", "apps", "deployments")?;
        ensure!(!still);
        Ok(())
    })?;
    tokio::time::sleep(lifetime).await;
    assert_eq!(reviewer.permission(&question).await, Permission::Denied);
    Ok(())
}

/// EN-09: an answer that does not come is neither yes nor no, and is not remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviews_that_fail_are_not_remembered() -> Result<()> {
    let cluster = Cluster::shared()?;
    let mut config = cluster.kube_config(cluster.admin())?;
    let port = kollect_testkit::ports::free()?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    let reviewer = Reviewer::new(kube::Client::try_from(config)?);
    for round in 1..=2 {
        let permission = reviewer.permission(&review(None)).await;
        let Permission::Failed(problem) = permission else {
            panic!("{permission:?}");
        };
        assert!(problem.contains("cannot review access"), "{problem}");
        assert_eq!(reviewer.misses(), round);
    }
    Ok(())
}
