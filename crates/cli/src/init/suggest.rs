//! Attributes that an object suggests. Pure.

use serde_json::{Map, Value};

use super::blueprint::Attribute;

/// How many attributes are suggested at most.
const MOST: usize = 40;
/// How much of a value is shown.
const PREVIEW: usize = 45;

/// What says more about the API server than about the object.
const IGNORED: [&str; 8] = [
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "creationTimestamp",
    "selfLink",
    "ownerReferences",
    "finalizers",
];

/// A suggestion and how it looks in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suggestion {
    pub(crate) attribute: Attribute,
    pub(crate) preview: String,
}

/// Walks an object and suggests its leaves. Of `data` and `stringData` only keys are offered, and
/// no value is ever shown of them, whatever the kind; of a sensitive kind no value is shown at all.
pub(crate) fn suggest(object: &Value, sensitive: bool) -> Vec<Suggestion> {
    let mut walk = Walk {
        steps: Vec::new(),
        found: Vec::new(),
        sensitive,
    };
    walk.value(object);
    walk.found
}

struct Walk {
    steps: Vec<Step>,
    found: Vec<Suggestion>,
    sensitive: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Member(String),
    First,
}

impl Walk {
    fn value(&mut self, value: &Value) {
        match value {
            Value::Object(members) => self.members(members),
            Value::Array(items) => {
                if let Some(first) = items.first() {
                    self.within(Step::First, |walk| walk.value(first));
                }
            }
            Value::Null => {}
            leaf => self.leaf(leaf),
        }
    }

    fn members(&mut self, members: &Map<String, Value>) {
        let mut names: Vec<&String> = members.keys().collect();
        names.sort();
        let at_root = self.steps.is_empty();
        for name in names {
            if IGNORED.contains(&name.as_str())
                || (at_root && matches!(name.as_str(), "apiVersion" | "kind"))
            {
                continue;
            }
            let value = &members[name];
            self.within(Step::Member(name.clone()), |walk| walk.value(value));
        }
    }

    fn within(&mut self, step: Step, visit: impl FnOnce(&mut Self)) {
        if self.found.len() < MOST {
            self.steps.push(step);
            visit(self);
            self.steps.pop();
        }
    }

    fn leaf(&mut self, value: &Value) {
        let in_list = self.steps.iter().any(|step| matches!(step, Step::First));
        let (type_, text) = match value {
            Value::Bool(flag) => ("boolean", flag.to_string()),
            Value::Number(number) => ("number", number.to_string()),
            other => ("string", other.as_str().unwrap_or_default().to_owned()),
        };
        let name = self.name();
        if self.is_identity() {
            return;
        }
        if self.found.iter().any(|known| known.attribute.name == name) {
            return;
        }
        let preview = if self.sensitive || self.is_data() {
            "(redacted)".to_owned()
        } else {
            shorten(&text)
        };
        self.found.push(Suggestion {
            attribute: Attribute {
                path: self.path(),
                name,
                // Of a list all elements are meant, however many there are.
                type_: Some(if in_list { "list" } else { type_ }),
                optional: true,
            },
            preview,
        });
    }

    /// Whether the leaf is what every row says anyway.
    fn is_identity(&self) -> bool {
        matches!(
            &*self.members_on_the_way(),
            ["metadata", "name" | "namespace"]
        )
    }

    /// Whether the leaf is a value of `data` or `stringData`, at the top or below `spec`.
    fn is_data(&self) -> bool {
        self.data_key().is_some()
    }

    fn data_key(&self) -> Option<String> {
        let mut members = self.members_on_the_way();
        if members.first().is_some_and(|first| *first == "spec") {
            members.remove(0);
        }
        match *members {
            [map @ ("data" | "stringData"), key, ..] => Some(format!("{map}.{key}")),
            _ => None,
        }
    }

    fn members_on_the_way(&self) -> Vec<&str> {
        let members = self.steps.iter().filter_map(|step| match step {
            Step::Member(name) => Some(name.as_str()),
            Step::First => None,
        });
        members.collect()
    }

