//! A server that speaks the beginning of the protocol and then misbehaves by script.

use std::{
    future::Future,
    io,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use kollect_testkit::pki::Identity;
use rustls::{
    ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpListener,
    task::JoinHandle,
};
use tokio_rustls::TlsAcceptor;

/// A server that serves every connection by a script. Ends when it is dropped.
pub(crate) struct Impostor {
    pub(crate) port: u16,
    open: Arc<AtomicUsize>,
    accepting: JoinHandle<()>,
}

impl Drop for Impostor {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Impostor {
    pub(crate) async fn start<S, F>(script: S) -> Self
    where
        S: Fn(Peer) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        let open = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&open);
        let accepting = tokio::spawn(async move {
            let mut connections = tokio::task::JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let served = script(Peer {
                    stream: Some(Box::new(stream)),
                });
                let count = Arc::clone(&count);
                count.fetch_add(1, Ordering::SeqCst);
                connections.spawn(async move {
                    // Its client hangs up on it, which is what it deserves.
                    let _ = served.await;
                    count.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self {
            port,
            open,
            accepting,
        }
    }

    /// A connection string that leads here.
    pub(crate) fn url(&self, rest: &str) -> String {
        let port = self.port;
        format!("postgres://tenant:hunter2@127.0.0.1:{port}/stock?{rest}")
    }

    /// Waits until nobody is connected any more.
    pub(crate) async fn deserted(&self) {
        for _ in 0..1500 {
            if self.open.load(Ordering::SeqCst) == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("a connection stays open");
    }
}

/// A connection, encrypted or not.
trait Line: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Line for S {}

/// The client of one connection.
pub(crate) struct Peer {
    /// Absent only while TLS begins.
    stream: Option<Box<dyn Line>>,
}

/// The server's side of TLS.
pub(crate) fn acceptor(identity: &Identity) -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(identity.cert_pem.as_bytes());
    let key = PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.expect("a certificate")], key)
        .expect("a pair");
    TlsAcceptor::from(Arc::new(config))
}

/// A message of the protocol.
pub(crate) fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = u32::try_from(body.len() + 4).expect("a length");
    [&[tag][..], &length.to_be_bytes(), body].concat()
}

/// An error or a notice.
pub(crate) fn words(tag: u8, code: &str, text: &str) -> Vec<u8> {
    let body = format!("SERROR\0VERROR\0C{code}\0M{text}\0\0");
    message(tag, body.as_bytes())
}

pub(crate) fn parameter(name: &str, value: &str) -> Vec<u8> {
    message(b'S', format!("{name}\0{value}\0").as_bytes())
}

pub(crate) fn authentication(kind: u32, rest: &[u8]) -> Vec<u8> {
    message(b'R', &[&kind.to_be_bytes(), rest].concat())
}

pub(crate) fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

/// Types of parameters.
pub(crate) fn parameters(types: &[u32]) -> Vec<u8> {
    let mut body = u16::try_from(types.len())
        .expect("few")
        .to_be_bytes()
        .to_vec();
    for number in types {
        body.extend(number.to_be_bytes());
    }
    message(b't', &body)
}

/// Columns of these types.
pub(crate) fn columns(types: &[u32]) -> Vec<u8> {
    let mut body = u16::try_from(types.len())
        .expect("few")
        .to_be_bytes()
        .to_vec();
    for number in types {
        body.extend(b"c\0\0\0\0\0\0\0");
        body.extend(number.to_be_bytes());
        body.extend([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    }
    message(b'T', &body)
}

/// A row in binary form.
pub(crate) fn row(values: &[Option<&[u8]>]) -> Vec<u8> {
    let mut body = u16::try_from(values.len())
        .expect("few")
        .to_be_bytes()
        .to_vec();
    for value in values {
        let length = value.map_or(-1, |value| i32::try_from(value.len()).expect("short"));
        body.extend(length.to_be_bytes());
        body.extend(value.unwrap_or_default());
    }
    message(b'D', &body)
}

impl Peer {
    fn line(&mut self) -> io::Result<&mut Box<dyn Line>> {
        self.stream
            .as_mut()
            .ok_or(io::ErrorKind::NotConnected.into())
    }

    /// Agrees to encrypt.
    pub(crate) async fn encrypt(&mut self, acceptor: &TlsAcceptor) -> io::Result<()> {
        self.opening().await?;
        self.send(b"S").await?;
        let plain = self.stream.take().ok_or(io::ErrorKind::NotConnected)?;
        self.stream = Some(Box::new(acceptor.accept(plain).await?));
        Ok(())
    }

    /// Reads the client's opening.
    pub(crate) async fn opening(&mut self) -> io::Result<()> {
        let line = self.line()?;
        let length = line.read_u32().await?;
        let mut body = vec![0; (length as usize).saturating_sub(4)];
        line.read_exact(&mut body).await?;
        Ok(())
    }

    /// Lets the client in without asking for anything.
    pub(crate) async fn welcome(&mut self) -> io::Result<()> {
        self.opening().await?;
        self.send(&authentication(0, &[])).await?;
        self.send(&parameter("server_version", "17.2")).await?;
        self.send(&message(b'K', &[0; 8])).await?;
        self.send(&ready()).await
    }

    /// The next message of the client.
    pub(crate) async fn next(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let line = self.line()?;
        let tag = line.read_u8().await?;
        let length = line.read_u32().await?;
        let mut body = vec![0; (length as usize).saturating_sub(4)];
        line.read_exact(&mut body).await?;
        Ok((tag, body))
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let line = self.line()?;
        line.write_all(bytes).await?;
        line.flush().await
    }

    /// Sends the same for ever.
    pub(crate) async fn flood(&mut self, bytes: &[u8]) -> io::Result<()> {
        let many = bytes.repeat((64 * 1024 / bytes.len()).max(1));
        loop {
            self.send(&many).await?;
        }
    }

    /// Sends byte by byte, with pauses, and then begins anew.
    pub(crate) async fn drip(&mut self, bytes: &[u8]) -> io::Result<()> {
        loop {
            for byte in bytes {
                self.send(&[*byte]).await?;
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    }

    /// Waits until the client is gone.
    pub(crate) async fn silence(&mut self) -> io::Result<()> {
        loop {
            self.next().await?;
        }
    }

    /// Answers simple queries with success until another kind of message comes; gives its text.
    pub(crate) async fn obliging(&mut self) -> io::Result<(u8, Vec<u8>)> {
        loop {
            match self.next().await? {
                (b'Q', _) => {
                    self.send(&message(b'C', b"SELECT 1\0")).await?;
                    self.send(&ready()).await?;
                }
                other => return Ok(other),
            }
        }
    }
}
