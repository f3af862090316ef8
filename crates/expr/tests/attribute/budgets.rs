//! What belongs together is bounded together, not expression by expression.

use std::time::{Duration, Instant};

use kollect_expr::cel::{Limits, Program};
use kollect_expr::jsonpath::{self, Shape};
use kollect_expr::{Allowance, AttributePath, CompileBudget};
use serde_json::json;

/// A bound for optimised code; other builds take many times as long.
fn bound(millis: u64) -> Duration {
    let factor = if cfg!(debug_assertions) { 20 } else { 1 };
    Duration::from_millis(millis * factor)
}

fn compile_all(paths: impl Iterator<Item = String>) -> (usize, Option<String>) {
    let mut budget = CompileBudget::new();
    let mut compiled = 0;
    for path in paths {
        match AttributePath::parse_within(&path, &mut budget) {
            Ok(_) => compiled += 1,
            Err(error) => {
                assert!(error.is_too_expensive(), "{error}");
                assert!(budget.is_exhausted());
                return (compiled, Some(error.to_string()));
            }
        }
    }
    (compiled, None)
}

#[test]
fn a3_a_profile_of_large_patterns_is_refused_soon() {
    let started = Instant::now();
    let (compiled, error) = compile_all((0..1000).map(|at| {
        format!(
            "cel:object.metadata.name.matches('^(a{{{}}}|b[0-9a-f]{{40}})$')",
            400 + at
        )
    }));
    let took = started.elapsed();
    assert!(compiled < 200, "{compiled}");
    let error = error.expect("refused");
    assert!(error.contains("simpler regular expressions"), "{error}");
    assert!(took < bound(800), "{took:?}");
}

#[test]
fn a3_a_profile_of_many_ordinary_expressions_compiles() {
    let (compiled, error) = compile_all((0..256).map(|at| match at % 3 {
        0 => format!("cel:object.metadata.name.matches('^[a-z0-9]+-{at}$')"),
        1 => format!("cel:object.spec.containers.filter(c, c.name == 'n{at}').map(c, c.image)"),
        _ => format!("$.spec.template.spec.containers[{at}].image"),
    }));
    assert_eq!((compiled, error), (256, None));
}

/// Constants are folded while compiling; a text of a few bytes can ask for a lot of that.
#[test]
fn a3_folding_constants_counts_too() {
    let text = "'aaaaaaaaaaaaaaaa'.replace('a','aaaaaaaa').replace('a','aaaaaaaa').size()";
    let many = [text; 50].join("+");
    let started = Instant::now();
    let (compiled, error) = compile_all((0..1000).map(|_| format!("cel:{many}")));
    assert!(compiled < 1000 && error.is_some(), "{compiled}");
    let took = started.elapsed();
    assert!(took < bound(800), "{took:?}");
}

#[test]
fn a3_expressions_share_steps_and_bytes() {
    let object = json!({"text": "x".repeat(1000), "list": vec![json!("item"); 500]});
    let doubling = Program::compile("object.text + object.text").expect("compiles");
    let mut allowance = Allowance::new(Limits {
        steps: 1_000_000,
        built_bytes: 10_000,
    });
    let results: Vec<_> = (0..10)
        .map(|_| {
            doubling
                .evaluate_within(&object, &mut allowance)
                .map(|_| ())
        })
        .collect();
    assert!(results[..5].iter().all(Result::is_ok), "{results:?}");
    let error = results[5].as_ref().expect_err("all together are too large");
    assert!(error.is_shared_limit() && error.is_limit(), "{error}");
    assert!(error.to_string().contains("10000 bytes on one object"));

    let path = AttributePath::parse("$.list[*]").expect("parses");
    let AttributePath::JsonPath(path) = path else {
        panic!("a JSONPath")
    };
    let mut allowance = Allowance::new(Limits {
        steps: 1_200,
        built_bytes: 1 << 20,
    });
    let results: Vec<_> = (0..4)
        .map(|_| {
            path.evaluate_within(&object, Shape::Plain, &mut allowance)
                .map(|_| ())
        })
        .collect();
    assert!(results[..2].iter().all(Result::is_ok), "{results:?}");
    assert!(
        results[2]
            .as_ref()
            .is_err_and(jsonpath::EvalError::is_shared_limit)
    );
    assert_eq!(allowance.steps_taken(), 1_200);

    // Lists of matches take memory, even if what they hold is borrowed.
    let mut allowance = Allowance::new(Limits {
        steps: 1_000_000,
        built_bytes: 10_000,
    });
    let error = path.evaluate_within(&object, Shape::Plain, &mut allowance);
    assert!(error.is_err_and(|error| error.is_shared_limit()));
}

/// The limit of a single expression is still its own.
#[test]
fn a3_one_expression_beyond_its_own_limit_says_so() {
    let object = json!({"list": (0..2000).collect::<Vec<_>>()});
    let program =
        Program::compile("object.list.all(a, object.list.all(b, a + b >= 0))").expect("compiles");
    let mut allowance = Allowance::new(Limits {
        steps: 10_000_000,
        built_bytes: 1 << 20,
    });
    let error = program
        .evaluate_within(&object, &mut allowance)
        .expect_err("expensive");
    assert!(error.is_limit() && !error.is_shared_limit(), "{error}");
    assert_eq!(allowance.steps_taken(), 1_000_000);
}
