//! Servers that want to hurt whoever connects to them.

use std::{
    io,
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use kollect_sinks::{Sink, SinkError};
use kollect_testkit::pki::Authority;
use serde_json::json;

use super::{
    impostor::{
        Impostor, Peer, acceptor, authentication, columns, message, parameter, parameters, ready,
        row, words,
    },
    items::deployments,
    server::{T1, everything, inventory, sink_at},
};

/// Far more than any of this takes, and far less than it would take without limits.
const PATIENCE: Duration = Duration::from_mins(1);

const PLAIN: &str = "sslmode=disable";

const TEXT: u32 = 25;
const INT8: u32 = 20;

/// What a probe and a delivery to a server say. They never panic, never take long, and say nothing
/// of the connection string.
async fn say(server: &Impostor) -> [SinkError; 2] {
    let sink =
        sink_at(&server.url("sslmode=disable&connect_timeout=20"), json!({})).expect("a sink");
    let began = Instant::now();
    let (rows, inventory) = (deployments(100, 1), inventory());
    let (probed, delivered) = tokio::join!(
        tokio::time::timeout(PATIENCE, sink.probe()),
        tokio::time::timeout(PATIENCE, everything(&sink, &inventory, T1, &rows)),
    );
    let probed = probed.expect("in time").expect_err("a probe fails");
    let delivered = delivered.expect("in time").expect_err("a delivery fails");
    assert!(began.elapsed() < PATIENCE);
    for error in [&probed, &delivered] {
        let text = error.message();
        assert!(text.len() < 2048, "{} bytes", text.len());
        assert!(!text.contains(char::is_control), "{text:?}");
        for part in ["tenant", "hunter2", "127.0.0.1", "stock"] {
            assert!(!text.contains(part), "{text}");
        }
    }
    drop(sink);
    server.deserted().await;
    [probed, delivered]
}

fn terminal(errors: &[SinkError; 2], says: &str) {
    for error in errors {
        assert!(matches!(error, SinkError::Terminal(_)), "{error:?}");
        assert!(error.message().contains(says), "{says}: {error}");
    }
}

/// An error that would fill the memory is not even read; a long one is cut.
#[tokio::test]
async fn a6_an_error_of_many_megabytes_is_cut() {
    let answering = |answer: Vec<u8>| {
        move |mut peer: Peer| {
            let answer = answer.clone();
            async move {
                peer.welcome().await?;
                loop {
                    peer.next().await?;
                    peer.send(&answer).await?;
                    peer.send(&ready()).await?;
                }
            }
        }
    };
    let huge = words(b'E', "42P01", &"%41 hunter2 ".repeat(2 << 20));
    let server = Impostor::start(answering(huge)).await;
    terminal(&say(&server).await, "more than 1 MiB");
    let long = words(b'E', "42P01", &"\u{1b}[31m\n%41 hunter2 ".repeat(30_000));
    let server = Impostor::start(answering(long)).await;
    terminal(&say(&server).await, "[redacted]");
    // The code may be anything too.
    let odd = words(b'E', &"28".repeat(200_000), "no");
    let server = Impostor::start(answering(odd)).await;
    for error in say(&server).await {
        assert!(
            matches!(&error, SinkError::Transient(text) if text.contains("SQLSTATE unknown")),
            "{error:?}"
        );
    }
}

/// The same during the login, where nothing of the server's words is repeated.
#[tokio::test]
async fn a6_logins_have_a_size() {
    for (answer, says) in [
        (
            words(b'E', "28P01", &"x".repeat(20 << 20)),
            "more than 1 MiB",
        ),
        (authentication(10, &vec![b'A'; 100_000]), "more than 64 KiB"),
        (
            authentication(11, b"r=x,s=c2FsdA==,i=4294967295"),
            "scram_iterations",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "1 MiB"),
        (vec![0; 64], "does not speak PostgreSQL"),
    ] {
        let server = Impostor::start(move |mut peer| {
            let answer = answer.clone();
            async move {
                peer.opening().await?;
                if answer.starts_with(&[b'R', 0, 0, 0]) && answer[8] == 11 {
                    peer.send(&authentication(10, b"SCRAM-SHA-256\0\0")).await?;
                    peer.next().await?;
                }
                peer.send(&answer).await?;
                peer.silence().await
            }
        })
        .await;
        terminal(&say(&server).await, says);
    }
}

/// What never ends, ends: before the login, after it, and in answer to a question.
#[tokio::test]
async fn a6_floods_are_cut_off() {
    let notice = words(b'N', "00000", &"n".repeat(500));
    for flood in [
        notice,
        parameter("p", "value"),
        message(b'A', b"\0\0\0\x01c\0x\0"),
    ] {
        for (login, says) in [
            (false, "before the login was done"),
            (true, "more than 4 MiB"),
        ] {
            // Notifications before the login are refused by the driver.
            if !login && flood[0] == b'A' {
                continue;
            }
            let flood = flood.clone();
            let server = Impostor::start(move |mut peer| {
                let flood = flood.clone();
                async move {
                    if login {
                        peer.welcome().await?;
                        peer.next().await?;
                    } else {
                        peer.opening().await?;
                        peer.send(&authentication(0, &[])).await?;
                    }
                    peer.flood(&flood).await
                }
            })
            .await;
            terminal(&say(&server).await, says);
        }
    }
    let server = Impostor::start(|mut peer| async move {
        peer.welcome().await?;
        peer.next().await?;
        peer.send(&columns(&[TEXT])).await?;
        peer.flood(&row(&[Some(b"x")])).await
    })
    .await;
    terminal(&say(&server).await, "more than 4 MiB");
}

/// Answers every statement as `answer` says; `answer` gets the text of the statement.
async fn statements(mut peer: Peer, answer: impl Fn(&str) -> (Vec<u8>, Vec<u8>)) -> io::Result<()> {
    peer.welcome().await?;
    let mut rows = Vec::new();
    let mut sent = Vec::new();
    loop {
        let (tag, body) = peer.obliging().await?;
        match tag {
            b'P' => {
                let text = String::from_utf8_lossy(&body).into_owned();
                let (description, answered) = answer(&text);
                rows = answered;
                sent.extend(message(b'1', &[]));
                sent.extend(description);
            }
            b'B' => {
                sent.extend(message(b'2', &[]));
                sent.extend(&rows);
                sent.extend(message(b'C', b"SELECT 1\0"));
            }
            b'C' => sent.extend(message(b'3', &[])),
            b'S' => {
                sent.extend(ready());
                peer.send(&sent).await?;
                sent.clear();
            }
            b'X' => return Ok(()),
            _ => {}
        }
    }
}

fn described(given: &[u32], found: &[u32]) -> Vec<u8> {
    [parameters(given), columns(found)].concat()
}

/// The limits hold for what is encrypted too.
#[tokio::test]
async fn a6_encryption_hides_nothing_from_the_limits() {
    let authority = Authority::new("hostile").expect("an authority");
    let identity = authority.server(&["127.0.0.1"]).expect("an identity");
    let acceptor = acceptor(&identity);
    let server = Impostor::start(move |mut peer| {
        let acceptor = acceptor.clone();
        async move {
            peer.encrypt(&acceptor).await?;
            peer.welcome().await?;
            peer.next().await?;
            peer.send(&words(b'E', "42P01", &"x".repeat(20 << 20)))
                .await
        }
    })
    .await;
    let sink = sink_at(&server.url("sslmode=require"), json!({})).expect("a sink");
    let probed = tokio::time::timeout(PATIENCE, sink.probe()).await;
    let error = probed.expect("in time").expect_err("a probe fails");
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("more than 1 MiB")),
        "{error:?}"
    );
}

