//! Servers that are killed, and acknowledgements that come late or never.

use std::{collections::BTreeMap, time::Duration};

use kollect_inventory::{Row, Snapshot};
use kollect_sinks::{
    SinkError,
    conformance::rows::{Random, item},
};
use kollect_testkit::{Nats, Proxy, nats::Admission};
use serde_json::{Value, json};

use super::{
    stage::{blocking, changes, everything, open},
    vectors::row,
};

fn found(messages: &[Value]) -> BTreeMap<String, Value> {
    let there = messages.iter().filter(|m| m["body"]["event"] == "upsert");
    there
        .map(|message| {
            let item = &message["body"]["item"];
            (
                item["name"].as_str().expect("a name").to_owned(),
                item.clone(),
            )
        })
        .collect()
}

fn expected(rows: &Snapshot) -> BTreeMap<String, Value> {
    let rows = rows.rows().iter();
    rows.map(|row| (row.name().to_owned(), item(row))).collect()
}

/// C7, C8: the server is killed and the wire cut in the middle of deliveries, under churn. After
/// every recovery the newest message per row is the inventory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c7_c8_kills_and_cuts_under_churn() {
    let server = blocking(|| Nats::start(&Admission::Passwords))
        .await
        .expect("a server");
    let (port, password) = (server.port(), server.password().to_owned());
    let proxy = Proxy::to(("127.0.0.1", port)).expect("a wire");
    let reader = blocking(move || (server.reader().expect("a reader"), server));
    let (reader, server_back) = reader.await;
    let mut server = server_back;
    let spec = json!({
        "type": "nats", "cluster": "prod-west", "secretRef": {"name": "nats"},
        "nats": {"url": format!("nats://127.0.0.1:{}", proxy.port()), "subject": "inventory"},
    });
    let secret = [("username", "user1"), ("password", password.as_str())];
    let mut sink = open(spec.clone(), &secret).await.expect("a sink");
    let mut random = Random::new(7);
    let mut state: BTreeMap<u64, u64> = BTreeMap::new();
    let mut delivered: Option<Snapshot> = None;
    let (mut changed, mut published) = (0, 0);
    for round in 0..12_u64 {
        for _ in 0..120 {
            let (number, value) = (random.below(400), random.below(50));
            changed += 1;
            if value == 0 {
                state.remove(&number);
            } else {
                state.insert(number, value);
            }
        }
        let rows: Snapshot = state
            .iter()
            .map(|(number, value)| row(&format!("app-{number}"), &number.to_string(), *value))
            .collect::<Vec<Row>>()
            .into_iter()
            .collect();
        let delivery = async {
            match &delivered {
                Some(before) => changes(&sink, before, &rows).await,
                None => everything(&sink, &rows).await,
            }
        };
        let trouble = async {
            tokio::time::sleep(Duration::from_millis(random.below(12))).await;
            match round % 4 {
                0 => proxy.cut(),
                2 => server.server().kill().expect("killed"),
                _ => {}
            }
        };
        let (result, ()) = tokio::join!(delivery, trouble);
        if let Ok(receipt) = &result {
            published += receipt.written + receipt.removed;
        }
        if round % 4 == 2 {
            server.server().resume().expect("a server");
        }
        if round % 5 == 4 {
            // The process starts anew.
            sink = open(spec.clone(), &secret).await.expect("a sink");
        }
        let recovered = match result {
            Ok(_) if round % 5 != 4 => true,
            Ok(_) => false,
            Err(error) => {
                let heals = matches!(error, SinkError::Transient(_) | SinkError::OutOfStep(_));
                assert!(heals, "round {round}: {error:?}");
                false
            }
        };
        if !recovered {
            let mut last = None;
            for _ in 0..20 {
                match everything(&sink, &rows).await {
                    Ok(receipt) => {
                        published += receipt.written + receipt.removed;
                        last = None;
                        break;
                    }
                    Err(error) => last = Some(error),
                }
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            assert_eq!(last, None, "round {round}");
        }
        delivered = Some(rows.clone());
        let newest = reader.newest("kollect_events", "inventory.>");
        let newest = found(&newest.expect("messages"));
        assert_eq!(newest, expected(&rows), "round {round}");
    }
    println!("{changed} changes, {published} messages in deliveries that were acknowledged");
}

/// A server that hangs is given up after a while, and what was on its way arrives before what comes
/// next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hanging_server_is_given_up() {
    let place = super::stage::Place::new().await;
    let proxy = Proxy::to(("127.0.0.1", place.port)).expect("a wire");
    let url = format!("nats://127.0.0.1:{}", proxy.port());
    let sink = place.sink(json!({"nats": {"url": url}})).await;
    let first: Snapshot = [row("a", "u", 1)].into_iter().collect();
    everything(&sink, &first).await.expect("all rows");
    proxy.stall(true);
    let second: Snapshot = [row("a", "u", 2)].into_iter().collect();
    let error = changes(&sink, &first, &second)
        .await
        .expect_err("no answer");
    assert!(matches!(error, SinkError::Transient(_)), "{error:?}");
    proxy.stall(false);
    // The change that nobody waited for arrives, and is taken back.
    everything(&sink, &first).await.expect("all rows");
    assert_eq!(place.newest().await["a"], Some(item(&row("a", "u", 1))));
}
