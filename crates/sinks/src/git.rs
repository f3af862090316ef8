//! Git repositories.
//!
//! An inventory is a set of files on a branch; a delivery is at most one commit. Nothing is checked
//! out: the tree of the newest commit is edited in place, so one changed row among a hundred thousand
//! costs one file, the directories above it and the commit.
//!
//! ```text
//! delivery ─> layout ─> proposal ─┐
//!                                 v
//! server ─> advertisement ─> mirror (newest commit) ─> tree edit ─> commit + pack ─> push
//!    ^                                                                                │
//!    └──────────── somebody else was faster: look again, apply again, push again <────┘
//! ```
//!
//! | Module | Its one job |
//! | --- | --- |
//! | `settings`, `address`, `message`, `signature` | what the sink's description says |
//! | `transport` (`http`, `ssh`, `known_hosts`) | bytes to and from a server, guarded |
//! | `pkt`, `protocol` | Git's wire protocol: what is asked and answered |
//! | `limits`, `incoming` | how much a server may send, and how slowly |
//! | `mirror`, `root`, `spool` | the local copy of a branch, the directory of all copies, what is on its way there |
//! | `workers` | who may work on a copy right now |
//! | `tree`, `pack` | editing directories; new objects on their way to the server |
//! | `publish`, `local` | from a proposal to a commit on the branch, on a server or on this machine |
//! | `proposal` | from a delivery to a proposal |
//!
//! libgit2 reads and stores objects and does nothing else: no byte of the network, no credential and
//! no setting of the machine passes through it.

mod address;
mod error;
mod incoming;
mod limits;
mod local;
mod message;
mod mirror;
mod pack;
mod pkt;
mod proposal;
mod protocol;
mod publish;
mod root;
mod settings;
mod signature;
mod spool;
mod transport;
mod tree;
mod workers;

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use jiff::Timestamp;
use kollect_api::{
    InventoryId,
    sink::{
        SinkSpec, SinkType,
        status::{GitPreview, Preview},
    },
};
use kollect_inventory::{Delta, Snapshot};

use crate::{
    backend::{Backend, Environment, SinkSeed},
    credentials::Materials,
    error::SinkError,
    layout::Layout,
    sink::{Delivery, DeliveryRows, Demand, Receipt, Sink, Skipped},
};

use self::{
    error::GitError,
    limits::Limits,
    proposal::{ChangeProposal, Kept, Retirement, SnapshotProposal, Story},
    publish::{Proposal, Published, Publisher},
    settings::OnDelete,
};

pub use root::{VARIABLE as MIRROR_DIRECTORY_VARIABLE, default_root};

/// The bytes of the mirrors that these sinks use; those of sinks that use none, or have not yet, are
/// nothing. Sinks of the same repository and branch use the same one. Blocking.
pub fn mirror_bytes<'s>(root: &Path, sinks: impl IntoIterator<Item = &'s SinkSpec>) -> u64 {
    let places: BTreeSet<(String, String)> =
        sinks.into_iter().filter_map(settings::place).collect();
    let bytes = places.iter();
    bytes
        .map(|(url, branch)| mirror::bytes(root, url, branch))
        .fold(0, u64::saturating_add)
}

/// Git repositories, on GitLab too.
pub(crate) struct GitBackend;

#[async_trait]
impl Backend for GitBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::Git, SinkType::Gitlab]
    }

    /// A tree of files can be changed file by file; everything else is written as a whole.
    fn demand(&self, spec: &SinkSpec) -> Demand {
        Layout::new(spec).map_or(Demand::Documents, |layout| demand(&layout))
    }

    async fn open(
        &self,
        seed: SinkSeed,
        environment: &Environment,
    ) -> Result<Arc<dyn Sink>, SinkError> {
        let SinkSeed {
            key,
            spec,
            materials,
        } = seed;
        let sink = GitSink::new(&key.name, &key.namespace, &spec, &materials, environment)?;
        Ok(Arc::new(sink))
    }

    fn preview(&self, spec: &SinkSpec, sink: &str, at: Timestamp, preview: &mut Preview) {
        let SinkSpec::Snapshot(snapshot) = spec else {
            return;
        };
        let settings = snapshot.git.clone().unwrap_or_default();
        let path = preview.object_path.as_deref().unwrap_or_default();
        let message = message::sample(&settings, spec.cluster(), sink, path, at);
        preview.git = message.map(|(subject, body)| GitPreview {
            sample_commit_subject: Some(subject),
            sample_commit_body: body,
        });
    }
}

fn demand(layout: &Layout) -> Demand {
    if layout.needs_everything() {
        Demand::Documents
    } else {
        Demand::Changes
    }
}

/// A sink that writes files to a branch of a Git repository.
pub struct GitSink {
    kind: SinkType,
    story: Arc<Story>,
    publisher: Arc<Publisher>,
    on_delete: OnDelete,
    /// What has to be remembered of an inventory to write its changes.
    kept: Mutex<HashMap<InventoryId, Kept>>,
}

