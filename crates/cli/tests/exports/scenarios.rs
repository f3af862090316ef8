//! What users do.

use std::{thread, time::Duration};

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::postgres::Tls;
use serde_json::json;

use crate::stage::Stage;

const HEALTHY: [&str; 3] = [
    "Ready=True/Exported",
    "SinkReachable=True/ExportSucceeded",
    "Synced=True/UpToDate",
];

#[test]
fn a_team_exports_its_rows() -> Result<()> {
    let mut stage = Stage::new()?;
    for number in 0..20 {
        stage.put(&format!("s-{number}"), number)?;
    }
    stage.inventory("0s")?;
    stage.start()?;
    stage.expect_in_step("items")?;
    stage.expect_conditions(&HEALTHY)?;
    let status = stage.status()?;
    assert_eq!(status["itemCount"], 20, "{status}");
    let entry = &status["sinkExports"][0];
    assert_eq!(entry["name"], "database/pg");
    let checksum = entry["lastChecksum"].as_str().context("a checksum")?;
    assert_eq!(checksum.len(), 64);
    let sink = stage.plane.cluster().kubectl(&[
        "get",
        "kollectdatabasesink",
        "pg",
        "-n",
        &stage.namespace,
        "-o",
        "jsonpath={.status.conditions[?(@.type=='ConnectionVerified')].message}",
    ])?;
    assert_eq!(sink, "PostgreSQL ping succeeded");

    // One change is one row, at once.
    let before = stage.database.psql("SELECT max(exported_at) FROM items")?;
    stage.put("s-3", 300)?;
    stage.expect_in_step("items")?;
    let sql = format!("SELECT payload->>'name' FROM items WHERE exported_at > '{before}'");
    assert_eq!(stage.database.psql(&sql)?, "s-3");

    // Nothing happens, so nothing is written.
    stage.expect_conditions(&HEALTHY)?;
    thread::sleep(Duration::from_secs(7));
    let version = stage.version()?;
    thread::sleep(Duration::from_secs(20));
    assert_eq!(
        stage.version()?,
        version,
        "an idle inventory writes no status"
    );

    // A clean stop is quick, and the next process finds everything in step.
    let operator = stage.operator.take().context("it runs")?;
    let took = operator.terminate()?;
    assert!(took < Duration::from_secs(10), "{took:?}");
    stage.put("s-4", 400)?;
    stage.start()?;
    stage.expect_in_step("items")?;
    stage.expect_conditions(&HEALTHY)?;

    // The target goes, then the inventory.
    stage.delete("kollecttargets", "maps")?;
    stage.eventually("no rows", || {
        let rows = stage.rows("items")?;
        ensure!(rows.is_empty(), "{} rows", rows.len());
        Ok(())
    })
}

#[test]
fn credentials_rotate_and_sinks_move() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.put("s-1", 1)?;
    stage.inventory("0s")?;
    stage.start()?;
    stage.expect_in_step("items")?;

    // The password changes: the old one is refused, the new Secret is taken up by itself.
    stage
        .database
        .psql("CREATE ROLE app LOGIN PASSWORD 'first' SUPERUSER")?;
    let url = |password: &str| {
        let port = stage.postgres.port();
        let name = &stage.database.name;
        format!("postgres://app:{password}@127.0.0.1:{port}/{name}?sslmode=disable")
    };
    let (first, second) = (url("first"), url("second"));
    stage.secret(&first)?;
    stage.put("s-2", 2)?;
    stage.expect_in_step("items")?;
    stage.database.psql(
        "ALTER ROLE app PASSWORD 'second'; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'",
    )?;
    stage.put("s-3", 3)?;
    stage.eventually("the failure is told", || {
        let conditions = stage.conditions()?;
        let told = conditions.iter().any(|c| c.starts_with("Degraded=True/"));
        ensure!(told, "{conditions:?}");
        Ok(())
    })?;
    let status = stage.status()?.to_string();
    for secret in ["first", "second", "127.0.0.1", &stage.database.name] {
        ensure!(!status.contains(secret), "{secret} is in {status}");
    }
    stage.secret(&second)?;
    stage.expect_in_step("items")?;
    stage.expect_conditions(&HEALTHY)?;

    // Another table: all rows go there at once.
    stage.sink("pg", "elsewhere")?;
    stage.expect_in_step("elsewhere")?;
    stage.put("s-4", 4)?;
    stage.expect_in_step("elsewhere")?;

    // The table is dropped under our feet: it comes back with all rows.
    stage.database.psql("DROP TABLE elsewhere")?;
    stage.put("s-5", 5)?;
    stage.expect_in_step("elsewhere")
}

