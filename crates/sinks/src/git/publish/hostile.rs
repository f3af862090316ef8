//! Proposals against servers that mean harm: they never end, never begin, or send bombs.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use russh::server::{self, Auth, Msg, Session as ServerSession, VerifiedPublicKey};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};

use super::{
    tests::{Edit, publisher, read},
    *,
};
use crate::git::{limits::Pace, pkt};

const TIP: &str = "1111111111111111111111111111111111111111";

/// What a server says.
#[derive(Clone)]
enum Says {
    /// This, and that was all.
    All(Vec<u8>),
    /// This, and then nothing.
    AndHangs(Vec<u8>),
    /// This, and then that again and again.
    Endless(Vec<u8>, Vec<u8>),
    /// This, one byte at a time.
    Drips(Vec<u8>),
}

/// What a server is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    PushRefs,
    FetchRefs,
    Push,
    Fetch,
}

/// A server, and how many bytes it got rid of.
struct Hostile {
    port: u16,
    sent: Arc<AtomicU64>,
    serving: tokio::task::JoinHandle<()>,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Hostile {
    async fn start(answer: impl Fn(Asked) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let sent = Arc::new(AtomicU64::new(0));
        let (answer, counted) = (Arc::new(answer), Arc::clone(&sent));
        let serving = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (answer, sent) = (Arc::clone(&answer), Arc::clone(&counted));
                connections.spawn(async move {
                    let _ = exchange(stream, &*answer, &sent).await;
                });
            }
        });
        Self {
            port,
            sent,
            serving,
        }
    }

    fn publisher(&self, work: &Path, limits: Limits) -> Arc<Publisher> {
        let url = format!("http://127.0.0.1:{}/r.git", self.port);
        limited(
            publisher(read(&url, &[], None, work).unwrap(), work),
            limits,
        )
    }
}

fn limited(publisher: Arc<Publisher>, limits: Limits) -> Arc<Publisher> {
    let mut publisher = Arc::into_inner(publisher).unwrap();
    publisher.limits = limits;
    Arc::new(publisher)
}

