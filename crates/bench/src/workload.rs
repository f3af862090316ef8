//! Objects and profiles, always the same.

use kollect_api::KollectProfile;
use serde_json::{Value, json};

/// How many objects a workload cycles through.
pub const OBJECTS: usize = 128;

/// A profile of Deployments with these attributes, name and path each.
fn profile(attributes: &[(&str, &str)]) -> KollectProfile {
    let attributes: Vec<Value> = attributes
        .iter()
        .map(|(name, path)| json!({"name": name, "path": path}))
        .collect();
    let profile = json!({
        "apiVersion": "kollect.dev/v1alpha1",
        "kind": "KollectProfile",
        "metadata": {"name": "deployments", "namespace": "load-000"},
        "spec": {
            "targetGVK": {"group": "apps", "version": "v1", "kind": "Deployment"},
            "attributes": attributes,
        },
    });
    serde_json::from_value(profile).expect("a profile")
}

/// W1: two paths and one expression on a small object.
pub fn small_profile() -> KollectProfile {
    profile(&[
        ("image", "$.spec.template.spec.containers[0].image"),
        ("replicas", "$.spec.replicas"),
        (
            "containers",
            "cel:size(object.spec.template.spec.containers)",
        ),
    ])
}

/// W1: a Deployment with nothing but what it needs.
pub fn small(index: usize) -> Value {
    let name = format!("app-{index:06}");
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "load-000", "uid": uid(index)},
        "spec": {
            "replicas": index % 7 + 1,
            "template": {"spec": {"containers": [
                {"name": "app", "image": image("app", &name, index)},
            ]}},
        },
    })
}

/// W2: four paths and four expressions, of which two read lists.
pub fn realistic_profile() -> KollectProfile {
    profile(&[
        ("name", "$.metadata.name"),
        ("labels", "$.metadata.labels"),
        ("images", "$.spec.template.spec.containers[*].image"),
        ("replicas", "$.spec.replicas"),
        (
            "strategy",
            "cel:has(object.spec.strategy) ? object.spec.strategy.type : 'RollingUpdate'",
        ),
        (
            "containerCount",
            "cel:size(object.spec.template.spec.containers)",
        ),
        (
            "containerNames",
            "cel:object.spec.template.spec.containers.map(c, c.name)",
        ),
        (
            "available",
            "cel:has(object.status.conditions) && object.status.conditions.exists(c, \
             c.type == 'Available' && c.status == 'True')",
        ),
    ])
}

/// W2: a Deployment as people write them, with one to three containers and a status.
pub fn realistic(index: usize) -> Value {
    let name = format!("app-{index:06}");
    let team = format!("team-{}", index % 20);
    let labels = json!({
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/part-of": format!("suite-{}", index % 50),
        "team": team,
    });
    let containers: Vec<Value> = ["app", "sidecar", "proxy"][..=index % 3]
        .iter()
        .map(|container| self::container(container, &name, index))
        .collect();
    let replicas = index % 7 + 1;
    let condition = |kind: &str, reason: &str| {
        json!({
            "type": kind, "status": "True", "reason": reason,
            "message": "All is well.",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "lastUpdateTime": "2026-01-02T03:04:05Z",
        })
    };
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "namespace": format!("load-{:03}", index % 50),
            "uid": uid(index),
            "resourceVersion": (1000 + index).to_string(),
            "generation": 3,
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": labels,
            "annotations": {
                "deployment.kubernetes.io/revision": "3",
                "owner": format!("owner-{}@example.test", index % 100),
                "description": "One service of many.",
            },
        },
        "spec": {
            "replicas": replicas,
            "progressDeadlineSeconds": 600,
            "revisionHistoryLimit": 10,
            "selector": {"matchLabels": labels},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"},
            },
            "template": {
                "metadata": {"labels": labels, "creationTimestamp": null},
                "spec": {
                    "containers": containers,
                    "dnsPolicy": "ClusterFirst",
                    "restartPolicy": "Always",
                    "schedulerName": "default-scheduler",
                    "securityContext": {"runAsNonRoot": true, "fsGroup": 2000},
                    "serviceAccountName": name,
                    "terminationGracePeriodSeconds": 30,
                    "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                        {"weight": 100, "podAffinityTerm": {"topologyKey": "zone",
                            "labelSelector": {"matchLabels": {"team": team}}}},
                    ]}},
                    "tolerations": [
                        {"key": "dedicated", "operator": "Equal", "value": "apps", "effect": "NoSchedule"},
                    ],
                    "volumes": [
                        {"name": "config", "configMap": {"name": name, "defaultMode": 420}},
                        {"name": "cache", "emptyDir": {"sizeLimit": "64Mi"}},
                    ],
                },
            },
        },
        "status": {
            "observedGeneration": 3,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "readyReplicas": replicas,
            "availableReplicas": replicas,
            "conditions": [
                condition("Progressing", "NewReplicaSetAvailable"),
                condition("Available", "MinimumReplicasAvailable"),
            ],
        },
    })
}