#[test]
fn what_is_deleted_leaves_nothing_and_blocks_nobody() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.put("s-1", 1)?;
    stage.sink("second", "second")?;
    let both = json!({
        "databaseSinkRefs": [{"name": "pg"}, {"name": "second"}], "exportMinInterval": "0s",
    });
    stage.apply("KollectInventory", "inv", &both)?;
    stage.start()?;
    stage.expect_in_step("items")?;
    stage.expect_in_step("second")?;
    stage.expect_conditions(&HEALTHY)?;

    // A reference that goes takes its rows with it.
    stage.inventory("0s")?;
    stage.eventually("the second table empty", || {
        let rows = stage.rows("second")?;
        ensure!(rows.is_empty(), "{} rows", rows.len());
        Ok(())
    })?;
    stage.eventually("one entry", || {
        let status = stage.status()?;
        let entries = status["sinkExports"].as_array().map_or(0, Vec::len);
        ensure!(entries == 1, "{status}");
        Ok(())
    })?;
    stage.expect_in_step("items")?;

    // The inventory goes with its rows.
    stage.delete("kollectinventories", "inv")?;
    stage.expect_gone("kollectinventories", "inv")?;
    assert!(stage.rows("items")?.is_empty());

    // B6: so it does when it was deleted while nobody was there to clean up for a while.
    stage.inventory("0s")?;
    stage.expect_in_step("items")?;
    stage.kill()?;
    stage.delete("kollectinventories", "inv")?;
    thread::sleep(Duration::from_secs(6));
    stage.start_with(&["--cleanup-timeout=5s"])?;
    stage.expect_gone("kollectinventories", "inv")?;
    assert!(stage.rows("items")?.is_empty(), "given up without a try");

    // It comes back, and its sink goes first: it may go all the same.
    stage.inventory("0s")?;
    stage.expect_in_step("items")?;
    stage.delete("kollectdatabasesinks", "pg")?;
    stage.expect_conditions(&[
        "Degraded=True/SinkNotFound",
        "Ready=False/SinkNotFound",
        "SinkReachable=False/SinkNotFound",
        "Synced=False/SinkNotFound",
    ])?;
    stage.delete("kollectinventories", "inv")?;
    stage.expect_gone("kollectinventories", "inv")
}

#[test]
fn a_connection_test_tells_and_goes() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.start()?;
    let test = |name: &str, sink: &str, ttl: i32| {
        let spec = json!({
            "sinkRef": {"databaseSinkRef": sink}, "ttlSecondsAfterFinished": ttl,
        });
        stage.apply("KollectConnectionTest", name, &spec)
    };
    test("good", "pg", 600)?;
    test("missing", "nobody", 600)?;
    test("brief", "pg", 0)?;
    let reason = |name: &str| {
        stage.plane.cluster().kubectl(&[
            "get", "kollectconnectiontest", name, "-n", &stage.namespace, "-o",
            "jsonpath={.status.conditions[?(@.type=='Ready')].reason}/{.metadata.ownerReferences[0].name}",
        ])
    };
    for (name, expected) in [("good", "ProbeSucceeded/pg"), ("missing", "SinkNotFound/")] {
        stage.eventually(name, || {
            let told = reason(name)?;
            ensure!(told == expected, "{told}");
            Ok(())
        })?;
    }
    stage.expect_gone("kollectconnectiontests", "brief")?;

    // A probe that fails is told on the sink, and heals by itself.
    let port = stage.postgres.port();
    let wrong = format!("postgres://nobody:hunter2@127.0.0.1:{port}/x?sslmode=disable");
    stage.secret(&wrong)?;
    let verified = || {
        stage.plane.cluster().kubectl(&[
            "get", "kollectdatabasesink", "pg", "-n", &stage.namespace, "-o",
            "jsonpath={.status.conditions[?(@.type=='ConnectionVerified')].status}/{.status.conditions[?(@.type=='ConnectionVerified')].message}",
        ])
    };
    stage.eventually("the failed probe", || {
        let told = verified()?;
        ensure!(
            told.starts_with("False/") && !told.contains("hunter2"),
            "{told}"
        );
        Ok(())
    })?;
    stage.secret(&stage.database.url(Tls::Off))?;
    stage.eventually("the healed probe", || {
        let told = verified()?;
        ensure!(told.starts_with("True/"), "{told}");
        Ok(())
    })
}

