//! What is said of manifests: one finding per line, with file and line.

use std::{collections::BTreeSet, fmt};

use serde_json::{Value, json};

use crate::manifest::{Broken, Document};

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Severity {
    Error,
    Warning,
}

/// One thing that is said of one place. The order is that of files and lines.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    pub(crate) file: String,
    /// 0 if no line is known.
    pub(crate) line: u64,
    pub(crate) severity: Severity,
    /// Kind, namespace and name of the object; empty if it is none.
    pub(crate) kind: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The field; empty for the object as a whole.
    pub(crate) path: String,
    pub(crate) problem: String,
}

impl Finding {
    /// Something about a field of an object; an empty path means all of it.
    pub(crate) fn of(
        document: &Document,
        severity: Severity,
        path: &str,
        problem: impl Into<String>,
    ) -> Self {
        Self {
            file: document.file.to_string(),
            line: document.places.find(path).line,
            severity,
            kind: document.text("/kind").to_owned(),
            namespace: document.text("/metadata/namespace").to_owned(),
            name: document.text("/metadata/name").to_owned(),
            path: path.to_owned(),
            problem: problem.into(),
        }
    }

    /// Something that is no object at all.
    pub(crate) fn broken(broken: Broken) -> Self {
        Self {
            file: broken.file.to_string(),
            line: broken.line,
            severity: Severity::Error,
            kind: String::new(),
            namespace: String::new(),
            name: String::new(),
            path: String::new(),
            problem: broken.problem,
        }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// For machines.
    pub(crate) fn to_json(&self) -> Value {
        json!({
            "file": self.file,
            "line": self.line,
            "severity": match self.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "path": self.path,
            "problem": self.problem,
        })
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            // Objects of a dump come without places.
            0 => write!(f, "{}: ", self.file)?,
            line => write!(f, "{}:{line}: ", self.file)?,
        }
        if self.severity == Severity::Warning {
            f.write_str("warning: ")?;
        }
        let Self {
            kind,
            name,
            path,
            problem,
            ..
        } = self;
        match (kind.is_empty(), path.is_empty(), self.severity) {
            (true, _, _) => f.write_str(problem),
            (false, true, Severity::Error) => write!(f, "{kind} {name:?} {problem}"),
            (false, false, Severity::Error) => {
                write!(f, "{kind} {name:?} is invalid: {path}: {problem}")
            }
            (false, true, Severity::Warning) => write!(f, "{kind} {name:?}: {problem}"),
            (false, false, Severity::Warning) => write!(f, "{kind} {name:?}: {path}: {problem}"),
        }
    }
}

/// How many objects, or files that hold none, have errors.
pub(crate) fn failed(findings: &[Finding]) -> usize {
    let errors = findings.iter().filter(|finding| finding.is_error());
    let places: BTreeSet<_> = errors
        .map(|finding| {
            let Finding {
                file,
                kind,
                namespace,
                name,
                ..
            } = finding;
            (file, kind, namespace, name)
        })
        .collect();
    places.len()
}
