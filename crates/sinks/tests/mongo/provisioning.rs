//! Collections and indexes: created, found, refused.

use kollect_sinks::{Sink, SinkError};
use mongodb::bson::{Bson, doc};
use serde_json::json;

use super::{
    items::deployments,
    server::{COLLECTION, Stage, T1, T2, everything, inventory},
};

async fn keys(stage: &Stage) -> Vec<(Vec<String>, bool)> {
    let answer = stage
        .database()
        .run_command(doc! {"listIndexes": COLLECTION})
        .await
        .unwrap();
    let batch = answer
        .get_document("cursor")
        .unwrap()
        .get_array("firstBatch")
        .unwrap();
    batch
        .iter()
        .filter_map(Bson::as_document)
        .map(|index| {
            let key = index.get_document("key").unwrap().keys().cloned().collect();
            (key, index.get_bool("unique").unwrap_or(false))
        })
        .collect()
}

fn text(error: SinkError) -> String {
    match error {
        SinkError::Terminal(text) => text,
        other => panic!("{other:?}"),
    }
}

/// D34, D36, M3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_missing_is_created() {
    let stage = Stage::new().await;
    stage
        .database()
        .create_collection(COLLECTION)
        .await
        .unwrap();
    for _ in 0..2 {
        let sink = stage.sink(json!({}));
        everything(&sink, &inventory(), T1, &deployments(1, 1))
            .await
            .unwrap();
    }
    let five = [
        "inventory_namespace",
        "inventory_name",
        "cluster",
        "target_name",
        "source_uid",
    ];
    let five = five.map(str::to_owned).to_vec();
    assert_eq!(
        keys(&stage).await,
        [(vec!["_id".to_owned()], false), (five, true)]
    );
}

/// D35: nothing is created, and the message names the collection and the mode.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_existing_collection_is_asked_for() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({"provisioning": {"mode": "existing"}}));
    let name = format!("{}.{COLLECTION}", stage.user.database);
    let delivered = everything(&sink, &inventory(), T1, &deployments(1, 1)).await;
    for said in [
        text(delivered.unwrap_err()),
        text(sink.probe().await.unwrap_err()),
    ] {
        assert!(
            said.contains(&name) && said.contains("provisioning.mode=existing"),
            "{said}"
        );
    }
    assert_eq!(
        stage.database().list_collection_names().await.unwrap(),
        Vec::<String>::new()
    );

    stage
        .database()
        .create_collection(COLLECTION)
        .await
        .unwrap();
    let receipt = everything(&sink, &inventory(), T1, &deployments(3, 1))
        .await
        .unwrap();
    assert!(receipt.note.expect("a warning").contains("no unique index"));
    assert_eq!(keys(&stage).await.len(), 1, "no index is created");
    assert_eq!(sink.probe().await.unwrap(), "MongoDB ping succeeded");
    // Without the index somebody may leave a row twice.
    let mut twin = stage.documents().await.remove(0);
    twin.remove("_id");
    stage.collection().insert_one(twin).await.unwrap();
    everything(&sink, &inventory(), T2, &deployments(3, 1))
        .await
        .unwrap();
    assert_eq!(stage.documents().await.len(), 3);
}

/// W3: an index of four fields keeps working for one cluster, with a warning; another cluster is
/// told which row is in the way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_without_the_cluster_is_named() {
    let stage = Stage::new().await;
    let key =
        doc! {"inventory_namespace": 1, "inventory_name": 1, "target_name": 1, "source_uid": 1};
    let create = doc! {"createIndexes": COLLECTION, "indexes": [{"key": key, "name": "old", "unique": true}]};
    stage.database().run_command(create).await.unwrap();
    let sink = stage.sink(json!({}));
    let receipt = everything(&sink, &inventory(), T1, &deployments(1, 1))
        .await
        .unwrap();
    assert!(
        receipt
            .note
            .expect("a warning")
            .contains("without the cluster")
    );
    let other = stage.sink(json!({"cluster": "east"}));
    let said = text(
        everything(&other, &inventory(), T1, &deployments(1, 1))
            .await
            .unwrap_err(),
    );
    assert!(
        said.starts_with("mongodb upsert") && said.contains("uid-000000"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_are_in_the_way_of_the_index() {
    let stage = Stage::new().await;
    let twins = [doc! {"cluster": "x"}, doc! {"cluster": "x"}];
    stage.collection().insert_many(twins).await.unwrap();
    let error = everything(&stage.sink(json!({})), &inventory(), T1, &deployments(1, 1)).await;
    let said = text(error.unwrap_err());
    assert!(
        said.starts_with("mongodb ensure index") && said.contains("several documents"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_is_no_collection() {
    let stage = Stage::new().await;
    let view = doc! {"create": COLLECTION, "viewOn": "other", "pipeline": []};
    stage.database().run_command(view).await.unwrap();
    let error = everything(&stage.sink(json!({})), &inventory(), T1, &deployments(1, 1)).await;
    assert!(text(error.unwrap_err()).contains("is a view"));
}

/// A user whose rights were taken away is told what to grant, and goes on when they are back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rights_may_go_and_come_back() {
    let stage = Stage::new().await;
    let sink = stage.sink(json!({}));
    everything(&sink, &inventory(), T1, &deployments(2, 1))
        .await
        .unwrap();
    let role = |command: &str, role: &str| {
        doc! {command: &stage.user.name, "roles": [{"role": role, "db": &stage.user.database}]}
    };
    let admin = stage.admin.database("admin");
    let run = |command| async { admin.run_command(command).await.unwrap() };
    run(role("revokeRolesFromUser", "readWrite")).await;
    run(role("grantRolesToUser", "read")).await;
    let error = everything(&sink, &inventory(), T2, &deployments(2, 2))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, SinkError::Forbidden(said) if said.contains("grant readWrite")),
        "{error:?}"
    );
    run(role("grantRolesToUser", "readWrite")).await;
    everything(&sink, &inventory(), T2, &deployments(2, 2))
        .await
        .unwrap();
}
