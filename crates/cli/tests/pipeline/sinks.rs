//! Real sinks behind the command: a repository and a database.

use std::process::Command;

use anyhow::{Result, ensure};
use kollect_testkit::{Postgres, postgres::Tls};

use crate::program::{Place, Ran, repository};

/// A place with the example of the shop, its dump, and some sinks.
fn place(sinks: &str) -> Result<Place> {
    let place = Place::new();
    for name in ["shop", "dump"] {
        for entry in std::fs::read_dir(repository().join("examples").join(name))? {
            let path = entry?.path();
            let file = path.file_name().unwrap_or_default().to_string_lossy();
            place.write(&format!("{name}/{file}"), &std::fs::read_to_string(&path)?);
        }
    }
    place.write("sinks/sinks.yaml", sinks);
    Ok(place)
}

fn collect(place: &Place, more: &[&str], environment: &[(&str, &str)]) -> Ran {
    let args = [
        &[
            "collect", "--config", "shop", "--config", "sinks", "--from", "dump",
        ],
        more,
    ];
    place.run(&args.concat(), environment, "")
}

#[test]
fn a_repository_on_this_machine() -> Result<()> {
    let example = std::fs::read_to_string(repository().join("examples/git/repository.yaml"))?;
    let place = place("")?;
    let bare = place.path("inventory.git");
    let git = |args: &[&str]| -> Result<String> {
        let output = Command::new("git")
            .arg("-C")
            .arg(&bare)
            .args(args)
            .output()?;
        let text = String::from_utf8(output.stdout)?;
        ensure!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(text)
    };
    std::fs::create_dir(&bare)?;
    git(&["init", "--quiet", "--bare", "."])?;
    let endpoint = format!("file://{}", bare.display());
    place.write(
        "sinks/sinks.yaml",
        &example.replace("file:///tmp/shop-inventory.git", &endpoint),
    );

    let ran = collect(&place, &["--dry-run"], &[]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        git(&["rev-parse", "--verify", "main"]).is_err(),
        "a dry run pushes nothing"
    );

    let ran = collect(&place, &[], &[]);
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert_eq!(ran.stdout, "");
    assert!(
        ran.stderr
            .contains("target shop/deployments -> KollectSnapshotSink shop/repository: 5 rows"),
        "{ran:#?}"
    );
    let payment = git(&["show", "main:shop/checkout/deployment/payment.yaml"])?;
    assert!(
        payment.contains("ghcr.example/shop/payment:5.0.3"),
        "{payment}"
    );

    // Nothing changed, so nothing is committed; one change is one commit that touches one file.
    let before = git(&["rev-parse", "main"])?;
    assert_eq!(collect(&place, &[], &[]).code, 0);
    assert_eq!(git(&["rev-parse", "main"])?, before);
    let dump = place.read("dump/deployments.json").unwrap_or_default();
    place.write(
        "dump/deployments.json",
        &dump.replace("payment:5.0.3", "payment:5.0.4"),
    );
    assert_eq!(collect(&place, &[], &[]).code, 0);
    let changed = git(&["diff", "--name-only", before.trim(), "main", "--", "shop"])?;
    assert_eq!(changed, "shop/checkout/deployment/payment.yaml\n");
    Ok(())
}

#[test]
fn an_inventory_in_a_database() -> Result<()> {
    let server = Postgres::shared()?;
    let database = server.create_database("pipeline")?;
    let sinks = r"
apiVersion: kollect.dev/v1alpha1
kind: KollectInventory
metadata: {name: everything, namespace: shop}
spec: {databaseSinkRefs: [warehouse]}
---
apiVersion: kollect.dev/v1alpha1
kind: KollectDatabaseSink
metadata: {name: warehouse, namespace: shop}
spec:
  type: postgres
  cluster: shop
  tls: {insecureSkipVerify: true}
  postgres: {databaseRef: {name: warehouse}, table: rows}
---
apiVersion: v1
kind: Secret
metadata: {name: warehouse, namespace: shop}
stringData: {dsn: '${env:WAREHOUSE}'}
";
    let place = place(sinks)?;
    let url = database.url(Tls::Required);
    let environment = [("WAREHOUSE", url.as_str())];
    let refused = collect(&place, &[], &environment);
    assert_eq!(
        refused.code, 2,
        "loopback is nobody's sink by default: {refused:#?}"
    );
    let ran = collect(
        &place,
        &["--allow-sink-networks", "127.0.0.0/8"],
        &environment,
    );
    assert_eq!(ran.code, 0, "{ran:#?}");
    assert!(
        ran.stderr
            .contains("inventory shop/everything -> KollectDatabaseSink shop/warehouse: 9 rows"),
        "{ran:#?}"
    );
    let both = format!(
        "{}{}{}{}",
        refused.stdout, refused.stderr, ran.stdout, ran.stderr
    );
    assert!(
        !both.contains(server.password()),
        "no credential in any text"
    );
    let rows = database.psql("SELECT count(*) FROM rows")?;
    assert_eq!(rows.trim(), "9");
    Ok(())
}
