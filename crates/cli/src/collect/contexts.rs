//! Which clusters: the contexts of a kubeconfig, by name or pattern.

use std::{collections::BTreeSet, path::Path};

use anyhow::{Context as _, Result};
use kube::config::Kubeconfig;
use regex::Regex;

/// Reads the kubeconfig that a command uses: the given file, or what `kubectl` would read
/// (`KUBECONFIG`, which may name several files, or `~/.kube/config`).
pub(crate) fn read_kubeconfig(path: Option<&Path>) -> Result<Kubeconfig> {
    match path {
        Some(path) => Kubeconfig::read_from(path)
            .with_context(|| format!("cannot read kubeconfig {}", path.display())),
        None => Kubeconfig::read().context(
            "no kubeconfig; give --kubeconfig, set KUBECONFIG, or collect from a dump with --from",
        ),
    }
}

/// Why no context can be chosen.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ContextError {
    #[error("the kubeconfig has no current context; choose one with --context")]
    NoCurrent,
    #[error("context {0:?} not found in kubeconfig (typo?); it has: {1}")]
    Unknown(String, String),
    #[error("--context {0:?} is no pattern: {1}")]
    Malformed(String, &'static str),
    #[error("no context matches; the kubeconfig has: {0}")]
    NoMatch(String),
}

/// Chooses contexts, sorted and unique. Names must exist; patterns (`*`, `?`, `[a-c]`) may match nothing as long as
/// something matches at all. A `*` matches any character: names of contexts often contain slashes.
pub(crate) fn select(
    wanted: &[String],
    known: &[String],
    current: Option<&str>,
    mut warn: impl FnMut(String),
) -> Result<Vec<String>, ContextError> {
    let listed = || {
        let mut known = known.to_vec();
        known.sort();
        known.join(", ")
    };
    let unknown = |name: &str| ContextError::Unknown(name.to_owned(), listed());
    let mut chosen: BTreeSet<&str> = BTreeSet::new();
    if wanted.is_empty() {
        let current = current
            .filter(|name| !name.is_empty())
            .ok_or(ContextError::NoCurrent)?;
        let found = known.iter().find(|name| *name == current);
        chosen.insert(found.ok_or_else(|| unknown(current))?);
    }
    for wish in wanted {
        if !wish.contains(['*', '?', '[']) {
            let found = known.iter().find(|name| *name == wish);
            chosen.insert(found.ok_or_else(|| unknown(wish))?);
            continue;
        }
        let pattern =
            pattern(wish).map_err(|problem| ContextError::Malformed(wish.clone(), problem))?;
        let matched: Vec<&String> = known.iter().filter(|name| pattern.is_match(name)).collect();
        chosen.extend(matched.iter().map(|name| name.as_str()));
        if matched.is_empty() {
            warn(format!(
                "--context {wish:?} matched no contexts in kubeconfig"
            ));
        }
    }
    if chosen.is_empty() {
        return Err(ContextError::NoMatch(listed()));
    }
    Ok(chosen.into_iter().map(str::to_owned).collect())
}

/// A pattern of names as a regular expression.
pub(crate) fn pattern(glob: &str) -> Result<Regex, &'static str> {
    let mut text = String::from("^(?s:");
    let mut characters = glob.chars();
    while let Some(character) = characters.next() {
        match character {
            '*' => text.push_str(".*"),
            '?' => text.push('.'),
            '[' => text.push_str(&class(&mut characters)?),
            '\\' => {
                let escaped = characters.next().ok_or("nothing follows the backslash")?;
                text.push_str(&regex::escape(&escaped.to_string()));
            }
            other => text.push_str(&regex::escape(&other.to_string())),
        }
    }
    text.push_str(")$");
    Regex::new(&text).map_err(|_| "a class of characters is malformed")
}

/// A class such as `[a-c]` or `[!0-9]`, after its opening bracket.
fn class(characters: &mut std::str::Chars<'_>) -> Result<String, &'static str> {
    let mut text = String::from("[");
    let mut empty = true;
    for character in characters.by_ref() {
        match character {
            ']' if !empty => {
                text.push(']');
                return Ok(text);
            }
            '!' | '^' if empty && text == "[" => {
                text.push('^');
                continue;
            }
            '-' => text.push('-'),
            other => text.push_str(&regex::escape(&other.to_string())),
        }
        empty = false;
    }
    Err("a bracket is not closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Vec<String> {
        ["prod-eu-1", "prod-us-1", "staging-canary", "dev"]
            .map(str::to_owned)
            .to_vec()
    }

    fn chosen(wanted: &[&str]) -> (Result<Vec<String>, ContextError>, usize) {
        let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
        let mut warnings = 0;
        let chosen = select(&wanted, &known(), Some("dev"), |_| warnings += 1);
        (chosen, warnings)
    }

    #[test]
    fn names_and_patterns() {
        for (wanted, expected) in [
            (&[][..], &["dev"][..]),
            (&["prod-*"], &["prod-eu-1", "prod-us-1"]),
            (&["prod-*", "prod-eu-1"], &["prod-eu-1", "prod-us-1"]),
            (&["prod-eu-1", "dev"], &["dev", "prod-eu-1"]),
            (&["prod-?u-1"], &["prod-eu-1"]),
            (&["prod-[a-f]*"], &["prod-eu-1"]),
            (&["prod-[!a-f]*"], &["prod-us-1"]),
            (&["zz*", "dev"], &["dev"]),
        ] {
            let (selected, warnings) = chosen(wanted);
            assert_eq!(selected.unwrap(), expected, "{wanted:?}");
            let expected = usize::from(wanted.first() == Some(&"zz*"));
            assert_eq!(warnings, expected, "{wanted:?}");
        }
    }

    #[test]
    fn what_cannot_be_chosen() {
        let refused = |wanted| chosen(&[wanted]).0.unwrap_err();
        assert!(matches!(refused("typo"), ContextError::Unknown(name, _) if name == "typo"));
        assert!(matches!(refused("zz*"), ContextError::NoMatch(_)));
        assert_eq!(chosen(&["zz*"]).1, 1);
        for malformed in ["prod-[", "prod-[b-a]", "prod*\\"] {
            let error = refused(malformed);
            assert!(matches!(error, ContextError::Malformed(..)), "{malformed}");
        }
        let current = |name| select(&[], &known(), name, drop);
        assert_eq!(current(None), Err(ContextError::NoCurrent));
        let error = current(Some("gone")).unwrap_err();
        assert!(error.to_string().contains("\"gone\" not found"), "{error}");
    }

    #[test]
    fn a_star_crosses_slashes() {
        let known = ["arn:aws:eks:eu:1:cluster/prod".to_owned()];
        let selected = select(&["*prod".to_owned()], &known, None, drop);
        assert_eq!(selected.unwrap(), known);
    }
}
