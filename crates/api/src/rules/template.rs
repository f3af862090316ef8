//! Rules for path templates and git branches.

/// Placeholders of paths of whole documents.
pub(super) const DOCUMENT_PLACEHOLDERS: [&str; 5] =
    ["cluster", "namespace", "name", "generation", "extension"];

/// Placeholders of paths of single rows.
pub(super) const ROW_PLACEHOLDERS: [&str; 12] = [
    "cluster",
    "namespace",
    "name",
    "targetNamespace",
    "targetName",
    "sourceNamespace",
    "sourceName",
    "group",
    "kind",
    "uid",
    "generation",
    "extension",
];

/// Why a template of document paths does not do; blank means not set.
pub(super) fn document_path(template: &str) -> Result<(), String> {
    let template = template.trim();
    if template.is_empty() {
        return Ok(());
    }
    path(template, &DOCUMENT_PLACEHOLDERS)?;
    if template.contains("{namespace}") && template.contains("{name}") {
        Ok(())
    } else {
        Err(
            "must contain {namespace} and {name}, so that inventories do not overwrite each other"
                .to_owned(),
        )
    }
}

/// Why a template of row paths does not do; blank means not set.
pub(super) fn row_path(template: &str) -> Result<(), String> {
    let template = template.trim();
    if template.is_empty() {
        return Ok(());
    }
    path(template, &ROW_PLACEHOLDERS)?;
    if ["{sourceName}", "{name}", "{uid}"]
        .iter()
        .any(|word| template.contains(word))
    {
        Ok(())
    } else {
        Err(
            "must contain {sourceName}, {name} or {uid}, so that rows do not overwrite each other"
                .to_owned(),
        )
    }
}

/// Why a template of destination names does not do; blank means not set. Tables and topics need no
/// placeholder at all.
pub(super) fn destination_name(template: &str) -> Result<(), String> {
    let template = template.trim();
    if template.is_empty() {
        Ok(())
    } else {
        path(template, &DOCUMENT_PLACEHOLDERS)
    }
}

fn path(template: &str, placeholders: &[&str]) -> Result<(), String> {
    if template.starts_with('/') {
        return Err("must be a relative path, without a leading '/'".to_owned());
    }
    if template.contains("..") {
        return Err("must not contain '..'".to_owned());
    }
    if template.contains(|c: char| c.is_control() || c == '\\') {
        return Err("must not contain backslashes or control characters".to_owned());
    }
    let mut rest = template;
    while let Some(start) = rest.find(['{', '}']) {
        let opened = rest[start..]
            .strip_prefix('{')
            .and_then(|tail| tail.split_once('}'));
        let Some((word, tail)) = opened else {
            return Err("has a '{' or '}' that does not belong to a placeholder".to_owned());
        };
        if !placeholders.contains(&word) {
            return Err(format!(
                "has the unknown placeholder {{{word}}}; known are {{{}}}",
                placeholders.join("}, {")
            ));
        }
        rest = tail;
    }
    Ok(())
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