#[test]
fn a_platform_team_rolls_up() -> Result<()> {
    let mut stage = Stage::new()?;
    let namespace = stage.namespace.clone();
    let cluster = stage.plane.cluster().clone();
    cluster.kubectl(&["label", "namespace", &namespace, "tier=shop"])?;
    stage.put("s-1", 1)?;
    stage.put("s-2", 2)?;
    let object = |kind: &str, name: &str, spec: serde_json::Value| {
        let object = json!({
            "apiVersion": "kollect.dev/v1alpha1", "kind": kind,
            "metadata": {"name": name}, "spec": spec,
        });
        cluster.apply(&object.to_string()).map(|_| ())
    };
    let target = json!({
        "profileRef": {"name": "maps", "namespace": namespace},
        "namespaceSelector": {"matchLabels": {"tier": "shop"}},
        "resourceRules": [{
            "gvk": {"version": "v1", "kind": "ConfigMap"}, "matchPolicy": "has(object.data.number)",
        }],
    });
    object("KollectClusterTarget", "alpha", target.clone())?;
    object("KollectClusterTarget", "beta", target)?;
    let inventory = |dedupe: &str| {
        json!({
            "namespaceSelector": {"matchLabels": {"tier": "shop"}},
            "databaseSinkRefs": [{"name": "pg", "namespace": namespace}],
            "exportMinInterval": "0s", "dedupe": dedupe,
        })
    };
    object("KollectClusterInventory", "platform", inventory("keepAll"))?;
    stage.start()?;
    let rows = |stage: &Stage| {
        stage.database.psql(
            "SELECT target_name, payload->>'name', payload->'attributes'->>'number' FROM items \
             WHERE inventory_namespace = 'cluster' AND inventory_name = 'platform' ORDER BY 1, 2",
        )
    };
    let expect = |stage: &Stage, expected: &str| {
        stage.eventually(expected, || {
            let rows = rows(stage)?;
            ensure!(rows.replace('\n', " ") == expected, "{rows}");
            Ok(())
        })
    };
    expect(&stage, "alpha|s-1|1 alpha|s-2|2 beta|s-1|1 beta|s-2|2")?;

    // One row per object: the target with the greatest name wins.
    object(
        "KollectClusterInventory",
        "platform",
        inventory("byResourceUID"),
    )?;
    expect(&stage, "beta|s-1|1 beta|s-2|2")?;
    stage.put("s-2", 20)?;
    expect(&stage, "beta|s-1|1 beta|s-2|20")?;
    stage.eventually("the status of the rollup", || {
        let path = "jsonpath={.status.itemCount} {.status.targetCount} \
            {.status.namespaceShards[0].targetCount} {.status.sinkExports[0].namespace}";
        let get = ["get", "kollectclusterinventory", "platform", "-o", path];
        let status = cluster.kubectl(&get)?;
        ensure!(status == format!("2 2 2 {namespace}"), "{status}");
        Ok(())
    })?;

    // A namespace that leaves takes its rows along.
    cluster.kubectl(&["label", "namespace", &namespace, "tier-"])?;
    expect(&stage, "")?;
    cluster.kubectl(&["label", "namespace", &namespace, "tier=shop"])?;
    expect(&stage, "beta|s-1|1 beta|s-2|20")?;
    cluster.kubectl(&["delete", "kollectclusterinventory", "platform", "--wait"])?;
    expect(&stage, "")
}

#[test]
fn of_two_replicas_one_writes_and_the_other_takes_over() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.put("s-1", 1)?;
    stage.inventory("0s")?;
    let election = [
        "--leader-elect",
        "--leader-elect-lease-duration=6s",
        "--leader-elect-renew-deadline=4s",
        "--leader-elect-retry-period=1s",
    ];
    let lease = format!("--leader-elect-namespace={}", stage.namespace);
    let arguments: Vec<&str> = election.iter().copied().chain([&*lease]).collect();
    stage.start_with(&arguments)?;
    stage.expect_in_step("items")?;
    let first = stage.operator.take().context("it runs")?;
    stage.start_with(&arguments)?;
    stage.put("s-2", 2)?;
    stage.expect_in_step("items")?;

    // A leader that ends hands over at once; one that is killed is replaced when its lease ends.
    let begun = std::time::Instant::now();
    first.terminate()?;
    stage.put("s-3", 3)?;
    stage.expect_in_step("items")?;
    assert!(
        begun.elapsed() < Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    let second = stage.operator.take().context("it runs")?;
    stage.start_with(&arguments)?;
    second.kill()?;
    stage.put("s-4", 4)?;
    stage.expect_in_step("items")
}

#[test]
#[ignore = "takes eleven minutes; run it after changes to statuses"]
fn an_idle_inventory_rests_for_ten_minutes() -> Result<()> {
    let mut stage = Stage::new()?;
    stage.put("s-1", 1)?;
    // With refreshes, which are deliveries but no news.
    stage.inventory("30s")?;
    stage.start()?;
    stage.expect_in_step("items")?;
    stage.expect_conditions(&HEALTHY)?;
    thread::sleep(Duration::from_secs(10));
    let version = stage.version()?;
    thread::sleep(Duration::from_mins(10));
    assert_eq!(stage.version()?, version);
    stage.expect_conditions(&HEALTHY)
}
