//! Redaction: nothing under a key that names a secret leaves the process.
//!
//! Values are redacted while they are written, so that there is neither a copy to clean nor a way
//! around the cleaning: this is the only module of the crate that writes values. A member of a map
//! is replaced by `{"reason":"sensitive-key","redacted":true}` when
//!
//! * its key is sensitive (see [`ScrubKeys`]) and its value is not a boolean, which says that
//!   there is a secret but not which;
//! * it is a reference into a Secret: `secretKeyRef` or `secretRef` with a map, `valueFrom` with a
//!   map that has `secretKeyRef`, `tls` with a map that has `key`;
//! * it is the `value` beside a text `name` that is sensitive, as in the environment of a
//!   container.
//!
//! Text that has the form of a secret (a private key, a signed token, a URL with a password) is
//! replaced by `{"reason":"sensitive-value","redacted":true}` wherever it stands, and the
//! annotations in which tools keep the object as it was applied are left out.

mod keys;
mod names;
mod values;

use kollect_expr::Output;
use kollect_inventory::canonical::{ObjectWriter, Slot};
use serde_json::{Map, Value};

pub use keys::ScrubKeys;
use keys::Sensitivity;

use crate::guard::is_applied;

/// Why a value is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Its key is sensitive.
    SensitiveKey,
    /// It has the form of a secret.
    SensitiveValue,
    /// It is the data of a Secret.
    SecretData,
}

impl Reason {
    /// Writes what stands in place of the value.
    pub(crate) fn write(self, slot: Slot<'_, String>) {
        let mut object = slot.object();
        object.member("reason").string(match self {
            Self::SensitiveKey => "sensitive-key",
            Self::SensitiveValue => "sensitive-value",
            Self::SecretData => "secret-data",
        });
        object.member("redacted").bool(true);
    }
}

/// More was written than a row may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowFull;

/// A value to be written: a part of the object, or what an expression made.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Node<'v> {
    Value(&'v Value),
    Output(&'v Output<'v>),
}

impl<'v> From<&'v Value> for Node<'v> {
    fn from(value: &'v Value) -> Self {
        Node::Value(value)
    }
}

impl<'v> From<&'v Output<'v>> for Node<'v> {
    fn from(output: &'v Output<'v>) -> Self {
        match output {
            Output::Borrowed(value) => Node::Value(value),
            built => Node::Output(built),
        }
    }
}

impl Node<'_> {
    pub(crate) fn is_null(self) -> bool {
        match self {
            Node::Value(value) => value.is_null(),
            Node::Output(output) => output.is_null(),
        }
    }

    fn is_bool(self) -> bool {
        matches!(
            self,
            Node::Value(Value::Bool(_)) | Node::Output(Output::Bool(_))
        )
    }

    fn is_text(self) -> bool {
        matches!(
            self,
            Node::Value(Value::String(_)) | Node::Output(Output::String(_))
        )
    }

    fn is_map(self) -> bool {
        matches!(
            self,
            Node::Value(Value::Object(_)) | Node::Output(Output::Map(_))
        )
    }

    fn has_member(self, name: &str) -> bool {
        match self {
            Node::Value(Value::Object(members)) => members.contains_key(name),
            Node::Output(Output::Map(members)) => members.iter().any(|(key, _)| key == name),
            _ => false,
        }
    }
}

/// What a key says about the value under it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyClass {
    /// Nothing.
    Plain,
    /// It is a secret.
    Sensitive,
    /// It is a secret if it is text.
    SensitiveText,
    /// It says where in a Secret a value is, if it is a map.
    Reference,
    /// The same, if it is a map with this member.
    ReferenceWith(&'static str),
}

