//! Brokers that mean harm or are in trouble.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use kollect_api::address::AddressPolicy;
use kollect_sinks::{SinkError, conformance::rows::Rows, dial::Dialer};
use kollect_testkit::{kafka::USER, names::unique};
use serde_json::json;

use super::{
    broker::{all, changes, environment, kafka, open},
    reader::newest,
};

/// A broker that answers every request with the same bytes; a frame's length is theirs to say.
fn impostor(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = std::sync::Arc::new(answer);
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let answer = std::sync::Arc::clone(&answer);
            thread::spawn(move || serve(&stream, &*answer));
        }
    });
    address
}

fn serve(mut stream: &TcpStream, answer: &dyn Fn(&[u8]) -> Vec<u8>) {
    let mut length = [0; 4];
    while stream.read_exact(&mut length).is_ok() {
        let mut request = vec![0; u32::from_be_bytes(length) as usize];
        if stream.read_exact(&mut request).is_err() || stream.write_all(&answer(&request)).is_err()
        {
            return;
        }
    }
}

fn framed(request: &[u8], body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
    [&length, &request[4..8], body].concat()
}

/// Metadata with one topic of one partition, led by a broker at this address.
fn metadata(request: &[u8], host: &str, port: i32) -> Vec<u8> {
    let text = |text: &str| {
        let length = u16::try_from(text.len()).unwrap().to_be_bytes();
        [&length, text.as_bytes()].concat()
    };
    let body = [
        &[0; 4][..],
        &[0, 0, 0, 1, 0, 0, 0, 7],
        &text(host),
        &port.to_be_bytes(),
        &[0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0, 7],
        &[0, 0, 0, 1, 0, 0],
        &text("t"),
        &[0],
        &[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0],
        &[0; 12],
        &[0xff; 4],
        &[0; 4],
    ]
    .concat();
    framed(request, &body)
}

#[tokio::test]
async fn nonsense_is_refused_in_time_and_without_memory() {
    type Answer = fn(&[u8]) -> Vec<u8>;
    let junk: [(&str, Answer); 6] = [
        ("a length of 2 GiB", |_| {
            vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1]
        }),
        ("a negative length", |_| vec![0xff; 8]),
        ("another request's answer", |_| vec![0, 0, 0, 4, 9, 9, 9, 9]),
        ("a list of 2^31 brokers", |request| {
            framed(request, &[0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff])
        }),
        ("nothing", |request| framed(request, &[])),
        ("a web page", |_| {
            b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec()
        }),
    ];
    for (what, answer) in junk {
        let broker = impostor(answer);
        let sink = open(&broker, "t", json!({}), &[]).await.unwrap();
        let began = Instant::now();
        let error = all(&sink, &Rows::new().deployments(1, 1))
            .await
            .unwrap_err();
        assert!(matches!(error, SinkError::Transient(_)), "{what}: {error}");
        assert!(began.elapsed() < Duration::from_secs(30), "{what}");
        assert!(
            error.message().contains("cannot be read"),
            "{what}: {error}"
        );
    }
}

/// A broker may say that another one is anywhere; the policy decides whether it is dialled.
#[tokio::test]
async fn addresses_that_a_broker_names_are_judged() {
    for host in ["169.254.169.254", "10.0.0.1", "metadata.google.internal"] {
        let broker = impostor(move |request| metadata(request, host, 9092));
        let sink = open(&broker, "t", json!({}), &[]).await.unwrap();
        let error = all(&sink, &Rows::new().deployments(1, 1))
            .await
            .unwrap_err();
        assert!(matches!(error, SinkError::Terminal(_)), "{host}: {error}");
        assert!(error.message().contains("forbidden"), "{host}: {error}");
    }
    // And those that the sink names, before anything is opened.
    let mut environment = environment();
    environment.dialer = Dialer::new(AddressPolicy::default());
    let refused = super::broker::open_in(&environment, "127.0.0.1:9092", "t", json!({}), &[]).await;
    let error = refused.unwrap_err();
    assert!(error.message().starts_with("spec.kafka.brokers"), "{error}");
}

/// What was sent before the caller gave up must not come after what was sent later.
#[tokio::test]
async fn what_was_held_back_does_not_undo_what_came_later() {
    let kafka = kafka().await;
    let wire = kafka.wire().unwrap();
    let mechanism = json!({"kafka": {"saslMechanism": "SCRAM-SHA-512"}});
    let topic = unique("late");
    let secret = [("username", USER), ("password", kafka.password())];
    let sink = open(&wire.broker(), &topic, mechanism, &secret)
        .await
        .unwrap();
    let mut make = Rows::new();
    let [old, late, new] = [1, 2, 1].map(|replicas| make.deployments(5, replicas));
    all(&sink, &old).await.unwrap();
    for _ in 0..3 {
        changes(&sink, &old, &old).await.unwrap();
        wire.proxy.stall(true);
        let limit = Duration::from_millis(300);
        let given_up = tokio::time::timeout(limit, changes(&sink, &old, &late)).await;
        assert!(given_up.is_err(), "the wire carries nothing");
        wire.proxy.stall(false);
        all(&sink, &new).await.unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let found = newest(&topic).await;
        assert_eq!(found.len(), 5);
        let right = |body: &serde_json::Value| body["item"]["attributes"]["replicas"] == 1;
        assert!(found.iter().all(right), "an old batch came last: {found:?}");
    }
}
