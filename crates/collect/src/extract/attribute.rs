//! One attribute: which value it takes and how it is written.

use kollect_api::profile;
use kollect_expr::attribute::{AttributePath, EvalError};
use kollect_expr::jsonpath::Shape;
use kollect_expr::{Output, ReadSet};
use kollect_inventory::canonical::Slot;
use smallvec::SmallVec;

use super::error::{AttributeError, ExtractError};
use super::secret::sees_through_guard;
use super::source::Source;
use crate::redact::{KeyClass, Node, Reason, Redactor, RowFull, ScrubKeys};

/// The values of the attributes in the order of the profile; nothing for those left out. The
/// usual number of them stays on the stack.
pub(super) type Values<'a> = SmallVec<[Option<Output<'a>>; 16]>;

/// What the profile as a whole says about each of its attributes.
pub(super) struct Rules<'p> {
    pub(super) keys: &'p ScrubKeys,
    /// The objects are core Secrets.
    pub(super) is_secret: bool,
    /// The profile may read what Secrets keep.
    pub(super) secrets_permitted: bool,
}

/// A compiled attribute.
#[derive(Debug)]
pub(super) struct Attribute {
    name: Box<str>,
    path: Result<AttributePath, AttributeError>,
    optional: bool,
    shape: Shape,
    /// The path could reach what a Secret keeps and must not.
    guarded: bool,
    /// What the name of the attribute says about the value.
    name_class: KeyClass,
    /// What the last name in the path says about the value, or about each of several.
    member_class: KeyClass,
}

impl Attribute {
    pub(super) fn new(attribute: &profile::Attribute, rules: &Rules<'_>) -> Self {
        let guard = rules.is_secret && !rules.secrets_permitted;
        let path = match AttributePath::parse(&attribute.path) {
            Ok(AttributePath::Helm(field)) if guard && field.needs_secret_permission() => {
                Err(AttributeError::ReleaseConfig)
            }
            Ok(path) => Ok(path),
            Err(error) => Err(AttributeError::Path(error)),
        };
        let class =
            |key: Option<&str>| key.map_or(KeyClass::Plain, |key| KeyClass::of(key, rules.keys));
        let member = path.as_ref().ok().and_then(AttributePath::sensitive_name);
        let (name_class, member_class) = match &path {
            // Permission to read the data of Secrets is permission to name what is read. A release
            // is read with the same permission but for other fields than its passwords.
            Ok(AttributePath::Helm(_)) if rules.secrets_permitted => {
                (KeyClass::Plain, class(member))
            }
            _ if rules.secrets_permitted => (KeyClass::Plain, KeyClass::Plain),
            _ => (class(Some(&attribute.name)), class(member)),
        };
        Attribute {
            name: attribute.name.as_str().into(),
            optional: attribute.optional,
            shape: match attribute.type_.as_deref() {
                Some("list") => Shape::List,
                _ => Shape::Plain,
            },
            guarded: guard && path.as_ref().is_ok_and(reaches_data),
            path,
            name_class,
            member_class,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn add_reads(&self, reads: &mut ReadSet) {
        if let Ok(path) = &self.path {
            reads.merge(&path.reads());
        }
    }

    /// Appends the value for the row, or nothing if the attribute is left out.
    ///
    /// Values go straight to their place; handing them up through nested results costs a quarter
    /// of what finding them does.
    pub(super) fn evaluate<'a>(
        &'a self,
        source: &'a Source<'_>,
        values: &mut Values<'a>,
    ) -> Result<(), ExtractError> {
        let object = if self.guarded {
            source.guarded()
        } else {
            source.object()
        };
        let value = match &self.path {
            Ok(AttributePath::Cel(program)) => match program.evaluate(object) {
                Ok(output) => self.kept(output),
                Err(error) => self.failed(EvalError::from(error))?,
            },
            Ok(AttributePath::JsonPath(path)) => match path.evaluate(object, self.shape) {
                Ok(Some(output)) => self.kept(output),
                Ok(None) => self.nothing(),
                Err(error) => self.failed(EvalError::from(error))?,
            },
            Ok(AttributePath::Helm(field)) => match source.release() {
                Ok(release) => match field.get(release) {
                    Ok(Some(output)) => self.kept(output),
                    Ok(None) => self.nothing(),
                    Err(error) => self.failed(EvalError::from(error))?,
                },
                Err(error) => self.failed(error)?,
            },
            Err(error) => self.failed(error.clone())?,
        };
        values.push(value);
        Ok(())
    }

    /// An optional attribute that fails is left out; any other fails the object.
    #[cold]
    fn failed(
        &self,
        problem: impl Into<AttributeError>,
    ) -> Result<Option<Output<'static>>, ExtractError> {
        if self.optional {
            return Ok(None);
        }
        Err(ExtractError::Attribute {
            name: self.name.clone(),
            problem: problem.into(),
        })
    }

    fn kept<'a>(&self, output: Output<'a>) -> Option<Output<'a>> {
        if output.is_null() {
            self.nothing()
        } else {
            Some(output)
        }
    }

    /// What stands for a value that was not found.
    fn nothing(&self) -> Option<Output<'static>> {
        (!self.optional).then_some(Output::Null)
    }

    /// Writes the value, or what stands in its place.
    pub(super) fn write(
        &self,
        redactor: &mut Redactor<'_>,
        slot: Slot<'_, String>,
        output: &Output<'_>,
    ) -> Result<(), RowFull> {
        let node = Node::from(output);
        if node.is_null() {
            return redactor.write(slot, node);
        }
        if self.name_class.hides(node) {
            return redactor.hide(slot, Reason::SensitiveKey);
        }
        match (output, &self.path) {
            // Several matches: each of them is what the last name stands for.
            (Output::List(matches), Ok(AttributePath::JsonPath(_)))
                if self.member_class != KeyClass::Plain =>
            {
                let mut list = slot.array();
                matches.iter().try_for_each(|value| {
                    self.write_member(redactor, list.item(), Node::from(value))
                })
            }
            _ => self.write_member(redactor, slot, node),
        }
    }

    fn write_member(
        &self,
        redactor: &mut Redactor<'_>,
        slot: Slot<'_, String>,
        node: Node<'_>,
    ) -> Result<(), RowFull> {
        if self.member_class.hides(node) {
            redactor.hide(slot, Reason::SensitiveKey)
        } else {
            redactor.write(slot, node)
        }
    }
}

/// Whether a path could reach what a Secret keeps. Fields of a release have a guard of their own.
fn reaches_data(path: &AttributePath) -> bool {
    match path {
        AttributePath::Cel(program) => sees_through_guard(program.reads()),
        AttributePath::JsonPath(path) => sees_through_guard(path.reads()),
        AttributePath::Helm(_) => false,
    }
}
