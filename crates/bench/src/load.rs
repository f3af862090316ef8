//! The load of the cluster benchmarks: Deployments as teams have them, always the same.

use serde_json::{Value, json};

/// The namespace of object `index` when the load is spread over this many.
pub fn namespace(index: usize, namespaces: usize) -> String {
    format!("load-{:03}", index % namespaces)
}

/// Deployment `index`: about 4.5 KB of JSON when read back.
pub fn deployment(index: usize, namespaces: usize) -> Value {
    let name = format!("app-{index:06}");
    let labels = json!({
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": format!("suite-{}", index % 50),
        "team": format!("team-{}", index % 20),
    });
    let container = |which: &str| {
        let environment: Vec<Value> = (0..4)
            .map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("{which}-{at}-{index}")}))
            .collect();
        json!({
            "name": which,
            "image": format!("registry.example/{which}/{name}:v1.{}.{}", index % 30, index % 9),
            "ports": [{"name": "http", "containerPort": 8080}, {"name": "admin", "containerPort": 9090}],
            "env": environment,
            "resources": {
                "requests": {"cpu": "100m", "memory": "128Mi"},
                "limits": {"memory": "256Mi"},
            },
        })
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": namespace(index, namespaces),
            "labels": labels,
            "annotations": {
                "owner": format!("owner-{}@example.test", index % 100),
                "description": "Serves the requests of its suite and keeps nothing of its own.",
            },
        },
        "spec": {
            "replicas": index % 7 + 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container("app"), container("sidecar")]},
            },
        },
    })
}

/// The profile: nine attributes, three of them CEL.
pub fn profile() -> Value {
    json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectProfile",
        "metadata": {"name": "deploy", "namespace": "load-000"},
        "spec": {
            "targetGVK": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "attributes": [
                {"name": "image", "path": "$.spec.template.spec.containers[0].image"},
                {"name": "images", "path": "cel:object.spec.template.spec.containers.map(c, c.image)"},
                {"name": "replicas", "path": "$.spec.replicas", "type": "int"},
                {"name": "team", "path": "$.metadata.labels.team", "optional": true},
                {"name": "partOf", "path": "$.metadata.labels['app\\.kubernetes\\.io/part-of']", "optional": true},
                {"name": "containers", "path": "cel:size(object.spec.template.spec.containers)"},
                {"name": "memory", "path": "$.spec.template.spec.containers[*].resources.limits.memory"},
                {"name": "owner", "path": "$.metadata.annotations.owner", "optional": true},
                {"name": "ready", "path": "cel:has(object.status.readyReplicas) && object.status.readyReplicas == object.spec.replicas"},
            ],
        },
    })
}

/// The target: all Deployments of the load.
pub fn target(namespaces: usize) -> Value {
    let included: Vec<String> = (0..namespaces)
        .map(|at| namespace(at, namespaces))
        .collect();
    json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectTarget",
        "metadata": {"name": "deploy", "namespace": "load-000"},
        "spec": {"profileRef": "deploy", "includedNamespaces": included},
    })
}
