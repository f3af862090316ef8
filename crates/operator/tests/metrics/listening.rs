//! Listeners on loopback.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    sync::Arc,
    time::Duration,
};

use anyhow::Result;
use kollect_operator::{
    listeners::{Health, Scrape, bind, serve},
    metrics::Metrics,
};
use kollect_testkit::{http::Client, ports};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;

use crate::fabricated::Fabricated;

#[tokio::test(flavor = "multi_thread")]
async fn probes_follow_the_control_loop() -> Result<()> {
    let mut all = Fabricated::new(Duration::ZERO);
    // A port of ours alone: in the end nobody answers there.
    let port = ports::free()?;
    let bound = bind("health-probe-bind-address", &format!("127.0.0.1:{port}")).await?;
    let bound = bound.expect("a listener");
    let stop = CancellationToken::new();
    let health = Arc::new(Health {
        observed: Arc::clone(&all.observed),
    });
    let server = tokio::spawn(serve(bound, None, health, stop.clone()));
    let get = async |method: &'static str, path: &'static str| {
        let answer = spawn_blocking(move || Client::plain(port).request(method, path, None));
        let answer = answer.await.expect("no panic").expect("an answer");
        (
            answer.status,
            String::from_utf8_lossy(&answer.body).into_owned(),
        )
    };
    assert_eq!(get("GET", "/healthz").await, (200, "ok".to_owned()));
    let (status, why) = get("GET", "/readyz").await;
    assert_eq!(status, 503);
    assert!(why.contains("not listed yet"), "{why}");
    all.pass();
    assert_eq!(get("GET", "/readyz").await, (200, "ok".to_owned()));
    let (_, verbose) = get("GET", "/readyz?verbose").await;
    assert_eq!(verbose, "[+]readyz ok\nreadyz check passed\n");
    assert_eq!(get("POST", "/readyz").await.0, 405);
    assert_eq!(get("GET", "/metrics").await.0, 404);

    // A connection that stays open does not keep the process from stopping.
    let idle = spawn_blocking(move || -> Result<TcpStream> {
        let mut idle = TcpStream::connect(("127.0.0.1", port))?;
        idle.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")?;
        assert!(idle.read(&mut [0; 1024])? > 0);
        Ok(idle)
    })
    .await??;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(2), server).await??;
    drop(idle);
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn plain_metrics_ask_nobody() -> Result<()> {
    let all = Fabricated::new(Duration::ZERO);
    let bound = bind("metrics-bind-address", "127.0.0.1:0").await?;
    let bound = bound.expect("a listener");
    let port = bound.address.port();
    let stop = CancellationToken::new();
    let scrape = Arc::new(Scrape {
        metrics: Arc::new(Metrics::new(Arc::clone(&all.observed), Duration::ZERO)),
        guard: None,
    });
    let server = tokio::spawn(serve(bound, None, scrape, stop.clone()));
    let answer = spawn_blocking(move || Client::plain(port).request("GET", "/metrics", None));
    let answer = answer.await??;
    assert_eq!(answer.status, 200);
    assert!(answer.body.ends_with(b"# EOF\n"));
    let other = spawn_blocking(move || Client::plain(port).request("GET", "/", None));
    assert_eq!(other.await??.status, 404);
    stop.cancel();
    server.await?;
    Ok(())
}

#[tokio::test]
async fn addresses_are_opened_refused_or_off() -> Result<()> {
    assert!(bind("x", "0").await?.is_none());
    assert!(bind("x", "").await?.is_none());
    let everywhere = bind("x", ":0").await?.expect("a listener");
    assert!(everywhere.address.ip().is_unspecified());

    let taken = bind("x", "127.0.0.1:0").await?.expect("a listener");
    let address = taken.address.to_string();
    let error = bind("metrics-bind-address", &address)
        .await
        .expect_err("taken");
    let text = error.to_string();
    assert!(
        text.contains(&format!("--metrics-bind-address={address}")),
        "{text}"
    );
    for wrong in [":port", "8081", ":99999", "host:"] {
        let error = bind("x", wrong).await.expect_err(wrong).to_string();
        assert!(
            error.contains(&format!("--x={wrong} is not an address")),
            "{error}"
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a8_callers_who_say_nothing_or_say_it_slowly_do_not_starve_probes() -> Result<()> {
    let all = Fabricated::new(Duration::ZERO);
    let bound = bind("health-probe-bind-address", "127.0.0.1:0").await?;
    let bound = bound.expect("a listener");
    let port = bound.address.port();
    let stop = CancellationToken::new();
    let health = Arc::new(Health {
        observed: Arc::clone(&all.observed),
    });
    let server = tokio::spawn(serve(bound, None, health, stop.clone()));
    let probed = spawn_blocking(move || -> Result<()> {
        let mut held = Vec::new();
        for number in 0..300 {
            let mut slow = TcpStream::connect(("127.0.0.1", port))?;
            if number % 2 == 0 {
                // Whoever was closed already has got what he deserves.
                let _ = slow.write_all(b"GET /healthz HTTP/1.1\r\nHost: ");
            }
            held.push(slow);
            if number % 30 == 0 {
                let begun = std::time::Instant::now();
                let answer = Client::plain(port).request("GET", "/healthz", None)?;
                assert_eq!(answer.status, 200);
                // The header deadline is five seconds: nobody was waited for.
                assert!(begun.elapsed() < Duration::from_secs(4), "{number}");
            }
        }
        Ok(())
    });
    probed.await??;
    stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), server).await??;
    Ok(())
}
