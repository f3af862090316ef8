//! The operator and the command line are two ways to the same rows.

use std::{fs, process::Command};

use anyhow::{Result, ensure};
use kollect_testkit::postgres::Tls;

use crate::stage::Stage;

/// What runs in the cluster. `NORTH` and `SOUTH` stand for the names of two namespaces.
const WORKLOADS: &str = r#"
{apiVersion: v1, kind: ConfigMap, metadata: {name: n-1, namespace: NORTH}, data: {number: "1"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: n-2, namespace: NORTH}, data: {number: "2"}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: no-number, namespace: NORTH}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: s-1, namespace: SOUTH, labels: {app: shop}}, data: {number: "3", password: hunter2}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: s-2, namespace: SOUTH}, data: {number: "4"}}
"#;

/// What both are told: a team in each namespace, and a platform that takes two of three targets
/// and one of two namespaces. The third target would win over the others, if it were taken.
const CONFIGURATION: &str = r#"
{apiVersion: v1, kind: Secret, metadata: {name: dsn, namespace: NORTH}, stringData: {dsn: "URL"}}
---
{apiVersion: v1, kind: Secret, metadata: {name: dsn, namespace: SOUTH}, stringData: {dsn: "URL"}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectDatabaseSink, metadata: {name: pg, namespace: NORTH}, spec: {type: postgres, CLUSTER postgres: {databaseRef: {name: dsn}, table: items}}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectDatabaseSink, metadata: {name: pg, namespace: SOUTH}, spec: {type: postgres, CLUSTER postgres: {databaseRef: {name: dsn}, table: items}}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectProfile, metadata: {name: numbers, namespace: NORTH}, spec: {targetGVK: {version: v1, kind: ConfigMap}, attributes: [{name: number, path: "cel:int(object.data.number)"}, {name: created, path: $.metadata.creationTimestamp}]}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectProfile, metadata: {name: whole, namespace: SOUTH}, spec: {targetGVK: {version: v1, kind: ConfigMap}, export: {mode: Resource, include: All}}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectTarget, metadata: {name: maps, namespace: NORTH}, spec: {profileRef: numbers, includedNamespaces: [NORTH], resourceRules: [{gvk: {version: v1, kind: ConfigMap}, matchPolicy: has(object.data.number)}]}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectTarget, metadata: {name: maps, namespace: SOUTH}, spec: {profileRef: whole, namespaceSelector: {matchLabels: {tier: back}}, labelSelector: {matchLabels: {app: shop}}}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectInventory, metadata: {name: team, namespace: NORTH}, spec: {databaseSinkRefs: [{name: pg}], exportMinInterval: 0s}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectInventory, metadata: {name: team, namespace: SOUTH}, spec: {databaseSinkRefs: [{name: pg}], exportMinInterval: 0s}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectClusterTarget, metadata: {name: alpha, labels: {roll: up, part: first}}, spec: {profileRef: {name: numbers, namespace: NORTH}, namespaceSelector: {matchExpressions: [{key: tier, operator: Exists}]}, resourceRules: [{gvk: {version: v1, kind: ConfigMap}, matchPolicy: has(object.data.number)}]}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectClusterTarget, metadata: {name: beta, labels: {roll: up, part: second}}, spec: {profileRef: {name: numbers, namespace: NORTH}, namespaceSelector: {matchExpressions: [{key: tier, operator: Exists}]}, resourceRules: [{gvk: {version: v1, kind: ConfigMap}, matchPolicy: has(object.data.number) && object.data.number != '2'}]}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectClusterTarget, metadata: {name: gamma, labels: {roll: out}}, spec: {profileRef: {name: whole, namespace: SOUTH}, namespaceSelector: {matchExpressions: [{key: tier, operator: Exists}]}}}
---
{apiVersion: kollect.dev/v1alpha1, kind: KollectClusterInventory, metadata: {name: platform}, spec: {targetSelector: {matchLabels: {roll: up}}, namespaceSelector: {matchLabels: {tier: shop}}, dedupe: byResourceUID, databaseSinkRefs: [{name: pg, namespace: NORTH}], exportMinInterval: 0s}}
"#;

