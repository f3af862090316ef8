//! The part of jq that says which values to remove, as JSONPath.
//!
//! Argo CD's `ignoreDifferences` writes paths in jq, and people bring them along. What they write
//! there is a path, sometimes with a `select` that compares: that is understood. Everything else of
//! jq is refused, because a rule that removes nothing would show what somebody meant to hide.

use std::fmt::Write as _;

use thiserror::Error;

use super::{MAX_BYTES, error::ParseError};

/// A text that is not among the paths of jq that are understood.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum JqError {
    /// A character that does not continue the path.
    #[error("{problem} (at character {position})")]
    Syntax {
        /// Counted from 1, after leading blanks.
        position: usize,
        /// What is wrong.
        problem: JqProblem,
    },
    /// The path that it means is none.
    #[error(transparent)]
    Path(#[from] ParseError),
}

/// What is wrong with a path of jq.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum JqProblem {
    /// Nothing but blanks.
    #[error("the path is empty")]
    Blank,
    /// The text is longer than any path needs.
    #[error("the path is longer than {MAX_BYTES} bytes")]
    TooLong,
    /// It begins like something else.
    #[error(
        "a path of jq starts with \".\", like .spec.replicas or .metadata.annotations[\"example.com/a\"]"
    )]
    NotAPath,
    /// A name is missing, or has characters that need quotes.
    #[error("a name or a quoted name must follow the dot, like .a or .\"a-b\"")]
    Name,
    /// The content of brackets.
    #[error("brackets are empty, or hold an index, a slice or a quoted name")]
    Bracket,
    /// Text in quotes that does not end, or has escapes that mean nothing.
    #[error("the text in quotes is not valid")]
    Quoted,
    /// Something that is neither a path nor `select`.
    #[error("after \"|\" only a path or select(…) is understood")]
    Filter,
    /// `select` where there is nothing to choose from.
    #[error("select(…) must directly follow [], like .a[] | select(.name == \"b\")")]
    Selects,
    /// What stands in `select`.
    #[error(
        "select(…) holds a path, or one comparison (==, !=, <, <=, >, >=) of a path with a text, a number, true or false"
    )]
    Condition,
}

type Fallible<T> = Result<T, (usize, JqProblem)>;

/// The JSONPath that means the same.
pub(super) fn to_path(text: &str) -> Result<String, JqError> {
    let text = text.trim();
    let syntax = |(at, problem): (usize, JqProblem)| JqError::Syntax {
        position: text.char_indices().take_while(|(i, _)| *i < at).count() + 1,
        problem,
    };
    if text.is_empty() {
        return Err(syntax((0, JqProblem::Blank)));
    }
    if text.len() > MAX_BYTES {
        return Err(syntax((0, JqProblem::TooLong)));
    }
    Reader { text, at: 0 }.pipeline().map_err(syntax)
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
}

/// How everything in a list or a map is written, so that a `select` behind it can take its place.
const EVERYTHING: &str = ".*";

