//! Handshakes with real servers on loopback, each with certificates of its own.

use kollect_testkit::pki::{Authority, Identity};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::{
    ServerConfig,
    pki_types::{PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};
use tokio_rustls::TlsAcceptor;

use super::*;

const NAME: &str = "db.example.com";

/// The server's side of TLS.
pub(crate) fn acceptor(identity: &Identity) -> TlsAcceptor {
    let certificates = authorities(identity.cert_pem.as_bytes(), "test").unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

/// A server that answers `hello` to whoever agrees on a session.
async fn server(identity: &Identity) -> u16 {
    let acceptor = acceptor(identity);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut session) = acceptor.accept(stream).await {
                session.write_all(b"hello").await.unwrap();
                session.shutdown().await.unwrap();
            }
        }
    });
    port
}

async fn talk(trust: &Trust, host: &str, port: u16) -> Result<String, SinkError> {
    let config = Arc::new(trust.client_config()?);
    let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let mut session = handshake(config, host, stream).await?;
    let mut text = String::new();
    session.read_to_string(&mut text).await.unwrap();
    Ok(text)
}

fn trusting(pem: &str) -> Trust {
    Trust {
        authority: Some(pem.as_bytes().to_vec()),
        insecure_skip_verify: false,
    }
}

fn self_signed(is_ca: bool, expired: bool) -> Identity {
    let mut params = CertificateParams::new(vec![NAME.to_owned()]).unwrap();
    if is_ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    }
    if expired {
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    }
    let key = KeyPair::generate().unwrap();
    Identity {
        cert_pem: params.self_signed(&key).unwrap().pem(),
        key_pem: key.serialize_pem(),
    }
}

#[tokio::test]
async fn an_own_authority_is_trusted_and_no_other() {
    let own = Authority::new("own").unwrap();
    let other = Authority::new("other").unwrap();
    let port = server(&own.server(&[NAME, "127.0.0.1"]).unwrap()).await;

    for host in [NAME, "DB.Example.COM.", "127.0.0.1"] {
        assert_eq!(
            talk(&trusting(&own.pem()), host, port).await.as_deref(),
            Ok("hello"),
            "{host}"
        );
    }
    let both = format!("{}{}", other.pem(), own.pem());
    assert_eq!(
        talk(&trusting(&both), NAME, port).await.as_deref(),
        Ok("hello")
    );

    let unknown = Err(SinkError::terminal(
        "the certificate of \"db.example.com\" is not signed by a trusted authority; give the authority in spec.tls.caBundle or spec.tls.caSecretRef",
    ));
    assert_eq!(talk(&trusting(&other.pem()), NAME, port).await, unknown);
    assert_eq!(talk(&Trust::default(), NAME, port).await, unknown);
}

#[tokio::test]
async fn a_certificate_is_for_its_name_only() {
    let own = Authority::new("own").unwrap();
    let port = server(&own.server(&[NAME]).unwrap()).await;
    for host in ["other.example.com", "127.0.0.1"] {
        assert_eq!(
            talk(&trusting(&own.pem()), host, port).await,
            Err(SinkError::terminal(format!(
                "the certificate of the server is not for {host:?}; use a name that it is for"
            )))
        );
    }
}

#[tokio::test]
async fn insecure_accepts_anything_but_broken_settings() {
    let port = server(&self_signed(true, true)).await;
    let insecure = Trust {
        authority: None,
        insecure_skip_verify: true,
    };
    assert_eq!(
        talk(&insecure, "other.example.com", port).await.as_deref(),
        Ok("hello")
    );
    let broken = Trust {
        authority: Some(b"x".to_vec()),
        ..insecure
    };
    assert!(matches!(
        broken.client_config(),
        Err(SinkError::Terminal(_))
    ));
}

/// Whoever lists the self-signed certificate of a server means that server.
#[tokio::test]
async fn a_listed_certificate_is_trusted_as_the_server() {
    for is_ca in [false, true] {
        let identity = self_signed(is_ca, false);
        let port = server(&identity).await;
        let trust = trusting(&identity.cert_pem);
        assert_eq!(
            talk(&trust, NAME, port).await.as_deref(),
            Ok("hello"),
            "CA: {is_ca}"
        );
        assert!(talk(&trust, "other.example.com", port).await.is_err());
        // Another certificate for the same name is not the listed one.
        let impostor = server(&self_signed(is_ca, false)).await;
        assert!(talk(&trust, NAME, impostor).await.is_err());
    }
}

/// Renewed on the server's side, without any change here: to be tried again.
#[tokio::test]
async fn an_expired_certificate_may_heal() {
    for is_ca in [false, true] {
        let identity = self_signed(is_ca, true);
        let port = server(&identity).await;
        assert_eq!(
            talk(&trusting(&identity.cert_pem), NAME, port).await,
            Err(SinkError::transient(
                "the certificate of \"db.example.com\" is not valid now; renew it, or check the clocks"
            )),
            "CA: {is_ca}"
        );
    }
}

#[tokio::test]
async fn broken_pem_names_the_field() {
    let good = Authority::new("own").unwrap().pem();
    let cases = [
        (
            "",
            "spec.tls: holds no PEM certificate (-----BEGIN CERTIFICATE-----)",
        ),
        (
            "not PEM",
            "spec.tls: holds no PEM certificate (-----BEGIN CERTIFICATE-----)",
        ),
        (
            "-----BEGIN CERTIFICATE-----\nAAAA\n",
            "spec.tls: the PEM text is broken",
        ),
        (
            "-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n",
            "spec.tls: the PEM text is broken",
        ),
        (
            "GOOD-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "spec.tls: certificate 2 is broken",
        ),
    ];
    for (pem, expected) in cases {
        let trust = trusting(&pem.replace("GOOD", &good));
        let error = trust.client_config().unwrap_err();
        assert_eq!(error, SinkError::terminal(expected), "{pem}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_is_not_waited_for() {
    let (client, _server) = tokio::io::duplex(64 * 1024);
    let config = Arc::new(Trust::default().client_config().unwrap());
    let error = handshake(config, NAME, client).await.unwrap_err();
    assert!(
        matches!(&error, SinkError::Transient(text) if text.contains("within 10 s")),
        "{error}"
    );
}