impl KeyClass {
    pub(crate) fn of(key: &str, keys: &ScrubKeys) -> Self {
        match keys.sensitivity(key) {
            Some(Sensitivity::Any) => return KeyClass::Sensitive,
            Some(Sensitivity::Text) => return KeyClass::SensitiveText,
            None => {}
        }
        let key = key.trim();
        let is = |name: &str| key.eq_ignore_ascii_case(name);
        if is("secretKeyRef") || is("secretRef") {
            KeyClass::Reference
        } else if is("valueFrom") {
            KeyClass::ReferenceWith("secretKeyRef")
        } else if is("tls") {
            KeyClass::ReferenceWith("key")
        } else {
            KeyClass::Plain
        }
    }

    /// Whether this value must not be shown under such a key.
    pub(crate) fn hides(self, node: Node<'_>) -> bool {
        match self {
            KeyClass::Plain => false,
            KeyClass::Sensitive => !node.is_bool(),
            KeyClass::SensitiveText => node.is_text(),
            KeyClass::Reference => node.is_map(),
            KeyClass::ReferenceWith(member) => node.has_member(member),
        }
    }
}

/// The most bytes of text that one counted byte becomes: the digits of a number.
const MOST_PER_COUNTED: usize = 24;

/// Writes values without what must not be seen, up to the size of a row.
///
/// The size is counted as the least the JSON text can be, so running out of it means that the row
/// is too large for certain; whether escapes and digits make it so is only worth a look if
/// [`Redactor::fits_for_certain`] does not say otherwise.
#[derive(Debug)]
pub(crate) struct Redactor<'k> {
    keys: &'k ScrubKeys,
    most: usize,
    left: usize,
    shows_secrets: bool,
}

impl<'k> Redactor<'k> {
    pub(crate) fn new(keys: &'k ScrubKeys, most_bytes: usize) -> Self {
        Redactor {
            keys,
            most: most_bytes,
            left: most_bytes,
            shows_secrets: false,
        }
    }

    /// Does not look at what texts say: the profile may read what Secrets keep.
    pub(crate) fn show_secret_values(&mut self) {
        self.shows_secrets = true;
    }

    /// Whether what was written is within the limit, however much of it needed escapes.
    pub(crate) fn fits_for_certain(&self) -> bool {
        self.most - self.left < self.most / MOST_PER_COUNTED
    }

    /// Counts `bytes` of JSON text.
    pub(crate) fn count(&mut self, bytes: usize) -> Result<(), RowFull> {
        self.left = self.left.checked_sub(bytes).ok_or(RowFull)?;
        Ok(())
    }

    /// Whether this value must not be shown under this key.
    fn hides(&self, key: &str, node: Node<'_>) -> bool {
        if node.is_map() {
            KeyClass::of(key, self.keys).hides(node)
        } else {
            // Only maps are references, and most members are none.
            match self.keys.sensitivity(key) {
                Some(Sensitivity::Any) => !node.is_bool(),
                Some(Sensitivity::Text) => node.is_text(),
                None => false,
            }
        }
    }

    /// Writes a value; what is inside it is redacted, the value itself has no key yet.
    pub(crate) fn write(&mut self, slot: Slot<'_, String>, node: Node<'_>) -> Result<(), RowFull> {
        match node {
            Node::Value(value) => self.value(slot, value),
            Node::Output(output) => self.output(slot, output),
        }
    }

    /// Writes a redacted value.
    pub(crate) fn hide(&mut self, slot: Slot<'_, String>, reason: Reason) -> Result<(), RowFull> {
        self.count(2)?;
        reason.write(slot);
        Ok(())
    }

    fn value(&mut self, slot: Slot<'_, String>, value: &Value) -> Result<(), RowFull> {
        match value {
            Value::Object(members) => {
                let name = || members.get("name").and_then(Value::as_str);
                let sorted = in_key_order(members);
                let members = sorted.map(|(key, value)| (key.as_str(), Node::Value(value)));
                self.members(slot, name, members)
            }
            Value::Array(items) => self.items(slot, items.iter().map(Node::Value)),
            Value::String(text) => self.text(slot, text),
            scalar => {
                self.count(1)?;
                slot.value(scalar);
                Ok(())
            }
        }
    }

