//! A server that does not always say what happened, in front of one that does.

use std::{
    io::{BufReader, Read as _, Write as _},
    net::{Ipv4Addr, Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};

use kollect_testkit::http::Head;

/// What becomes of some requests.
#[derive(Debug, Clone)]
pub(crate) struct Lie {
    pub(crate) method: &'static str,
    /// Part of the request's path and query.
    pub(crate) about: &'static str,
    pub(crate) times: usize,
    /// Whether the server gets to see the request.
    pub(crate) done: bool,
    /// Status and body of the answer; nothing for a connection that ends.
    pub(crate) answer: Option<(&'static str, &'static str)>,
}

/// Passes requests on, and lies when it is told to.
pub(crate) struct Liar {
    pub(crate) port: u16,
    lies: Arc<Mutex<Vec<Lie>>>,
    sessions: Arc<Mutex<Vec<String>>>,
}

impl Liar {
    pub(crate) fn to(server: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let lies: Arc<Mutex<Vec<Lie>>> = Arc::default();
        let sessions: Arc<Mutex<Vec<String>>> = Arc::default();
        let shared = (Arc::clone(&lies), Arc::clone(&sessions));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (lies, sessions) = shared.clone();
                thread::spawn(move || serve(&client, server, &lies, &sessions));
            }
        });
        Self {
            port,
            lies,
            sessions,
        }
    }

    /// The session tokens of all requests, nothing for those without.
    pub(crate) fn sessions(&self) -> Vec<String> {
        lock(&self.sessions).clone()
    }

    pub(crate) fn tell(&self, lie: Lie) {
        lock(&self.lies).push(lie);
    }

    /// Whether every lie was told as often as it should be.
    pub(crate) fn is_done(&self) -> bool {
        lock(&self.lies).iter().all(|lie| lie.times == 0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One request per connection.
fn serve(
    client: &TcpStream,
    server: u16,
    lies: &Mutex<Vec<Lie>>,
    sessions: &Mutex<Vec<String>>,
) -> Option<()> {
    let mut reader = BufReader::new(client);
    let head = Head::read(&mut reader).ok()??;
    let session = head.get("x-amz-security-token").unwrap_or_default();
    lock(sessions).push(session.to_owned());
    let body = head.body(&mut reader).ok()?.unwrap_or_default();
    let lie = {
        let mut lies = lock(lies);
        let found = lies.iter_mut().find(|lie| {
            let wanted = head.start.starts_with(lie.method) && head.start.contains(lie.about);
            lie.times > 0 && wanted
        });
        found.map(|lie| {
            lie.times -= 1;
            lie.clone()
        })
    };
    let mut answer = Vec::new();
    if lie.as_ref().is_none_or(|lie| lie.done) {
        let mut upstream = TcpStream::connect((Ipv4Addr::LOCALHOST, server)).ok()?;
        let mut request = format!("{}\r\n", head.start);
        for (name, value) in head.fields() {
            let own = [
                "connection",
                "content-length",
                "transfer-encoding",
                "expect",
            ];
            if !own.iter().any(|own| name.eq_ignore_ascii_case(own)) {
                request.push_str(&format!("{name}: {value}\r\n"));
            }
        }
        request.push_str(&format!(
            "Connection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        ));
        upstream.write_all(request.as_bytes()).ok()?;
        upstream.write_all(&body).ok()?;
        upstream.read_to_end(&mut answer).ok()?;
    }
    if let Some(lie) = lie {
        let (status, body) = lie.answer?;
        let length = body.len();
        answer = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/xml\r\n\
             Content-Length: {length}\r\n\r\n{body}"
        )
        .into_bytes();
    }
    let mut client = client;
    client.write_all(&answer).ok()?;
    let _ = client.shutdown(Shutdown::Write);
    Some(())
}
