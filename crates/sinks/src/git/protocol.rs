//! What is said over the wire: ref advertisements, requests and reports, without any I/O beside
//! reading lines.

use bytes::{Buf as _, Bytes};
use git2::Oid;

use super::{
    error::{GitError, MOST_WORDS, refusal, words},
    pkt::{self, Pkt, PktReader},
};

/// More refs than this are no repository that anybody exports to.
const MOST_REFS: usize = 200_000;

const AGENT: &str = concat!("agent=kollect/", env!("CARGO_PKG_VERSION"));

/// The two services of a Git server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Fetching.
    UploadPack,
    /// Pushing.
    ReceivePack,
}

impl Service {
    pub(super) fn name(self) -> &'static str {
        match self {
            Service::UploadPack => "git-upload-pack",
            Service::ReceivePack => "git-receive-pack",
        }
    }
}

/// What a server says first: one branch of interest and what it can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Advertisement {
    /// The tip of the branch, if it exists.
    pub(super) tip: Option<Oid>,
    capabilities: Vec<String>,
}

impl Advertisement {
    /// Reads an advertisement, keeping of all refs only `refs/heads/<branch>`.
    pub(super) async fn read(lines: &mut PktReader, branch: &str) -> Result<Self, GitError> {
        let wanted = format!("refs/heads/{branch}");
        let mut advertisement = Self {
            tip: None,
            capabilities: Vec::new(),
        };
        for count in 0.. {
            if count > MOST_REFS {
                return Err(GitError::excess("the list of refs", MOST_REFS as u64));
            }
            let line = match lines.expect().await? {
                Pkt::Flush => break,
                Pkt::Data(line) => line,
            };
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            if line == b"version 1" || line.starts_with(b"shallow ") {
                continue;
            }
            let text = std::str::from_utf8(line)
                .map_err(|_| GitError::garbled("is not the Git protocol"))?;
            let (text, capabilities) = match text.split_once('\0') {
                Some((text, capabilities)) => (text, Some(capabilities)),
                None => (text, None),
            };
            if let Some(capabilities) = capabilities
                && advertisement.capabilities.is_empty()
            {
                advertisement.capabilities =
                    capabilities.split_whitespace().map(str::to_owned).collect();
            }
            let (id, name) = text
                .split_once(' ')
                .ok_or_else(|| GitError::garbled("is not the Git protocol"))?;
            if name == wanted {
                advertisement.tip = Some(id.parse().map_err(|_| {
                    GitError::Configuration(
                        "the repository uses SHA-256 object names, which are not supported".into(),
                    )
                })?);
            }
        }
        if advertisement.can("object-format=sha256") {
            return Err(GitError::Configuration(
                "the repository uses SHA-256 object names, which are not supported".into(),
            ));
        }
        Ok(advertisement)
    }

    /// Whether the server offers something.
    pub(super) fn can(&self, capability: &str) -> bool {
        self.capabilities.iter().any(|offer| offer == capability)
    }
}

/// What is asked for when fetching.
#[derive(Debug)]
pub(super) struct Want<'a> {
    /// The commit.
    pub(super) tip: Oid,
    /// How much history.
    pub(super) depth: u32,
    /// A commit that is here already, with everything it needs.
    pub(super) have: Option<Oid>,
    /// Commits that are here without their parents.
    pub(super) shallow: &'a [Oid],
}

impl Want<'_> {
    /// The request. Everything is said at once: there is at most one commit to negotiate about.
    pub(super) fn encode(&self, server: &Advertisement) -> Vec<u8> {
        let mut out = Vec::new();
        let mut line = format!("want {}", self.tip);
        for capability in ["side-band-64k", "ofs-delta", "no-progress"] {
            if server.can(capability) {
                line.push(' ');
                line.push_str(capability);
            }
        }
        line.push(' ');
        line.push_str(AGENT);
        line.push('\n');
        pkt::put(&mut out, line.as_bytes());
        if server.can("shallow") {
            for id in self.shallow {
                pkt::put(&mut out, format!("shallow {id}\n").as_bytes());
            }
            pkt::put(&mut out, format!("deepen {}\n", self.depth).as_bytes());
        }
        pkt::put_flush(&mut out);
        if let Some(id) = self.have {
            pkt::put(&mut out, format!("have {id}\n").as_bytes());
        }
        pkt::put(&mut out, b"done\n");
        out
    }
}

/// The answer to a fetch: first which commits come without parents, then a pack.
pub(super) struct Fetched {
    lines: PktReader,
    /// Commits that now are here without their parents.
    pub(super) shallow: Vec<Oid>,
    /// Commits whose parents have come.
    pub(super) unshallow: Vec<Oid>,
    first: Option<Bytes>,
}

