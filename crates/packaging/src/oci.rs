//! An image as an archive in the OCI layout: `podman load`, `skopeo copy oci-archive:…` and `ctr
//! images import` take it as it is.
//!
//! ```text
//! oci-layout     which layout
//! index.json     which manifest, under which tag
//! blobs/sha256/  manifest ─> configuration, one layer
//! ```

use anyhow::Result;
use serde_json::{Value, json};

use crate::{Moment, gzip, root_fs, sha256, tar::Tree};

/// What an image says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// Version without `v`.
    pub version: String,
    /// Commit that it was built from.
    pub commit: String,
    /// Architecture in the words of Go: `amd64`, `arm64`.
    pub architecture: String,
    /// When.
    pub moment: Moment,
}

impl Description {
    fn labels(&self) -> Result<Value> {
        Ok(json!({
            "org.opencontainers.image.title": "kollect",
            "org.opencontainers.image.description": "Kubernetes inventory operator",
            "org.opencontainers.image.url": "https://kollect.dev",
            "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            "org.opencontainers.image.version": self.version,
            "org.opencontainers.image.revision": self.commit,
            "org.opencontainers.image.created": self.moment.text()?,
        }))
    }
}

/// The image of this root file system, as the bytes of an archive.
pub fn archive(files: &Tree, description: &Description) -> Result<Vec<u8>> {
    let mut layout = Layout::default();
    let layer = files.archive(description.moment)?;
    let created = description.moment.text()?;
    let config = json!({
        "created": created,
        "architecture": description.architecture,
        "os": "linux",
        "config": {
            "User": root_fs::USER,
            "Env": ["SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", "HOME=/tmp"],
            "Entrypoint": [root_fs::PROGRAM],
            "Cmd": ["operator"],
            "WorkingDir": "/",
            "Labels": description.labels()?,
        },
        // What identifies a layer is its content before compression.
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", sha256(&layer))]},
        "history": [{"created": created, "created_by": "cargo xtask image"}],
    });
    let layer = layout.blob("application/vnd.oci.image.layer.v1.tar+gzip", gzip(&layer)?)?;
    let config = layout.blob(
        "application/vnd.oci.image.config.v1+json",
        config.to_string(),
    )?;
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": config,
        "layers": [layer],
        "annotations": description.labels()?,
    });
    let mut manifest = layout.blob(
        "application/vnd.oci.image.manifest.v1+json",
        manifest.to_string(),
    )?;
    manifest["platform"] = json!({"architecture": description.architecture, "os": "linux"});
    manifest["annotations"] =
        json!({"org.opencontainers.image.ref.name": format!("v{}", description.version)});
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [manifest],
    });
    let files = &mut layout.0;
    files.file("index.json", 0o644, index.to_string())?;
    files.file("oci-layout", 0o644, r#"{"imageLayoutVersion":"1.0.0"}"#)?;
    files.archive(description.moment)
}

/// The layout in the making.
#[derive(Default)]
struct Layout(Tree);

impl Layout {
    /// Puts a blob in and describes it.
    fn blob(&mut self, media_type: &str, content: impl Into<Vec<u8>>) -> Result<Value> {
        let content = content.into();
        let (digest, size) = (sha256(&content), content.len());
        self.0
            .file(&format!("blobs/sha256/{digest}"), 0o644, content)?;
        Ok(json!({
            "mediaType": media_type,
            "digest": format!("sha256:{digest}"),
            "size": size,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::{Description, archive};
    use crate::{Moment, tar::Tree};

    #[test]
    fn the_same_files_are_the_same_image() {
        let mut files = Tree::default();
        files.file("kollect", 0o755, "program").unwrap();
        let mut description = Description {
            version: "1.2.3".to_owned(),
            commit: "abc".to_owned(),
            architecture: "amd64".to_owned(),
            moment: Moment(1_700_000_000),
        };
        let first = archive(&files, &description).unwrap();
        assert_eq!(first, archive(&files, &description).unwrap());
        description.commit = "abd".to_owned();
        assert_ne!(first, archive(&files, &description).unwrap());
    }
}
