//! `git http-backend` as a CGI program behind TLS and basic authentication.

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::http::Head;
use crate::pki::Authority;

/// How long a client may stay silent before its connection is given up.
const IDLE: Duration = Duration::from_mins(1);

/// The running server: one thread accepts, one thread serves each connection.
pub(super) struct HttpsServer {
    port: u16,
    ca_pem: String,
    stopping: Arc<AtomicBool>,
    acceptor: Option<JoinHandle<()>>,
}

struct Site {
    root: PathBuf,
    user: String,
    authorization: String,
    tls: Arc<ServerConfig>,
}

impl HttpsServer {
    pub(super) fn start(root: &Path, user: &str, password: &str) -> Result<Self> {
        let authority = Authority::new("kollect test git")?;
        let identity = authority.server(&["127.0.0.1", "localhost"])?;
        let site = Arc::new(Site {
            root: root.to_owned(),
            user: user.to_owned(),
            authorization: format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))),
            tls: identity.server_config()?,
        });

        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot listen")?;
        let port = listener.local_addr()?.port();
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let acceptor = thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                let site = Arc::clone(&site);
                // A client that goes away mid-request concerns only its own test.
                thread::spawn(move || site.serve(stream));
            }
        });
        Ok(Self {
            port,
            ca_pem: authority.pem(),
            stopping,
            acceptor: Some(acceptor),
        })
    }

    pub(super) fn url(&self, repository: &str) -> String {
        format!("https://127.0.0.1:{}/{repository}", self.port)
    }

    pub(super) fn ca_pem(&self) -> &str {
        &self.ca_pem
    }
}

impl Drop for HttpsServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the acceptor so that it sees the flag.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
    }
}

impl Site {
    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        stream.set_read_timeout(Some(IDLE))?;
        stream.set_write_timeout(Some(IDLE))?;
        let connection = ServerConnection::new(Arc::clone(&self.tls)).map_err(io::Error::other)?;
        let mut reader = BufReader::new(StreamOwned::new(connection, stream));
        let Some(head) = Head::read(&mut reader)? else {
            return Ok(());
        };
        if head
            .get("expect")
            .is_some_and(|value| value.eq_ignore_ascii_case("100-continue"))
        {
            reader
                .get_mut()
                .write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let body = head.body(&mut reader)?.unwrap_or_default();
        let mut stream = reader.into_inner();
        if head.get("authorization") == Some(self.authorization.as_str()) {
            self.run_backend(&head, &body, &mut stream)?;
        } else {
            stream.write_all(
                b"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"git\"\r\n\
                  Connection: close\r\nContent-Length: 0\r\n\r\n",
            )?;
        }
        stream.conn.send_close_notify();
        stream.flush()
    }

    fn run_backend(&self, head: &Head, body: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut child = self.backend(head, body.len()).spawn()?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let sent = thread::scope(|scope| {
            // The backend may answer before it has read everything; reading and writing at the
            // same time keeps both pipes moving.
            scope.spawn(|| stdin.map(|mut pipe| pipe.write_all(body)));
            let mut reply = BufReader::new(stdout.ok_or(io::ErrorKind::BrokenPipe)?);
            respond(&mut reply, out)
        });
        child.wait()?;
        sent
    }

    fn backend(&self, head: &Head, length: usize) -> Command {
        let mut words = head.start.split(' ');
        let method = words.next().unwrap_or_default();
        let target = words.next().unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut command = Command::new("git");
        command
            .arg("http-backend")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_PROJECT_ROOT", &self.root)
            .env("GIT_HTTP_EXPORT_ALL", "1")
            .env("REQUEST_METHOD", method)
            .env("PATH_INFO", path)
            .env("QUERY_STRING", query)
            .env("CONTENT_LENGTH", length.to_string())
            .env("REMOTE_USER", &self.user)
            .env("REMOTE_ADDR", "127.0.0.1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        for (field, variable) in [
            ("content-type", "CONTENT_TYPE"),
            // Git compresses large requests; the backend unpacks them itself.
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ] {
            if let Some(value) = head.get(field) {
                command.env(variable, value);
            }
        }
        command
    }
}

/// Turns the answer of a CGI program into an HTTP response that ends with the connection.
fn respond(reply: &mut BufReader<impl Read>, out: &mut impl Write) -> io::Result<()> {
    let mut fields = Vec::new();
    let mut status = "200 OK".to_owned();
    loop {
        let mut line = String::new();
        if io::BufRead::read_line(reply, &mut line)? == 0 {
            return out.write_all(
                b"HTTP/1.1 500 Internal Server Error\r\nConnection: close\r\n\
                  Content-Length: 0\r\n\r\n",
            );
        }
        let line = line.trim_end();
        match line.split_once(':') {
            Some((name, value)) if name.eq_ignore_ascii_case("status") => {
                value.trim().clone_into(&mut status);
            }
            Some(_) => fields.push(line.to_owned()),
            None => break,
        }
    }
    write!(out, "HTTP/1.1 {status}\r\nConnection: close\r\n")?;
    for field in fields {
        write!(out, "{field}\r\n")?;
    }
    out.write_all(b"\r\n")?;
    io::copy(reply, out)?;
    Ok(())
}