/// Somebody in between says that the server does not encrypt: with an authority, that is the end,
/// and nobody has learned the password.
#[tokio::test]
async fn a10_a_password_never_goes_out_in_clear_text_once_an_authority_is_given() {
    let authority = Authority::new("rightful").expect("an authority").pem();
    let authority = STANDARD.encode(authority);
    for mode in ["allow", "prefer", "require", "verify-ca", "verify-full"] {
        let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
        let server = Impostor::start(move |mut peer| {
            let heard = heard.clone();
            async move {
                peer.opening().await?;
                peer.send(b"N").await?;
                // What follows is plain.
                peer.opening().await?;
                let _ = heard.send(());
                peer.send(&authentication(3, &[])).await
            }
        })
        .await;
        let tls = json!({"tls": {"caBundle": authority}});
        let sink = sink_at(&server.url(&format!("sslmode={mode}")), tls).expect("a sink");
        let probed = tokio::time::timeout(PATIENCE, sink.probe()).await;
        let error = probed.expect("in time").expect_err("a probe fails");
        assert!(
            matches!(&error, SinkError::Terminal(text) if text.contains("does not speak TLS")),
            "{mode}: {error:?}"
        );
        server.deserted().await;
        assert!(hearing.try_recv().is_err(), "{mode}: plain text was sent");
    }
}

