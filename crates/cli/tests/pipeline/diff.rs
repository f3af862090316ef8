//! What is different, in every format and from every place.

use std::process::Command;

use anyhow::{Result, ensure};
use kollect_testkit::{Postgres, postgres::Tls};
use serde_json::Value;

use crate::program::{Place, repository};

/// How many objects a cluster has.
const OBJECTS: usize = 10_000;

const CONFIG: &str = "
apiVersion: kollect.dev/v1alpha1
kind: KollectProfile
metadata: {name: p, namespace: shop}
spec:
  targetGVK: {group: apps, version: v1, kind: Deployment}
  attributes:
  - {name: images, path: '$.spec.images[*]', type: list}
  - {name: replicas, path: $.spec.replicas}
  - {name: age, path: $.spec.age}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectTarget
metadata: {name: t, namespace: shop}
spec: {profileRef: p}
";

/// What is planted: 11 that go, 9 that come, 17 that change.
const REMOVED: usize = 11;
const ADDED: usize = 9;
const CHANGED: usize = 17;

/// One object. Uids and ages differ in every cluster, and are no difference.
fn object(number: usize, cluster: usize, changed: bool) -> String {
    format!(
        r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"d{number}","namespace":"n{}","uid":"{cluster}-{number}"}},"spec":{{"images":["shop:{}"],"replicas":{},"age":{cluster}}}}}"#,
        number % 7,
        if changed { "2" } else { "1" },
        number % 5,
    )
}

fn dump(objects: impl Iterator<Item = String>) -> String {
    let objects: Vec<String> = objects.collect();
    format!(
        r#"{{"apiVersion":"v1","kind":"List","items":[{}]}}"#,
        objects.join(",\n")
    )
}

fn clusters() -> Place {
    let place = Place::new();
    place.write("config.yaml", CONFIG);
    let before = (0..OBJECTS).map(|number| object(number, 1, false));
    place.write("before/dump.json", &dump(before));
    let after = (REMOVED..OBJECTS + ADDED).map(|number| {
        // Spread over the whole, away from what is removed and added.
        let changed = number >= 100 && number % 500 == 7 && number / 500 < CHANGED + 1;
        object(number, 2, changed)
    });
    place.write("after/dump.json", &dump(after));
    place
}

fn counts(json: &Value) -> [u64; 4] {
    ["added", "removed", "changed", "same"].map(|name| json["counts"][name].as_u64().unwrap_or(0))
}

#[test]
fn thirty_seven_planted_differences_are_found_in_every_format() -> Result<()> {
    let place = clusters();
    let diff = |more: &[&str]| {
        let fixed = [
            "diff",
            "before",
            "after",
            "-f",
            "config.yaml",
            "--ignore",
            "age",
            "-q",
        ];
        place.run(&[&fixed, more].concat(), &[], "")
    };
    let ran = diff(&["-o", "json"]);
    assert_eq!(ran.code, 1, "{}", ran.stderr);
    let json: Value = serde_json::from_str(&ran.stdout)?;
    let planted = REMOVED + ADDED + CHANGED;
    assert_eq!(planted, 37);
    let same = OBJECTS - REMOVED - CHANGED;
    assert_eq!(
        counts(&json),
        [ADDED, REMOVED, CHANGED, same].map(|n| n as u64)
    );
    assert_eq!(json["changes"].as_array().map(Vec::len), Some(planted));
    let changed = json["changes"].as_array().into_iter().flatten();
    let mut changed = changed.filter(|one| one["change"] == "changed");
    let first = changed.next().expect("one changed");
    assert_eq!(first["attributes"][0]["name"], "images");
    assert_eq!(first["attributes"][0]["before"][0], "shop:1");
    assert_eq!(first["attributes"][0]["after"][0], "shop:2");

    for (format, prefix) in [("table", ""), ("markdown", "| ")] {
        let ran = diff(&["-o", format]);
        assert_eq!(ran.code, 1, "{}", ran.stderr);
        let lines = |word: &str| {
            let begin = format!("{prefix}{word} ");
            ran.stdout
                .lines()
                .filter(|line| line.starts_with(&begin))
                .count()
        };
        let found = [lines("added"), lines("removed"), lines("changed")];
        assert_eq!(found, [ADDED, REMOVED, CHANGED], "{format}");
        assert!(
            ran.stdout.contains("9 added, 11 removed, 17 changed"),
            "{format}"
        );
    }
    let ran = diff(&["--where", "cel:object.namespace == 'n0'", "-o", "json"]);
    let json: Value = serde_json::from_str(&ran.stdout)?;
    assert!(
        counts(&json)[0] < 4 && counts(&json)[3] > 1_000,
        "{:?}",
        counts(&json)
    );
    // Without it everything differs, and a cluster does not differ from itself.
    let ran = place.run(
        &[
            "diff",
            "before",
            "after",
            "-f",
            "config.yaml",
            "-q",
            "-o",
            "json",
        ],
        &[],
        "",
    );
    let json: Value = serde_json::from_str(&ran.stdout)?;
    assert_eq!(counts(&json)[3], 0);
    let ran = place.run(
        &["diff", "before", "before", "-f", "config.yaml", "-q"],
        &[],
        "",
    );
    assert_eq!(ran.code, 0, "{ran:?}");
    Ok(())
}