impl Fetched {
    /// Reads up to the pack.
    pub(super) async fn begin(
        mut lines: PktReader,
        server: &Advertisement,
        most_shallow: usize,
    ) -> Result<Self, GitError> {
        if !server.can("side-band-64k") {
            return Err(GitError::Configuration(
                "the server does not offer side-band-64k; it is too old".into(),
            ));
        }
        let (mut shallow, mut unshallow) = (Vec::new(), Vec::new());
        loop {
            if shallow.len() + unshallow.len() > most_shallow {
                return Err(GitError::excess(
                    "the list of commits without parents",
                    most_shallow as u64,
                ));
            }
            let line = match lines.expect().await? {
                Pkt::Flush => continue,
                Pkt::Data(line) => line,
            };
            let id = |prefix: &[u8]| {
                let text = std::str::from_utf8(line.strip_prefix(prefix)?).ok()?;
                text.trim_end().parse::<Oid>().ok()
            };
            if let Some(id) = id(b"shallow ") {
                shallow.push(id);
            } else if let Some(id) = id(b"unshallow ") {
                unshallow.push(id);
            } else if !line.starts_with(b"ACK ") && !line.starts_with(b"NAK") {
                return Ok(Self {
                    lines,
                    shallow,
                    unshallow,
                    first: Some(line),
                });
            }
        }
    }

    /// The next bytes of the pack, or nothing at its end.
    pub(super) async fn pack(&mut self) -> Result<Option<Bytes>, GitError> {
        loop {
            let line = match self.first.take() {
                Some(line) => line,
                None => match self.lines.next().await? {
                    None | Some(Pkt::Flush) => return Ok(None),
                    Some(Pkt::Data(line)) => line,
                },
            };
            match Band::of(line)? {
                Band::Data(bytes) => return Ok(Some(bytes)),
                Band::Remark(_) => {}
            }
        }
    }
}

/// A line of a multiplexed answer.
enum Band {
    Data(Bytes),
    Remark(Bytes),
}

impl Band {
    fn of(mut line: Bytes) -> Result<Self, GitError> {
        match line.first() {
            Some(1) => {
                line.advance(1);
                Ok(Band::Data(line))
            }
            Some(2) => {
                line.advance(1);
                Ok(Band::Remark(line))
            }
            Some(3) => Err(super::error::complaint(&String::from_utf8_lossy(
                &line[1..],
            ))),
            _ => Err(GitError::garbled("is not the Git protocol")),
        }
    }
}

/// The move of a branch.
#[derive(Debug, Clone)]
pub(super) struct Move<'a> {
    pub(super) branch: &'a str,
    /// Where the branch has to be for the move to happen; nothing means it must not exist.
    pub(super) from: Option<Oid>,
    pub(super) to: Oid,
}