fn container(container: &str, name: &str, index: usize) -> Value {
    let value = index % 10;
    let mut environment: Vec<Value> = ["LOG_LEVEL", "REGION", "UPSTREAM", "CACHE_TTL"]
        .iter()
        .map(|variable| json!({"name": variable, "value": format!("v{value}")}))
        .collect();
    environment.push(json!({
        "name": "POD_IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}},
    }));
    let probe = |path: &str| {
        json!({
            "httpGet": {"path": path, "port": "http", "scheme": "HTTP"},
            "initialDelaySeconds": 5, "periodSeconds": 10, "timeoutSeconds": 1,
            "successThreshold": 1, "failureThreshold": 3,
        })
    };
    json!({
        "name": container,
        "image": image(container, name, index),
        "imagePullPolicy": "IfNotPresent",
        "ports": [
            {"name": "http", "containerPort": 8080, "protocol": "TCP"},
            {"name": "metrics", "containerPort": 9090, "protocol": "TCP"},
        ],
        "env": environment,
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "livenessProbe": probe("/livez"),
        "readinessProbe": probe("/readyz"),
        "volumeMounts": [
            {"name": "config", "mountPath": "/etc/app", "readOnly": true},
            {"name": "cache", "mountPath": "/var/cache/app"},
        ],
        "securityContext": {
            "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
            "capabilities": {"drop": ["ALL"]},
        },
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    })
}

/// A realistic object as the API server returns it: with what it knows about who wrote which
/// field.
pub fn managed(index: usize) -> Value {
    let mut object = realistic(index);
    let by_key = |names: &[&str], fields: &Value| -> Value {
        let members = names
            .iter()
            .map(|name| (format!("k:{{\"name\":\"{name}\"}}"), fields.clone()));
        Value::Object(members.collect())
    };
    let fields = json!({
        ".": {}, "f:name": {}, "f:image": {}, "f:imagePullPolicy": {},
        "f:env": by_key(&["LOG_LEVEL", "REGION", "UPSTREAM", "CACHE_TTL"], &json!({".": {}, "f:name": {}, "f:value": {}})),
        "f:resources": {".": {}, "f:limits": {".": {}, "f:memory": {}}, "f:requests": {".": {}, "f:cpu": {}, "f:memory": {}}},
        "f:ports": {".": {}, "k:{\"containerPort\":8080,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}, "f:name": {}, "f:protocol": {}}},
    });
    let names = &["app", "sidecar", "proxy"][..=index % 3];
    object["metadata"]["managedFields"] = json!([
        {
            "manager": "kubectl-client-side-apply", "operation": "Update", "apiVersion": "apps/v1",
            "time": "2026-01-02T03:04:05Z", "fieldsType": "FieldsV1",
            "fieldsV1": {
                "f:metadata": {"f:annotations": {".": {}, "f:owner": {}, "f:description": {}},
                    "f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/part-of": {}, "f:team": {}}},
                "f:spec": {"f:replicas": {}, "f:selector": {}, "f:strategy": {"f:type": {}},
                    "f:template": {"f:spec": {"f:containers": by_key(names, &fields), "f:volumes": {}}}},
            },
        },
        {
            "manager": "kube-controller-manager", "operation": "Update", "apiVersion": "apps/v1",
            "time": "2026-01-02T03:05:06Z", "fieldsType": "FieldsV1", "subresource": "status",
            "fieldsV1": {"f:status": {"f:availableReplicas": {}, "f:conditions": {".": {},
                "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:reason": {}},
                "k:{\"type\":\"Progressing\"}": {".": {}, "f:status": {}, "f:reason": {}}},
                "f:observedGeneration": {}, "f:readyReplicas": {}, "f:replicas": {}}},
        },
    ]);
    object
}

/// A uid in the usual form.
pub fn uid(index: usize) -> String {
    format!("0b7e3c1a-5d2f-4e60-9a8b-{index:012x}")
}

fn image(container: &str, name: &str, index: usize) -> String {
    format!(
        "registry.example/{container}/{name}:v1.{}.{}",
        index % 30,
        index % 9
    )
}

/// The objects as the bytes they come in.
pub fn bytes(objects: &[Value]) -> Vec<Vec<u8>> {
    objects
        .iter()
        .map(|object| object.to_string().into_bytes())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_bytes(object: fn(usize) -> Value) -> usize {
        let objects: Vec<Value> = (0..OBJECTS).map(object).collect();
        bytes(&objects).iter().map(Vec::len).sum::<usize>() / OBJECTS
    }

    /// The figures of the bars belong to objects of these sizes.
    #[test]
    fn objects_have_the_size_they_are_known_for() {
        assert!(
            (4_100..4_500).contains(&mean_bytes(realistic)),
            "{}",
            mean_bytes(realistic)
        );
        assert!(
            (6_000..6_600).contains(&mean_bytes(managed)),
            "{}",
            mean_bytes(managed)
        );
    }
}