impl Reader<'_> {
    fn pipeline(&mut self) -> Fallible<String> {
        let mut path = "$".to_owned();
        self.steps(&mut path)?;
        loop {
            self.blanks();
            if self.rest().is_empty() {
                return Ok(path);
            }
            if !self.eat("|") {
                return Err((self.at, JqProblem::Filter));
            }
            self.blanks();
            let start = self.at;
            if self.rest().starts_with('.') {
                self.steps(&mut path)?;
            } else if self.eat("select") {
                let Some(before) = path.strip_suffix(EVERYTHING) else {
                    return Err((start, JqProblem::Selects));
                };
                path = format!("{before}[?({})]", self.condition()?);
            } else {
                return Err((start, JqProblem::Filter));
            }
        }
    }

    /// What stands in the parentheses of `select`, as a filter holds it.
    fn condition(&mut self) -> Fallible<String> {
        let wrong = |at: usize| (at, JqProblem::Condition);
        self.blanks();
        if !self.eat("(") {
            return Err(wrong(self.at));
        }
        self.blanks();
        let mut filter = "@".to_owned();
        let several = self.steps(&mut filter)?;
        if several {
            return Err(wrong(self.at));
        }
        self.blanks();
        let operators = ["==", "!=", "<=", ">=", "<", ">"];
        if let Some(operator) = operators.into_iter().find(|one| self.eat(one)) {
            self.blanks();
            let literal = self.literal()?;
            let _ = write!(filter, " {operator} {literal}");
        }
        self.blanks();
        if self.eat(")") {
            Ok(filter)
        } else {
            Err(wrong(self.at))
        }
    }

    fn literal(&mut self) -> Fallible<String> {
        if self.rest().starts_with('"') {
            return Ok(quoted(&self.string()?));
        }
        let rest = self.rest();
        let end = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || "+-.".contains(c)))
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let is_number = word.parse::<f64>().is_ok_and(f64::is_finite);
        if !matches!(word, "true" | "false") && !is_number {
            return Err((self.at, JqProblem::Condition));
        }
        let word = word.to_owned();
        self.at += end;
        Ok(word)
    }

    /// A path: a dot, and steps. Returns whether one of them leads to several values.
    fn steps(&mut self, path: &mut String) -> Fallible<bool> {
        if !self.rest().starts_with('.') {
            return Err((self.at, JqProblem::NotAPath));
        }
        let start = self.at;
        let mut several = false;
        loop {
            if self.eat(".") {
                let rest = self.rest();
                if rest.starts_with('[') {
                    several |= self.brackets(path)?;
                } else if rest.starts_with('"') {
                    let name = self.string()?;
                    let _ = write!(path, "[{}]", quoted(&name));
                } else {
                    let end = rest
                        .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
                        .unwrap_or(rest.len());
                    let name = &rest[..end];
                    let alone = self.at == start + 1 && ends_path(rest);
                    if alone {
                        return Ok(several);
                    }
                    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
                        return Err((self.at, JqProblem::Name));
                    }
                    let _ = write!(path, "[{}]", quoted(name));
                    self.at += end;
                }
            } else if self.rest().starts_with('[') {
                several |= self.brackets(path)?;
            } else if !self.eat("?") {
                // What is absent is no error here anyway, so "?" changes nothing.
                return Ok(several);
            }
        }
    }

    fn brackets(&mut self, path: &mut String) -> Fallible<bool> {
        let open = self.at;
        self.at += 1;
        self.blanks();
        let several = self.rest().starts_with(']');
        if several {
            path.push_str(EVERYTHING);
        } else if self.rest().starts_with('"') {
            let name = self.string()?;
            let _ = write!(path, "[{}]", quoted(&name));
        } else {
            let rest = self.rest();
            let end = rest
                .find(|c: char| !(c.is_ascii_digit() || c == '-' || c == ':'))
                .unwrap_or(rest.len());
            if end == 0 {
                return Err((open, JqProblem::Bracket));
            }
            let _ = write!(path, "[{}]", &rest[..end]);
            self.at += end;
        }
        self.blanks();
        if self.eat("]") {
            Ok(several)
        } else {
            Err((open, JqProblem::Bracket))
        }
    }

    /// Text in double quotes, which jq writes as JSON does.
    fn string(&mut self) -> Fallible<String> {
        let rest = self.rest();
        let mut escaped = false;
        let end = rest.char_indices().skip(1).find(|(_, next)| {
            let ends = *next == '"' && !escaped;
            escaped = *next == '\\' && !escaped;
            ends
        });
        let wrong = (self.at, JqProblem::Quoted);
        let (end, _) = end.ok_or(wrong)?;
        let text = serde_json::from_str(&rest[..=end]).map_err(|_| wrong)?;
        self.at += end + 1;
        Ok(text)
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn eat(&mut self, expected: &str) -> bool {
        let found = self.rest().starts_with(expected);
        if found {
            self.at += expected.len();
        }
        found
    }
}

