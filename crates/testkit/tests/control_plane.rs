//! The control plane answers as a real cluster does.

use anyhow::Result;
use kollect_testkit::control_plane::Options;
use kollect_testkit::rbac::{Rule, Scope};
use kollect_testkit::wait::eventually;
use kollect_testkit::{Cluster, ControlPlane};
use serde_json::json;

const READ: Rule<'_> = Rule {
    group: "",
    resources: &["configmaps"],
    verbs: &["get", "list", "create"],
};

const WIDGETS: &str = include_str!("data/widgets.yaml");

#[test]
fn a_crd_is_served_and_its_schema_enforced() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("crd")?;
    cluster.apply(WIDGETS)?;
    cluster.kubectl(&[
        "wait",
        "--for=condition=Established",
        "crd/widgets.testkit.kollect.dev",
    ])?;

    let widget = |size: u32| {
        format!(
            "{{apiVersion: testkit.kollect.dev/v1, kind: Widget, \
             metadata: {{name: w, namespace: {namespace}}}, spec: {{size: {size}}}}}"
        )
    };
    cluster.apply(&widget(3))?;
    let path = "jsonpath={.spec.size} {.spec.colour}";
    let stored = cluster.kubectl(&["get", "widgets", "w", "-n", &namespace, "-o", path])?;
    assert_eq!(stored, "3 grey", "the default of the schema is filled in");

    let refused = cluster.apply(&widget(11)).unwrap_err().to_string();
    assert!(refused.contains("size must be below 10"), "{refused}");
    Ok(())
}

#[test]
fn the_restricted_user_may_do_nothing_until_granted() -> Result<()> {
    let cluster = Cluster::shared()?;
    let (mine, other) = (
        cluster.create_namespace("mine")?,
        cluster.create_namespace("other")?,
    );
    let user = cluster.restricted();
    let configmaps = |namespace: &str| format!("/api/v1/namespaces/{namespace}/configmaps");
    let status = |namespace: &str| -> Result<u16> {
        Ok(cluster
            .api(user)?
            .request("GET", &configmaps(namespace), None)?
            .status)
    };

    assert!(!cluster.allows(Scope::Namespace(&mine), user, "list", "", "configmaps")?);
    assert_eq!(status(&mine)?, 403);
    cluster.grant(Scope::Namespace(&mine), user, &[READ])?;
    assert!(cluster.allows(Scope::Namespace(&mine), user, "list", "", "configmaps")?);
    assert_eq!(status(&mine)?, 200);
    assert_eq!(
        status(&other)?,
        403,
        "the grant holds in one namespace only"
    );
    Ok(())
}

#[test]
fn service_account_tokens_are_issued_and_reviewed() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("accounts")?;
    let robot = cluster.create_service_account(&namespace, "robot")?;
    assert_eq!(
        cluster.review_token(&robot.token)?.as_deref(),
        Some(robot.name.as_str())
    );
    assert_eq!(cluster.review_token("not-a-token")?, None);
    let elsewhere = cluster.request_token(&namespace, "robot", &["somebody-else"])?;
    assert_eq!(
        cluster.review_token(&elsewhere)?,
        None,
        "the audience is not the API server"
    );

    let nodes = Rule {
        group: "",
        resources: &["nodes"],
        verbs: &["list"],
    };
    let list = |user| {
        Ok::<_, anyhow::Error>(
            cluster
                .api(user)?
                .request("GET", "/api/v1/nodes", None)?
                .status,
        )
    };
    assert_eq!(list(&robot)?, 403);
    cluster.grant(Scope::Cluster, &robot, &[nodes])?;
    assert_eq!(list(&robot)?, 200);
    Ok(())
}

