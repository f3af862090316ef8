//! The public conformance tests of the language, vendored as JSON.
//!
//! They bind variables of their own and look at values before they become JSON, so they run
//! against the inside of the module. Every test passes, or is listed with a reason in
//! `skipped.txt`; a listed test that passes fails the run, so that the list stays true.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value as Json};

use super::Program;
use super::eval::Machine;
use super::kind::{Kind, Type};
use super::limits::Limits;
use super::lower::Environment;
use super::node::Root;
use super::ops;
use super::time::Timestamp;
use super::value::{MapVal, Val};

/// One test as it is stored.
#[derive(Deserialize)]
#[expect(clippy::struct_excessive_bools)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Case {
    name: String,
    expr: String,
    #[serde(default)]
    unchecked: bool,
    #[serde(default)]
    check_only: bool,
    #[serde(default)]
    disable_macros: bool,
    #[serde(default)]
    container: String,
    #[serde(default)]
    types: BTreeMap<String, String>,
    #[serde(default)]
    bindings: Map<String, Json>,
    #[serde(default)]
    error: bool,
    #[serde(default)]
    value: Json,
}

/// A stored value: plain JSON for null, booleans, text and lists, `{"type name": …}` otherwise.
fn value(json: &Json) -> Result<Val<'static>, String> {
    let tagged = match json {
        Json::Null => return Ok(Val::Null),
        Json::Bool(flag) => return Ok(Val::Bool(*flag)),
        Json::String(text) => return Ok(Val::text(text.clone())),
        Json::Array(items) => {
            return Ok(Val::list(
                items.iter().map(value).collect::<Result<_, _>>()?,
            ));
        }
        Json::Object(tagged) => tagged,
        Json::Number(_) => return Err("untagged number".to_owned()),
    };
    let (tag, content) = tagged.iter().next().ok_or("empty tag")?;
    let text = content.as_str().unwrap_or_default();
    let wrong = || format!("bad {tag}: {text}");
    Ok(match tag.as_str() {
        "int" => Val::Int(text.parse().map_err(|_| wrong())?),
        "uint" => Val::Uint(text.parse().map_err(|_| wrong())?),
        "double" => Val::Double(text.parse().map_err(|_| wrong())?),
        "bytes" => Val::Bytes(BASE64_STANDARD.decode(text).map_err(|_| wrong())?.into()),
        "timestamp" => Val::Timestamp(Timestamp::parse(text).ok_or_else(wrong)?),
        "duration" => Val::Duration(text.parse().map_err(|_| wrong())?),
        "type" => Val::Type(Kind::named(text).ok_or_else(|| format!("no type {text}"))?),
        "map" => {
            let mut entries = Vec::new();
            for entry in content.as_array().into_iter().flatten() {
                entries.push((value(&entry[0])?, value(&entry[1])?));
            }
            Val::Map(Arc::new(MapVal::new(entries).ok_or_else(wrong)?))
        }
        other => return Err(format!("{other} {text}")),
    })
}

fn declared(text: &str) -> Type {
    match text {
        "bool"
        | "int"
        | "uint"
        | "double"
        | "string"
        | "bytes"
        | "null_type"
        | "google.protobuf.Timestamp"
        | "google.protobuf.Duration" => Kind::named(text).map_or(Type::Dyn, Type::Is),
        other => match other.split_once('(') {
            Some(("list", _)) => Type::list(Type::Dyn),
            Some(("map", _)) => Type::map(Type::Dyn, Type::Dyn),
            Some(("optional_type", _)) => Type::optional(Type::Dyn),
            _ => Type::Dyn,
        },
    }
}