    fn output(&mut self, slot: Slot<'_, String>, output: &Output<'_>) -> Result<(), RowFull> {
        match output {
            Output::Borrowed(value) => return self.value(slot, value),
            Output::String(text) => return self.text(slot, text),
            Output::List(items) => return self.items(slot, items.iter().map(Node::from)),
            Output::Map(members) => {
                let name = || {
                    members.iter().find_map(|(key, value)| match value {
                        Output::String(text) if key == "name" => Some(&**text),
                        Output::Borrowed(Value::String(text)) if key == "name" => Some(&**text),
                        _ => None,
                    })
                };
                let members = members.iter().map(|(key, value)| (&**key, value.into()));
                return self.members(slot, name, members);
            }
            Output::Null => slot.null(),
            Output::Bool(flag) => slot.bool(*flag),
            Output::Int(number) => slot.signed(*number),
            Output::Uint(number) => slot.unsigned(*number),
            Output::Double(number) => {
                // Expressions hand out finite numbers only; the slot would be null otherwise.
                let _ = slot.float(*number);
            }
        }
        self.count(1)
    }

    fn text(&mut self, slot: Slot<'_, String>, text: &str) -> Result<(), RowFull> {
        if !self.shows_secrets && values::is_secret(text) {
            return self.hide(slot, Reason::SensitiveValue);
        }
        self.count(text.len() + 2)?;
        slot.string(text);
        Ok(())
    }

    fn items<'v>(
        &mut self,
        slot: Slot<'_, String>,
        items: impl Iterator<Item = Node<'v>>,
    ) -> Result<(), RowFull> {
        self.count(2)?;
        let mut array = slot.array();
        for item in items {
            self.write(array.item(), item)?;
        }
        Ok(())
    }

    /// Writes a map whose members come in key order. `name` finds its text `name`, if it has one.
    fn members<'v>(
        &mut self,
        slot: Slot<'_, String>,
        name: impl Fn() -> Option<&'v str>,
        members: impl Iterator<Item = (&'v str, Node<'v>)>,
    ) -> Result<(), RowFull> {
        self.count(2)?;
        let mut object = slot.object();
        for (key, node) in members {
            if is_applied(key) {
                continue;
            }
            let named_secret = key == "value"
                && !node.is_bool()
                && name().is_some_and(|name| self.keys.matches(name));
            if named_secret {
                self.count(key.len() + 3)?;
                self.hide(object.member(key), Reason::SensitiveKey)?;
            } else {
                self.member(&mut object, key, node)?;
            }
        }
        Ok(())
    }

    /// Writes one member of a map, or what stands in its place.
    pub(crate) fn member<'v>(
        &mut self,
        object: &mut ObjectWriter<'_, 'v, String>,
        key: &'v str,
        node: Node<'_>,
    ) -> Result<(), RowFull> {
        self.count(key.len() + 3)?;
        let slot = object.member(key);
        if self.hides(key, node) {
            self.hide(slot, Reason::SensitiveKey)
        } else {
            self.write(slot, node)
        }
    }
}

/// Whether a member of a map is the value of a name that is sensitive.
pub(crate) fn is_pair_secret<'v>(
    key: &str,
    value: &Value,
    name: impl Fn() -> Option<&'v str>,
    keys: &ScrubKeys,
) -> bool {
    key == "value" && !value.is_boolean() && name().is_some_and(|name| keys.matches(name))
}

/// The members of a map by ascending key, which `serde_json` only promises as long as no crate of
/// the build asks it to keep the order of insertion.
pub(crate) fn in_key_order(
    members: &Map<String, Value>,
) -> impl Iterator<Item = (&String, &Value)> {
    let (in_place, mut reordered) = if members.keys().is_sorted() {
        (Some(members), Vec::new())
    } else {
        (None, members.iter().collect())
    };
    reordered.sort_unstable_by_key(|(key, _)| *key);
    in_place.into_iter().flatten().chain(reordered)
}
