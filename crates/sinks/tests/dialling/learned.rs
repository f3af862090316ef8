//! Places that no sink names: the client learns of them from a server. They are judged too.

use kollect_sinks::SinkError;
use mongodb::bson::{DateTime, Document, doc};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{
    door::{ALLOWED, Doors, FORBIDDEN, Manners},
    kind::Kind,
    resolver::{Turns, only_allowed},
};

/// Lets a client work with a server at an allowed address that sends it to a forbidden one.
async fn work(kind: Kind, port: u16) -> Option<SinkError> {
    let dialer = Turns::new::<&str>(&[]).dialer(only_allowed());
    let subject = kind.subject(dialer, ALLOWED, port).await;
    subject.failure(ALLOWED, port).await
}

fn assert_refused(kind: Kind, failure: Option<&SinkError>) {
    let told = matches!(failure, Some(SinkError::Terminal(text)) if text.contains(FORBIDDEN));
    assert!(told, "{kind:?}: {failure:?}");
}

#[tokio::test]
async fn redirects_of_an_object_store_are_not_followed() {
    let doors = Doors::open_with(|port| {
        Manners::answer(&format!(
            "HTTP/1.1 307 Temporary Redirect\r\nLocation: http://{FORBIDDEN}:{port}/\r\n\
             Content-Length: 0\r\nConnection: close\r\n\r\n"
        ))
    })
    .await;
    let failure = work(Kind::ObjectStore, doors.port).await;
    assert_eq!(failure, None, "the redirect is an answer");
    let said = |bytes: &[u8]| Kind::ObjectStore.says(bytes);
    assert!(doors.allowed.heard(said).await);
    assert_eq!(doors.forbidden.callers().await, 0);
}

/// A server of one kind, which answers each message, given without its length, by another.
async fn server(
    length_counts_itself: bool,
    little_endian: bool,
    answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + Copy + 'static,
) -> u16 {
    let listener = TcpListener::bind((ALLOWED, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                while let Some(message) =
                    message(&mut stream, length_counts_itself, little_endian).await
                {
                    if stream.write_all(&answer(&message)).await.is_err() {
                        break;
                    }
                }
            });
        }
    });
    port
}

async fn message(
    stream: &mut TcpStream,
    counts_itself: bool,
    little_endian: bool,
) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.ok()?;
    let length = if little_endian {
        u32::from_le_bytes(length)
    } else {
        u32::from_be_bytes(length)
    };
    let length = usize::try_from(length).ok()? - if counts_itself { 4 } else { 0 };
    let mut bytes = vec![0; length];
    stream.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// A primary that says that its only member is elsewhere.
fn mongo_answer(request: &[u8], member: &str) -> Vec<u8> {
    let hello: Document = doc! {
        "ok": 1.0,
        "ismaster": true,
        "isWritablePrimary": true,
        "helloOk": true,
        "setName": "set",
        "hosts": [member],
        "minWireVersion": 0,
        "maxWireVersion": 25,
        "maxBsonObjectSize": 16_777_216,
        "maxMessageSizeBytes": 48_000_000,
        "maxWriteBatchSize": 100_000,
        "localTime": DateTime::now(),
    };
    let operation = i32::from_le_bytes(request[8..12].try_into().unwrap());
    let legacy = operation == 2004;
    let mut rest = Vec::new();
    rest.extend(1_i32.to_le_bytes());
    rest.extend(&request[..4]);
    rest.extend(if legacy { 1_i32 } else { 2013 }.to_le_bytes());
    if legacy {
        rest.extend(8_i32.to_le_bytes());
        rest.extend([0; 12]);
        rest.extend(1_i32.to_le_bytes());
    } else {
        rest.extend([0; 5]);
    }
    rest.extend(hello.to_vec().unwrap());
    let mut reply = u32::try_from(rest.len() + 4)
        .unwrap()
        .to_le_bytes()
        .to_vec();
    reply.extend(rest);
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_of_a_replica_set_are_judged() {
    let doors = Doors::open(Manners::default()).await;
    let elsewhere = doors.port;
    let port = server(true, true, move |request| {
        mongo_answer(request, &format!("{FORBIDDEN}:{elsewhere}"))
    })
    .await;
    let failure = work(Kind::Mongo, port).await;
    assert_refused(Kind::Mongo, failure.as_ref());
    assert_eq!(doors.forbidden.callers().await, 0);
}

/// A broker that says that the leader of the topic is elsewhere.
fn kafka_answer(request: &[u8], leader: u16) -> Vec<u8> {
    let mut rest = request[4..8].to_vec();
    // No throttling; one broker; no cluster; it is the controller.
    rest.extend(0_i32.to_be_bytes());
    rest.extend(1_i32.to_be_bytes());
    rest.extend(7_i32.to_be_bytes());
    rest.extend(i16::try_from(FORBIDDEN.len()).unwrap().to_be_bytes());
    rest.extend(FORBIDDEN.as_bytes());
    rest.extend(i32::from(leader).to_be_bytes());
    rest.extend([(-1_i16).to_be_bytes(), (-1_i16).to_be_bytes()].concat());
    rest.extend(7_i32.to_be_bytes());
    // One topic with one partition that it leads; no replicas; rights are not known.
    rest.extend(1_i32.to_be_bytes());
    rest.extend([0, 0, 0, 5]);
    rest.extend(b"topic\0");
    rest.extend(1_i32.to_be_bytes());
    rest.extend([0; 6]);
    rest.extend(7_i32.to_be_bytes());
    rest.extend([0; 16]);
    rest.extend(i32::MIN.to_be_bytes());
    rest.extend(i32::MIN.to_be_bytes());
    let mut reply = u32::try_from(rest.len()).unwrap().to_be_bytes().to_vec();
    reply.extend(rest);
    reply
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn brokers_of_a_cluster_are_judged() {
    let doors = Doors::open(Manners::default()).await;
    let elsewhere = doors.port;
    let port = server(false, false, move |request| {
        kafka_answer(request, elsewhere)
    })
    .await;
    let failure = work(Kind::Kafka, port).await;
    assert_refused(Kind::Kafka, failure.as_ref());
    assert_eq!(doors.forbidden.callers().await, 0);
}
