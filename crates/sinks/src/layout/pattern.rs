//! Which paths a template can produce.

use kollect_api::rules::template::{Piece, Placeholder, Template};

use super::segment::{GREATEST_LENGTH, sanitise};
use super::template::Fixed;

/// A piece of one path segment.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Text(String),
    /// Digits.
    Number,
    /// Anything, also nothing.
    Any,
}

/// The paths that a template produces for one inventory, whatever its rows and its generation are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern(Vec<Vec<Token>>);

impl Pattern {
    /// The paths of rows.
    pub(super) fn of_rows(template: &Template, fixed: &Fixed<'_>) -> Self {
        Self::new(template, fixed, fixed.naming.longest)
    }

    /// The paths of documents.
    pub(super) fn of_documents(template: &Template, fixed: &Fixed<'_>) -> Self {
        Self::new(template, fixed, GREATEST_LENGTH)
    }

    fn new(template: &Template, fixed: &Fixed<'_>, longest: usize) -> Self {
        let mut segments = vec![Vec::new()];
        for piece in template.pieces() {
            let token = match piece {
                Piece::Text(text) => {
                    let mut parts = text.split('/').map(|part| Token::Text(part.to_owned()));
                    if let (Some(first), Some(last)) = (parts.next(), segments.last_mut()) {
                        last.push(first);
                    }
                    segments.extend(parts.map(|part| vec![part]));
                    continue;
                }
                Piece::Placeholder(placeholder) => match placeholder {
                    Placeholder::Cluster => {
                        Token::Text(sanitise(fixed.cluster, fixed.naming.longest).into_owned())
                    }
                    Placeholder::Namespace => {
                        Token::Text(sanitise(fixed.inventory.namespace(), longest).into_owned())
                    }
                    Placeholder::Name => {
                        Token::Text(sanitise(&fixed.inventory.name, longest).into_owned())
                    }
                    Placeholder::Extension => Token::Text(fixed.extension.to_owned()),
                    Placeholder::Generation => Token::Number,
                    _ => Token::Any,
                },
            };
            if let Some(last) = segments.last_mut() {
                last.push(token);
            }
        }
        Pattern(segments)
    }

    /// Whether the template can produce a path.
    pub(super) fn matches(&self, path: &str) -> bool {
        let segments: Vec<&str> = path.split('/').collect();
        match_segments(&self.0, &segments)
    }
}

/// A segment without anything in it leaves no trace in the path. Which beginnings of the path can be
/// reached is worked out segment by segment, so that nothing is tried twice.
fn match_segments(pattern: &[Vec<Token>], path: &[&str]) -> bool {
    let mut reached = vec![false; path.len() + 1];
    reached[0] = true;
    for tokens in pattern {
        let may_vanish = match_tokens(tokens, "");
        // From the end, so that one segment of the pattern takes one of the path at most.
        for at in (0..=path.len()).rev() {
            let before = at.checked_sub(1);
            reached[at] = reached[at] && may_vanish
                || before
                    .is_some_and(|before| reached[before] && match_tokens(tokens, path[before]));
        }
    }
    reached[path.len()]
}

/// The same within one segment, byte by byte.
fn match_tokens(tokens: &[Token], text: &str) -> bool {
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    for token in tokens {
        let mut next = vec![false; text.len() + 1];
        match token {
            Token::Text(expected) => {
                for at in (0..=text.len()).filter(|at| reached[*at]) {
                    if text.as_bytes()[at..].starts_with(expected.as_bytes()) {
                        next[at + expected.len()] = true;
                    }
                }
            }
            Token::Number => {
                for (at, byte) in text.bytes().enumerate() {
                    next[at + 1] = byte.is_ascii_digit() && (reached[at] || next[at]);
                }
            }
            Token::Any => {
                let first = reached.iter().position(|reached| *reached);
                for place in &mut next[first.unwrap_or(text.len() + 1)..] {
                    *place = true;
                }
            }
        }
        reached = next;
    }
    reached[text.len()]
}