/// Answers of the wrong shape are failures, not panics; counts that cannot be are no receipts.
#[tokio::test]
async fn a6_answers_that_make_no_sense() {
    let nothing: &[Option<&[u8]>] = &[None];
    let many = vec![Some(&b"x"[..]); 1500];
    let types = vec![TEXT; 1500];
    for (given, found, rows) in [
        (vec![TEXT], vec![TEXT], row(nothing)),
        (vec![TEXT], vec![INT8], row(&[Some(&[0; 8])])),
        (vec![TEXT], vec![TEXT], row(&[Some(&[0xff, 0xfe])])),
        (vec![TEXT], vec![TEXT], row(&[])),
        (vec![TEXT], vec![], Vec::new()),
        (vec![TEXT], types, row(&many)),
        (vec![TEXT], vec![TEXT], row(&[Some(b"v\0\0")]).repeat(1000)),
        (vec![INT8, INT8, INT8], vec![TEXT], Vec::new()),
        (vec![], vec![TEXT], row(&[Some(b"r")])),
        // An array of two billion elements, in twenty bytes.
        (
            vec![TEXT],
            vec![1009],
            row(&[Some(&[
                0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 25, 0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1,
            ])]),
        ),
    ] {
        let server = Impostor::start(move |peer| {
            let (description, rows) = (described(&given, &found), rows.clone());
            statements(peer, move |_| (description.clone(), rows.clone()))
        })
        .await;
        let sink = sink_at(&server.url(PLAIN), json!({})).expect("a sink");
        let (rows, inventory) = (deployments(3, 1), inventory());
        let delivered = tokio::time::timeout(PATIENCE, everything(&sink, &inventory, T1, &rows));
        let error = delivered.await.expect("in time").expect_err("no delivery");
        assert!(error.message().starts_with("postgres"), "{error}");
        drop(sink);
        server.deserted().await;
    }
}

