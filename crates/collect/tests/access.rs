//! Access reviews on a real API server.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use kollect_api::GroupVersionKind;
use kollect_collect::access::{Access, Bounds, NamespaceAccess, Reviewer};
use kollect_collect::discovery::{Answer, Discovery, Resource};
use kollect_testkit::Cluster;
use kollect_testkit::cluster::User;
use kollect_testkit::rbac::{Rule, Scope};

const WATCH: Rule<'_> = Rule {
    group: "apps",
    resources: &["deployments"],
    verbs: &["list", "watch"],
};
const LIST: Rule<'_> = Rule {
    verbs: &["list"],
    ..WATCH
};

async fn deployments(cluster: &Cluster) -> Result<Arc<Resource>> {
    let discovery = Discovery::new(cluster.client(cluster.admin())?);
    let kind = GroupVersionKind::new("apps", "v1", "Deployment");
    match discovery.resolve(&kind).await {
        Answer::Installed(resource) => Ok(resource),
        other => anyhow::bail!("{other:?}"),
    }
}

/// Somebody new with a namespace of their own.
fn somebody(cluster: &Cluster) -> Result<User> {
    let home = cluster.create_namespace("access-home")?;
    cluster.create_service_account(&home, "robot")
}

fn set(names: &[&String]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).clone()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_in_the_whole_cluster_cover_all_namespaces() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let resource = deployments(cluster).await?;
    let namespace = cluster.create_namespace("access")?;
    cluster.grant(Scope::Cluster, &user, &[WATCH])?;
    let reviewer = Reviewer::new(cluster.client(&user)?);
    let wanted = set(&[&namespace]);
    let access = reviewer.survey(&resource, &wanted, Bounds::default()).await;
    assert_eq!(access, Access::Everywhere);
    assert_eq!(
        (reviewer.hits(), reviewer.misses()),
        (0, 2),
        "list and watch, once"
    );
    reviewer.survey(&resource, &wanted, Bounds::default()).await;
    assert_eq!((reviewer.hits(), reviewer.misses()), (2, 2));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_them_each_namespace_counts() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let resource = deployments(cluster).await?;
    let names = ["access-a", "access-b", "access-c", "access-d"];
    let [a, b, c, d] = names.map(|name| cluster.create_namespace(name).unwrap());
    cluster.grant(Scope::Namespace(&a), &user, &[WATCH])?;
    cluster.grant(Scope::Namespace(&b), &user, &[LIST])?;
    cluster.grant(Scope::Namespace(&d), &user, &[WATCH])?;
    let reviewer = Reviewer::new(cluster.client(&user)?);
    let wanted = set(&[&a, &b, &c, &d]);

    let access = reviewer.survey(&resource, &wanted, Bounds::default()).await;
    let expected = NamespaceAccess {
        allowed: set(&[&a, &d]),
        // Listing alone is not enough to watch.
        forbidden: set(&[&b, &c]),
        ..NamespaceAccess::default()
    };
    assert_eq!(access, Access::Namespaces(expected));

    let narrow = Bounds {
        watches: 1,
        reviews: 3,
    };
    let access = reviewer.survey(&resource, &wanted, narrow).await;
    let expected = NamespaceAccess {
        allowed: set(&[&a]),
        forbidden: set(&[&b, &c]),
        beyond: set(&[&d]),
        ..NamespaceAccess::default()
    };
    assert_eq!(access, Access::Namespaces(expected));

    let nothing = reviewer.survey(&resource, &BTreeSet::new(), narrow).await;
    assert_eq!(nothing, Access::Forbidden);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_rights_is_seen_when_the_answer_is_old() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let resource = deployments(cluster).await?;
    let namespace = cluster.create_namespace("access")?;
    let wanted = set(&[&namespace]);
    let lifetime = Duration::from_secs(2);
    let reviewer = Reviewer::with_cache(cluster.client(&user)?, 100, lifetime);
    let forbidden = Access::Namespaces(NamespaceAccess {
        forbidden: wanted.clone(),
        ..NamespaceAccess::default()
    });
    let allowed = Access::Namespaces(NamespaceAccess {
        allowed: wanted.clone(),
        ..NamespaceAccess::default()
    });
    let survey = || reviewer.survey(&resource, &wanted, Bounds::default());
    assert_eq!(survey().await, forbidden);
    cluster.grant(Scope::Namespace(&namespace), &user, &[WATCH])?;
    reviewer.forget();
    assert_eq!(survey().await, allowed);

    cluster.kubectl(&["delete", "rolebinding", "--all", "-n", &namespace])?;
    kollect_testkit::wait::eventually("the loss", || {
        let scope = Scope::Namespace(&namespace);
        let still = cluster.allows(scope, &user, "watch", "apps", "deployments")?;
        anyhow::ensure!(!still);
        Ok(())
    })?;
    tokio::time::sleep(lifetime).await;
    assert_eq!(survey().await, forbidden);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cluster_scoped_resources_have_no_namespaces_to_fall_back_on() -> Result<()> {
    let cluster = Cluster::shared()?;
    let user = somebody(cluster)?;
    let reviewer = Reviewer::new(cluster.client(&user)?);
    let nodes = Resource {
        kind: GroupVersionKind::new("", "v1", "Node"),
        plural: "nodes".to_owned(),
        namespaced: false,
        verbs: Vec::new(),
    };
    let wanted = BTreeSet::from(["default".to_owned()]);
    let access = reviewer.survey(&nodes, &wanted, Bounds::default()).await;
    assert_eq!(access, Access::Forbidden);
    assert_eq!(reviewer.misses(), 1);
    Ok(())
}

/// EN-09: an answer that does not come is neither yes nor no, and is not remembered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reviews_that_fail_are_not_remembered() -> Result<()> {
    let cluster = Cluster::shared()?;
    let resource = deployments(cluster).await?;
    let mut config = cluster.kube_config(cluster.admin())?;
    let port = kollect_testkit::ports::free()?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    let reviewer = Reviewer::new(kube::Client::try_from(config)?);
    for round in 1..=2 {
        let access = reviewer
            .survey(&resource, &BTreeSet::new(), Bounds::default())
            .await;
        let Access::Unknown(problem) = access else {
            panic!("{access:?}");
        };
        assert!(problem.contains("cannot review access"), "{problem}");
        assert_eq!(reviewer.misses(), round);
    }
    Ok(())
}