impl Move<'_> {
    /// The command that comes before the pack.
    pub(super) fn encode(&self, server: &Advertisement) -> Result<Vec<u8>, GitError> {
        if !server.can("report-status") {
            // Without a report nobody would know whether the push arrived.
            return Err(GitError::Configuration(
                "the server does not report on pushes; it is too old".into(),
            ));
        }
        let from = self.from.unwrap_or(Oid::ZERO_SHA1);
        let mut line = format!("{from} {} refs/heads/{}\0", self.to, self.branch);
        // Not "atomic": one branch moves or it does not, and the reason would get lost in the
        // transaction.
        for capability in ["report-status", "side-band-64k", "object-format=sha1"] {
            if server.can(capability) {
                line.push(' ');
                line.push_str(capability);
            }
        }
        line.push(' ');
        line.push_str(AGENT);
        let mut out = Vec::new();
        pkt::put(&mut out, line.as_bytes());
        pkt::put_flush(&mut out);
        Ok(out)
    }

    /// Reads the server's report on the move.
    pub(super) async fn outcome(
        &self,
        mut lines: PktReader,
        server: &Advertisement,
    ) -> Result<(), GitError> {
        if !server.can("side-band-64k") {
            return self.report(&mut lines, "").await;
        }
        let (mut report, mut remarks) = (Vec::new(), String::new());
        while let Some(Pkt::Data(line)) = lines.next().await? {
            match Band::of(line)? {
                Band::Data(bytes) => report.extend_from_slice(&bytes),
                Band::Remark(bytes) => {
                    if remarks.len() < 4 * MOST_WORDS {
                        remarks.push_str(&String::from_utf8_lossy(&bytes));
                    }
                }
            }
        }
        self.report(&mut pkt::received(vec![report.into()]), &remarks)
            .await
    }

    async fn report(&self, lines: &mut PktReader, remarks: &str) -> Result<(), GitError> {
        let mut done = false;
        let mut unpacked = Ok(());
        while let Some(Pkt::Data(line)) = lines.next().await? {
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end();
            if let Some(state) = line.strip_prefix("unpack ") {
                if state != "ok" {
                    unpacked = Err(GitError::Transport(format!(
                        "the server could not unpack the objects: {}",
                        words(state)
                    )));
                }
            } else if line.starts_with("ok ") {
                done = true;
            } else if let Some(refused) = line.strip_prefix("ng ") {
                let reason = refused.split_once(' ').map_or("", |(_, reason)| reason);
                // That the objects did not arrive explains more than what it led to.
                unpacked?;
                return Err(refusal(reason, remarks));
            }
        }
        unpacked?;
        if done {
            Ok(())
        } else {
            Err(GitError::garbled(
                "to the push says nothing about the branch",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(parts: &[&[u8]]) -> PktReader {
        let mut bytes = Vec::new();
        for part in parts {
            if part.is_empty() {
                pkt::put_flush(&mut bytes);
            } else {
                pkt::put(&mut bytes, part);
            }
        }
        pkt::received(vec![Bytes::from(bytes)])
    }

    const ONE: &str = "1111111111111111111111111111111111111111";
    const TWO: &str = "2222222222222222222222222222222222222222";

    async fn advertised(parts: &[&[u8]]) -> Result<Advertisement, GitError> {
        Advertisement::read(&mut lines(parts), "main").await
    }

    #[tokio::test]
    async fn advertisements() {
        let head = format!("{ONE} HEAD\0 shallow side-band-64k symref=HEAD:refs/heads/main\n");
        let other = format!("{ONE} refs/heads/mainly\n");
        let main = format!("{TWO} refs/heads/main\n");
        let read = advertised(&[head.as_bytes(), other.as_bytes(), main.as_bytes(), b""])
            .await
            .unwrap();
        assert_eq!(read.tip, Some(TWO.parse().unwrap()));
        assert!(read.can("shallow") && !read.can("atomic"));

        let empty = format!(
            "{} capabilities^{{}}\0report-status atomic\n",
            "0".repeat(40)
        );
        let read = advertised(&[empty.as_bytes(), b""]).await.unwrap();
        assert_eq!(read.tip, None);
        assert!(read.can("atomic"));

        let wide = format!(
            "{} capabilities^{{}}\0object-format=sha256\n",
            "0".repeat(64)
        );
        let error = advertised(&[wide.as_bytes(), b""]).await.unwrap_err();
        assert!(matches!(error, GitError::Configuration(_)), "{error:?}");
        for broken in [&[b"nonsense\n".as_slice(), b""][..], &[head.as_bytes()]] {
            assert!(advertised(broken).await.is_err());
        }
    }

    #[tokio::test]
    async fn reports() {
        let server = Advertisement {
            tip: None,
            capabilities: vec!["report-status".into()],
        };
        let update = Move {
            branch: "main",
            from: None,
            to: ONE.parse().unwrap(),
        };
        let sent = String::from_utf8(update.encode(&server).unwrap()).unwrap();
        assert!(sent.contains(&format!(
            "{} {ONE} refs/heads/main\0 report-status",
            "0".repeat(40)
        )));
        let report = async |parts: &[&[u8]]| update.outcome(lines(parts), &server).await;
        report(&[b"unpack ok\n", b"ok refs/heads/main\n", b""])
            .await
            .unwrap();
        let moved = report(&[b"unpack ok\n", b"ng refs/heads/main fetch first\n", b""]).await;
        assert!(matches!(moved, Err(GitError::Moved(_))));
        let hook = report(&[
            b"unpack ok\n",
            b"ng refs/heads/main pre-receive hook declined\n",
            b"",
        ])
        .await;
        assert!(matches!(hook, Err(GitError::Rejected(_))));
        let full = report(&[
            b"unpack index-pack failed\n",
            b"ng refs/heads/main unpacker error\n",
            b"",
        ])
        .await;
        assert!(matches!(full, Err(GitError::Transport(_))));
        assert!(report(&[b"unpack ok\n", b""]).await.is_err());
    }

    #[tokio::test]
    async fn a_pack_is_taken_out_of_its_bands() {
        let server = Advertisement {
            tip: None,
            capabilities: vec!["shallow".into(), "side-band-64k".into()],
        };
        let shallow = format!("shallow {ONE}\n");
        let answer = lines(&[
            shallow.as_bytes(),
            b"",
            b"NAK\n",
            b"\x01PA",
            b"\x02counting\n",
            b"\x01CK",
            b"",
        ]);
        let mut fetched = Fetched::begin(answer, &server, 10).await.unwrap();
        assert_eq!(fetched.shallow, [ONE.parse().unwrap()]);
        let mut pack = Vec::new();
        while let Some(bytes) = fetched.pack().await.unwrap() {
            pack.extend_from_slice(&bytes);
        }
        assert_eq!(pack, b"PACK");
        let many = vec![shallow.as_bytes(); 20];
        let endless = Fetched::begin(lines(&many), &server, 10).await;
        assert!(matches!(endless, Err(GitError::Excess { .. })), "a5");
        let failed = lines(&[b"NAK\n", b"\x01PA", b"\x03out of memory\n"]);
        let mut fetched = Fetched::begin(failed, &server, 10).await.unwrap();
        fetched.pack().await.unwrap();
        assert!(fetched.pack().await.is_err());
    }
}
