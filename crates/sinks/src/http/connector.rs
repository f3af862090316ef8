//! How hyper gets its connections: dialled, judged, and with TLS where the URL says so.

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{Uri, uri::Scheme};
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use rustls::ClientConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;
use tower_service::Service;

use crate::{
    dial::Dialer,
    error::SinkError,
    tls::{self, Trust},
};

/// Opens connections for hyper.
#[derive(Clone)]
pub(super) struct Connector {
    dialer: Dialer,
    tls: Arc<ClientConfig>,
}

impl Connector {
    pub(super) fn new(dialer: Dialer, trust: &Trust) -> Result<Self, SinkError> {
        let mut config = trust.client_config()?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self {
            dialer,
            tls: Arc::new(config),
        })
    }

    async fn connect(self, uri: Uri) -> Result<TokioIo<Stream>, SinkError> {
        let (Some(host), Some(port)) = (uri.host(), port(&uri)) else {
            return Err(SinkError::terminal(
                "the URL must begin with https:// or http://",
            ));
        };
        let stream = self.dialer.connect(host, port).await?;
        let stream = if uri.scheme() == Some(&Scheme::HTTPS) {
            Stream::Tls(Box::new(tls::handshake(self.tls, host, stream).await?))
        } else {
            Stream::Plain(stream)
        };
        Ok(TokioIo::new(stream))
    }
}

/// The port of an http or https URL; none for other schemes.
fn port(uri: &Uri) -> Option<u16> {
    let default = match uri.scheme() {
        Some(scheme) if *scheme == Scheme::HTTPS => 443,
        Some(scheme) if *scheme == Scheme::HTTP => 80,
        _ => return None,
    };
    Some(uri.port_u16().unwrap_or(default))
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = SinkError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        Box::pin(self.clone().connect(uri))
    }
}

/// A connection with or without TLS.
pub(super) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(context),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
