//! A wire to the server that can be cut and clogged, so that tests share one server and still have
//! one of their own to take away.

use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
};

pub(crate) struct Proxy {
    address: SocketAddr,
    upstream: u16,
    flowing: watch::Sender<bool>,
    running: Mutex<Option<JoinHandle<()>>>,
}

impl Proxy {
    pub(crate) async fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let proxy = Self {
            address: listener.local_addr().expect("its address"),
            upstream,
            flowing: watch::Sender::new(true),
            running: Mutex::default(),
        };
        proxy.serve(listener);
        proxy
    }

    pub(crate) fn port(&self) -> u16 {
        self.address.port()
    }

    /// Cuts all connections and refuses new ones.
    pub(crate) async fn cut(&self) {
        let running = self.running().take();
        if let Some(running) = running {
            running.abort();
            let _ = running.await;
        }
    }

    pub(crate) async fn mend(&self) {
        if self.running().is_none() {
            let listener = TcpListener::bind(self.address)
                .await
                .expect("the same port");
            self.serve(listener);
        }
    }

    /// Lets bytes through, or keeps them with all connections open.
    pub(crate) fn flow(&self, on: bool) {
        self.flowing.send_replace(on);
    }

    fn running(&self) -> std::sync::MutexGuard<'_, Option<JoinHandle<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, listener: TcpListener) {
        let (upstream, flowing) = (self.upstream, self.flowing.subscribe());
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                connections.spawn(forward(client, upstream, flowing.clone()));
            }
        });
        *self.running() = Some(task);
    }
}

async fn forward(client: TcpStream, upstream: u16, flowing: watch::Receiver<bool>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", upstream)).await else {
        return;
    };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    tokio::select! {
        () = pump(from_client, to_server, flowing.clone()) => {}
        () = pump(from_server, to_client, flowing) => {}
    }
}

async fn pump(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut flowing: watch::Receiver<bool>,
) {
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = from.read(&mut buffer).await {
        if length == 0 || flowing.wait_for(|on| *on).await.is_err() {
            return;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}
