//! Object stores.
//!
//! An inventory is one document, or a set of files that query engines read. Objects change one by
//! one, and a process may end between any two, so the order is what keeps things right:
//!
//! ```text
//! look (record, manifest) ─> claim in the record ─> files ─> latest.json ─> removals ─> settle the record
//! ```
//!
//! Every write says which version of the object it replaces; who was slower than somebody else
//! writes nothing. An object says in its metadata what it holds, and is written only if it should
//! hold something else.
//!
//! | Module | Its one job |
//! | --- | --- |
//! | `address`, `settings` | what the sink's description and its Secret say |
//! | `bucket`, `store` | a place in a bucket, and what is asked of it |
//! | `s3`, `gcs`, `azure`, `rest` | requests, one at a time |
//! | `keys` | who asks |
//! | `fault` | what a server's answers mean |
//! | `upload` | bytes on their way into an object |
//! | `view` | what is there, as the layout asks for it |
//! | `draft` | from a delivery to files and steps |
//! | `latest` | the manifest of a set |
//! | `types`, `parquet` | attributes as typed columns; rows as Parquet |

mod address;
mod azure;
mod bucket;
mod draft;
mod fault;
mod gcs;
mod keys;
mod latest;
mod parquet;
mod rest;
mod s3;
mod settings;
mod store;
mod types;
mod upload;
mod view;

use std::{
    collections::HashSet,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use kollect_api::{
    InventoryId,
    sink::{SinkSpec, SinkType},
};
use kollect_inventory::Snapshot;
use object_store::UpdateVersion;
use sha2::{Digest, Sha256};
use tokio::{runtime::Handle, task::spawn_blocking};

use crate::{
    backend::{Backend, Environment, SinkSeed},
    census::Census,
    credentials::Materials,
    error::SinkError,
    layout::{
        FileOwner, Layout, RepoPath,
        body::hex,
        ownership::RecordEdit,
        path::RESERVED,
        plan::plan_release,
        steps::{Steps, plan_removal},
    },
    sink::{Delivery, DeliveryRows, Demand, Receipt, Sink},
};

use self::{
    bucket::Bucket,
    draft::{Draft, DraftFile, Earlier},
    fault::Refusal,
    latest::Listed,
    settings::OnDelete,
    store::{Expected, Label},
    upload::{changed, upload},
    view::{Versions, View},
};

/// What records and manifests are.
const PLAIN: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// S3 and what speaks its protocol, Google Cloud Storage, Azure Blob Storage.
pub(crate) struct ObjectBackend;

#[async_trait]
impl Backend for ObjectBackend {
    fn types(&self) -> &'static [SinkType] {
        &[SinkType::S3, SinkType::Gcs, SinkType::Azureblob]
    }

    fn demand(&self, _: &SinkSpec) -> Demand {
        Demand::Documents
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
        let sink = ObjectSink::new(&key.name, &key.namespace, &spec, &materials, environment)?;
        Ok(Arc::new(sink))
    }
}

/// How rows become objects of a sink.
#[derive(Debug)]
struct Story {
    layout: Layout,
    /// The sink object.
    sink: String,
    namespace: String,
    census: Arc<Census>,
}

impl Story {
    fn owner(&self, inventory: &InventoryId) -> FileOwner {
        let cluster = self.layout.cluster();
        FileOwner::new(&self.namespace, &self.sink, cluster, inventory).among(&self.census)
    }
}

/// A sink that writes objects into a bucket.
pub struct ObjectSink {
    story: Arc<Story>,
    bucket: Arc<Bucket>,
    on_delete: OnDelete,
    /// Inventories whose last delivery in this process ended well, so that it left no upload.
    clean: Mutex<HashSet<InventoryId>>,
}

impl fmt::Debug for ObjectSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectSink")
            .field("bucket", &self.bucket)
            .finish_non_exhaustive()
    }
}

impl ObjectSink {
    /// A sink as described; connects on first use.
    pub fn new(
        name: &str,
        namespace: &str,
        spec: &SinkSpec,
        materials: &Materials,
        environment: &Environment,
    ) -> Result<Self, SinkError> {
        let SinkSpec::Snapshot(snapshot) = spec else {
            return Err(SinkError::terminal(
                "only a KollectSnapshotSink can be an object store",
            ));
        };
        let layout = Layout::new(spec)?;
        Ok(Self {
            on_delete: settings::on_delete(snapshot, &layout)?,
            bucket: Arc::new(settings::bucket(spec, materials, environment)?),
            story: Arc::new(Story {
                layout,
                sink: name.to_owned(),
                namespace: namespace.to_owned(),
                census: Arc::clone(&environment.census),
            }),
            clean: Mutex::default(),
        })
    }

