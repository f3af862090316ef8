//! Path templates: what they consist of, and the rules for them and for git branches.

/// A word in braces that stands for a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placeholder {
    /// The cluster's name.
    Cluster,
    /// The inventory's namespace.
    Namespace,
    /// The inventory's name.
    Name,
    /// The namespace of the row's target.
    TargetNamespace,
    /// The name of the row's target.
    TargetName,
    /// The namespace of the row's object.
    SourceNamespace,
    /// The name of the row's object.
    SourceName,
    /// The API group of the row's object.
    Group,
    /// The kind of the row's object.
    Kind,
    /// The uid of the row's object.
    Uid,
    /// The generation of the inventory.
    Generation,
    /// The extension of the format, with its dot.
    Extension,
}

impl Placeholder {
    /// Those of paths of whole documents.
    pub const OF_DOCUMENTS: &[Placeholder] = &[
        Placeholder::Cluster,
        Placeholder::Namespace,
        Placeholder::Name,
        Placeholder::Generation,
        Placeholder::Extension,
    ];

    /// Those of paths of single rows.
    pub const OF_ROWS: &[Placeholder] = &[
        Placeholder::Cluster,
        Placeholder::Namespace,
        Placeholder::Name,
        Placeholder::TargetNamespace,
        Placeholder::TargetName,
        Placeholder::SourceNamespace,
        Placeholder::SourceName,
        Placeholder::Group,
        Placeholder::Kind,
        Placeholder::Uid,
        Placeholder::Generation,
        Placeholder::Extension,
    ];

    /// The word between the braces.
    pub fn word(self) -> &'static str {
        match self {
            Placeholder::Cluster => "cluster",
            Placeholder::Namespace => "namespace",
            Placeholder::Name => "name",
            Placeholder::TargetNamespace => "targetNamespace",
            Placeholder::TargetName => "targetName",
            Placeholder::SourceNamespace => "sourceNamespace",
            Placeholder::SourceName => "sourceName",
            Placeholder::Group => "group",
            Placeholder::Kind => "kind",
            Placeholder::Uid => "uid",
            Placeholder::Generation => "generation",
            Placeholder::Extension => "extension",
        }
    }
}

/// One piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text that stands for itself.
    Text(String),
    /// A value.
    Placeholder(Placeholder),
}

/// A template that was read; blanks around it do not count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Template {
    pieces: Vec<Piece>,
}

impl Template {
    /// Reads the template of paths of whole documents; blank gives an empty template.
    pub fn of_documents(template: &str) -> Result<Self, String> {
        let template = Self::parse(template, Placeholder::OF_DOCUMENTS)?;
        let separate = [Placeholder::Namespace, Placeholder::Name]
            .iter()
            .all(|placeholder| template.contains(*placeholder));
        if template.is_empty() || separate {
            Ok(template)
        } else {
            Err("must contain {namespace} and {name}, so that inventories do not overwrite each other".to_owned())
        }
    }

    /// Reads the template of paths of single rows; blank gives an empty template.
    pub fn of_rows(template: &str) -> Result<Self, String> {
        let template = Self::parse(template, Placeholder::OF_ROWS)?;
        let separate = [Placeholder::SourceName, Placeholder::Name, Placeholder::Uid]
            .iter()
            .any(|placeholder| template.contains(*placeholder));
        if template.is_empty() || separate {
            Ok(template)
        } else {
            Err("must contain {sourceName}, {name} or {uid}, so that rows do not overwrite each other".to_owned())
        }
    }

