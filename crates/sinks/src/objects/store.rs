//! What is asked of a kind of object store: one call per request.

use async_trait::async_trait;
use bytes::Bytes;
use object_store::UpdateVersion;

use super::fault::Refusal;
use crate::error::SinkError;

/// The name under which an object says what it holds. One word: not all stores take hyphens.
pub(super) const IDENTITY: &str = "kollectcontent";

/// Which version of an object is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// None: there is no such object.
    Absent,
    /// This one.
    Version(UpdateVersion),
}

/// What is known of an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) version: UpdateVersion,
    /// What it says that it holds.
    pub(super) identity: Option<String>,
    pub(super) size: u64,
}

/// What an object is written with.
#[derive(Debug, Clone)]
pub(super) struct Label {
    pub(super) identity: String,
    pub(super) content_type: &'static str,
}

/// A part on its way.
#[derive(Debug)]
pub(super) struct Part<'a> {
    pub(super) key: &'a str,
    /// Of the upload.
    pub(super) id: &'a str,
    /// From 0.
    pub(super) number: usize,
    /// How many bytes went before.
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
}

/// An upload of which all parts were sent, but for the last one where the store wants that.
#[derive(Debug)]
pub(super) struct Completion<'a> {
    pub(super) key: &'a str,
    pub(super) id: &'a str,
    /// What the store said of each part.
    pub(super) parts: &'a [String],
    /// How many bytes were sent.
    pub(super) offset: u64,
    pub(super) last: Bytes,
    pub(super) label: &'a Label,
    pub(super) expected: &'a Expected,
}

/// A bucket of one kind of server. Keys are whole.
#[async_trait]
pub(super) trait Store: Send + Sync {
    /// What is known of an object; nothing if there is none.
    async fn find(&self, key: &str) -> Result<Option<Found>, SinkError>;

    /// The bytes of a small object and which version they are; nothing if there is none.
    async fn read(
        &self,
        key: &str,
        limit: usize,
    ) -> Result<Option<(Vec<u8>, UpdateVersion)>, SinkError>;

    /// The keys below a directory, at most `limit` and one.
    async fn list(&self, directory: &str, limit: usize) -> Result<Vec<String>, SinkError>;

    /// Writes a small object as a whole, if it is still what is expected.
    async fn put(
        &self,
        key: &str,
        bytes: Bytes,
        label: &Label,
        expected: &Expected,
    ) -> Result<UpdateVersion, Refusal>;

    /// Removes an object; one that is not there is gone already.
    async fn remove(&self, key: &str) -> Result<(), SinkError>;

    /// Begins an upload in parts; says its id.
    async fn begin(&self, key: &str, label: &Label, expected: &Expected)
    -> Result<String, Refusal>;

    /// Whether the last part goes along with the completion.
    fn keeps_last(&self) -> bool {
        false
    }

    /// Sends a part; says what the completion has to say of it.
    async fn part(&self, part: Part<'_>) -> Result<String, SinkError>;

    /// Makes an upload visible, if the object is still what is expected. Says the version if the
    /// store does.
    async fn complete(&self, completion: Completion<'_>) -> Result<Option<UpdateVersion>, Refusal>;

    /// Gives an upload up.
    async fn give_up(&self, key: &str, id: &str) -> Result<(), SinkError>;

    /// Uploads below a directory that were neither completed nor given up, as key and id. None
    /// where a store shows nobody any, and forgets them by itself.
    async fn unfinished(&self, _directory: &str) -> Result<Vec<(String, String)>, SinkError> {
        Ok(Vec::new())
    }

    /// A version that no object ever has.
    fn no_version(&self) -> UpdateVersion;
}
