//! Objects out of YAML, as JSON.
//!
//! What `kubectl get -o yaml` prints is one document with all objects in a list. It is cut between the items, so that each of them
//! is parsed by itself: a parser that is given all of it has to remember all of it.

use std::thread;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;

use crate::{interrupt, manifest::is_nothing};

/// Hands every document, or item of the list in it, to `take`, as JSON; lists without items too.
pub(super) fn each(
    file: &str,
    text: &str,
    mut take: impl FnMut(String) -> Result<()>,
) -> Result<()> {
    let mut line = 1;
    for document in documents(text) {
        for block in items(document).chunks(BLOCK) {
            interrupt::check()?;
            for json in parse_all(file, block, line) {
                for json in json? {
                    take(json)?;
                }
            }
        }
        line += document.matches('\n').count();
    }
    Ok(())
}

/// How many items are parsed side by side before they are handed on.
const BLOCK: usize = 256;

/// Parses items on all processors; what comes of each is in their order.
fn parse_all(file: &str, block: &[(&str, usize)], line: usize) -> Vec<Result<Vec<String>>> {
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let share = block.len().div_ceil(workers).max(1);
    let one = |(part, offset): &(&str, usize)| -> Result<Vec<String>> {
        let values = parse(file, part, line + offset)?.into_iter();
        let values = values.filter(|value| !is_nothing(value));
        let texts = values.map(|value| serde_json::to_string(&value));
        Ok(texts.collect::<Result<_, _>>()?)
    };
    if block.len() == 1 {
        return block.iter().map(one).collect();
    }
    thread::scope(|scope| {
        let shares = block.chunks(share);
        let workers: Vec<_> = shares
            .map(|share| scope.spawn(move || share.iter().map(one).collect::<Vec<_>>()))
            .collect();
        let broken = || vec![Err(anyhow!("{file}: parsing broke off"))];
        let done = workers.into_iter();
        done.flat_map(|worker| worker.join().unwrap_or_else(|_| broken()))
            .collect()
    })
}

/// A stream cut at its document markers. Nothing inside a document begins a line with one.
fn documents(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let marker = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace));
        if marker && at > begin {
            found.push(&text[begin..at]);
            begin = at;
        }
        at += line.len();
    }
    found.push(&text[begin..]);
    found
}

/// The items of a document that is a `List` in the form that kubectl prints, each with the number of lines before it; otherwise
/// the document itself.
fn items(document: &str) -> Vec<(&str, usize)> {
    let whole = vec![(document, 0)];
    let mut lines = document.split_inclusive('\n');
    let mut at = 0;
    let mut number = 0;
    let mut head = String::new();
    loop {
        let Some(line) = lines.next() else {
            return whole;
        };
        at += line.len();
        number += 1;
        if line.trim_end() == "items:" {
            break;
        }
        head.push_str(line);
    }
    let mut found = Vec::new();
    let mut begin = None;
    for line in lines {
        if line.starts_with("- ") {
            if let Some((from, number)) = begin {
                found.push((&document[from..at], number));
            }
            begin = Some((at, number));
        } else if !line.starts_with(' ') && !line.trim().is_empty() {
            // The members behind the items.
            break;
        }
        at += line.len();
        number += 1;
    }
    if let Some((from, number)) = begin {
        found.push((&document[from..at], number));
    }
    let rest = &document[at..];
    let plain = |text: &str| {
        let mut lines = text.lines();
        lines.any(|line| line == "kind: List") && !text.contains(['&', '*', '|', '>'])
    };
    // Typed lists tell what their items are, and anchors may be used anywhere: those are parsed as a whole.
    let anchors = found
        .iter()
        .any(|(item, _)| item.contains(": &") || item.contains("- &"));
    if found.is_empty() || anchors || !(plain(&head) || plain(rest)) {
        return whole;
    }
    found
}

fn parse(file: &str, text: &str, line: usize) -> Result<Vec<Value>> {
    let options = serde_saphyr::options! {
        budget: None,
        with_snippet: false,
        legacy_octal_numbers: true,
        // Letters such as y and n are texts to every tool around Kubernetes.
        strict_booleans: true
    };
    match serde_saphyr::from_multiple_with_options(text, options) {
        // An item is a list of one.
        Ok(documents) if text.starts_with("- ") => {
            let documents: Vec<Value> = documents;
            let lists = documents.into_iter().flat_map(|document| match document {
                Value::Array(items) => items,
                other => vec![other],
            });
            Ok(lists.collect())
        }
        Ok(documents) => Ok(documents),
        Err(error) => {
            let at = error.location().map_or(1, |location| location.line());
            let at = usize::try_from(at).unwrap_or(1);
            bail!("{file}:{}: this is neither YAML nor JSON", line + at - 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str) -> Result<Vec<String>> {
        let mut seen = Vec::new();
        each("dump", text, |json| {
            seen.push(json);
            Ok(())
        })?;
        Ok(seen)
    }

    #[test]
    fn lists_are_cut_between_their_items() {
        let pod = |name: &str| format!(r#"{{"kind":"Pod","metadata":{{"name":"{name}"}}}}"#);
        let list = "apiVersion: v1\nitems:\n- kind: Pod\n  metadata:\n    name: a\n- kind: Pod\n  metadata:\n    name: b\nkind: List\nmetadata:\n  resourceVersion: \"\"\n";
        assert_eq!(seen(list).unwrap(), [pod("a"), pod("b")]);
        let stream = format!("---\n---\n{list}---\nkind: Pod\nmetadata: {{name: c}}\n");
        assert_eq!(seen(&stream).unwrap(), [pod("a"), pod("b"), pod("c")]);
        // Blocks of text may look like anything.
        let block = "items:\n- kind: ConfigMap\n  data:\n    x: |\n      - kind: Pod\n      ---\n      items:\nkind: List\n";
        assert_eq!(
            seen(block).unwrap(),
            [r#"{"data":{"x":"- kind: Pod\n---\nitems:\n"},"kind":"ConfigMap"}"#]
        );
        // Typed lists and anchors stay whole.
        for whole in [
            "kind: PodList\nitems:\n- metadata: {name: a}\n",
            "kind: List\nitems:\n- metadata: &m\n    name: a\n- metadata: *m\n",
            "kind: List\nitems: []\n",
        ] {
            let [one] = &*seen(whole).unwrap() else {
                panic!("{whole}");
            };
            assert!(one.contains("items"), "{one}");
        }
    }

    #[test]
    fn errors_name_the_line_of_the_file() {
        let text = "kind: List\nitems:\n- kind: Pod\n- kind: [secret\n";
        let error = seen(text).unwrap_err().to_string();
        assert!(
            error.starts_with("dump:4") || error.starts_with("dump:5"),
            "{error}"
        );
        assert!(!error.contains("secret"), "{error}");
    }
}