    fn parse(template: &str, known: &[Placeholder]) -> Result<Self, String> {
        let template = template.trim();
        if template.starts_with('/') {
            return Err("must be a relative path, without a leading '/'".to_owned());
        }
        if template.contains("..") {
            return Err("must not contain '..'".to_owned());
        }
        if template.contains(|c: char| c.is_control() || c == '\\') {
            return Err("must not contain backslashes or control characters".to_owned());
        }
        let mut pieces = Vec::new();
        let mut rest = template;
        while let Some(start) = rest.find(['{', '}']) {
            let (text, opened) = rest.split_at(start);
            let Some((word, tail)) = opened
                .strip_prefix('{')
                .and_then(|tail| tail.split_once('}'))
            else {
                return Err("has a '{' or '}' that does not belong to a placeholder".to_owned());
            };
            let Some(placeholder) = known.iter().find(|known| known.word() == word) else {
                let words: Vec<&str> = known.iter().map(|known| known.word()).collect();
                return Err(format!(
                    "has the unknown placeholder {{{word}}}; known are {{{}}}",
                    words.join("}, {")
                ));
            };
            if !text.is_empty() {
                pieces.push(Piece::Text(text.to_owned()));
            }
            pieces.push(Piece::Placeholder(*placeholder));
            rest = tail;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Ok(Template { pieces })
    }

    /// The pieces in order; no two texts are neighbours.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Whether a placeholder occurs.
    pub fn contains(&self, placeholder: Placeholder) -> bool {
        self.pieces.contains(&Piece::Placeholder(placeholder))
    }

    /// Whether there is nothing in it, which means not set.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// Why a template of document paths does not do; blank means not set.
pub(super) fn document_path(template: &str) -> Result<(), String> {
    Template::of_documents(template).map(drop)
}

/// Why a template of row paths does not do; blank means not set.
pub(super) fn row_path(template: &str) -> Result<(), String> {
    Template::of_rows(template).map(drop)
}

/// Why a template of destination names does not do; blank means not set. Tables and topics need no
/// placeholder at all.
pub(super) fn destination_name(template: &str) -> Result<(), String> {
    Template::parse(template, Placeholder::OF_DOCUMENTS).map(drop)
}

/// Why a branch name does not do; blank means not set.
pub fn branch(name: &str) -> Result<(), String> {
    let name = name.trim();
    if name.is_empty() {
        return Ok(());
    }
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '/' | '-');
    let fine = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(word)
        && !name.contains("..")
        && !name.contains("//")
        && !name.ends_with(['.', '/'])
        && !name.starts_with("refs/")
        && name
            .split('/')
            .all(|part| !part.starts_with('.') && part.strip_suffix(".lock").is_none());
    if fine {
        Ok(())
    } else {
        Err("must be a branch name such as main or feature/inventory: letters, digits, '.', '_', '-' and single '/', without refs/".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates() {
        for (template, document, row) in [
            ("inventory/{namespace}/{name}{extension}", true, true),
            ("/abs/{namespace}/{name}", false, false),
            ("a/../{namespace}/{name}", false, false),
            ("a..b/{namespace}/{name}", false, false),
            ("{cluster}/{name}.json", false, true),
            ("{namespace}/{name}/{foo}", false, false),
            ("{namespace}/{name}/{sourceName}", false, true),
            ("{kind}", false, false),
            ("{cluster}/{kind}/{uid}", false, true),
            ("a\\b/{namespace}/{name}", false, false),
            ("a\u{0}b/{namespace}/{name}", false, false),
            ("{namespace}/{name", false, false),
            ("{namespace}/{name}}", false, false),
            ("  ", true, true),
        ] {
            assert_eq!(
                document_path(template).is_ok(),
                document,
                "document {template:?}"
            );
            assert_eq!(row_path(template).is_ok(), row, "row {template:?}");
        }
        assert!(destination_name("inventory_{cluster}").is_ok());
        assert!(destination_name("{table}").is_err());
    }

    #[test]
    fn a_template_falls_into_its_pieces() {
        let template = Template::of_documents(" a/{namespace}-{name}{extension} ").unwrap();
        assert_eq!(
            template.pieces(),
            [
                Piece::Text("a/".to_owned()),
                Piece::Placeholder(Placeholder::Namespace),
                Piece::Text("-".to_owned()),
                Piece::Placeholder(Placeholder::Name),
                Piece::Placeholder(Placeholder::Extension),
            ]
        );
        assert!(Template::of_rows("  ").unwrap().is_empty());
    }

    #[test]
    fn branches() {
        for name in ["main", "feature/a", "HEAD", " main ", "", "v1.2"] {
            assert!(branch(name).is_ok(), "{name:?}");
        }
        for name in [
            "-evil",
            "a..b",
            ".a",
            "a.",
            "a.lock",
            "@",
            "a@{1}",
            "refs/heads/x",
            "a//b",
            "x/",
            "a b",
            "a/.b",
            "a.lock/b",
        ] {
            assert!(branch(name).is_err(), "{name:?}");
        }
    }
}
