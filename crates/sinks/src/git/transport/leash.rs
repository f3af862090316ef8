//! A stream that ends with whoever holds its leash.
//!
//! The SSH client serves its connection in a task of its own, which goes on for as long as the
//! server keeps it busy. Nothing may outlive the delivery that it is for, so the task's stream fails
//! shortly after the delivery is over.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::oneshot,
};

/// Time for a goodbye.
const GOODBYE: Duration = Duration::from_secs(2);

/// The stream lasts for as long as this does.
#[derive(Debug)]
pub(super) struct Leash {
    _end: oneshot::Sender<()>,
}

/// A stream that ends with its leash.
pub(super) struct Leashed<S> {
    stream: S,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
    ended: bool,
}

impl<S> Leashed<S> {
    pub(super) fn new(stream: S) -> (Self, Leash) {
        let (sender, dropped) = oneshot::channel();
        let end = Box::pin(async move {
            let _ = dropped.await;
            tokio::time::sleep(GOODBYE).await;
        });
        let leashed = Self {
            stream,
            end,
            ended: false,
        };
        (leashed, Leash { _end: sender })
    }

    fn check(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        self.ended = self.ended || self.end.as_mut().poll(context).is_ready();
        if self.ended {
            Err(io::ErrorKind::ConnectionAborted.into())
        } else {
            Ok(())
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Leashed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Leashed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check(context)?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a5_a_busy_stream_ends_with_its_leash() {
        let (mut busy, end) = tokio::io::duplex(64);
        let (mut leashed, leash) = Leashed::new(end);
        let talking = tokio::spawn(async move {
            while busy.write_all(b"more").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        });
        let listening = tokio::spawn(async move {
            let mut buffer = [0; 16];
            loop {
                if let Err(error) = leashed.read(&mut buffer).await {
                    return error.kind();
                }
            }
        });
        tokio::time::sleep(Duration::from_mins(1)).await;
        assert!(!listening.is_finished());
        drop(leash);
        let kind = listening.await.unwrap();
        assert_eq!(kind, io::ErrorKind::ConnectionAborted);
        talking.await.unwrap();
    }
}