impl GitSink {
    /// A sink as described; connects on first use.
    ///
    /// `name` and `namespace` are those of the sink object: commits name it, and files belong to it.
    pub fn new(
        name: &str,
        namespace: &str,
        spec: &SinkSpec,
        materials: &Materials,
        environment: &Environment,
    ) -> Result<Self, SinkError> {
        let settings = settings::settings(spec, materials, environment)?;
        let layout = Layout::new(spec)?;
        Ok(Self {
            kind: settings.kind,
            story: Arc::new(Story {
                layout,
                templates: settings.templates,
                sink: name.to_owned(),
                namespace: namespace.to_owned(),
                census: Arc::clone(&environment.census),
            }),
            publisher: Arc::new(Publisher {
                remote: settings.remote,
                url: settings.url,
                branch: settings.branch,
                depth: settings.depth,
                author: settings.author,
                signer: settings.signer,
                work_dir: environment.work_dir.clone(),
                limits: Limits::default(),
            }),
            on_delete: settings.on_delete,
            kept: Mutex::default(),
        })
    }

    async fn everything(&self, delivery: &Delivery, rows: &Snapshot) -> Result<Receipt, GitError> {
        let proposal = Arc::new(SnapshotProposal::new(&self.story, delivery, rows));
        let published = self.publish(&proposal).await?;
        let skipped = proposal.skipped();
        if self.demand() == Demand::Changes
            && let Some(kept) = proposal.kept()
        {
            self.keep(&delivery.inventory, kept);
        }
        Ok(receipt(&published, skipped))
    }

    async fn changes(&self, delivery: &Delivery, delta: &Arc<Delta>) -> Result<Receipt, GitError> {
        // Taken out: if anything goes wrong from here on, all rows have to come again.
        let kept = self
            .kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&delivery.inventory);
        let Some(kept) = kept else {
            return Err(GitError::OutOfStep(
                "the files of the inventory are not known in this process".into(),
            ));
        };
        if delta.is_empty() {
            let skipped = kept.skipped();
            self.keep(&delivery.inventory, kept);
            return Ok(Receipt {
                skipped,
                ..Receipt::default()
            });
        }
        let proposal = Arc::new(ChangeProposal::new(&self.story, delivery, delta, kept));
        let published = self.publish(&proposal).await?;
        let skipped = proposal.skipped();
        if let Some(kept) = proposal.kept() {
            self.keep(&delivery.inventory, kept);
        }
        Ok(receipt(&published, skipped))
    }

    async fn publish<P: Proposal + 'static>(
        &self,
        proposal: &Arc<P>,
    ) -> Result<Published, GitError> {
        let proposal: Arc<dyn Proposal> = Arc::<P>::clone(proposal);
        self.publisher.publish(proposal).await
    }

    fn keep(&self, inventory: &InventoryId, kept: Kept) {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(inventory.clone(), kept);
    }
}

fn receipt(published: &Published, skipped: Option<Skipped>) -> Receipt {
    Receipt {
        written: published.tally.written,
        removed: published.tally.removed,
        bytes: published.tally.bytes,
        skipped,
        note: published.commit.map(|id| format!("commit {id}")),
        ..Receipt::default()
    }
}

#[async_trait]
impl Sink for GitSink {
    fn demand(&self) -> Demand {
        demand(&self.story.layout)
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        match &delivery.rows {
            DeliveryRows::All(rows) => self.everything(delivery, rows).await,
            DeliveryRows::Changes(delta) => self.changes(delivery, delta).await,
        }
        .map_err(SinkError::from)
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.kept
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(inventory);
        let (on_delete, now) = (self.on_delete, Timestamp::now());
        let proposal = Arc::new(Retirement::new(&self.story, inventory, on_delete, now));
        Ok(receipt(&self.publish(&proposal).await?, None))
    }

    async fn probe(&self) -> Result<String, SinkError> {
        self.publisher.probe().await?;
        Ok(reached(self.kind, &self.publisher.url).to_owned())
    }
}

/// What a probe that succeeded has shown: no more than what the way to the repository has.
fn reached(kind: SinkType, url: &str) -> &'static str {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match (scheme, kind) {
        ("file", _) => "the repository on this machine can be read",
        ("http", _) => "git remote reachability verified, without TLS",
        ("https", SinkType::Gitlab) => "TLS and GitLab remote reachability verified",
        ("https", _) => "TLS and git remote reachability verified",
        _ => "SSH and git remote reachability verified",
    }
}

impl fmt::Debug for GitSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitSink")
            .field("repository", &self.publisher.url)
            .field("branch", &self.publisher.branch)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn c20_a_probe_claims_no_more_than_it_has_seen() {
        for (url, tls) in [
            ("https://git.example.com/a.git", true),
            ("http://git.example.com/a.git", false),
            ("file:///srv/a.git", false),
            ("ssh://git@git.example.com/a.git", false),
        ] {
            for kind in [SinkType::Git, SinkType::Gitlab] {
                let text = reached(kind, url);
                assert_eq!(text.starts_with("TLS and"), tls, "{url}: {text}");
            }
        }
    }
}
