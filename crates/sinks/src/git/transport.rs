//! The way to a Git server: every byte goes through the guarded dialler, with the trust and the
//! credentials of the sink at hand. Nothing of it is global and nothing is written to disk.

mod http;
mod known_hosts;
mod ssh;

use super::{
    error::GitError,
    pack::Pack,
    pkt::{self, PktReader},
    protocol::{Advertisement, Service},
};

pub(super) use http::{Basic, HttpTransport};
pub(super) use known_hosts::KnownHosts;
pub(super) use ssh::{HostKeys, SshTransport, private_key};

/// How to reach the server of a repository.
#[derive(Debug, Clone)]
pub(super) enum Transport {
    /// Over HTTP, one connection per request as far as anybody can tell.
    Http(HttpTransport),
    /// Over SSH, one connection for everything that a delivery asks.
    Ssh(SshTransport),
}

/// A server within reach.
pub(super) enum Server {
    Http(HttpTransport),
    Ssh(ssh::SshConnection),
}

impl Transport {
    /// Connects, as far as there is a connection to speak of.
    pub(super) async fn connect(&self) -> Result<Server, GitError> {
        match self {
            Transport::Http(transport) => Ok(Server::Http(transport.clone())),
            Transport::Ssh(transport) => transport.connect().await.map(Server::Ssh),
        }
    }
}

impl Server {
    /// Starts a service and hears what it has of a branch.
    pub(super) async fn open(&self, service: Service, branch: &str) -> Result<Session, GitError> {
        let (mut lines, line) = match self {
            Server::Http(transport) => transport.open(service).await?,
            Server::Ssh(connection) => connection.open(service).await?,
        };
        let advertisement = Advertisement::read(&mut lines, branch).await?;
        Ok(Session {
            advertisement,
            lines,
            line,
        })
    }
}

/// A service that has said what it has and waits to be asked.
pub(super) struct Session {
    pub(super) advertisement: Advertisement,
    lines: PktReader,
    line: Line,
}

enum Line {
    Http(http::HttpLine),
    Ssh(ssh::SshLine),
}

impl Session {
    /// Asks the service for something, with a pack if it is about giving.
    pub(super) async fn ask(
        self,
        head: Vec<u8>,
        pack: Option<Pack>,
    ) -> Result<PktReader, GitError> {
        let line = match self.line {
            Line::Http(line) => return line.ask(head, pack).await,
            Line::Ssh(line) => line,
        };
        line.send(head.into()).await?;
        let mut offset = 0;
        while let Some(pack) = &pack {
            let reader = pack.clone();
            let piece = tokio::task::spawn_blocking(move || reader.piece(offset))
                .await
                .map_err(std::io::Error::other)??;
            let Some(piece) = piece else { break };
            offset += piece.len() as u64;
            line.send(piece).await?;
        }
        Ok(self.lines)
    }

    /// Leaves without asking for anything.
    pub(super) async fn leave(self) {
        if let Line::Ssh(line) = self.line {
            let mut goodbye = Vec::new();
            pkt::put_flush(&mut goodbye);
            let _ = line.send(goodbye.into()).await;
            line.finish().await;
        }
    }
}