/// Each type holds another one that has to be looked up: without a limit, the stack ends it.
#[tokio::test]
async fn a6_types_within_types_end() {
    let server = Impostor::start(|mut peer: Peer| async move {
        peer.welcome().await?;
        let (mut sent, mut number) = (Vec::new(), 100_000_u32);
        loop {
            let (tag, body) = peer.obliging().await?;
            match tag {
                b'P' => {
                    sent.extend(message(b'1', &[]));
                    let lookup = String::from_utf8_lossy(&body).contains("pg_type");
                    sent.extend(if lookup {
                        described(&[26], &[19, 18, 26, 26, 26, 19, 26])
                    } else {
                        described(&[number], &[TEXT])
                    });
                }
                b'B' => {
                    number += 1;
                    let inner = number.to_be_bytes();
                    let zero = [0; 4];
                    sent.extend(message(b'2', &[]));
                    sent.extend(row(&[
                        Some(b"t"),
                        Some(b"b"),
                        Some(&inner),
                        None,
                        Some(&zero),
                        Some(b"s"),
                        Some(&zero),
                    ]));
                    sent.extend(message(b'C', b"SELECT 1\0"));
                }
                b'S' => {
                    sent.extend(ready());
                    peer.send(&sent).await?;
                    sent.clear();
                }
                _ => {}
            }
        }
    })
    .await;
    let sink = sink_at(&server.url(PLAIN), json!({})).expect("a sink");
    let (rows, inventory) = (deployments(3, 1), inventory());
    let delivered = tokio::time::timeout(PATIENCE, everything(&sink, &inventory, T1, &rows));
    let error = delivered.await.expect("in time").expect_err("no delivery");
    assert!(
        matches!(&error, SinkError::Terminal(text) if text.contains("looked up without end")),
        "{error:?}"
    );
}

/// One byte after the other is no progress: a login ends with `connect_timeout`, a delivery with
/// the caller, and neither leaves a connection behind.
#[tokio::test]
async fn a6_a_slow_drip_has_a_deadline() {
    let server = Impostor::start(|mut peer| async move {
        peer.opening().await?;
        peer.drip(&words(b'N', "00000", &"n".repeat(10_000))).await
    })
    .await;
    let sink =
        sink_at(&server.url("sslmode=disable&connect_timeout=1"), json!({})).expect("a sink");
    for _ in 0..2 {
        let error = tokio::time::timeout(PATIENCE, sink.probe()).await;
        let error = error.expect("in time").expect_err("no login");
        assert!(
            matches!(&error, SinkError::Transient(text) if text.contains("no answer in time")),
            "{error:?}"
        );
    }
    server.deserted().await;
    let server = Impostor::start(|mut peer| async move {
        peer.welcome().await?;
        peer.next().await?;
        peer.drip(&words(b'N', "00000", &"n".repeat(10_000))).await
    })
    .await;
    let sink = sink_at(&server.url(PLAIN), json!({})).expect("a sink");
    let (rows, inventory) = (deployments(100, 1), inventory());
    let delivered = everything(&sink, &inventory, T1, &rows);
    let early = tokio::time::timeout(Duration::from_secs(1), delivered).await;
    assert!(early.is_err(), "it is still waiting");
    server.deserted().await;
}

/// What a server says of itself is not read: it may claim anything.
#[tokio::test]
async fn an_absurd_server_may_still_work() {
    let server = Impostor::start(|mut peer| async move {
        peer.opening().await?;
        peer.send(&authentication(0, &[])).await?;
        let version = "\u{1b}[31m-99999999999999999999.x\u{0007}";
        peer.send(&parameter("server_version", version)).await?;
        peer.send(&parameter("", "")).await?;
        peer.send(&words(b'N', "00000", "\u{1b}]0;title\u{7}"))
            .await?;
        peer.send(&ready()).await?;
        peer.obliging().await.map(|_| ())
    })
    .await;
    let sink = sink_at(&server.url(PLAIN), json!({})).expect("a sink");
    let answer = tokio::time::timeout(PATIENCE, sink.probe()).await;
    answer.expect("in time").expect("a probe");
}

/// M5: wrong credentials are terminal, and the message says what opens the sink again.
#[tokio::test]
async fn m5_wrong_credentials_say_what_to_do() {
    let server = Impostor::start(|mut peer| async move {
        peer.opening().await?;
        peer.send(&authentication(3, &[])).await?;
        peer.next().await?;
        peer.send(&words(b'E', "28P01", "password of tenant is hunter2"))
            .await
    })
    .await;
    terminal(&say(&server).await, "authentication failed; correct");
    terminal(&say(&server).await, "a probe succeeds");
}
