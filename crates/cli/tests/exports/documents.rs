//! Inventories in a MongoDB collection, from the operator's flags to a reader of another library.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use kollect_testkit::Mongo;
use serde_json::{Value, json};

use crate::stage::Stage;

/// The documents of the inventory, by name.
fn documents(mongo: &Mongo, database: &str) -> Result<BTreeMap<String, String>> {
    let script = "
rows = client[sys.argv[1]].items.find({'inventory_name': 'inv', 'cluster': 'east'})
print(json.dumps({row['payload']['name']: str(row['payload']['attributes']['number']) for row in rows}))";
    Ok(serde_json::from_str(&mongo.script(script, &[database])?)?)
}

fn verified(stage: &Stage) -> Result<Value> {
    let path = format!(
        "/apis/kollect.dev/v1alpha1/namespaces/{}/kollectdatabasesinks/documents",
        stage.namespace
    );
    let sink = stage.api()?.get(&path)?;
    let conditions = sink["status"]["conditions"].as_array().cloned();
    let conditions = conditions.unwrap_or_default();
    let found = conditions
        .into_iter()
        .find(|said| said["type"] == "ConnectionVerified");
    found.context("nothing is said of the connection")
}

#[test]
fn a_collection_follows_the_cluster() -> Result<()> {
    let mut stage = Stage::new()?;
    let mongo = Mongo::start()?;
    let user = mongo.create_user("exports")?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "mongo", "namespace": stage.namespace},
        "stringData": {"uri": mongo.uri_of(&user)},
    });
    stage.plane.cluster().apply(&secret.to_string())?;
    let sink = json!({
        "type": "mongodb", "cluster": "east",
        "mongodb": {"databaseRef": {"name": "mongo"}, "database": user.database, "collection": "items"},
    });
    stage.apply("KollectDatabaseSink", "documents", &sink)?;
    let inventory = json!({
        "databaseSinkRefs": [{"name": "documents"}], "exportMinInterval": "1h",
    });
    stage.apply("KollectInventory", "inv", &inventory)?;
    stage.put("a", 1)?;
    stage.put("b", 2)?;
    stage.start()?;
    let in_step = |stage: &Stage| {
        let expected = stage.listed()?;
        stage.eventually("the collection in step", || {
            let found = documents(&mongo, &user.database)?;
            ensure!(found == expected, "{found:?}");
            Ok(())
        })
    };
    in_step(&stage)?;
    stage.put("a", 3)?;
    stage.put("c", 4)?;
    in_step(&stage)?;
    stage.expect_conditions(&[
        "Ready=True/Exported",
        "SinkReachable=True/ExportSucceeded",
        "Synced=True/UpToDate",
    ])?;
    let said = stage.eventually("a probe", || {
        let said = verified(&stage)?;
        ensure!(said["status"] == "True", "{said}");
        Ok(said)
    })?;
    assert_eq!(said["message"], "MongoDB ping succeeded");

    stage.delete("kollectinventories", "inv")?;
    stage.expect_gone("kollectinventories", "inv")?;
    assert_eq!(documents(&mongo, &user.database)?, BTreeMap::new());
    Ok(())
}
