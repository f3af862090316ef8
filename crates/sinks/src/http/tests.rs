//! Exchanges with real servers on loopback, which the policy of each test opens by name or network.

use std::{
    convert::Infallible,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures::stream;
use http::{HeaderMap, StatusCode, Uri, header};
use http_body_util::StreamBody;
use hyper::{body::Frame, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use kollect_api::address::AddressPolicy;
use kollect_testkit::pki::Authority;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite},
    net::TcpListener,
};

use super::*;
use crate::{
    dial::tests::{Table, loopback},
    tls::tests::acceptor,
};

/// A server that answers by path, counts connections and remembers what it was asked.
#[derive(Clone, Default)]
struct Server {
    port: u16,
    connections: Arc<AtomicUsize>,
    requests: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    /// Where `/away` leads.
    away: Arc<Mutex<String>>,
}

impl Server {
    async fn plain() -> Self {
        Self::start(None).await
    }

    /// With a certificate for `git.example.com`.
    async fn secure(authority: &Authority) -> Self {
        let identity = authority.server(&["git.example.com"]).unwrap();
        Self::start(Some(acceptor(&identity))).await
    }

    async fn start(tls: Option<tokio_rustls::TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            ..Self::default()
        };
        let running = server.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                running.connections.fetch_add(1, Ordering::SeqCst);
                let (running, tls) = (running.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        Some(tls) => {
                            if let Ok(session) = tls.accept(stream).await {
                                running.serve(session).await;
                            }
                        }
                        None => running.serve(stream).await,
                    }
                });
            }
        });
        server
    }

    async fn serve(self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) {
        let service = service_fn(|request| self.clone().answer(request));
        let served = http1::Builder::new().serve_connection(TokioIo::new(stream), service);
        // A client that goes away is no failure of the server.
        let _ = served.await;
    }

    async fn answer(self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let path = request.uri().path().to_owned();
        let asked = (path.clone(), request.headers().clone());
        self.requests.lock().unwrap().push(asked);
        let response = match path.as_str() {
            "/away" => Response::builder()
                .status(302)
                .header(header::LOCATION, self.away.lock().unwrap().as_str())
                .body(empty()),
            "/length" => {
                let body = request.into_body().collect().await.unwrap().to_bytes();
                Response::builder().body(full(body.len().to_string()))
            }
            "/missing" => Response::builder().status(404).body(full("no such thing")),
            _ => Response::builder().body(full("hello")),
        };
        Ok(response.unwrap())
    }

    fn uri(&self, scheme: &str, host: &str, path: &str) -> Uri {
        format!("{scheme}://{host}:{}{path}", self.port)
            .parse()
            .unwrap()
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// The headers of the last request for a path.
    fn headers(&self, path: &str) -> HeaderMap {
        let requests = self.requests.lock().unwrap();
        let found = requests.iter().rev().find(|(asked, _)| asked == path);
        found.unwrap().1.clone()
    }
}

/// Every name is 127.0.0.1, and that is allowed.
fn client(trust: &Trust) -> HttpClient {
    let dialer = Dialer::with_resolver(loopback("127.0.0.1/32"), Table::new([&["127.0.0.1"][..]]));
    HttpClient::new(dialer, trust).unwrap()
}

fn trusting(authority: &Authority) -> Trust {
    Trust {
        authority: Some(authority.pem().into_bytes()),
        insecure_skip_verify: false,
    }
}

fn get(uri: Uri) -> Request<Body> {
    Request::builder().uri(uri).body(empty()).unwrap()
}

