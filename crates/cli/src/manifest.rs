//! Manifests: files of objects, read with the place of every field, and judged.
//!
//! ```text
//! paths ─ files ─> text ─ tree ─> documents with places ─ schema, rules ─> what is wrong, and where
//! ```

mod files;
mod schema;
mod tree;

use std::sync::Arc;

use serde_json::Value;
use serde_saphyr::Spanned;

pub(crate) use files::{Extent, Text, read_all};
pub(crate) use schema::{Schemas, Violation};
pub(crate) use tree::{Located, Places};

use tree::Node;

/// One object of a file.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    /// The file, as messages name it.
    pub(crate) file: Arc<str>,
    /// What it says.
    pub(crate) value: Value,
    /// Where it says so.
    pub(crate) places: Places,
}

impl Document {
    /// A text of the object, empty if there is none.
    pub(crate) fn text(&self, pointer: &str) -> &str {
        let value = self.value.pointer(pointer);
        value.and_then(Value::as_str).unwrap_or_default()
    }

    /// Where a field is written, as `file:line`.
    pub(crate) fn at(&self, path: &str) -> String {
        match self.places.find(path).line {
            // Objects of a dump come without places.
            0 => self.file.to_string(),
            line => format!("{}:{line}", self.file),
        }
    }
}

/// Why a text holds no objects.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ManifestError {
    /// Not YAML, or YAML that JSON cannot express.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// The file.
        file: Arc<str>,
        /// The line in it.
        line: u64,
        /// What is wrong there.
        problem: String,
    },
    /// A document that is no object.
    #[error("{file}:{line}: {problem}")]
    NotAnObject {
        /// The file.
        file: Arc<str>,
        /// Where the document begins.
        line: u64,
        /// What it lacks.
        problem: &'static str,
    },
}

/// Reads the objects of a text: any number of YAML documents, or JSON. Lists are opened; empty
/// documents are nothing.
pub(crate) fn parse(text: &Text) -> Result<Vec<Document>, ManifestError> {
    let file: Arc<str> = text.name.as_str().into();
    let nodes: Vec<Spanned<Node>> = serde_saphyr::from_multiple_with_options(
        &text.content,
        serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true, strict_booleans: true },
    )
    .map_err(|error| ManifestError::Syntax {
        file: Arc::clone(&file),
        line: error.location().map_or(1, |location| location.line()),
        problem: first_line(&error.to_string()),
    })?;
    let mut documents = Vec::new();
    for node in nodes {
        let located = Located::new(node);
        if !is_nothing(&located.value) {
            open(&file, located, &mut documents)?;
        }
    }
    Ok(documents)
}

/// Whether a document says nothing, as between two lines of `---`.
pub(crate) fn is_nothing(document: &Value) -> bool {
    document.is_null() || document.as_str() == Some("")
}

/// Adds an object, or the objects of a list.
fn open(
    file: &Arc<str>,
    located: Located,
    documents: &mut Vec<Document>,
) -> Result<(), ManifestError> {
    let broken = |problem| {
        Err(ManifestError::NotAnObject {
            file: Arc::clone(file),
            line: located.places.start.line,
            problem,
        })
    };
    let Some(object) = located.value.as_object() else {
        return broken("this document is no object; write apiVersion, kind and metadata");
    };
    let Some(kind) = object.get("kind").and_then(Value::as_str) else {
        return broken("this object has no kind");
    };
    if kind.ends_with("List")
        && let Some(items) = object.get("items").and_then(Value::as_array)
    {
        for index in 0..items.len() {
            if let Some(item) = located.item(index) {
                open(file, item, documents)?;
            }
        }
        return Ok(());
    }
    if object
        .get("metadata")
        .is_some_and(|metadata| !metadata.is_object())
    {
        return broken("metadata of this object is no map");
    }
    documents.push(Document {
        file: Arc::clone(file),
        value: located.value,
        places: located.places,
    });
    Ok(())
}

/// Messages of the parser go on with hints on further lines; the first says what is wrong.
fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim().to_owned()
}
