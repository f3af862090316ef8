//! Documents that were exported: files of rows in any format that holds them.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use super::item::Items;
use crate::{interrupt, manifest};

/// What files of exports are called.
const EXTENSIONS: [&str; 5] = ["yaml", "yml", "json", "ndjson", "jsonl"];

/// What lists or describes documents, and holds no rows.
fn is_beside(name: &str) -> bool {
    name.ends_with(".manifest.json") || name == "latest.json" || name.starts_with("index.")
}

/// Whether a path holds exported documents, and not objects of a cluster: the first file tells.
pub(super) fn are_exported(path: &Path) -> Result<bool> {
    for file in files(path)? {
        let Ok(content) = fs::read_to_string(&file) else {
            // Packed: only dumps are.
            return Ok(false);
        };
        let name = file.to_string_lossy();
        if name.ends_with(".ndjson") || name.ends_with(".jsonl") {
            return Ok(true);
        }
        // The beginning tells; a dump may be large.
        let begin = &content[..content.floor_char_boundary(4096.min(content.len()))];
        let begin: String = begin
            .chars()
            .filter(|c| !c.is_whitespace() && *c != '"')
            .collect();
        if begin.starts_with("[]") || begin.is_empty() {
            continue;
        }
        let is_object = begin.contains("apiVersion:");
        let is_export = begin.contains("schemaVersion:") || begin.contains("targetName:");
        return Ok(is_export || !is_object);
    }
    // Only empty documents.
    Ok(path.is_dir() && !files(path)?.is_empty())
}

fn files(path: &Path) -> Result<Vec<PathBuf>> {
    let inputs = manifest::inputs(&[path.to_owned()], |name| {
        manifest::ends_with(name, &EXTENSIONS) && !is_beside(name)
    })?;
    let files = inputs.into_iter().filter_map(|input| match input {
        manifest::Input::File(path) => Some(path),
        manifest::Input::Standard => None,
    });
    Ok(files.collect())
}

/// Reads all documents below a path.
pub(super) fn read(path: &Path) -> Result<Items> {
    let mut items = Items::default();
    for file in files(path)? {
        interrupt::check()?;
        let content = fs::read_to_string(&file);
        let content = content.with_context(|| format!("cannot read {}", file.display()))?;
        let below = file.strip_prefix(path).unwrap_or(&file);
        let parts: Vec<String> = below
            .components()
            .map(|part| part.as_os_str().to_string_lossy().into_owned())
            .collect();
        add(&mut items, &content, &parts).with_context(|| file.display().to_string())?;
    }
    Ok(items)
}

/// Whether a file of a repository is a document.
pub(super) fn is_document(name: &str) -> bool {
    manifest::ends_with(name, &EXTENSIONS) && !is_beside(name) && !name.starts_with('.')
}

/// Adds what a text says.
pub(super) fn add(items: &mut Items, content: &str, path: &[String]) -> Result<()> {
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let begin = content.trim_start();
    if begin.starts_with(['{', '[']) {
        for value in serde_json::Deserializer::from_str(content).into_iter::<Value>() {
            match value {
                Ok(value) => items.add(value, &path),
                Err(error) => bail!("line {}: this is no JSON", error.line()),
            }
        }
        return Ok(());
    }
    let options = serde_saphyr::options! {
        budget: None,
        with_snippet: false,
        legacy_octal_numbers: true,
        strict_booleans: true
    };
    let documents: Vec<Value> = match serde_saphyr::from_multiple_with_options(content, options) {
        Ok(documents) => documents,
        Err(error) => {
            let line = error.location().map_or(1, |location| location.line());
            bail!("line {line}: this is neither YAML nor JSON");
        }
    };
    for value in documents {
        items.add(value, &path);
    }
    Ok(())
}