    async fn everything(&self, delivery: &Delivery, rows: &Snapshot) -> Result<Receipt, SinkError> {
        let inventory = &delivery.inventory;
        let was_clean = self.clean(|clean| clean.remove(inventory));
        let (story, bucket) = (Arc::clone(&self.story), Arc::clone(&self.bucket));
        let (rows, about) = (rows.clone(), delivery.clone());
        let (draft, mut versions) = look(bucket, move |view| {
            let owner = story.owner(&about.inventory);
            Draft::new(&story.layout, &owner, &about, &rows, view)
        })
        .await?;
        let Draft {
            steps,
            files,
            latest,
            misfits,
            retyped,
        } = draft;
        if !was_clean {
            self.give_up(&steps).await?;
        }
        self.edit(&steps.claim, &mut versions).await?;

        let mut receipt = Receipt::default();
        let mut listed = Vec::with_capacity(files.len());
        for file in files {
            let earlier = match &latest {
                None => Earlier::Unlisted,
                Some(latest) => latest.earlier(&file),
            };
            let entry = self.write(&file, earlier, &mut receipt).await?;
            listed.push(entry);
        }
        if let Some(latest) = latest {
            let (path, text) = (latest.path.clone(), latest.text(listed));
            if let Some(text) = text {
                self.put(&path, text, JSON, &mut versions).await?;
            }
        }
        receipt.removed = self.remove(&steps.removals).await?;
        self.edit(&steps.settle, &mut versions).await?;
        self.clean(|clean| clean.insert(inventory.clone()));
        receipt.skipped = misfits;
        receipt.note = note(&retyped);
        Ok(receipt)
    }

    /// Writes one file, unless it holds what it should, and what the manifest says of it is true.
    async fn write(
        &self,
        file: &DraftFile,
        earlier: Earlier,
        receipt: &mut Receipt,
    ) -> Result<Listed, SinkError> {
        let DraftFile {
            path,
            body,
            identity,
            rows,
        } = file;
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let found = self.bucket.find(path).await?;
        let same = |version: &UpdateVersion| match &earlier {
            Earlier::Unlisted => true,
            Earlier::Listed(entry) => entry.etag.is_some() && entry.etag == version.e_tag,
            Earlier::Unknown => false,
        };
        if let Some(found) = &found
            && found.identity.as_ref() == Some(identity)
            && same(&found.version)
        {
            return Ok(match earlier {
                Earlier::Listed(entry) => entry,
                Earlier::Unlisted | Earlier::Unknown => Listed {
                    path: name,
                    rows: *rows,
                    bytes: found.size,
                    sha256: String::new(),
                    etag: found.version.e_tag.clone(),
                },
            });
        }
        let expected = found.map_or(Expected::Absent, |found| Expected::Version(found.version));
        let label = Label {
            identity: identity.clone(),
            content_type: self.story.layout.content_type(),
        };
        let written = upload(&self.bucket, path, body, &label, &expected).await?;
        receipt.written += rows;
        receipt.bytes += written.bytes;
        Ok(Listed {
            path: name,
            rows: *rows,
            bytes: written.bytes,
            sha256: written.sha256,
            etag: written.version.e_tag,
        })
    }

    /// Gives up uploads of an earlier process, or of a delivery that did not end well.
    async fn give_up(&self, steps: &Steps) -> Result<(), SinkError> {
        let ours = |path: &str| steps.claimed.contains(path);
        let count = match self.bucket.give_up_leftovers(&ours).await {
            Ok(count) => count,
            // Who may not look for them, or asks a server that cannot tell, writes all the same.
            Err(error @ (SinkError::Forbidden(_) | SinkError::Terminal(_))) => {
                tracing::warn!(%error, "unfinished uploads cannot be looked for");
                0
            }
            Err(error) => return Err(error),
        };
        if count > 0 {
            tracing::info!(bucket = ?self.bucket, count, "unfinished uploads were given up");
        }
        Ok(())
    }

    async fn edit(&self, edit: &RecordEdit, versions: &mut Versions) -> Result<(), SinkError> {
        for (path, bytes) in &edit.writes {
            self.put(path, bytes.clone(), PLAIN, versions).await?;
        }
        self.remove(edit.removals.iter()).await?;
        Ok(())
    }

