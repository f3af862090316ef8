//! A socket that counts who comes and remembers what they say first.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::sleep,
};

/// What a door says.
#[derive(Clone, Default)]
pub(crate) struct Manners {
    /// Before it has heard anything, as a NATS server does.
    pub(crate) greeting: Vec<u8>,
    /// What it says to the first bytes. Then it hangs up.
    pub(crate) answer: Vec<u8>,
}

impl Manners {
    pub(crate) fn greeting(text: &str) -> Self {
        Self {
            greeting: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn answer(text: &str) -> Self {
        Self {
            answer: text.into(),
            ..Self::default()
        }
    }
}

/// One caller: from where, and its first bytes.
struct Caller {
    from: SocketAddr,
    said: Vec<u8>,
}

pub(crate) struct Door {
    pub(crate) address: SocketAddr,
    callers: Arc<Mutex<Vec<Caller>>>,
}

/// Two doors on the same port: one at an allowed address, one at a forbidden one. Which is which
/// is for the policy to say; see `resolver::only_the_first`.
pub(crate) struct Doors {
    pub(crate) port: u16,
    pub(crate) allowed: Door,
    pub(crate) forbidden: Door,
}

pub(crate) const ALLOWED: &str = "127.0.0.1";
pub(crate) const FORBIDDEN: &str = "127.0.0.2";

impl Doors {
    pub(crate) async fn open(manners: Manners) -> Self {
        Self::open_with(|_| manners.clone()).await
    }

    /// With manners that depend on the port.
    pub(crate) async fn open_with(manners: impl Fn(u16) -> Manners) -> Self {
        loop {
            let first = TcpListener::bind((ALLOWED, 0)).await.unwrap();
            let port = first.local_addr().unwrap().port();
            // Somebody else may have it there.
            if let Ok(second) = TcpListener::bind((FORBIDDEN, port)).await {
                return Self {
                    port,
                    allowed: Door::open(first, manners(port)),
                    forbidden: Door::open(second, manners(port)),
                };
            }
        }
    }
}

impl Door {
    fn open(listener: TcpListener, manners: Manners) -> Self {
        let door = Self {
            address: listener.local_addr().unwrap(),
            callers: Arc::default(),
        };
        let callers = Arc::clone(&door.callers);
        tokio::spawn(async move {
            while let Ok((stream, from)) = listener.accept().await {
                let place = {
                    let mut callers = callers.lock().unwrap();
                    let said = Vec::new();
                    callers.push(Caller { from, said });
                    callers.len() - 1
                };
                let (callers, manners) = (Arc::clone(&callers), manners.clone());
                tokio::spawn(async move {
                    let said = listen(stream, manners).await;
                    callers.lock().unwrap()[place].said = said;
                });
            }
        });
        door
    }

    /// How many came before now: calls itself and waits until that call is seen.
    pub(crate) async fn callers(&self) -> usize {
        let own = TcpStream::connect(self.address).await.unwrap();
        let own = own.local_addr().unwrap();
        loop {
            let place = {
                let callers = self.callers.lock().unwrap();
                callers.iter().position(|caller| caller.from == own)
            };
            if let Some(earlier) = place {
                return earlier;
            }
            tokio::task::yield_now().await;
        }
    }

    /// Whether somebody said this. What was sent may still be on its way.
    pub(crate) async fn heard(&self, is_it: impl Fn(&[u8]) -> bool) -> bool {
        for _ in 0..100 {
            let said = {
                let callers = self.callers.lock().unwrap();
                callers.iter().any(|caller| is_it(&caller.said))
            };
            if said {
                return true;
            }
            sleep(Duration::from_millis(20)).await;
        }
        false
    }
}

async fn listen(mut stream: TcpStream, manners: Manners) -> Vec<u8> {
    let _ = stream.write_all(&manners.greeting).await;
    let mut said = vec![0; 1024];
    let count = stream.read(&mut said).await.unwrap_or(0);
    said.truncate(count);
    let _ = stream.write_all(&manners.answer).await;
    said
}
