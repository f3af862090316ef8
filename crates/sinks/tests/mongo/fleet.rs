//! A fleet of clusters on one server.

use std::sync::Arc;

use mongodb::bson::doc;
use serde_json::json;

use super::{
    fleet_work::Fleet,
    server::{Stage, inventory},
};

/// Many operators at work in one collection: none fails, and nobody's documents are touched by
/// anybody else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_on_one_collection() {
    let fleet = Fleet::configured();
    let stage = Stage::new().await;
    let times = fleet
        .work(&inventory(), |cluster| {
            let spec = json!({"cluster": format!("cluster-{cluster}")});
            Arc::new(stage.sink(spec))
        })
        .await
        .expect("every cluster is served");
    fleet.tell("MongoDB", &times);
    let rows = fleet.rows_of(0, fleet.rounds).len();
    for cluster in 0..fleet.clusters {
        let name = format!("cluster-{cluster}");
        let own = doc! {"cluster": &name};
        let right = doc! {"cluster": &name, "payload.attributes.cluster": i32::try_from(cluster).expect("few")};
        for filter in [own, right] {
            let count = stage.collection().count_documents(filter).await;
            assert_eq!(count.expect("a count"), rows as u64, "{name}");
        }
    }
    let all = stage.collection().count_documents(doc! {}).await;
    assert_eq!(all.expect("a count"), (rows * fleet.clusters) as u64);
}