/// One request and its answer.
async fn exchange(
    mut stream: TcpStream,
    answer: &(dyn Fn(Asked) -> Says + Send + Sync),
    sent: &AtomicU64,
) -> std::io::Result<()> {
    let mut request = Vec::new();
    let end = loop {
        if stream.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
        if let Some(end) = request.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&request[..end]).to_lowercase();
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "))
        .map_or(0, |length| length.trim().parse::<usize>().unwrap());
    while request.len() < end + length {
        stream.read_buf(&mut request).await?;
    }
    let push = head.contains("git-receive-pack");
    let service = if push { "receive-pack" } else { "upload-pack" };
    let (asked, kind) = match (head.starts_with("get"), push) {
        (true, true) => (Asked::PushRefs, "advertisement"),
        (true, false) => (Asked::FetchRefs, "advertisement"),
        (false, true) => (Asked::Push, "result"),
        (false, false) => (Asked::Fetch, "result"),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/x-git-{service}-{kind}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    match answer(asked) {
        Says::All(bytes) => stream.write_all(&bytes).await,
        Says::AndHangs(bytes) => {
            stream.write_all(&bytes).await?;
            std::future::pending().await
        }
        Says::Endless(first, again) => {
            stream.write_all(&first).await?;
            let again = again.repeat(1 + 65_536 / again.len());
            loop {
                stream.write_all(&again).await?;
                sent.fetch_add(again.len() as u64, Ordering::Relaxed);
            }
        }
        Says::Drips(bytes) => {
            for byte in bytes.iter().cycle() {
                stream.write_all(&[*byte]).await?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        }
    }
}

fn lines(lines: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in lines {
        if line.is_empty() {
            pkt::put_flush(&mut out);
        } else {
            pkt::put(&mut out, line);
        }
    }
    out
}

/// The refs of a repository that is empty, or has one commit.
fn refs(asked: Asked, tip: Option<&str>) -> Vec<u8> {
    let service = match asked {
        Asked::PushRefs => "# service=git-receive-pack\n",
        _ => "# service=git-upload-pack\n",
    };
    lines(&[service.as_bytes(), b"", &first_ref(tip), b""])
}

fn first_ref(tip: Option<&str>) -> Vec<u8> {
    let offers = "report-status side-band-64k shallow ofs-delta";
    match tip {
        Some(tip) => format!("{tip} refs/heads/main\0{offers}\n").into_bytes(),
        None => format!("{} capabilities^{{}}\0{offers}\n", "0".repeat(40)).into_bytes(),
    }
}

fn small() -> Limits {
    let mut limits = Limits {
        advertisement: 2 << 20,
        ..Limits::default()
    };
    limits.fetch.pack = 2 << 20;
    limits
}

async fn published(publisher: &Arc<Publisher>) -> Result<Published, GitError> {
    let publishing = publisher.publish(Edit::new(&[("a", "1")], &[]));
    tokio::time::timeout(Duration::from_mins(1), publishing)
        .await
        .expect("an end")
}

/// Whatever never ends is cut, and that is terminal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_answers_without_end_are_cut() {
    let endless_ref = format!("{TIP} refs/heads/other\n");
    let shallow = format!("shallow {TIP}\n");
    let cases: Vec<(&str, Asked, Vec<u8>, Vec<u8>)> = vec![
        (
            "refs",
            Asked::PushRefs,
            lines(&[b"# service=git-receive-pack\n", b"", &first_ref(None)]),
            lines(&[endless_ref.as_bytes()]),
        ),
        (
            "refs of a fetch",
            Asked::FetchRefs,
            lines(&[b"# service=git-upload-pack\n", b"", &first_ref(Some(TIP))]),
            lines(&[endless_ref.as_bytes()]),
        ),
        (
            "lines before the refs",
            Asked::PushRefs,
            lines(&[b"# service=git-receive-pack\n"]),
            lines(&[b"more\n"]),
        ),
        (
            "shallow",
            Asked::Fetch,
            Vec::new(),
            lines(&[shallow.as_bytes()]),
        ),
        ("flushes", Asked::Fetch, Vec::new(), lines(&[b""])),
        (
            "progress",
            Asked::Fetch,
            lines(&[b"NAK\n"]),
            lines(&[b"\x02counting objects\n"]),
        ),
        (
            "a pack",
            Asked::Fetch,
            lines(&[b"NAK\n", b"\x01PACK\0\0\0\x02\0\0\0\x01\x9f\xff\x7f"]),
            lines(&[b"\x01\0"]),
        ),
        (
            "a report",
            Asked::Push,
            Vec::new(),
            lines(&[b"\x01000eunpack ok\n"]),
        ),
        (
            "remarks",
            Asked::Push,
            Vec::new(),
            lines(&[b"\x02thinking\n"]),
        ),
    ];
    for (what, endless, first, again) in cases {
        let tip = matches!(endless, Asked::Fetch | Asked::FetchRefs).then_some(TIP);
        let server = Hostile::start(move |asked| {
            if asked == endless {
                Says::Endless(first.clone(), again.clone())
            } else {
                Says::All(refs(asked, tip))
            }
        })
        .await;
        let work = tempfile::tempdir().unwrap();
        let error = published(&server.publisher(work.path(), small())).await;
        let error = error.unwrap_err();
        // What is no pack is found out before there is too much of it.
        let expected = what == "a pack" || matches!(error, GitError::Excess { .. });
        assert!(expected, "{what}: {error:?}");
        assert!(error.to_string().len() < 2_000, "{what}");
        let sent = server.sent.load(Ordering::Relaxed);
        assert!(sent < 64 << 20, "{what}: {sent} bytes were taken");
    }
}

/// Servers that are silent, or as good as silent, cost a moment and are tried again by schedule.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_silence_and_drips_end() {
    let mut limits = small();
    limits.pace = Pace {
        grace: Duration::from_secs(2),
        bytes_per_second: 1024,
    };
    for (what, at, dripping) in [
        ("silent refs", Asked::PushRefs, false),
        ("dripping refs", Asked::PushRefs, true),
        ("a silent fetch", Asked::Fetch, false),
        ("a dripping fetch", Asked::Fetch, true),
        ("a silent push", Asked::Push, false),
        ("a dripping push", Asked::Push, true),
    ] {
        let tip = (at == Asked::Fetch).then_some(TIP);
        let server = Hostile::start(move |asked| match asked {
            asked if asked != at => Says::All(refs(asked, tip)),
            Asked::PushRefs if dripping => Says::Drips(refs(asked, None)),
            Asked::Fetch | Asked::Push if dripping => Says::Drips(lines(&[b"\x02thinking\n"])),
            _ => Says::AndHangs(Vec::new()),
        })
        .await;
        let work = tempfile::tempdir().unwrap();
        let begun = Instant::now();
        let error = published(&server.publisher(work.path(), limits)).await;
        let error = error.unwrap_err();
        assert!(matches!(error, GitError::Slow(_)), "{what}: {error:?}");
        assert!(begun.elapsed() < Duration::from_secs(30), "{what}");
        let class = SinkError::from(error);
        assert!(matches!(class, SinkError::Transient(_)), "{what}: {class}");
    }
}