    /// Writes a small object of our own.
    async fn put(
        &self,
        path: &RepoPath,
        bytes: Vec<u8>,
        content_type: &'static str,
        versions: &mut Versions,
    ) -> Result<(), SinkError> {
        let identity = sha256(&bytes);
        let label = Label {
            identity: identity.clone(),
            content_type,
        };
        let expected = versions.expected(path);
        let bucket = &self.bucket;
        let version = match bucket.put(path, bytes.into(), &label, &expected).await {
            Ok(version) => version,
            Err(refusal) => {
                let error = match refusal {
                    Refusal::Conflict => changed(bucket, path),
                    Refusal::Failed(error) => error,
                };
                // The answer may have been lost after the object was written.
                match bucket.find(path).await {
                    Ok(Some(found)) if found.identity.as_deref() == Some(&*identity) => {
                        found.version
                    }
                    _ => return Err(error),
                }
            }
        };
        versions.wrote(path, version);
        Ok(())
    }

    async fn remove(&self, paths: impl IntoIterator<Item = &RepoPath>) -> Result<u64, SinkError> {
        let mut count = 0;
        for path in paths {
            self.bucket.remove(path).await?;
            count += 1;
        }
        Ok(count)
    }

    fn clean<T>(&self, change: impl FnOnce(&mut HashSet<InventoryId>) -> T) -> T {
        change(&mut self.clean.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What a person may want to know.
fn note(retyped: &[(String, String)]) -> Option<String> {
    let retyped = retyped.iter().map(|(before, now)| {
        format!("the declared type of column {before} changed; values of the new type are in {now}")
    });
    let all: Vec<String> = retyped.collect();
    (!all.is_empty()).then(|| all.join("; "))
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Looks at a bucket where waiting holds up nobody else.
async fn look<T: Send + 'static>(
    bucket: Arc<Bucket>,
    think: impl FnOnce(&View<'_>) -> Result<T, SinkError> + Send + 'static,
) -> Result<(T, Versions), SinkError> {
    let runtime = Handle::current();
    let looking = spawn_blocking(move || {
        let view = View::new(&bucket, runtime);
        let thought = think(&view)?;
        Ok((thought, view.into_versions()))
    });
    looking.await.map_err(|_| {
        SinkError::transient("the delivery could not be planned (a panic; the log has it)")
    })?
}

#[async_trait]
impl Sink for ObjectSink {
    fn demand(&self) -> Demand {
        Demand::Documents
    }

    async fn deliver(&self, delivery: &Delivery) -> Result<Receipt, SinkError> {
        match &delivery.rows {
            DeliveryRows::All(rows) => self.everything(delivery, rows).await,
            DeliveryRows::Changes(_) => Err(SinkError::OutOfStep(
                "an object store is given all rows, not changes".to_owned(),
            )),
        }
    }

    async fn retire(&self, inventory: &InventoryId) -> Result<Receipt, SinkError> {
        self.clean(|clean| clean.remove(inventory));
        let (story, bucket) = (Arc::clone(&self.story), Arc::clone(&self.bucket));
        let (whose, on_delete) = (inventory.clone(), self.on_delete);
        let (steps, mut versions) = look(bucket, move |view| {
            let owner = story.owner(&whose);
            let mut steps = plan_removal(&owner, view)?;
            if on_delete == OnDelete::Retain {
                steps.removals.clear();
                steps.settle.removals = plan_release(&owner, view)?.into_iter().collect();
            }
            Ok(steps)
        })
        .await?;
        if !steps.claimed.is_empty() {
            self.give_up(&steps).await?;
        }
        let removed = self.remove(&steps.removals).await?;
        self.edit(&steps.settle, &mut versions).await?;
        Ok(Receipt {
            removed,
            ..Receipt::default()
        })
    }

    /// Lists, and tries to replace a version of an object that no object has: who may write is told
    /// that there is no such version, and who may not, that he may not. No object comes of it.
    async fn probe(&self) -> Result<String, SinkError> {
        let bucket = &self.bucket;
        bucket.list(RESERVED, 0).await?;
        let path = RepoPath::clean(&format!("{RESERVED}/probe"))
            .map_err(|fault| SinkError::terminal(format!("the path of the probe {fault}")))?;
        let label = Label {
            identity: "probe".to_owned(),
            content_type: PLAIN,
        };
        match bucket
            .put(
                &path,
                Bytes::from_static(b"\n"),
                &label,
                &bucket.no_version(),
            )
            .await
        {
            Err(Refusal::Conflict) => Ok(format!("{bucket:?} can be listed and written")),
            Err(Refusal::Failed(error)) => Err(error),
            Ok(_) => {
                bucket.remove(&path).await?;
                Ok(format!(
                    "{bucket:?} can be listed and written, but the server ignores conditions: two \
                     operators could overwrite each other's objects"
                ))
            }
        }
    }
}
