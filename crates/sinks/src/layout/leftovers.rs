//! Files from a time without records.
//!
//! The first export of an owner finds no record, but perhaps files of rows that are gone. They are
//! only removed if there is no doubt: next to files of this export, at a path that its template
//! produces, not in anybody's record, and holding a row of a target that the inventory could have.
//! What holds attributes or a manifest could just as well be somebody's own file, and stays.

use std::collections::BTreeSet;

use kollect_api::{
    InventoryScope,
    sink::common::{Format, LayoutContent, LayoutMode},
};

use super::error::LayoutError;
use super::held::Held;
use super::ownership::Record;
use super::path::RepoPath;
use super::pattern::Pattern;
use super::{Header, Layout};

/// The leftovers of rows in a repository that now holds `paths`.
pub(super) fn find(
    layout: &Layout,
    header: &Header<'_>,
    mode: LayoutMode,
    paths: &BTreeSet<RepoPath>,
    held: &dyn Held,
) -> Result<BTreeSet<RepoPath>, LayoutError> {
    let holds_rows = matches!(layout.content, None | Some(LayoutContent::Item));
    if mode == LayoutMode::Document || !holds_rows {
        return Ok(BTreeSet::new());
    }
    let fixed = layout.fixed(header.inventory, header.generation);
    let pattern = Pattern::of_rows(&layout.rows, &fixed);
    let directories: BTreeSet<&str> = paths.iter().filter_map(|path| path.parent()).collect();
    let mut found = BTreeSet::new();
    for directory in directories {
        for path in held.below(directory)? {
            let candidate = path.parent() == Some(directory)
                && !paths.contains(&path)
                && pattern.matches(&path);
            if candidate
                && let Some(bytes) = held.read(&path)?
                && is_row(&bytes, layout.format, &header.inventory.scope)
            {
                found.insert(path);
            }
        }
    }
    if found.is_empty() {
        return Ok(found);
    }
    for record in Record::all(held)? {
        let owned = record.load(held)?.unwrap_or_default();
        found.retain(|path| !owned.contains(path));
    }
    Ok(found)
}

/// Whether a file holds one row, of a target that an inventory of this scope could have.
fn is_row(bytes: &[u8], format: Format, scope: &InventoryScope) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let namespace = match scope {
        InventoryScope::Namespace(namespace) => Some(namespace),
        InventoryScope::Cluster => None,
    };
    if format == Format::Yaml {
        let line = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
        let said = line("targetNamespace: ").map(|value| value.trim_matches(['"', '\'']));
        return ["targetName: ", "uid: ", "version: ", "kind: "]
            .iter()
            .all(|key| line(key).is_some())
            && said.is_some_and(|said| namespace.is_none_or(|namespace| said == namespace));
    }
    let Ok(serde_json::Value::Object(row)) = serde_json::from_str(text) else {
        return false;
    };
    ["targetName", "uid", "version", "kind", "attributes"]
        .iter()
        .all(|key| row.contains_key(*key))
        && row
            .get("targetNamespace")
            .and_then(|said| said.as_str())
            .is_some_and(|said| namespace.is_none_or(|namespace| said == namespace))
}
