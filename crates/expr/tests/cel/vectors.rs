//! The vectors of the specification: expression in, JSON or error out.

use kollect_expr::cel::Program;
use serde_json::Value;

#[test]
fn programs_can_be_shared_between_threads() {
    fn shared<T: Send + Sync + 'static>() {}
    shared::<Program>();
}

#[test]
fn the_text_is_kept_without_blanks() {
    assert_eq!(Program::compile(" object.a\n").unwrap().text(), "object.a");
}

#[test]
fn every_vector_holds() {
    let data: Value = serde_json::from_str(include_str!("../data/cel/vectors.json")).unwrap();
    let object = &data["object"];
    let cases = data["cases"].as_array().unwrap();
    assert!(cases.len() > 90);
    let mut failures = Vec::new();
    for case in cases {
        let expression = case["expression"].as_str().unwrap();
        let found = match Program::compile(expression) {
            Err(error) => format!("compile: {error}"),
            Ok(program) => match program.evaluate(object) {
                Err(error) => format!("evaluate: {error}"),
                Ok(output) => format!("= {}", output.to_value()),
            },
        };
        let holds = match case["error"].as_str() {
            Some(stage) => found.starts_with(&format!("{stage}: ")),
            None => found == format!("= {}", case["result"]),
        };
        if !holds {
            failures.push(format!("{} {expression}\n  found {found}", case["id"]));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
