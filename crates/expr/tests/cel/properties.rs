//! Properties that hold for any expression and any object.

use ::cel::objects::{Key, Value as Theirs};
use ::cel::{Context, Program as TheirProgram};
use kollect_expr::cel::Program;
use proptest::prelude::*;
use serde_json::{Map, Value};
use std::collections::HashMap;
use std::sync::Arc;

use crate::expressions::{all, objects, standard};

fn outcome(program: &Program, object: &Value) -> Result<Value, String> {
    match program.evaluate(object) {
        Ok(output) => Ok(output.to_value()),
        Err(error) => Err(error.to_string()),
    }
}

/// An object for the other evaluator, integers as `int`.
fn to_theirs(json: &Value) -> Theirs {
    match json {
        Value::Null => Theirs::Null,
        Value::Bool(flag) => Theirs::Bool(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(int) => Theirs::Int(int),
            None => Theirs::Float(number.as_f64().unwrap()),
        },
        Value::String(text) => Theirs::String(Arc::new(text.clone())),
        Value::Array(items) => Theirs::List(Arc::new(items.iter().map(to_theirs).collect())),
        Value::Object(members) => {
            let map: HashMap<Key, Theirs> = members
                .iter()
                .map(|(name, value)| (Key::String(Arc::new(name.clone())), to_theirs(value)))
                .collect();
            Theirs::Map(map.into())
        }
    }
}

/// A result of the other evaluator as JSON; nothing if it has none.
fn from_theirs(value: &Theirs) -> Option<Value> {
    Some(match value {
        Theirs::Null => Value::Null,
        Theirs::Bool(flag) => Value::from(*flag),
        Theirs::Int(number) => Value::from(*number),
        Theirs::UInt(number) => Value::from(*number),
        Theirs::Float(number) if number.is_finite() => Value::from(*number),
        Theirs::String(text) => Value::from(text.as_str()),
        Theirs::List(items) => Value::Array(items.iter().map(from_theirs).collect::<Option<_>>()?),
        Theirs::Map(map) => {
            let mut members = Map::new();
            for (key, value) in map.map.iter() {
                let Key::String(name) = key else {
                    return None;
                };
                members.insert((**name).clone(), from_theirs(value)?);
            }
            Value::Object(members)
        }
        _ => return None,
    })
}

/// What the other evaluator accepts and the language does not.
const LENIENT: &[&str] = &["+(list, map)"];

proptest! {
    #![proptest_config(ProptestConfig {
        // PROPTEST_CASES asks for more.
        cases: ProptestConfig::default().cases.max(1000),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The law of read sets: what a program does not read does not matter.
    #[test]
    fn evaluation_sees_nothing_but_what_is_read(text in all(), object in objects()) {
        if let Ok(program) = Program::compile(&text) {
            let projected = program.reads().project(&object);
            prop_assert_eq!(
                outcome(&program, &object),
                outcome(&program, &projected),
                "{} over {} projected to {}", text, object, projected
            );
        }
    }

    /// The evaluator of the crate that parses for us is another implementation of the language.
    #[test]
    fn both_evaluators_agree(text in standard(), object in objects()) {
        let ours = match Program::compile(&text) {
            Ok(program) => outcome(&program, &object),
            // The checker refuses what the other finds out at run time.
            Err(_) => return Ok(()),
        };
        let mut context = Context::default();
        context.add_variable_from_value("object", to_theirs(&object));
        let theirs = TheirProgram::compile(&text).unwrap().execute(&context);
        let theirs = match &theirs {
            Ok(value) => Ok(from_theirs(value)),
            Err(error) => Err(error.to_string()),
        };
        let agree = match (&ours, &theirs) {
            (Ok(ours), Ok(Some(theirs))) => ours == theirs,
            // Not everything has a form in JSON.
            (_, Ok(None)) | (Err(_), Err(_)) => true,
            (Err(ours), _) if LENIENT.iter().any(|known| ours.contains(known)) => true,
            _ => false,
        };
        prop_assert!(agree, "{} over {}\n  ours {:?}\n  theirs {:?}", text, object, ours, theirs);
    }

    /// Any text gets an answer, and any error is one short line.
    #[test]
    fn any_text_gets_an_answer(
        text in prop_oneof![
            "\\PC{0,60}",
            "[a-z0-9.\\[\\](){}?:,'\"`+*/%!=<>&|_ \\-\\\\]{0,80}",
            "(object|x|\\.a|\\[0\\]|\\(|\\)|\\.map\\(|x, |'s'|1|\\.\\?|has\\(| \\+ | \\? | : |\\{|\\}|in|!){0,30}",
        ],
        object in objects(),
    ) {
        let error = match Program::compile(&text) {
            Err(error) => error.to_string(),
            Ok(program) => match program.evaluate(&object) {
                Ok(_) => return Ok(()),
                Err(error) => error.to_string(),
            },
        };
        prop_assert!(error.len() <= 256, "{}", error);
        prop_assert!(!error.chars().any(char::is_control), "{}", error);
    }
}
