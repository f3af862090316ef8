//! Rules for expressions: attribute paths, match policies, paths to prune.

use kollect_expr::{
    attribute::AttributePath,
    cel::{Program, ResultType},
    jsonpath,
    pointer::Pointer,
};

use super::finding::{Findings, Path};

/// An attribute path, compiled if it can be.
pub(super) fn attribute(text: &str, path: Path, findings: &mut Findings) -> Option<AttributePath> {
    if text.trim().is_empty() {
        findings.required(
            path,
            "path of the attribute: JSONPath, cel:… or helm:release.…",
        );
        return None;
    }
    match AttributePath::parse(text) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            findings.invalid(path, text, error.to_string());
            None
        }
    }
}

/// A predicate over `object`; blank means none.
pub(super) fn match_policy(text: Option<&str>, path: Path, findings: &mut Findings) {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return;
    };
    match Program::compile(text) {
        Ok(program) if !matches!(program.result_type(), ResultType::Bool | ResultType::Dyn) => {
            findings.invalid(path, text, "must yield true or false");
        }
        Ok(_) => {}
        Err(error) => findings.invalid(path, text, format!("compile CEL: {error}")),
    }
}

/// A JSON Pointer to remove.
pub(super) fn prune_pointer(text: &str, path: Path, findings: &mut Findings) {
    if let Err(error) = Pointer::parse(text) {
        findings.invalid(path, text, error.to_string());
    }
}

/// A JSONPath to remove.
pub(super) fn prune_path(text: &str, path: Path, findings: &mut Findings) {
    if let Err(error) = jsonpath::Path::parse_removal(text) {
        findings.invalid(path, text, error.to_string());
    }
}

/// An expression that yields pointers to remove.
pub(super) fn prune_cel(text: &str, path: Path, findings: &mut Findings) {
    match Program::compile(text) {
        Ok(program)
            if !matches!(
                program.result_type(),
                ResultType::Dyn | ResultType::Other("string" | "list" | "null_type")
            ) =>
        {
            findings.invalid(path, text, "must yield a JSON Pointer or a list of them");
        }
        Ok(_) => {}
        Err(error) => findings.invalid(path, text, format!("compile CEL: {error}")),
    }
}
