//! One attribute: which value it takes and how it is written.

use kollect_api::profile;
use kollect_expr::attribute::{AttributePath, EvalError};
use kollect_expr::jsonpath::Shape;
use kollect_expr::{Allowance, CompileBudget, Output, ReadSet};
use kollect_inventory::canonical::Slot;
use smallvec::SmallVec;

use super::error::{AttributeError, ExtractError};
use super::source::Source;
use crate::guard::Guard;
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
    /// What the path must not see.
    guard: Guard,
    /// What a Secret keeps is hidden from the path.
    hides_data: bool,
    /// What the name of the attribute says about the value.
    name_class: KeyClass,
    /// What the last name in the path says about the value, or about each of several.
    member_class: KeyClass,
}

impl Attribute {
    pub(super) fn new(
        attribute: &profile::Attribute,
        rules: &Rules<'_>,
        budget: &mut CompileBudget,
    ) -> Self {
        let hides_data = rules.is_secret && !rules.secrets_permitted;
        let path = match AttributePath::parse_within(&attribute.path, budget) {
            Ok(AttributePath::Helm(field)) if hides_data && field.needs_secret_permission() => {
                Err(AttributeError::ReleaseForbidden)
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
            guard: path
                .as_ref()
                .map_or(Guard::NONE, |path| Guard::of_attribute(path, hides_data)),
            hides_data,
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
            self.guard.add_reads(&path.reads(), reads);
        }
    }

    /// Whether the path was not compiled because the profile costs too much as a whole.
    pub(super) fn is_too_expensive(&self) -> bool {
        matches!(&self.path, Err(AttributeError::Path(error)) if error.is_too_expensive())
    }

    /// Appends the value for the row, or nothing if the attribute is left out.
    ///
    /// Values go straight to their place; handing them up through nested results costs a quarter
    /// of what finding them does.
    pub(super) fn evaluate<'a>(
        &'a self,
        source: &'a Source<'_>,
        allowance: &mut Allowance,
        values: &mut Values<'a>,
    ) -> Result<(), ExtractError> {
        let value = match &self.path {
            Ok(AttributePath::Cel(program)) => {
                let object = if self.guard.needed {
                    source.for_program()
                } else {
                    source.object()
                };
                match program.evaluate_within(object, allowance) {
                    Ok(output) => self.kept(output),
                    Err(error) => self.failed(EvalError::from(error))?,
                }
            }
            Ok(AttributePath::JsonPath(path)) => {
                let object = if self.guard.needed {
                    source.for_path()
                } else {
                    source.object()
                };
                match path.evaluate_within(object, self.shape, allowance) {
                    Ok(Some(output)) => self.kept(output),
                    Ok(None) => self.nothing(),
                    Err(error) => self.failed(EvalError::from(error))?,
                }
            }
            Ok(AttributePath::Helm(field)) => match source.release() {
                Ok(release) => {
                    let found = if self.hides_data {
                        field.get(release)
                    } else {
                        field.get_permitted(release)
                    };
                    match found {
                        Ok(Some(output)) => self.kept(output),
                        Ok(None) => self.nothing(),
                        Err(error) => self.failed(EvalError::from(error))?,
                    }
                }
                Err(error) => self.failed(error)?,
            },
            Err(error) => self.failed(error.clone())?,
        };
        values.push(value);
        Ok(())
    }

    /// An optional attribute that fails is left out; any other fails the object. So does what is
    /// not the failure of this attribute: a profile that is too expensive as a whole.
    #[cold]
    fn failed(
        &self,
        problem: impl Into<AttributeError>,
    ) -> Result<Option<Output<'static>>, ExtractError> {
        let problem = problem.into();
        if self.optional && !problem.is_shared_limit() {
            return Ok(None);
        }
        Err(ExtractError::Attribute {
            name: self.name.clone(),
            problem,
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