#[test]
fn controllers_act() -> Result<()> {
    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("controllers")?;
    cluster.kubectl(&[
        "create",
        "deployment",
        "web",
        "--image=web:1",
        "-n",
        &namespace,
    ])?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let api = cluster.api(cluster.admin())?;
    eventually("a Pod of the Deployment", || {
        let list = api.get(&pods)?;
        anyhow::ensure!(
            list["items"]
                .as_array()
                .is_some_and(|items| items.len() == 1)
        );
        Ok(())
    })?;
    cluster.kubectl(&["delete", "namespace", &namespace, "--wait", "--timeout=60s"])?;
    assert_eq!(api.request("GET", &pods, None)?.json()?["items"], json!([]));
    Ok(())
}

#[cfg(feature = "client")]
#[tokio::test]
async fn kube_clients_for_both_users() -> Result<()> {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube::Api;
    use kube::api::PostParams;

    let cluster = Cluster::shared()?;
    let namespace = cluster.create_namespace("client")?;
    let map: ConfigMap =
        serde_json::from_value(json!({ "metadata": { "name": "m" }, "data": { "a": "b" } }))?;
    let admin: Api<ConfigMap> = Api::namespaced(cluster.client(cluster.admin())?, &namespace);
    admin.create(&PostParams::default(), &map).await?;
    assert_eq!(admin.get("m").await?.data.unwrap()["a"], "b");

    let restricted =
        Api::<ConfigMap>::namespaced(cluster.client(cluster.restricted())?, &namespace);
    let kube::Error::Api(status) = restricted.get("m").await.unwrap_err() else {
        panic!("expected an answer of the API server");
    };
    assert_eq!(status.code, 403);
    Ok(())
}

/// Takes servers away, so it has a control plane of its own.
#[test]
fn servers_can_be_taken_away_and_history_forgotten() -> Result<()> {
    let mut plane = ControlPlane::start_with(Options { controllers: false })?;
    let api = plane.cluster().api(plane.cluster().admin())?;
    let maps = "/api/v1/namespaces/default/configmaps";
    api.post(maps, &json!({ "metadata": { "name": "first" } }))?;
    let old = api.get(maps)?["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    api.post(maps, &json!({ "metadata": { "name": "second" } }))?;

    plane.apiserver().kill()?;
    assert!(api.get(maps).is_err(), "nobody listens");
    plane.apiserver().resume()?;
    assert_eq!(
        api.get(maps)?["items"].as_array().unwrap().len(),
        2,
        "data survives"
    );

    plane.etcd().kill()?;
    assert!(!plane.etcd().is_running());
    eventually("the API server's notice", || {
        let ready = api.request("GET", "/readyz/etcd", None)?;
        anyhow::ensure!(!ready.is_success(), "no store, not ready");
        Ok(())
    })?;
    plane.etcd().resume()?;
    eventually("writes", || {
        api.post(maps, &json!({ "metadata": { "generateName": "again-" } }))
            .map(|_| ())
    })?;

    plane.forget_history()?;
    let watch = format!("{maps}?watch=1&timeoutSeconds=5&resourceVersion={old}");
    let answer = api.request("GET", &watch, None)?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    assert!(
        text.contains("410") && text.contains("Expired"),
        "{} {text}",
        answer.status
    );
    Ok(())
}

#[test]
fn refused_requests_are_in_the_audit_log() -> Result<()> {
    let plane = ControlPlane::start_audited(Options { controllers: false })?;
    let (cluster, audit) = (plane.cluster(), plane.audit().expect("an audit log"));
    let user = cluster.restricted();
    let before = audit.now()?;
    let maps = "/api/v1/namespaces/default/configmaps?limit=1";
    let answer = cluster.api(user)?.request("GET", maps, None)?;
    assert_eq!(answer.status, 403);
    let asked = eventually("the request in the audit log", || {
        let asked = audit.of(&user.name, before)?;
        anyhow::ensure!(!asked.is_empty(), "nothing yet");
        Ok(asked)
    })?;
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert_eq!((&*asked[0].verb, asked[0].code), ("list", 403));
    assert_eq!(asked[0].uri, maps);
    assert_eq!(audit.of(&user.name, audit.now()?)?, []);
    Ok(())
}