/// Many servers that hang in the middle of a pack keep nobody else from working.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_servers_that_hang_hold_nothing_that_others_need() {
    let server = Hostile::start(|asked| match asked {
        Asked::Fetch => Says::AndHangs(lines(&[b"NAK\n", b"\x01PACK\0\0\0\x02"])),
        asked => Says::All(refs(asked, Some(TIP))),
    })
    .await;
    let work = tempfile::tempdir().unwrap();
    let mut hanging = tokio::task::JoinSet::new();
    for n in 0..12 {
        let mut settings = read(
            &format!("http://127.0.0.1:{}/{n}.git", server.port),
            &[],
            None,
            work.path(),
        )
        .unwrap();
        settings.branch = "main".into();
        let publisher = publisher(settings, work.path());
        hanging.spawn(async move { publisher.publish(Edit::new(&[("a", "1")], &[])).await });
    }
    // Long enough for all of them to get there.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let local = tempfile::tempdir().unwrap();
    Repository::init_bare(local.path()).unwrap();
    let url = format!("file://{}", local.path().display());
    let good = publisher(read(&url, &[], None, work.path()).unwrap(), work.path());
    let done = tokio::time::timeout(
        Duration::from_secs(20),
        good.publish(Edit::new(&[("a", "1")], &[])),
    );
    done.await.expect("a place to work").unwrap();
    assert_eq!(hanging.len(), 12);
    assert!(hanging.try_join_next().is_none(), "they still hang");
}

/// An SSH server that logs people in and then only keeps the connection alive.
struct Busy;

impl server::Handler for Busy {
    type Error = russh::Error;

    async fn auth_publickey(
        &mut self,
        _: &str,
        _: VerifiedPublicKey<'_>,
    ) -> Result<Auth, Self::Error> {
        Ok(Auth::Accept)
    }

    async fn channel_open_session(
        &mut self,
        _: russh::Channel<Msg>,
        reply: server::ChannelOpenHandle,
        _: &mut ServerSession,
    ) -> Result<(), Self::Error> {
        reply.accept().await;
        Ok(())
    }

    async fn exec_request(
        &mut self,
        channel: russh::ChannelId,
        _: &[u8],
        session: &mut ServerSession,
    ) -> Result<(), Self::Error> {
        session.channel_success(channel)?;
        let handle = session.handle();
        tokio::spawn(async move {
            // What it writes for people goes on for ever.
            while handle
                .extended_data(channel, 1, &b"wait\n"[..])
                .await
                .is_ok()
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        Ok(())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a5_an_ssh_session_ends_with_the_delivery() {
    let keys = tempfile::tempdir().unwrap();
    let key = keys.path().join("key");
    let made = std::process::Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f"])
        .arg(&key)
        .status()
        .unwrap();
    assert!(made.success());
    let private = std::fs::read_to_string(&key).unwrap();
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let config = server::Config {
        keys: vec![russh::keys::decode_secret_key(&private, None).unwrap()],
        ..server::Config::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let session = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let running = server::run_stream(Arc::new(config), stream, Busy)
            .await
            .unwrap();
        let _ = running.await;
    });
    let known = format!("[127.0.0.1]:{port} {public}");
    let secret = [("identity", private.as_str()), ("known_hosts", &known)];
    let work = tempfile::tempdir().unwrap();
    let url = format!("ssh://git@127.0.0.1:{port}/r.git");
    let mut limits = small();
    limits.pace.grace = Duration::from_secs(2);
    let publisher = publisher(read(&url, &secret, None, work.path()).unwrap(), work.path());
    let error = published(&limited(publisher, limits)).await.unwrap_err();
    assert!(matches!(error, GitError::Slow(_)), "{error:?}");
    tokio::time::timeout(Duration::from_secs(30), session)
        .await
        .expect("the connection ends")
        .unwrap();
}
