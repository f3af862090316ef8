//! Manifests: files of objects, read with the place of every field, and judged.
//!
//! ```text
//! paths ─ files ─> text ─ tree ─> documents with places ─ schema, rules ─> what is wrong, and where
//! ```

mod files;
mod schema;
mod similar;
mod tree;

use std::sync::Arc;

use serde_json::Value;
use serde_saphyr::Spanned;

pub(crate) use files::{Input, Text, ends_with, inputs, open, read_all};
pub(crate) use schema::{Schemas, Violation};
pub(crate) use similar::nearest;
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

/// Something in a text that is no object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broken {
    pub(crate) file: Arc<str>,
    pub(crate) line: u64,
    pub(crate) problem: String,
}

/// What a text holds.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub(crate) documents: Vec<Document>,
    pub(crate) broken: Vec<Broken>,
}

/// Reads the objects of a text: any number of YAML documents, or JSON. Lists are opened; empty
/// documents are nothing.
pub(crate) fn parse(text: &Text) -> Parsed {
    let file: Arc<str> = text.name.as_str().into();
    let mut parsed = Parsed::default();
    let nodes: Result<Vec<Spanned<Node>>, _> = serde_saphyr::from_multiple_with_options(
        &text.content,
        serde_saphyr::options! { with_snippet: false, legacy_octal_numbers: true, strict_booleans: true },
    );
    match nodes {
        Ok(nodes) => {
            for node in nodes {
                let located = Located::new(node);
                if !is_nothing(&located.value) {
                    open_document(&file, located, &mut parsed);
                }
            }
        }
        Err(error) => parsed.broken.push(Broken {
            file,
            line: error.location().map_or(1, |location| location.line()),
            problem: plain(&error.to_string()),
        }),
    }
    parsed
}

/// Whether a document says nothing, as between two lines of `---`.
pub(crate) fn is_nothing(document: &Value) -> bool {
    document.is_null() || document.as_str() == Some("")
}

/// Adds an object, or the objects of a list.
fn open_document(file: &Arc<str>, located: Located, parsed: &mut Parsed) {
    let line = located.places.start.line;
    let mut broken = |problem: &str| {
        parsed.broken.push(Broken {
            file: Arc::clone(file),
            line,
            problem: problem.to_owned(),
        });
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
                open_document(file, item, parsed);
            }
        }
        return;
    }
    let metadata = object.get("metadata");
    if metadata.is_some_and(|metadata| !metadata.is_object()) {
        return broken("metadata of this object is no map");
    }
    parsed.documents.push(Document {
        file: Arc::clone(file),
        value: located.value,
        places: located.places,
    });
}

/// What the parser says, in words for people who do not know it: its messages go on with places, which we name ourselves, and with
/// hints for programmers.
fn plain(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let line = line.split(" at line ").next().unwrap_or_default();
    let line = line.split(", set ").next().unwrap_or_default().trim();
    match line.strip_prefix("duplicate mapping key: ") {
        Some(key) => format!("the key {key:?} is written twice"),
        None => format!("this is neither YAML nor JSON: {line}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e18_what_the_parser_says_is_told_in_plain_words() {
        for (content, expected) in [
            ("a: 1\na: 2\n", "the key \"a\" is written twice"),
            ("a: [\n", "this is neither YAML nor JSON: "),
            ("a: b: c\n", "this is neither YAML nor JSON: "),
        ] {
            let text = Text {
                name: "t.yaml".to_owned(),
                content: content.to_owned(),
            };
            let [broken] = &*parse(&text).broken else {
                panic!("{content} is broken");
            };
            assert!(broken.problem.starts_with(expected), "{broken:?}");
            for leak in ["Options", "Policy", " at line "] {
                assert!(!broken.problem.contains(leak), "{broken:?}");
            }
        }
    }
}