/// The path of the whole document that a part or the manifest of parts belongs to.
pub(super) fn without_part(path: &str, ending: &str) -> String {
    if let Some(stem) = path.strip_suffix(".manifest.json") {
        return format!("{stem}{ending}");
    }
    let number =
        |text: &str| text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    if let Some(start) = path.rfind(".part-") {
        let rest = &path[start + ".part-".len()..];
        let index = number(rest);
        if let Some(total) = rest[index..].strip_prefix("-of-") {
            let digits = number(total);
            if index > 0 && digits > 0 {
                return format!("{}{}", &path[..start], &total[digits..]);
            }
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use kollect_api::sink::common::GroupInPath;

    use super::super::template::Naming;
    use super::*;
    use kollect_api::InventoryId;

    fn fixed(inventory: &InventoryId) -> Fixed<'_> {
        Fixed {
            cluster: "lab",
            inventory,
            generation: 4,
            extension: ".yaml",
            naming: Naming {
                group: GroupInPath::Auto,
                lowercase_kind: true,
                longest: 63,
            },
        }
    }

    #[test]
    fn paths_that_templates_can_produce() {
        let inventory = InventoryId::namespaced("team-a", "web");
        let fixed = fixed(&inventory);
        let rows = "{cluster}/{sourceNamespace}/{kind}/{sourceName}{extension}";
        let documents = "d/{namespace}/{name}-{generation}{extension}";
        for (template, path, expected) in [
            (rows, "lab/team-a/pod/a.yaml", true),
            (rows, "lab/pod/a.yaml", true),
            (rows, "other/team-a/pod/a.yaml", false),
            (rows, "lab/team-a/pod/a.json", false),
            (rows, "lab/team-a/pod/x/a.yaml", false),
            (documents, "d/team-a/web-12.yaml", true),
            (documents, "d/team-a/web-.yaml", false),
            (documents, "d/team-a/web-x.yaml", false),
            (documents, "d/team-b/web-1.yaml", false),
        ] {
            let pattern = if template == rows {
                Pattern::of_rows(&Template::of_rows(template).unwrap(), &fixed)
            } else {
                Pattern::of_documents(&Template::of_documents(template).unwrap(), &fixed)
            };
            assert_eq!(pattern.matches(path), expected, "{template} {path}");
        }
    }

    #[test]
    fn a4_repeated_placeholders_are_matched_at_once() {
        let inventory = InventoryId::namespaced("team-a", "web");
        let fixed = fixed(&inventory);
        let begun = std::time::Instant::now();
        let many = "{sourceName}".repeat(300);
        let wide = "{kind}/".repeat(500);
        for (template, path, expected) in [
            (format!("{many}b"), "a".repeat(250), false),
            (many.clone(), "a".repeat(250), true),
            (
                format!("{}{{sourceName}}!", "{sourceName}a".repeat(100)),
                "a".repeat(250),
                false,
            ),
            (
                format!("{}{{sourceName}}x", "{generation}".repeat(200)),
                "1".repeat(250),
                false,
            ),
            (format!("{wide}{{sourceName}}.x"), "a/".repeat(400), false),
            (
                format!("{wide}{{sourceName}}.x"),
                format!("{}b.x", "a/".repeat(400)),
                true,
            ),
        ] {
            let pattern = Pattern::of_rows(&Template::of_rows(&template).unwrap(), &fixed);
            assert_eq!(pattern.matches(&path), expected, "{template}");
        }
        assert!(begun.elapsed() < std::time::Duration::from_secs(5));
    }

    #[test]
    fn parts_lead_to_their_document() {
        for (path, expected) in [
            ("a/web.part-0001-of-0002.yaml", "a/web.yaml"),
            ("a/web.manifest.json", "a/web.yaml"),
            ("a/web.yaml", "a/web.yaml"),
            ("a/web.part-x.yaml", "a/web.part-x.yaml"),
        ] {
            assert_eq!(without_part(path, ".yaml"), expected);
        }
    }
}