/// The example of the shop as documents, in a repository and in a database, before and after a change.
#[test]
fn every_place_can_be_compared_with_every_other() -> Result<()> {
    let place = Place::new();
    for name in ["shop", "dump"] {
        for entry in std::fs::read_dir(repository().join("examples").join(name))? {
            let path = entry?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            place.write(&format!("{name}/{file}"), &std::fs::read_to_string(&path)?);
        }
    }
    let run = |args: &[&str]| place.run(args, &[], "");
    let collect = |output: &str, more: &[&str]| {
        let fixed = [
            "collect", "-f", "shop", "--from", "dump", "--output", output,
        ];
        let ran = run(&[&fixed, more].concat());
        assert_eq!(ran.code, 0, "{ran:#?}");
    };
    let git = |args: &[&str]| -> Result<()> {
        let names = ["-c", "user.name=t", "-c", "user.email=t@example.com"];
        let ran = Command::new("git")
            .current_dir(place.path("repo"))
            .args(names)
            .args(args)
            .output()?;
        ensure!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        Ok(())
    };
    collect("repo/out", &[]);
    git(&["init", "--quiet", "."])?;
    git(&["add", "."])?;
    git(&["commit", "--quiet", "-m", "before"])?;
    let server = Postgres::shared()?;
    let database = server.create_database("diff")?;
    let sink = r"
apiVersion: kollect.dev/v1alpha1
kind: KollectDatabaseSink
metadata: {name: warehouse, namespace: shop}
spec:
  type: postgres
  cluster: shop
  tls: {insecureSkipVerify: true}
  postgres: {databaseRef: {name: warehouse}, table: rows, history: {table: past}}
---
apiVersion: v1
kind: Secret
metadata: {name: warehouse, namespace: shop}
stringData: {dsn: '${env:WAREHOUSE}'}
";
    place.write("sink.yaml", sink);
    let url = database.url(Tls::Off);
    let into_database = || {
        let args = [
            "collect",
            "-f",
            "shop",
            "-f",
            "sink.yaml",
            "--from",
            "dump",
            "--allow-sink-networks",
            "127.0.0.0/8",
        ];
        let ran = place.run(&args, &[("WAREHOUSE", &url)], "");
        assert_eq!(ran.code, 0, "{ran:#?}");
    };
    into_database();
    let dump = place.read("dump/deployments.json").unwrap_or_default();
    place.write("old/deployments.json", &dump);
    for file in ["namespaces.yaml", "services.yaml"] {
        let text = place.read(&format!("dump/{file}")).unwrap_or_default();
        place.write(&format!("old/{file}"), &text);
    }
    let between = database.psql(
        "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')",
    )?;
    place.write(
        "dump/deployments.json",
        &dump.replace("payment:5.0.3", "payment:5.0.4"),
    );
    into_database();
    collect("repo/out", &["-o", "ndjson"]);
    std::fs::remove_file(place.path("repo/out/inventory/shop/deployments.yaml"))?;
    std::fs::remove_file(place.path("repo/out/inventory/shop/services.yaml"))?;
    let table = format!("postgres:{url}");
    let now = [
        vec!["dump"],
        vec!["repo/out"],
        vec![
            &*table,
            "--table",
            "rows",
            "--allow-sink-networks",
            "127.0.0.0/8",
        ],
    ];
    let before = ["old", "repo@HEAD", "repo@HEAD:out"];
    for before in before {
        for after in &now {
            let fixed = ["diff", "-f", "shop", "-o", "json", "-q", before];
            let ran = run(&[&fixed, &after[..]].concat());
            assert_eq!(ran.code, 1, "{before} {after:?}: {ran:#?}");
            let json: Value = serde_json::from_str(&ran.stdout)?;
            assert_eq!(counts(&json), [0, 0, 1, 8], "{before} {after:?}: {json:#}");
            assert_eq!(json["changes"][0]["name"], "payment");
        }
    }
    let past = [
        "diff",
        &table,
        &table,
        "--table",
        "rows",
        "--history-table",
        "past",
        "--as-of",
        between.trim(),
        "--allow-sink-networks",
        "127.0.0.0/8",
    ];
    let ran = run(&past);
    assert_eq!(ran.code, 1, "{ran:#?}");
    assert!(ran.stdout.contains("payment:5.0.3,envoyproxy"), "{ran:#?}");
    let both = format!("{}{}", ran.stdout, ran.stderr);
    assert!(
        !both.contains(server.password()),
        "no credential in any text"
    );
    // What is not known cannot be compared.
    for wrong in [
        vec!["diff", "old", "absent"],
        vec!["diff", "old", "repo@nowhere", "-f", "shop"],
        vec!["diff", "old/services.yaml", "dump", "-f", "shop"],
        vec!["diff", "old", "dump"],
    ] {
        let ran = run(&wrong);
        assert_eq!((ran.code, &*ran.stdout), (2, ""), "{wrong:?}: {ran:#?}");
    }
    Ok(())
}
