//! Comparing a value with a schema.

use kollect_expr::JsonType;
use serde_json::{Map, Value};

use crate::manifest::nearest;

use super::model::{Bounds, Distinct, Rule, Schema, Type};

/// How many field names a message lists.
const NAMED: usize = 16;

/// One thing that stands against an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Violation {
    /// Where, such as `spec.attributes[2].path`.
    pub(crate) path: String,
    /// What.
    pub(crate) problem: String,
    /// Whether a rule says so and not the shape.
    pub(crate) by_rule: bool,
}

/// Compares a whole object with the schema of its kind.
pub(super) fn check(schema: &Schema, object: &Value) -> Vec<Violation> {
    let mut checking = Checking {
        found: Vec::new(),
        path: String::new(),
    };
    checking.value(schema, &schema.complete(object));
    checking.found
}

struct Checking {
    found: Vec<Violation>,
    path: String,
}

impl Checking {
    fn report(&mut self, problem: impl Into<String>) {
        self.found.push(Violation {
            path: self.path.clone(),
            problem: problem.into(),
            by_rule: false,
        });
    }

    /// Reports at a member of the present place.
    fn report_at(&mut self, name: &str, problem: impl Into<String>) {
        self.within(name, |checking| checking.report(problem));
    }

    fn within(&mut self, name: &str, check: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(name);
        check(self);
        self.path.truncate(length);
    }

    fn value(&mut self, schema: &Schema, value: &Value) {
        let before = self.found.len();
        if let Some(expected) = schema.type_
            && !fits(expected, value)
        {
            let hint = match (expected, value.get("name")) {
                (Type::String, Some(Value::String(name))) => {
                    format!("; write the name alone: {name}")
                }
                _ => String::new(),
            };
            self.report(format!(
                "Invalid value: must be of type {}, not {}{hint}",
                expected.as_str(),
                JsonType::of(value)
            ));
            return;
        }
        self.words(schema, value);
        match value {
            Value::Object(members) => self.object(schema, members),
            Value::Array(elements) => self.list(schema, elements),
            Value::String(text) => self.text(schema, text),
            Value::Number(number) => self.number(schema, number.as_f64().unwrap_or_default()),
            Value::Bool(_) | Value::Null => {}
        }
        // Rules are written for values of the right shape.
        if self.found.len() == before {
            for rule in &schema.rules {
                self.rule(rule, value);
            }
        }
    }

    fn words(&mut self, schema: &Schema, value: &Value) {
        if schema.words.is_empty() || schema.words.contains(value) {
            return;
        }
        let words: Vec<String> = schema.words.iter().map(Value::to_string).collect();
        self.report(format!(
            "Unsupported value: {value}: supported values: {}",
            words.join(", ")
        ));
    }

    fn object(&mut self, schema: &Schema, members: &Map<String, Value>) {
        for name in &schema.required {
            if !members.contains_key(name) {
                self.report_at(name, format!("Required value: {name} is required"));
            }
        }
        for (name, value) in members {
            match schema.property(name) {
                Some(member) => self.within(name, |checking| checking.value(member, value)),
                None if schema.is_open() => {}
                None => {
                    let fields: Vec<&str> = schema.fields().into_iter().collect();
                    let known = if let Some(meant) = nearest(name, fields.iter().copied()) {
                        format!("; did you mean {meant}?")
                    } else if fields.len() <= NAMED {
                        format!("; known here: {}", fields.join(", "))
                    } else {
                        String::new()
                    };
                    self.report_at(name, format!("unknown field{known}"));
                }
            }
        }
    }

    fn list(&mut self, schema: &Schema, elements: &[Value]) {
        if let Some(problem) = outside(schema.count, elements.len() as u64, "items") {
            self.report(problem);
        }
        let length = self.path.len();
        for (index, element) in elements.iter().enumerate() {
            self.path.push_str(&format!("[{index}]"));
            if let Some(items) = &schema.items {
                self.value(items, element);
            }
            let earlier = elements[..index]
                .iter()
                .any(|other| same(&schema.distinct, other, element));
            if earlier {
                self.report(format!(
                    "Duplicate value: {}",
                    key(&schema.distinct, element)
                ));
            }
            self.path.truncate(length);
        }
    }

    fn text(&mut self, schema: &Schema, text: &str) {
        let characters = text.chars().count() as u64;
        if let Some(problem) = outside(schema.length, characters, "characters") {
            self.report(problem);
        }
        if let Some(pattern) = &schema.pattern
            && !pattern.is_match(text)
        {
            self.report(format!("Invalid value: must match {}", pattern.as_str()));
        }
        if schema.format.as_deref() == Some("byte") && !is_base64(text) {
            self.report("Invalid value: must be base64");
        }
    }

    fn number(&mut self, schema: &Schema, number: f64) {
        if let Some(minimum) = schema.minimum
            && number < minimum
        {
            self.report(format!("Invalid value: must be at least {minimum}"));
        }
        if let Some(maximum) = schema.maximum
            && number > maximum
        {
            self.report(format!("Invalid value: must be at most {maximum}"));
        }
    }

    fn rule(&mut self, rule: &Rule, value: &Value) {
        let problem = match rule.program.test(value) {
            Ok(true) => return,
            Ok(false) => format!("Invalid value: {}", rule.message),
            // The API server takes a rule that fails for one that does not hold.
            Err(error) => format!("Invalid value: {} ({error})", rule.message),
        };
        self.found.push(Violation {
            path: self.path.clone(),
            problem,
            by_rule: true,
        });
    }
}

fn fits(expected: Type, value: &Value) -> bool {
    match expected {
        Type::Object => value.is_object(),
        Type::Array => value.is_array(),
        Type::String => value.is_string(),
        Type::Boolean => value.is_boolean(),
        Type::Number => value.is_number(),
        Type::Integer => value.is_i64() || value.is_u64(),
    }
}

fn outside(bounds: Bounds, count: u64, of: &str) -> Option<String> {
    match bounds {
        Bounds {
            least: Some(least), ..
        } if count < least => Some(format!("Invalid value: must have at least {least} {of}")),
        Bounds {
            most: Some(most), ..
        } if count > most => Some(format!("Too long: must have at most {most} {of}")),
        _ => None,
    }
}

/// Whether two elements of a list must not stand beside each other.
fn same(distinct: &Distinct, one: &Value, other: &Value) -> bool {
    match distinct {
        Distinct::Nothing => false,
        Distinct::Elements => one == other,
        Distinct::Keys(keys) => keys.iter().all(|key| one.get(key) == other.get(key)),
    }
}

/// What of an element is repeated.
fn key(distinct: &Distinct, element: &Value) -> String {
    match distinct {
        Distinct::Keys(keys) => {
            let keys = keys.iter().map(|key| match element.get(key) {
                Some(value) => value.to_string(),
                None => "(none)".to_owned(),
            });
            keys.collect::<Vec<_>>().join(", ")
        }
        Distinct::Nothing | Distinct::Elements => element.to_string(),
    }
}

fn is_base64(text: &str) -> bool {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD
        .decode(text)
        .is_ok()
}