/// Whether a dot with this behind it stands for the value itself.
fn ends_path(rest: &str) -> bool {
    let rest = rest.trim_start();
    rest.is_empty() || rest.starts_with(['|', ')', '=', '!', '<', '>'])
}

/// Text as a path writes it.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('\'', r"\'");
    format!("'{escaped}'")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Removals;
    use crate::jsonpath::Path;

    fn removed(text: &str, object: &Value) -> Value {
        let path = Path::parse_jq(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut removals = Removals::new();
        removals.add_path(&path, object).expect(text);
        let mut object = object.clone();
        removals.apply(&mut object);
        object
    }

    #[test]
    fn what_jq_would_delete_goes() {
        let object = json!({
            "metadata": {"annotations": {"example.com/a": "1", "it's": "2", "b": "3"}},
            "spec": {
                "replicas": 2,
                "containers": [
                    {"name": "app", "image": "a", "ports": [1, 2]},
                    {"name": "proxy", "image": "p", "ports": [3], "weight": 5},
                ],
            },
        });
        let without = |pointer: &str| {
            let mut left = object.clone();
            let (parent, last) = pointer.rsplit_once('/').expect("a pointer");
            let last = last.replace("~1", "/");
            match left.pointer_mut(parent) {
                Some(Value::Object(members)) => members.remove(&last).map(drop),
                Some(Value::Array(items)) => {
                    items.remove(last.parse().expect("an index"));
                    Some(())
                }
                _ => None,
            }
            .expect(pointer);
            left
        };
        for (text, pointer) in [
            (".spec.replicas", "/spec/replicas"),
            (" .spec.replicas? ", "/spec/replicas"),
            (".spec.\"replicas\"", "/spec/replicas"),
            (".spec[\"replicas\"]", "/spec/replicas"),
            (".[\"spec\"].replicas", "/spec/replicas"),
            (".spec | .replicas", "/spec/replicas"),
            (
                ".metadata.annotations[\"example.com/a\"]",
                "/metadata/annotations/example.com~1a",
            ),
            (
                ".metadata.annotations.\"it's\"",
                "/metadata/annotations/it's",
            ),
            (".spec.containers[1]", "/spec/containers/1"),
            (
                ".spec.containers[] | select(.name == \"proxy\")",
                "/spec/containers/1",
            ),
            (
                ".spec.containers[]|select(.weight>=5)|.image",
                "/spec/containers/1/image",
            ),
            (
                ".spec.containers[] | select(.weight) | .ports",
                "/spec/containers/1/ports",
            ),
        ] {
            assert_eq!(removed(text, &object), without(pointer), "{text}");
        }
        let both = removed(".spec.containers[].ports", &object);
        assert_eq!(both["spec"]["containers"][0].get("ports"), None);
        assert_eq!(both["spec"]["containers"][1].get("ports"), None);
        let sliced = removed(".spec.containers[0].ports[0:1]", &object);
        assert_eq!(sliced["spec"]["containers"][0]["ports"], json!([2]));
    }

    #[test]
    fn everything_else_of_jq_is_refused() {
        for text in [
            "",
            "  ",
            "spec",
            "$.spec",
            ".spec.a-b",
            ".spec.",
            ".spec..a",
            "..",
            ".a[b]",
            ".a[",
            ".a[\"b]",
            ".a[0",
            ".a | length",
            ".a | select(.b == 1)",
            ".a[] | select(.b == 1 and .c == 2)",
            ".a[] | select(.b | test(\"x\"))",
            ".a[] | select(.b[].c == 1)",
            ".a[] | select(.b == null)",
            ".a[] | select(.b =",
            ".a, .b",
            ".a[0,1]",
            ".a // .b",
            "del(.a)",
            "map(.a)",
            ".0",
            &format!(".{}", "a".repeat(MAX_BYTES)),
        ] {
            assert!(Path::parse_jq(text).is_err(), "{text}");
        }
        let error = Path::parse_jq(".a | length").expect_err("no path");
        assert_eq!(
            error.to_string(),
            "after \"|\" only a path or select(…) is understood (at character 6)"
        );
    }
}
