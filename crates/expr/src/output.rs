//! What an expression yields: JSON that borrows from the object wherever it can.

use std::borrow::Cow;

use serde_json::Value;

/// The result of one evaluation, already reduced to what JSON can hold.
///
/// Non-finite numbers, CEL types and other things JSON has no form for never get here: they are
/// converted or refused by the language that produced them.
#[derive(Debug, Clone, PartialEq)]
pub enum Output<'a> {
    /// A value found in the object and handed on unchanged.
    Borrowed(&'a Value),
    /// JSON `null`.
    Null,
    /// JSON `true` or `false`.
    Bool(bool),
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    Uint(u64),
    /// A finite number.
    Double(f64),
    /// Text.
    String(Cow<'a, str>),
    /// An array, in result order.
    List(Vec<Output<'a>>),
    /// An object; keys are unique and ascending by bytes.
    Map(Vec<(Cow<'a, str>, Output<'a>)>),
}

impl Output<'_> {
    /// Whether the result is JSON `null`, found or computed.
    pub fn is_null(&self) -> bool {
        matches!(self, Output::Null | Output::Borrowed(Value::Null))
    }

    /// The result as an owned JSON value, for callers that keep it (tests, tables, one-off uses).
    pub fn to_value(&self) -> Value {
        match self {
            Output::Borrowed(value) => (*value).clone(),
            Output::Null => Value::Null,
            Output::Bool(flag) => Value::Bool(*flag),
            Output::Int(number) => Value::from(*number),
            Output::Uint(number) => Value::from(*number),
            Output::Double(number) => Value::from(*number),
            Output::String(text) => Value::String(text.clone().into_owned()),
            Output::List(items) => Value::Array(items.iter().map(Output::to_value).collect()),
            Output::Map(members) => Value::Object(
                members
                    .iter()
                    .map(|(key, value)| (key.clone().into_owned(), value.to_value()))
                    .collect(),
            ),
        }
    }
}
