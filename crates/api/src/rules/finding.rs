//! What rules say: where, what is wrong, and what to do.

use std::fmt;

use serde::Serialize;

/// The place of a field, such as `spec.attributes[2].path`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// `spec`.
    pub fn spec() -> Self {
        Self("spec".to_owned())
    }

    /// A member of this place; dots in `name` are further members.
    pub fn field(&self, name: &str) -> Self {
        Self(format!("{}.{name}", self.0))
    }

    /// An element of the list at this place.
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this place.
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// It must be given.
    Required(String),
    /// It has a value that does not do.
    Invalid {
        /// The value as JSON.
        value: String,
        /// What would do.
        detail: String,
    },
    /// It is none of the words it may be.
    Unsupported {
        /// The word.
        value: String,
        /// The words it may be.
        supported: Vec<&'static str>,
    },
    /// It must not be given, or not like this.
    Forbidden(String),
    /// It repeats another entry.
    Duplicate(String),
    /// The list is too long.
    TooMany {
        /// How many entries it has.
        count: usize,
        /// How many it may have.
        max: usize,
    },
}

/// One violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub path: Path,
    /// What.
    pub class: Class,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = &self.path;
        match &self.class {
            Class::Required(detail) => write!(f, "{path}: Required value: {detail}"),
            Class::Invalid { value, detail } => {
                write!(f, "{path}: Invalid value: {value}: {detail}")
            }
            Class::Unsupported { value, supported } => {
                write!(
                    f,
                    "{path}: Unsupported value: {value:?}: supported values: "
                )?;
                for (index, word) in supported.iter().enumerate() {
                    write!(f, "{}{word:?}", if index == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            Class::Forbidden(detail) => write!(f, "{path}: Forbidden: {detail}"),
            Class::Duplicate(value) => write!(f, "{path}: Duplicate value: {value:?}"),
            Class::TooMany { count, max } => {
                write!(
                    f,
                    "{path}: Too many: {count}: must have at most {max} items"
                )
            }
        }
    }
}

/// Everything the rules found in one object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Violations; any one makes the object invalid.
    pub errors: Vec<Finding>,
    /// A refusal that is not about one field, such as a scope's.
    pub refusal: Option<String>,
    /// What deserves attention but blocks nothing.
    pub warnings: Vec<String>,
}

impl Findings {
    /// Whether nothing stands against the object.
    pub fn is_clean(&self) -> bool {
        self.errors.is_empty() && self.refusal.is_none()
    }

    pub(super) fn required(&mut self, path: Path, detail: impl Into<String>) {
        self.errors.push(Finding {
            path,
            class: Class::Required(detail.into()),
        });
    }

    pub(super) fn invalid(&mut self, path: Path, value: impl Serialize, detail: impl Into<String>) {
        let value = serde_json::to_string(&value).unwrap_or_default();
        self.errors.push(Finding {
            path,
            class: Class::Invalid {
                value,
                detail: detail.into(),
            },
        });
    }

    pub(super) fn unsupported(
        &mut self,
        path: Path,
        value: impl Into<String>,
        supported: Vec<&'static str>,
    ) {
        let class = Class::Unsupported {
            value: value.into(),
            supported,
        };
        self.errors.push(Finding { path, class });
    }

    pub(super) fn forbidden(&mut self, path: Path, detail: impl Into<String>) {
        self.errors.push(Finding {
            path,
            class: Class::Forbidden(detail.into()),
        });
    }

    pub(super) fn duplicate(&mut self, path: Path, value: impl Into<String>) {
        self.errors.push(Finding {
            path,
            class: Class::Duplicate(value.into()),
        });
    }

    pub(super) fn too_many(&mut self, path: Path, count: usize, max: usize) {
        self.errors.push(Finding {
            path,
            class: Class::TooMany { count, max },
        });
    }

    /// Keeps the first refusal; later ones say nothing new.
    pub(super) fn refuse(&mut self, message: impl Into<String>) {
        if self.refusal.is_none() {
            self.refusal = Some(message.into());
        }
    }

    pub(super) fn warn(&mut self, message: impl Into<String>) {
        self.warnings.push(message.into());
    }

    /// The verdict on the object of this kind and name.
    pub fn into_verdict(self, kind: &'static str, name: &str) -> Verdict {
        if !self.errors.is_empty() {
            return Verdict::Denied(Denial::Invalid {
                kind,
                name: name.to_owned(),
                findings: self.errors,
            });
        }
        match self.refusal {
            Some(refusal) => Verdict::Denied(Denial::Refused(refusal)),
            None => Verdict::Allowed {
                warnings: self.warnings,
            },
        }
    }
}

/// Whether an object may be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It may.
    Allowed {
        /// What deserves attention.
        warnings: Vec<String>,
    },
    /// It may not.
    Denied(Denial),
}

/// Why an object may not be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denial {
    /// Fields are wrong.
    Invalid {
        /// Kind of the object.
        kind: &'static str,
        /// Name of the object.
        name: String,
        /// All violations.
        findings: Vec<Finding>,
    },
    /// A scope or the operator's mode stands against it.
    Refused(String),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Denial::Invalid {
                kind,
                name,
                findings,
            } => {
                write!(f, "{kind} {name:?} is invalid: ")?;
                for (index, finding) in findings.iter().enumerate() {
                    write!(f, "{}{finding}", if index == 0 { "" } else { "; " })?;
                }
                Ok(())
            }
            Denial::Refused(message) => f.write_str(message),
        }
    }
}
