//! The way to a Git server: every byte goes through the guarded dialler, with the trust and the
//! credentials of the sink at hand. Nothing of it is global and nothing is written to disk.

mod http;
mod known_hosts;
mod leash;
mod ssh;

use std::time::Duration;

use super::{
    error::GitError,
    limits::{Clock, Limits},
    pack::Pack,
    pkt::{self, Allowance, PktReader},
    protocol::{Advertisement, Service},
};

pub(super) use http::{Basic, HttpTransport};
pub(super) use known_hosts::KnownHosts;
pub(super) use ssh::{HostKeys, SshTransport, private_key};

/// How long a goodbye may take.
const GOODBYE: Duration = Duration::from_secs(2);

/// How to reach the server of a repository.
#[derive(Debug, Clone)]
pub(super) enum Transport {
    /// Over HTTP, one connection per request as far as anybody can tell.
    Http(HttpTransport),
    /// Over SSH, one connection for everything that a delivery asks.
    Ssh(SshTransport),
}

/// A server within reach.
pub(super) struct Server {
    way: Way,
    limits: Limits,
}

enum Way {
    Http(HttpTransport),
    Ssh(ssh::SshConnection),
}

impl Transport {
    /// Connects, as far as there is a connection to speak of.
    pub(super) async fn connect(&self, limits: Limits) -> Result<Server, GitError> {
        let way = match self {
            Transport::Http(transport) => Way::Http(transport.clone()),
            Transport::Ssh(transport) => {
                let clock = Clock::start("the login", limits.pace);
                Way::Ssh(clock.keep(transport.connect()).await?)
            }
        };
        Ok(Server { way, limits })
    }
}

impl Server {
    /// Starts a service and hears what it has of a branch.
    pub(super) async fn open(&self, service: Service, branch: &str) -> Result<Session, GitError> {
        let Limits {
            advertisement: most,
            pace,
            ..
        } = self.limits;
        let what = "the list of refs";
        let allowance = Allowance { what, most, pace };
        let clock = Clock::start(what, pace);
        let (mut lines, line) = match &self.way {
            Way::Http(transport) => clock.keep(transport.open(service, allowance)).await?,
            Way::Ssh(connection) => clock.keep(connection.open(service, allowance)).await?,
        };
        let advertisement = Advertisement::read(&mut lines, branch).await?;
        Ok(Session {
            advertisement,
            lines,
            line,
            limits: self.limits,
        })
    }
}

/// A service that has said what it has and waits to be asked.
pub(super) struct Session {
    pub(super) advertisement: Advertisement,
    lines: PktReader,
    line: Line,
    limits: Limits,
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
        let Limits {
            report,
            fetch,
            pace,
            ..
        } = self.limits;
        let (sending, what, most) = match &pack {
            Some(_) => ("the push", "the answer to the push", report),
            // Beside the pack there are remarks, as many as beside a report.
            None => (
                "the question",
                "the repository's newest commit",
                fetch.pack.saturating_add(report),
            ),
        };
        let allowance = Allowance { what, most, pace };
        let clock = Clock::start(sending, pace);
        let line = match self.line {
            Line::Http(line) => {
                let answer = line.ask(head, pack, allowance, clock.clone());
                return clock.keep(answer).await;
            }
            Line::Ssh(line) => line,
        };
        clock.keep(line.send(head.into())).await?;
        let mut offset = 0;
        while let Some(pack) = &pack {
            let reader = pack.clone();
            let piece = tokio::task::spawn_blocking(move || reader.piece(offset))
                .await
                .map_err(std::io::Error::other)??;
            let Some(piece) = piece else { break };
            let length = piece.len();
            offset += length as u64;
            clock.keep(line.send(piece)).await?;
            clock.moved(length);
        }
        let mut lines = self.lines;
        lines.allow(allowance);
        Ok(lines)
    }

    /// Leaves without asking for anything.
    pub(super) async fn leave(self) {
        if let Line::Ssh(line) = self.line {
            let mut goodbye = Vec::new();
            pkt::put_flush(&mut goodbye);
            let said = async {
                let _ = line.send(goodbye.into()).await;
                line.finish().await;
            };
            let _ = tokio::time::timeout(GOODBYE, said).await;
        }
    }
}
