//! What cel-go with the Kubernetes libraries answers to the same expressions over the same object.
//! Where this implementation answers otherwise, the case says so and why.

use kollect_expr::cel::Program;
use serde_json::Value;

#[test]
fn answers_agree_with_cel_go() {
    let vectors: Value = serde_json::from_str(include_str!("../data/cel/vectors.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(include_str!("../data/cel/golden.json")).unwrap();
    assert!(cases.len() > 500);
    let mut failures = Vec::new();
    for case in &cases {
        let expression = case["expression"].as_str().unwrap();
        let found = match Program::compile(expression) {
            Err(_) => "compile".to_owned(),
            Ok(program) => match program.evaluate(&vectors["object"]) {
                Err(_) => "evaluate".to_owned(),
                Ok(output) => format!("= {}", output.to_value()),
            },
        };
        let answer = |case: &Value| match case["error"].as_str() {
            Some(stage) => stage.to_owned(),
            None => format!("= {}", case["result"]),
        };
        let theirs = answer(case);
        let expected = case.get("here").map_or_else(|| theirs.clone(), answer);
        if found != expected {
            failures.push(format!(
                "{expression}\n  found {found}, expected {expected}"
            ));
        }
        if case.get("here").is_some() {
            assert!(case["why"].is_string(), "{expression}: no reason");
            assert_ne!(theirs, expected, "{expression}: no difference");
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures\n{}",
        failures.len(),
        failures.join("\n")
    );
}
