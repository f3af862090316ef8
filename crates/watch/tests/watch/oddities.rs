//! Answers that a real API server does not give on request: a small server on loopback gives them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Result;
use kollect_watch::{
    ApiServer, InterruptionClass, ListingCause, ListingMode, WatchHandle, WatchScope,
    WatchSettings, WatchSubject,
};
use kube::{Client, Config};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::mirror::{Mirror, Step};
use crate::setup::{Whole, config_maps, hasty, watch};

/// An answer, and whether the connection stays open after it.
struct Reply {
    status: &'static str,
    header: &'static str,
    body: String,
    hangs: bool,
}

impl Reply {
    fn closing(body: impl Into<String>) -> Self {
        Self {
            status: "200 OK",
            header: "",
            body: body.into(),
            hangs: false,
        }
    }

    fn hanging(body: impl Into<String>) -> Self {
        Self {
            hangs: true,
            ..Self::closing(body)
        }
    }

    fn refusal(status: &'static str, header: &'static str) -> Self {
        Self {
            status,
            header,
            ..Self::closing("no\n")
        }
    }
}

/// Answers the n-th request with the n-th reply, and any later one with the last.
struct Odd {
    client: Client,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Odd {
    async fn new(replies: Vec<Reply>) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let replies = Arc::new(replies);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, Arc::clone(&seen), Arc::clone(&replies)));
            }
        });
        let mut config = Config::new(format!("http://{address}").parse()?);
        config.default_retry = false;
        Ok(Self {
            client: Client::try_from(config)?,
            requests,
        })
    }

    fn watch(&self, mirror: &Mirror, settings: WatchSettings) -> WatchHandle<Whole> {
        let server = ApiServer::new(self.client.clone());
        let subject = WatchSubject::new(config_maps(), WatchScope::All);
        watch(&server, subject, mirror, settings)
    }

    /// What was asked, each as `stream`, `page` or `changes since <version>`.
    fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn answer(
    mut stream: TcpStream,
    seen: Arc<Mutex<Vec<String>>>,
    replies: Arc<Vec<Reply>>,
) -> Result<()> {
    let mut lines = BufReader::new(&mut stream).lines();
    let first = lines.next_line().await?.unwrap_or_default();
    while lines
        .next_line()
        .await?
        .is_some_and(|line| !line.is_empty())
    {}
    let index = {
        let mut seen = seen.lock().unwrap();
        let version = first.split_once("resourceVersion=").map(|(_, rest)| {
            let end = rest.find('&').unwrap_or(rest.len());
            format!("changes since {}", &rest[..end])
        });
        let listing = if first.contains("sendInitialEvents") {
            "stream"
        } else {
            "page"
        };
        seen.push(version.unwrap_or_else(|| listing.to_owned()));
        (seen.len() - 1).min(replies.len() - 1)
    };
    let reply = &replies[index];
    let head = format!(
        "HTTP/1.1 {}\r\nConnection: close\r\n{}\r\n",
        reply.status, reply.header
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(reply.body.as_bytes()).await?;
    stream.flush().await?;
    if reply.hangs {
        tokio::time::sleep(Duration::from_mins(5)).await;
    }
    Ok(())
}

fn object(name: &str, version: u32) -> String {
    format!(r#"{{"metadata":{{"name":"{name}","uid":"{name}","resourceVersion":"{version}"}}}}"#)
}

fn added(name: &str, version: u32) -> String {
    format!(
        "{{\"type\":\"ADDED\",\"object\":{}}}\n",
        object(name, version)
    )
}

fn end_of_listing(version: u32) -> String {
    format!(
        "{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\",\
         \"annotations\":{{\"k8s.io/initial-events-end\":\"true\"}}}}}}}}\n"
    )
}

fn listing(names: &[&str], version: u32) -> String {
    let objects: String = names.iter().map(|name| added(name, version)).collect();
    objects + &end_of_listing(version)
}

/// Everything in one stream, so that one reply says it all.
fn streamed() -> WatchSettings {
    WatchSettings {
        listing: ListingMode::Streamed,
        ..hasty()
    }
}

fn held(mirror: &Mirror) -> Vec<String> {
    mirror.objects().into_keys().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_in_a_stream_leads_to_a_new_listing() -> Result<()> {
    let garbage = listing(&["a", "b"], 5) + &added("c", 6) + "<html>\n" + &added("d", 7);
    let odd = Odd::new(vec![
        Reply::hanging(garbage),
        Reply::hanging(listing(&["b", "d"], 8)),
    ])
    .await?;
    let mirror = Mirror::new();
    let source = odd.watch(&mirror, streamed());
    mirror
        .until("two listings", |mirror| mirror.finished_listings() == 2)
        .await;
    assert_eq!(held(&mirror), ["b", "d"]);
    assert_eq!(mirror.interruptions(), [InterruptionClass::Garbled]);
    assert_eq!(source.counters().listings(ListingCause::Garbled), 1);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_cut_off_is_asked_for_again() -> Result<()> {
    let half = added("c", 7);
    let cut = listing(&["a"], 5) + &added("b", 6) + &half[..half.len() / 2];
    let odd = Odd::new(vec![Reply::closing(cut), Reply::hanging(added("c", 7))]).await?;
    let mirror = Mirror::new();
    let source = odd.watch(&mirror, streamed());
    mirror
        .until("all three", |mirror| held(mirror) == ["a", "b", "c"])
        .await;
    assert_eq!(odd.requests(), ["stream", "changes since 6"]);
    assert_eq!(mirror.interruptions(), []);
    assert_eq!(source.counters().unreadable(), 0);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_does_not_end_its_listing_is_asked_for_pages() -> Result<()> {
    // It takes the request for an ordinary watch.
    let endless = || Reply::hanging(added("a", 1) + &added("gone", 1));
    let page = format!(
        r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{},{}]}}"#,
        object("a", 1),
        object("b", 2)
    );
    let odd = Odd::new(vec![
        endless(),
        endless(),
        Reply::closing(page),
        Reply::hanging(""),
    ])
    .await?;
    let mirror = Mirror::new();
    let settings = WatchSettings {
        answer: Duration::from_millis(200),
        ..streamed()
    };
    let source = odd.watch(&mirror, settings);
    mirror.until_listed().await;
    mirror
        .until("the watch", |_| odd.requests().len() == 4)
        .await;
    assert_eq!(held(&mirror), ["a", "b"]);
    assert_eq!(
        odd.requests(),
        ["stream", "stream", "page", "changes since 9"]
    );
    assert_eq!(source.counters().listings(ListingCause::Unfinished), 2);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_that_is_cut_off_finishes_nothing() -> Result<()> {
    let page = |items: &str| format!(r#"{{"metadata":{{"resourceVersion":"9"}},"items":[{items}"#);
    let cut = page(&object("gone", 1));
    let whole = page(&object("a", 2)) + "]}";
    let odd = Odd::new(vec![
        Reply::closing(cut),
        Reply::closing(whole),
        Reply::hanging(""),
    ])
    .await?;
    let mirror = Mirror::new();
    let settings = WatchSettings {
        listing: ListingMode::Paged,
        ..hasty()
    };
    let _source = odd.watch(&mirror, settings);
    mirror
        .until("changes", |mirror| mirror.steps().contains(&Step::Resumed))
        .await;
    assert_eq!(held(&mirror), ["a"]);
    let expected = [
        Step::Started,
        Step::Interrupted(InterruptionClass::Unavailable),
        Step::Started,
        Step::Finished("9".to_owned()),
        Step::Resumed,
    ];
    assert_eq!(mirror.steps(), expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_consumer_hears_when_an_interruption_is_over() -> Result<()> {
    let odd = Odd::new(vec![
        Reply::closing(listing(&["a"], 5)),
        Reply::refusal("503 Service Unavailable", "Retry-After: 1\r\n"),
        Reply::refusal("500 Internal ApiServer Error", ""),
        Reply::hanging(""),
    ])
    .await?;
    let mirror = Mirror::new();
    let began = std::time::Instant::now();
    let _source = odd.watch(&mirror, streamed());
    mirror
        .until("the end of it", |mirror| {
            mirror.steps().contains(&Step::Resumed)
        })
        .await;
    assert!(
        began.elapsed() >= Duration::from_secs(1),
        "the server asked for it"
    );
    let expected = [
        Step::Started,
        Step::Finished("5".to_owned()),
        Step::Interrupted(InterruptionClass::Unavailable),
        Step::Interrupted(InterruptionClass::Unavailable),
        Step::Resumed,
    ];
    assert_eq!(mirror.steps(), expected);
    let again = "changes since 5";
    assert_eq!(odd.requests(), ["stream", again, again, again]);
    assert_eq!(held(&mirror), ["a"], "rows are kept");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_hangs_up_at_once_is_not_hammered() -> Result<()> {
    let odd = Odd::new(vec![Reply::closing(listing(&["a"], 5)), Reply::closing("")]).await?;
    let mirror = Mirror::new();
    let _source = odd.watch(&mirror, streamed());
    mirror
        .until_interrupted(InterruptionClass::Unavailable)
        .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = odd.requests().len();
    // 50, 100, 200, 400 and then 500 ms, each at least half of it.
    assert!((4..16).contains(&asked), "{asked} requests");
    Ok(())
}