    fn path(&self) -> String {
        let mut path = String::from("$");
        for step in &self.steps {
            match step {
                Step::First => path.push_str("[*]"),
                Step::Member(name) if is_plain(name) => path.push_str(&format!(".{name}")),
                Step::Member(name) => {
                    let quoted = name.replace('\\', "\\\\").replace('\'', "\\'");
                    path.push_str(&format!("['{quoted}']"));
                }
            }
        }
        path
    }

    /// A name for people: the path below `spec`, otherwise the last part.
    fn name(&self) -> String {
        let members = self.members_on_the_way();
        let text = match (self.data_key(), &*members) {
            (Some(key), _) => key,
            (None, ["spec", rest @ ..]) if !rest.is_empty() => rest.join("."),
            (None, [.., last]) => (*last).to_owned(),
            (None, []) => "value".to_owned(),
        };
        sanitize(&text)
    }
}

/// Whether a member can be written after a dot.
fn is_plain(name: &str) -> bool {
    !name.is_empty()
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

/// Attribute names become columns and file names: slashes and blanks do not belong there.
fn sanitize(name: &str) -> String {
    name.chars()
        .map(|c| match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => c,
            _ => '_',
        })
        .collect()
}

fn shorten(text: &str) -> String {
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().count() <= PREVIEW {
        return text;
    }
    let short: String = text.chars().take(PREVIEW).collect();
    format!("{short}…")
}

#[cfg(test)]
mod tests {
    use kollect_expr::jsonpath;
    use serde_json::json;

    use super::*;

    #[test]
    fn leaves_become_attributes_that_find_them() {
        let object = json!({
            "apiVersion": "v1", "kind": "Thing",
            "metadata": {
                "name": "a", "uid": "u", "managedFields": [{"x": 1}],
                "labels": {"app.kubernetes.io/name": "shop", "it's": "odd"},
            },
            "spec": {"replicas": 2, "paused": false, "template": {"containers": [{"image": "i"}, {"image": "j"}]}},
            "status": {"phase": "Running", "nothing": null, "empty": []},
        });
        let found = suggest(&object, false);
        let shown: Vec<(&str, &str, &str)> = found
            .iter()
            .map(|one| {
                let Attribute {
                    name, path, type_, ..
                } = &one.attribute;
                (name.as_str(), path.as_str(), type_.unwrap())
            })
            .collect();
        assert_eq!(
            shown,
            [
                (
                    "app.kubernetes.io_name",
                    "$.metadata.labels['app.kubernetes.io/name']",
                    "string"
                ),
                ("it_s", r"$.metadata.labels['it\'s']", "string"),
                ("paused", "$.spec.paused", "boolean"),
                ("replicas", "$.spec.replicas", "number"),
                (
                    "template.containers.image",
                    "$.spec.template.containers[*].image",
                    "list"
                ),
                ("phase", "$.status.phase", "string"),
            ]
        );
        for one in &found {
            jsonpath::Path::parse(&one.attribute.path).unwrap();
        }
    }

    #[test]
    fn values_of_data_are_never_shown() {
        let secret = json!({"data": {"tls.crt": "hush"}, "spec": {"stringData": {"k": "hush"}}, "type": "Opaque"});
        for (sensitive, of_type) in [(false, "Opaque"), (true, "(redacted)")] {
            let found = suggest(&secret, sensitive);
            let shown: Vec<(&str, &str, &str)> = found
                .iter()
                .map(|one| {
                    let attribute = &one.attribute;
                    (&*attribute.name, &*attribute.path, &*one.preview)
                })
                .collect();
            assert_eq!(
                shown,
                [
                    ("data.tls.crt", "$.data['tls.crt']", "(redacted)"),
                    ("stringData.k", "$.spec.stringData.k", "(redacted)"),
                    ("type", "$.type", of_type),
                ]
            );
        }
    }

    #[test]
    fn there_is_an_end_to_suggestions() {
        let many: Map<String, Value> = (0..100).map(|n| (format!("k{n:03}"), json!(n))).collect();
        assert_eq!(suggest(&json!({"spec": many}), false).len(), MOST);
        let long = suggest(&json!({"spec": {"a": "x".repeat(100)}}), false);
        assert_eq!(long[0].preview.chars().count(), PREVIEW + 1);
    }
}
