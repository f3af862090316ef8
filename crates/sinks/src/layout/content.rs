//! What the file of one row holds, and its bytes.

use kollect_api::sink::common::{Format, LayoutContent};
use kollect_inventory::{CanonicalRef, Row};

use super::manifest::{self, Embedding};
use super::{json, yaml};

/// What goes into the files of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Content<'a> {
    /// What was asked for. Without it each row decides: its object if it carries one, else the row.
    pub(super) asked: Option<LayoutContent>,
    pub(super) format: Format,
    pub(super) embedding: &'a Embedding,
}

/// What one row contributes.
#[derive(Clone, Copy)]
enum Part<'r> {
    Row(&'r Row),
    Attributes(&'r Row),
    Object(&'r Row, CanonicalRef<'r>),
}

impl Content<'_> {
    fn part<'r>(&self, row: &'r Row) -> Option<Part<'r>> {
        match self.asked {
            Some(LayoutContent::Item) => Some(Part::Row(row)),
            Some(LayoutContent::Attributes) => Some(Part::Attributes(row)),
            Some(LayoutContent::Manifest) => {
                let object = self.embedding.wanted_object(row)?;
                Some(Part::Object(row, object))
            }
            None => Some(match self.embedding.object(row) {
                Some(object) => Part::Object(row, object),
                None => Part::Row(row),
            }),
        }
    }

    /// Whether a row has what was asked for. One that has not is left out and counted; one bad row
    /// does not keep all others from being exported.
    pub(super) fn has(&self, row: &Row) -> bool {
        self.part(row).is_some()
    }

    /// The bytes of a row's file; nothing for a row that has not what was asked for.
    pub(super) fn bytes(&self, row: &Row) -> Option<Vec<u8>> {
        let part = self.part(row)?;
        let mut out = String::with_capacity(256);
        match part {
            Part::Row(row) if self.format == Format::Yaml => yaml::row(&mut out, row),
            Part::Attributes(row) if self.format == Format::Yaml => {
                yaml::attributes(&mut out, row.attributes());
            }
            Part::Row(row) => {
                let mut compact = String::with_capacity(256);
                row.write_json(&mut compact);
                self.json(&mut out, &compact);
            }
            Part::Attributes(row) if row.attributes().is_null() => self.json(&mut out, "{}"),
            Part::Attributes(row) => self.json(&mut out, row.attributes().to_json().as_str()),
            Part::Object(row, object) => {
                let restored = manifest::restored(row, object);
                let object = restored.as_ref().map_or(object, |whole| whole.borrowed());
                if self.format == Format::Yaml {
                    yaml::value(&mut out, object);
                } else {
                    self.json(&mut out, object.as_str());
                }
            }
        }
        Some(out.into_bytes())
    }

    fn json(&self, out: &mut String, compact: &str) {
        if self.format == Format::Ndjson {
            out.push_str(compact);
            out.push('\n');
        } else {
            json::indented(out, compact);
        }
    }
}
