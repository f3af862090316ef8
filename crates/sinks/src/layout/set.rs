//! The manifest of a set of parts, and whether a set is complete.
//!
//! A document that had to be cut is only whole when all its parts are there and belong together.
//! The manifest lists them; it is written in the same commit.

use std::collections::BTreeSet;

use jiff::Timestamp;
use kollect_inventory::{SCHEMA_VERSION, canonical};
use serde::Deserialize;

use super::index::{seconds, strings};
use super::json;

/// What kind of document the manifest is.
const KIND: &str = "KollectExportSetManifest";

/// A list of the files that make up one export.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SetManifest {
    /// The cluster's name.
    pub cluster: String,
    /// The inventory's namespace.
    pub namespace: String,
    /// The inventory's name.
    pub name: String,
    /// The inventory's generation.
    #[serde(default)]
    pub generation: i64,
    /// How many parts there are.
    pub part_total: u64,
    /// When the export began.
    #[serde(default)]
    pub exported_at: Option<Timestamp>,
    /// The digest of the parts' checksums: it tells two exports of one generation apart.
    #[serde(default)]
    pub checksum: String,
    /// The files.
    pub paths: Vec<String>,
}

/// How a listing differs from a manifest. All lists are sorted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SetCheck {
    /// Files that should be there.
    pub missing: Vec<String>,
    /// Files that belong to another export.
    pub stale: Vec<String>,
    /// The generation is not the expected one.
    pub other_generation: bool,
}

impl SetCheck {
    /// Whether the set can be read.
    pub fn is_complete(&self) -> bool {
        *self == SetCheck::default()
    }
}

impl SetManifest {
    /// The manifest as a file: indented JSON, whatever the format of the parts.
    pub fn to_json(&self) -> Vec<u8> {
        let mut compact = String::from("{\"kind\":");
        canonical::string(&mut compact, KIND);
        compact.push_str(",\"schemaVersion\":");
        canonical::string(&mut compact, SCHEMA_VERSION);
        for (key, value) in [
            (",\"cluster\":", &self.cluster),
            (",\"namespace\":", &self.namespace),
            (",\"name\":", &self.name),
        ] {
            compact.push_str(key);
            canonical::string(&mut compact, value);
        }
        compact.push_str(",\"generation\":");
        canonical::signed(&mut compact, self.generation);
        compact.push_str(",\"partTotal\":");
        canonical::unsigned(&mut compact, self.part_total);
        let parts: Vec<String> = (1..=self.part_total).map(|part| part.to_string()).collect();
        compact.push_str(&format!(",\"parts\":[{}]", parts.join(",")));
        if let Some(time) = self.exported_at {
            compact.push_str(",\"exportedAt\":");
            canonical::string(&mut compact, &seconds(time));
        }
        if !self.checksum.is_empty() {
            compact.push_str(",\"checksum\":");
            canonical::string(&mut compact, &self.checksum);
        }
        let mut paths = self.paths.clone();
        paths.sort();
        compact.push_str(",\"paths\":");
        strings(&mut compact, &paths);
        compact.push('}');
        let mut out = String::new();
        json::indented(&mut out, &compact);
        out.into_bytes()
    }

    /// Reads a manifest back.
    pub fn from_json(text: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(text)
    }

    /// Compares the set with what is there. Generation 0 stands for any; other manifests in the
    /// listing are not looked at.
    pub fn check<'p>(
        &self,
        listing: impl IntoIterator<Item = &'p str>,
        expected_generation: i64,
    ) -> SetCheck {
        let declared: BTreeSet<&str> = self.paths.iter().map(String::as_str).collect();
        let present: BTreeSet<&str> = listing
            .into_iter()
            .filter(|path| !path.ends_with(".manifest.json"))
            .collect();
        let sorted = |paths: std::collections::btree_set::Difference<'_, &str>| {
            paths.map(|path| (*path).to_owned()).collect()
        };
        SetCheck {
            missing: sorted(declared.difference(&present)),
            stale: sorted(present.difference(&declared)),
            other_generation: expected_generation != 0 && expected_generation != self.generation,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> SetManifest {
        SetManifest {
            cluster: "lab".to_owned(),
            namespace: "team-a".to_owned(),
            name: "web".to_owned(),
            generation: 7,
            part_total: 3,
            exported_at: Some("2026-08-01T12:00:00Z".parse().unwrap()),
            checksum: String::new(),
            paths: ["p1", "p2", "p3"].map(str::to_owned).to_vec(),
        }
    }

    #[test]
    fn v40_a_set_is_complete_or_says_what_is_wrong() {
        let manifest = manifest();
        let sidecar = "inventory/team-a/web.manifest.json";
        let check = |paths: &[&str], generation| manifest.check(paths.iter().copied(), generation);
        assert!(check(&["p1", "p2", "p3", sidecar], 7).is_complete());
        assert!(check(&["p1", "p2", "p3"], 0).is_complete());
        assert_eq!(check(&["p1", "p2"], 7).missing, ["p3"]);
        assert!(check(&["p1", "p2", "p3"], 8).other_generation);
        let stale = check(&["p1", "p2", "p3", "g7/p1.yaml"], 7).stale;
        assert_eq!(stale, ["g7/p1.yaml"]);
    }

    #[test]
    fn a_manifest_reads_back() {
        let manifest = manifest();
        assert_eq!(
            SetManifest::from_json(&manifest.to_json()).unwrap(),
            manifest
        );
    }
}
