//! The door with servers that are really there, each with its own way of beginning TLS.

use std::sync::Mutex;

use kollect_testkit::pki::Authority;
use tokio::{io::duplex, net::TcpListener};

use super::*;
use crate::{
    dial::tests::{Table, loopback},
    tls::tests::acceptor,
};

const NAME: &str = "nats.example.com";

/// How a server begins.
#[derive(Clone, Copy, PartialEq)]
enum Beginning {
    Plain,
    AsksForTls,
    /// Does TLS without having asked for it, as a server that only offers it does.
    OffersTls,
    TlsFirst,
    /// Puts a message between its introduction and TLS, as somebody on the way would.
    Injected,
    HangsUp,
    NoNats,
}

/// A server that answers one line with `+OK`, and remembers the name by which TLS called it.
struct Server {
    port: u16,
    called: Arc<Mutex<Option<String>>>,
}

impl Server {
    async fn start(beginning: Beginning, authority: &Authority) -> Self {
        let acceptor = acceptor(&authority.server(&[NAME]).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Self {
            port: listener.local_addr().unwrap().port(),
            called: Arc::default(),
        };
        let called = Arc::clone(&server.called);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let info: &[u8] = match beginning {
                    Beginning::AsksForTls => {
                        b"INFO {\"tls_required\":true,\"nonce\":\"n\",\"connect_urls\":[\"10.0.0.1:1\"]} \r\n"
                    }
                    Beginning::Injected => b"INFO {\"tls_required\":true}\r\n-ERR 'boo'\r\n",
                    Beginning::OffersTls => b"INFO {\"tls_available\":true}\r\n",
                    Beginning::NoNats => b"220 smtp.example.com\r\n",
                    Beginning::HangsUp => b"INFO {",
                    Beginning::Plain | Beginning::TlsFirst => b"INFO {\"nonce\":\"n\"}\r\n+OK\r\n",
                };
                if beginning != Beginning::TlsFirst {
                    stream.write_all(info).await.unwrap();
                }
                if beginning == Beginning::Plain {
                    answer(stream).await;
                    continue;
                }
                if beginning == Beginning::HangsUp {
                    continue;
                }
                let Ok(mut session) = acceptor.accept(stream).await else {
                    continue;
                };
                let name = session.get_ref().1.server_name().map(str::to_owned);
                *called.lock().unwrap() = name;
                if beginning == Beginning::TlsFirst {
                    session.write_all(info).await.unwrap();
                }
                answer(session).await;
            }
        });
        server
    }
}

async fn answer(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut line = [0; 6];
    if stream.read_exact(&mut line).await.is_ok() {
        stream.write_all(b"+OK\r\n").await.unwrap();
    }
    let _ = stream.shutdown().await;
}

fn trusting(authority: &Authority) -> Trust {
    Trust {
        authority: Some(authority.pem().into_bytes()),
        insecure_skip_verify: false,
    }
}

async fn door(trust: &Trust, port: u16, tls: NatsTls) -> NatsGuard {
    let table = Table::new([&["127.0.0.1"][..]]);
    let dialer = Dialer::with_resolver(loopback("127.0.0.1/32"), table);
    let host = NAME.to_owned();
    NatsGuard::open(dialer, trust, NatsServer { host, port, tls })
        .await
        .unwrap()
}

/// Says one line and hears everything that comes.
async fn talk(guard: &NatsGuard) -> String {
    let address = guard.url().strip_prefix("nats://").unwrap().to_owned();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"PING\r\n").await.unwrap();
    let mut heard = Vec::new();
    // A refusal with bytes unread comes as a reset.
    let _ = stream.read_to_end(&mut heard).await;
    String::from_utf8(heard).unwrap()
}

#[tokio::test]
async fn tls_is_done_by_name_and_the_client_need_not_know() {
    let authority = Authority::new("own").unwrap();
    let trust = trusting(&authority);
    for (beginning, tls, heard, encrypted) in [
        (
            Beginning::Plain,
            NatsTls::IfAsked,
            "INFO {\"nonce\":\"n\"}\r\n+OK\r\n+OK\r\n",
            false,
        ),
        (
            Beginning::AsksForTls,
            NatsTls::IfAsked,
            "INFO {\"nonce\":\"n\"}\r\n+OK\r\n",
            true,
        ),
        (
            Beginning::AsksForTls,
            NatsTls::Required,
            "INFO {\"nonce\":\"n\"}\r\n+OK\r\n",
            true,
        ),
        (
            Beginning::OffersTls,
            NatsTls::Required,
            "INFO {}\r\n+OK\r\n",
            true,
        ),
        (
            Beginning::TlsFirst,
            NatsTls::First,
            "INFO {\"nonce\":\"n\"}\r\n+OK\r\n+OK\r\n",
            true,
        ),
    ] {
        let server = Server::start(beginning, &authority).await;
        let guard = door(&trust, server.port, tls).await;
        assert_eq!(talk(&guard).await, heard, "{tls:?}");
        assert_eq!(guard.last_failure(), None);
        let called = server.called.lock().unwrap().clone();
        assert_eq!(called, encrypted.then(|| NAME.to_owned()), "{tls:?}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_with_its_class() {
    let (own, other) = (
        Authority::new("own").unwrap(),
        Authority::new("other").unwrap(),
    );
    for (beginning, trusted, tls, terminal, text) in [
        (
            Beginning::AsksForTls,
            &other,
            NatsTls::IfAsked,
            true,
            "not signed by a trusted authority",
        ),
        (
            Beginning::Injected,
            &own,
            NatsTls::IfAsked,
            false,
            "plain text where TLS begins",
        ),
        (
            Beginning::NoNats,
            &own,
            NatsTls::IfAsked,
            false,
            "is no NATS server",
        ),
        (
            Beginning::NoNats,
            &own,
            NatsTls::First,
            false,
            "TLS handshake",
        ),
        (
            Beginning::HangsUp,
            &own,
            NatsTls::IfAsked,
            false,
            "does not introduce itself",
        ),
    ] {
        let server = Server::start(beginning, &own).await;
        let guard = door(&trusting(trusted), server.port, tls).await;
        assert_eq!(talk(&guard).await, "", "{text}");
        let failure = guard.last_failure().unwrap();
        assert!(failure.message().contains(text), "{failure}");
        assert_eq!(
            matches!(failure, SinkError::Terminal(_)),
            terminal,
            "{failure:?}"
        );
    }
}

#[tokio::test]
async fn a_forbidden_server_is_told() {
    let server = NatsServer {
        host: "metadata.google.internal".to_owned(),
        port: 4222,
        tls: NatsTls::IfAsked,
    };
    let dialer = Dialer::new(kollect_api::address::AddressPolicy::default());
    let guard = NatsGuard::open(dialer, &Trust::default(), server)
        .await
        .unwrap();
    assert_eq!(talk(&guard).await, "");
    let failure = guard.last_failure().unwrap();
    assert!(
        matches!(&failure, SinkError::Terminal(text) if text.contains("is forbidden")),
        "{failure:?}"
    );
}

#[tokio::test]
async fn an_introduction_has_a_length() {
    let (mut server, mut client) = duplex(1024);
    let endless =
        tokio::spawn(async move { while server.write_all(&[b'x'; 512]).await.is_ok() {} });
    let error = first_line(&mut client).await.unwrap_err();
    assert!(error.to_string().contains("longer than"), "{error}");
    drop(client);
    endless.await.unwrap();
}