/// Whether two values are the same, type included. NaN is the same as NaN.
fn same(left: &Val<'_>, right: &Val<'_>) -> bool {
    if left.kind() != right.kind() {
        return false;
    }
    if let (Val::Double(left), Val::Double(right)) = (left, right) {
        return left.to_bits() == right.to_bits() || (left.is_nan() && right.is_nan());
    }
    if let (Some(left), Some(right)) = (left.as_list(), right.as_list()) {
        return left.len() == right.len()
            && left.iter().zip(right.iter()).all(|(l, r)| same(&l, &r));
    }
    if let (Some(left), Some(right)) = (left.as_map(), right.as_map()) {
        return left.len() == right.len()
            && left
                .entries()
                .iter()
                .zip(right.entries())
                .all(|((lk, lv), (rk, rv))| same(lk, &rk) && same(lv, &rv));
    }
    let mut budget = super::limits::Budget::new(&Limits::default());
    ops::equal(&mut budget, left, right) == Ok(true)
}

fn run(case: &Case) -> Result<(), String> {
    if !case.container.is_empty() {
        return Err(format!("container {}", case.container));
    }
    if case.disable_macros {
        return Err("macros cannot be disabled".to_owned());
    }
    let mut names: Vec<&String> = case.types.keys().chain(case.bindings.keys()).collect();
    names.sort();
    names.dedup();
    let variables: Vec<(&str, Root, Type)> = names
        .iter()
        .enumerate()
        .map(|(slot, name)| {
            let known = case
                .types
                .get(*name)
                .map_or(Type::Dyn, |text| declared(text));
            (name.as_str(), Root::Slot(slot), known)
        })
        .collect();
    let environment = Environment {
        variables: &variables,
        check: !case.unchecked,
    };
    let program =
        match Program::compile_in(&case.expr, &environment, &mut crate::CompileBudget::new()) {
            Ok(program) => program,
            Err(_) if case.error => return Ok(()),
            Err(error) => return Err(format!("compile: {error}")),
        };
    if case.check_only {
        return Ok(());
    }
    let mut machine = Machine::new(&Json::Null, program.slots, &Limits::default());
    for (slot, name) in names.iter().enumerate() {
        if let Some(json) = case.bindings.get(*name) {
            machine.preset(slot, value(json)?);
        }
    }
    match machine.eval(&program.node) {
        Err(_) if case.error => Ok(()),
        Err(error) => Err(format!("evaluate: {error}")),
        Ok(found) if case.error => Err(format!("no error but {found:?}")),
        Ok(found) => {
            let expected = value(&case.value)?;
            if same(&found, &expected) {
                Ok(())
            } else {
                Err(format!("{found:?} instead of {expected:?}"))
            }
        }
    }
}

/// The list of skipped tests: patterns under a comment that says why.
fn skipped(text: &str) -> Vec<&str> {
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

fn fits(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(prefix) => name.starts_with(prefix),
        None => name == pattern,
    }
}

#[test]
fn the_public_conformance_tests_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cel/conformance");
    let list = std::fs::read_to_string(folder.join("skipped.txt")).unwrap();
    let patterns = skipped(&list);
    let mut used = vec![false; patterns.len()];
    let mut problems = Vec::new();
    let (mut passed, mut skipped) = (0, 0);
    let mut files: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    for file in files {
        let stem = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let cases: Vec<Case> =
            serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        for case in cases {
            let name = format!("{stem}/{}", case.name);
            let listed = patterns.iter().position(|pattern| fits(pattern, &name));
            match (run(&case), listed) {
                (Ok(()), None) => passed += 1,
                (Err(_), Some(at)) => {
                    used[at] = true;
                    skipped += 1;
                }
                (Err(problem), None) => {
                    problems.push(format!("{name}: {problem}\n    {}", case.expr));
                }
                (Ok(()), Some(_)) => problems.push(format!("{name}: listed, but it passes")),
            }
        }
    }
    for (pattern, used) in patterns.iter().zip(used) {
        if !used {
            problems.push(format!("{pattern}: listed, but there is no such test"));
        }
    }
    println!("{passed} passed, {skipped} skipped");
    assert!(
        problems.is_empty(),
        "{} problems\n{}",
        problems.len(),
        problems.join("\n")
    );
    assert!(passed > 1500);
}
