//! The real NATS client through the door: with TLS that it knows nothing of, and in a cluster whose
//! other servers it is not told.

use std::sync::Arc;

use kollect_sinks::{
    dial::nats::{NatsGuard, NatsServer, NatsTls},
    tls::Trust,
};
use kollect_testkit::pki::{Authority, Identity};
use rustls::{
    ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader},
    net::TcpListener,
};
use tokio_rustls::TlsAcceptor;

use crate::resolver::{Turns, only_allowed};

const NAME: &str = "nats.example.com";

fn acceptor(identity: &Identity) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(identity.cert_pem.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A server that asks for TLS and lists another one; answers pings.
async fn server(identity: &Identity) -> u16 {
    let acceptor = acceptor(identity);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let info = b"INFO {\"max_payload\":1024,\"tls_required\":true,\"connect_urls\":[\"127.0.0.2:4222\"]} \r\n";
            stream.write_all(info).await.unwrap();
            if let Ok(session) = acceptor.accept(stream).await {
                tokio::spawn(pong(session));
            }
        }
    });
    port
}

async fn pong(stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    while stream
        .read_line(&mut line)
        .await
        .is_ok_and(|count| count > 0)
    {
        if line.starts_with("PING") && stream.write_all(b"PONG\r\n").await.is_err() {
            return;
        }
        line.clear();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_client_works_through_the_door() {
    let authority = Authority::new("own").unwrap();
    let port = server(&authority.server(&[NAME]).unwrap()).await;
    let trust = Trust {
        authority: Some(authority.pem().into_bytes()),
        insecure_skip_verify: false,
    };
    let dialer = Turns::new(&[&["127.0.0.1"][..]]).dialer(only_allowed());
    let server = NatsServer {
        host: NAME.to_owned(),
        port,
        tls: NatsTls::Required,
    };
    let guard = NatsGuard::open(dialer, &trust, server).await.unwrap();
    // Without `ignore_discovered_servers`, so that the door alone has to keep them back.
    let client = async_nats::connect(guard.url()).await.unwrap();
    client.publish("subject", "payload".into()).await.unwrap();
    client.flush().await.unwrap();
    let pool = client.server_pool().await.unwrap();
    let known: Vec<String> = pool.iter().map(ToString::to_string).collect();
    assert_eq!(known, [guard.url()]);
    assert_eq!(guard.last_failure(), None);
}