async fn text(response: Response<Incoming>) -> String {
    let bytes = read(response.into_body(), 1024).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn answers_are_answers_and_connections_are_kept() {
    let server = Server::plain().await;
    let client = client(&Trust::default());
    for (path, status, expected) in [
        ("/", StatusCode::OK, "hello"),
        ("/missing", StatusCode::NOT_FOUND, "no such thing"),
        ("/away", StatusCode::FOUND, ""),
    ] {
        let request = get(server.uri("http", "git.example.com", path));
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
        assert_eq!(text(response).await, expected, "{path}");
    }
    assert_eq!(server.connections(), 1);
    let host = server.headers("/")[header::HOST]
        .to_str()
        .unwrap()
        .to_owned();
    assert_eq!(host, format!("git.example.com:{}", server.port));
}

#[tokio::test]
async fn https_needs_a_certificate_for_the_name() {
    let authority = Authority::new("own").unwrap();
    let server = Server::secure(&authority).await;
    let trust = trusting(&authority);
    let response = client(&trust)
        .send(get(server.uri("https", "git.example.com", "/")))
        .await
        .unwrap();
    assert_eq!(text(response).await, "hello");

    // The class that the handshake found survives hyper.
    for (trust, host, text) in [
        (
            &trust,
            "other.example.com",
            "is not for \"other.example.com\"",
        ),
        (
            &Trust::default(),
            "git.example.com",
            "not signed by a trusted authority",
        ),
    ] {
        let result = client(trust)
            .send(get(server.uri("https", host, "/")))
            .await;
        let error = result.unwrap_err();
        assert!(
            matches!(&error, SinkError::Terminal(message) if message.contains(text)),
            "{error}"
        );
    }
}

#[tokio::test]
async fn bodies_are_streamed() {
    let server = Server::plain().await;
    let pieces = (0..64).map(|_| Ok(Frame::data(Bytes::from(vec![7; 64 * 1024]))));
    let body: Body = BodyExt::boxed(StreamBody::new(stream::iter(pieces)));
    let request = Request::post(server.uri("http", "git.example.com", "/length"))
        .body(body)
        .unwrap();
    let response = client(&Trust::default()).send(request).await.unwrap();
    assert_eq!(text(response).await, (64 * 64 * 1024).to_string());
}

#[tokio::test]
async fn a_long_answer_is_not_read_to_its_end() {
    let server = Server::plain().await;
    let client = client(&Trust::default());
    let response = client
        .send(get(server.uri("http", "h.example", "/")))
        .await
        .unwrap();
    assert_eq!(
        read(response.into_body(), 4).await,
        Err(SinkError::terminal(
            "the server's answer is longer than 4 bytes"
        ))
    );
}

#[tokio::test]
async fn failures_have_classes_and_tell_no_path() {
    let gone = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = gone.local_addr().unwrap().port();
    let hangs_up = tokio::spawn(async move {
        drop(gone.accept().await.unwrap());
        drop(gone);
    });
    let client = client(&Trust::default());
    let uri = |text: &str| {
        text.replace("PORT", &port.to_string())
            .parse::<Uri>()
            .unwrap()
    };
    let broken = client
        .send(get(uri("http://h.example:PORT/p?token=tok")))
        .await
        .unwrap_err();
    hangs_up.await.unwrap();
    let refused = client
        .send(get(uri("http://h.example:PORT/p?token=tok")))
        .await
        .unwrap_err();
    for error in [broken, refused] {
        assert!(matches!(&error, SinkError::Transient(_)), "{error:?}");
        assert!(error.message().contains("h.example"), "{error}");
        assert!(!error.message().contains("tok"), "{error}");
    }
    for url in [
        "/path",
        "http://user:tok@h.example/",
        "ftp://h.example/",
        "http://localhost/",
        "http://169.254.169.254/",
    ] {
        let error = client.send(get(uri(url))).await.unwrap_err();
        assert!(matches!(&error, SinkError::Terminal(_)), "{url}: {error:?}");
        assert!(!error.message().contains("tok"), "{error}");
    }
}

/// G16: a redirect leads nowhere. Whoever sent the request hears of it, and nobody else is asked.
#[tokio::test]
async fn a_redirect_is_an_answer_and_not_followed() {
    let (server, other) = (Server::plain().await, Server::plain().await);
    let away = other.uri("http", "evil.example.com", "/").to_string();
    away.clone_into(&mut server.away.lock().unwrap());
    let client = client(&Trust::default());
    let start = server.uri("http", "git.example.com", "/away");
    let response = client.send(get(start)).await.unwrap();
    assert_eq!(response.status(), StatusCode::FOUND);
    assert_eq!(response.headers()[header::LOCATION], away.as_str());
    assert_eq!(server.connections(), 1);
    assert_eq!(other.connections(), 0);
}

/// G17: runs itself again in a process whose environment names a proxy for everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn proxies_of_the_environment_are_not_used() {
    const TARGET: &str = "KOLLECT_TEST_TARGET";
    if let Ok(target) = std::env::var(TARGET) {
        let client = client(&Trust::default());
        let response = client.send(get(target.parse().unwrap())).await.unwrap();
        assert_eq!(text(response).await, "hello");
        return;
    }
    let (server, proxy) = (Server::plain().await, Server::plain().await);
    let proxy_url = proxy.uri("http", "127.0.0.1", "/").to_string();
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args([
            "--exact",
            "http::tests::proxies_of_the_environment_are_not_used",
        ])
        .env(
            TARGET,
            server.uri("http", "git.example.com", "/").to_string(),
        );
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "https_proxy",
        "ALL_PROXY",
        "all_proxy",
    ] {
        child.env(name, &proxy_url);
    }
    let output = tokio::task::spawn_blocking(move || child.output())
        .await
        .unwrap()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stdout)
    );
    assert_eq!((server.connections(), proxy.connections()), (1, 0));
}

/// A client for a forbidden place can be made; it only never gets there.
/// The peer reads nothing, the request is given up, the client dropped: the peer notices at once.
#[tokio::test]
async fn a_client_that_is_gone_leaves_no_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let client = client(&Trust::default());
    let uri = format!("http://git.example.com:{port}/x");
    let request = Request::put(uri).body(full(vec![b'x'; 64 << 20])).unwrap();
    let mut accepted = tokio::select! {
        answer = client.send(request) => panic!("{answer:?}"),
        accepted = async {
            let (stream, _) = listener.accept().await.unwrap();
            // Long enough for the buffers to fill.
            tokio::time::sleep(Duration::from_millis(300)).await;
            stream
        } => accepted,
    };
    drop(client);
    let rest = async {
        let mut buffer = vec![0; 1 << 16];
        let mut total = 0;
        while let Ok(count @ 1..) = accepted.read(&mut buffer).await {
            total += count;
        }
        total
    };
    let total = tokio::time::timeout(Duration::from_mins(1), rest).await;
    assert!(total.expect("the connection ends") < 64 << 20);
}

#[tokio::test]
async fn making_a_client_does_no_network_traffic() {
    let dialer = Dialer::new(AddressPolicy::default());
    let client = HttpClient::new(dialer.clone(), &Trust::default()).unwrap();
    assert_eq!(format!("{client:?}"), "HttpClient { .. }");
    let broken = Trust {
        authority: Some(b"x".to_vec()),
        insecure_skip_verify: false,
    };
    assert!(matches!(
        HttpClient::new(dialer, &broken),
        Err(SinkError::Terminal(_))
    ));
}