/// What makes a row one row.
const KEY: &str = "inventory_namespace, inventory_name, target_name, source_uid";

/// The columns that tell what was collected, not when and by whom.
const COLUMNS: &str = "inventory_namespace, inventory_name, target_name, source_uid, \
    resource_namespace, payload";

/// The same, short enough to be written down.
const DIGEST: &str = "inventory_namespace || '/' || inventory_name, target_name, \
    payload->>'name'";

#[test]
fn operator_and_command_line_agree() -> Result<()> {
    let mut stage = Stage::new()?;
    let cluster = stage.plane.cluster().clone();
    let [north, south] = [
        cluster.create_namespace("north")?,
        cluster.create_namespace("south")?,
    ];
    let label = |namespace: &str, label: &str| {
        cluster.kubectl(&["label", "--overwrite", "namespace", namespace, label])
    };
    label(&north, "tier=shop")?;
    label(&south, "tier=back")?;
    let here = |text: &str| text.replace("NORTH", &north).replace("SOUTH", &south);
    cluster.apply(&here(WORKLOADS))?;
    let configuration = here(CONFIGURATION).replace("URL", &stage.database.url(Tls::Off));
    cluster.apply(&configuration.replace("CLUSTER", "cluster: from-operator,"))?;
    stage.start()?;

    let files = tempfile::tempdir()?;
    let config = files.path().join("config.yaml");
    fs::write(&config, configuration.replace("CLUSTER", ""))?;
    let collect = || -> Result<()> {
        let output = Command::new(env!("CARGO_BIN_EXE_kollect"))
            .args(["collect", "--cluster", "from-collect"])
            .arg("--allow-sink-networks=127.0.0.0/8")
            .arg("--config")
            .arg(&config)
            .arg("--kubeconfig")
            .arg(cluster.kubeconfig())
            .output()?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{told}");
        Ok(())
    };
    let rows = |columns: &str, who: &str| {
        let sql = format!("SELECT {columns} FROM items WHERE cluster = '{who}' ORDER BY {KEY}");
        stage.database.psql(&sql)
    };
    // The command line is done when it ends, so what it wrote is what the operator must reach.
    let agree = |expected: &[&str]| -> Result<()> {
        collect()?;
        let collected = rows(DIGEST, "from-collect")?;
        let collected = collected.replace(&north, "NORTH").replace(&south, "SOUTH");
        let mut lines: Vec<&str> = collected.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines, expected);
        stage.eventually("the rows of both", || {
            let (operator, command) = (
                rows(COLUMNS, "from-operator")?,
                rows(COLUMNS, "from-collect")?,
            );
            ensure!(operator == command, "{operator}\ninstead of\n{command}");
            Ok(())
        })
    };

    agree(&[
        "NORTH/team|maps|n-1",
        "NORTH/team|maps|n-2",
        "SOUTH/team|maps|s-1",
        // Both targets see n-1: one row. Nothing of the other namespace, nothing of gamma.
        "cluster/platform|alpha|n-2",
        "cluster/platform|beta|n-1",
    ])?;
    let whole = rows("payload", "from-operator")?;
    let redacted = whole.contains("password") && !whole.contains("hunter2");
    assert!(redacted, "by both: {whole}");

    // What changes under a running operator is what a new run sees.
    let change = r#"{"data":{"number":"22"}}"#;
    cluster.kubectl(&["patch", "configmap", "n-2", "-n", &north, "-p", change])?;
    cluster.kubectl(&["delete", "configmap", "n-1", "-n", &north])?;
    cluster.kubectl(&["label", "configmap", "s-2", "-n", &south, "app=shop"])?;
    label(&south, "tier=shop")?;
    label(&north, "tier=")?;
    agree(&[
        "NORTH/team|maps|n-2",
        "cluster/platform|beta|s-1",
        "cluster/platform|beta|s-2",
    ])
}
