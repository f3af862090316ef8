//! A connection whose server is held to the limits of [`wire`](super::wire).

use std::{
    future::Future,
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::wire::{Breach, Meter};

/// What the server of a connection did wrong, once it did. The driver tells whoever waits for an
/// answer only that the connection is closed.
#[derive(Debug, Clone, Default)]
pub(super) struct Verdict(Arc<Noted>);

#[derive(Debug, Default)]
struct Noted {
    breach: OnceLock<Breach>,
    process: OnceLock<i32>,
}

impl Verdict {
    pub(super) fn breach(&self) -> Option<Breach> {
        self.0.breach.get().copied()
    }

    /// The number of the process that the server said would answer.
    pub(super) fn process(&self) -> Option<i32> {
        self.0.process.get().copied()
    }
}

/// A stream that ends where its server goes too far.
#[derive(Debug)]
pub(super) struct Limited<S> {
    stream: S,
    meter: Meter,
    verdict: Verdict,
}

impl<S> Limited<S> {
    pub(super) fn new(stream: S, verdict: Verdict) -> Self {
        Self {
            stream,
            meter: Meter::default(),
            verdict,
        }
    }

    fn judged(verdict: &Verdict, judged: Result<(), Breach>) -> io::Result<()> {
        judged.map_err(|breach| {
            let breach = *verdict.0.breach.get_or_init(|| breach);
            io::Error::new(io::ErrorKind::InvalidData, breach)
        })
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Limited<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        match Pin::new(&mut this.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {}
            other => return other,
        }
        let judged = this.meter.received(&buffer.filled()[before..]);
        let judged = Self::judged(&this.verdict, judged);
        if let Some(process) = this.meter.process() {
            this.verdict.0.process.get_or_init(|| process);
        }
        if judged.is_err() {
            buffer.set_filled(before);
        }
        Poll::Ready(judged)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Limited<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = match Pin::new(&mut this.stream).poll_write(context, bytes) {
            Poll::Ready(Ok(written)) => written,
            other => return other,
        };
        let judged = this.meter.sent(&bytes[..written]);
        Poll::Ready(Self::judged(&this.verdict, judged).map(|()| written))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(context)
    }
}

impl<S: TlsStream + Unpin> TlsStream for Limited<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

/// A connection without encryption, or below it.
pub(super) type Plain = Limited<TcpStream>;
type Rustls = <MakeRustlsConnect as MakeTlsConnect<Plain>>::TlsConnect;
type Encrypted = Limited<<Rustls as TlsConnect<Plain>>::Stream>;

/// Starts TLS, and reads along where it is decrypted.
pub(super) struct LimitedTls {
    pub(super) rustls: Rustls,
    pub(super) verdict: Verdict,
}

impl TlsConnect<Plain> for LimitedTls {
    type Stream = Encrypted;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted>> + Send>>;

    fn connect(self, stream: Plain) -> Self::Future {
        let handshake = self.rustls.connect(stream);
        Box::pin(async move { Ok(Limited::new(handshake.await?, self.verdict)) })
    }
}
