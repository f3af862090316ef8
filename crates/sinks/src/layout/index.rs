//! The index of a tree: where each row of an inventory is.

use jiff::{Timestamp, tz::TimeZone};
use kollect_api::sink::common::Format;
use kollect_inventory::{CanonicalJson, SCHEMA_VERSION, Snapshot, canonical};

use super::{json, yaml};

/// What an index says.
#[derive(Debug, Clone)]
pub(super) struct Index<'a> {
    pub(super) cluster: &'a str,
    pub(super) rows: &'a Snapshot,
    pub(super) paths: Vec<String>,
}

impl Index<'_> {
    /// The index as a file.
    pub(super) fn bytes(&self, format: Format, exported_at: Timestamp) -> Vec<u8> {
        let mut out = String::new();
        if format == Format::Yaml {
            yaml::value(&mut out, self.sorted(exported_at).borrowed());
            return out.into_bytes();
        }
        let compact = self.compact(exported_at);
        if format == Format::Ndjson {
            out = compact;
            out.push('\n');
        } else {
            json::indented(&mut out, &compact);
        }
        out.into_bytes()
    }

    /// Keys in the order in which people want to read them.
    fn compact(&self, exported_at: Timestamp) -> String {
        let mut out = String::from("{\"schemaVersion\":");
        canonical::string(&mut out, SCHEMA_VERSION);
        out.push_str(",\"itemCount\":");
        canonical::unsigned(&mut out, self.rows.len() as u64);
        out.push_str(",\"checksum\":");
        canonical::string(&mut out, &self.rows.fingerprint().to_string());
        out.push_str(",\"exportedAt\":");
        canonical::string(&mut out, &seconds(exported_at));
        out.push_str(",\"cluster\":");
        canonical::string(&mut out, self.cluster);
        out.push_str(",\"paths\":");
        strings(&mut out, &self.paths);
        out.push('}');
        out
    }

    fn sorted(&self, exported_at: Timestamp) -> CanonicalJson {
        CanonicalJson::build(|slot| {
            let mut object = slot.object();
            object
                .member("checksum")
                .string(&self.rows.fingerprint().to_string());
            object.member("cluster").string(self.cluster);
            object.member("exportedAt").string(&seconds(exported_at));
            object.member("itemCount").unsigned(self.rows.len() as u64);
            let mut paths = object.member("paths").array();
            for path in &self.paths {
                paths.item().string(path);
            }
            paths.end();
            object.member("schemaVersion").string(SCHEMA_VERSION);
        })
    }
}

/// A time as small files show it: UTC, whole seconds.
pub(super) fn seconds(time: Timestamp) -> String {
    let utc = time.to_zoned(TimeZone::UTC);
    utc.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Writes a list of texts.
pub(super) fn strings(out: &mut String, texts: &[String]) {
    out.push('[');
    for (at, text) in texts.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        canonical::string(out, text);
    }
    out.push(']');
}
