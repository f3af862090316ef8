//! Rules for expressions: attribute paths, match policies, paths to prune.

use kollect_expr::{
    CompileBudget,
    attribute::AttributePath,
    cel::{Program, ResultType},
    jsonpath,
    pointer::Pointer,
};

use super::finding::{Findings, Path};
use crate::meta;

/// An attribute path, compiled if it can be.
pub(super) fn attribute(
    text: &str,
    path: Path,
    budget: &mut CompileBudget,
    findings: &mut Findings,
) -> Option<AttributePath> {
    if text.trim().is_empty() {
        findings.required(
            path,
            "path of the attribute: JSONPath, cel:… or helm:release.…",
        );
        return None;
    }
    match AttributePath::parse_within(text, budget) {
        Ok(compiled) => Some(compiled),
        Err(error) => {
            findings.invalid(path, text, error.to_string());
            None
        }
    }
}

/// A predicate over `object`; blank means none.
pub(super) fn match_policy(
    text: Option<&str>,
    path: Path,
    budget: &mut CompileBudget,
    findings: &mut Findings,
) {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return;
    };
    match Program::compile_within(text, budget) {
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

/// A path of what is removed, in the notation of jq.
pub(super) fn prune_jq(text: &str, path: Path, findings: &mut Findings) {
    if let Err(error) = jsonpath::Path::parse_jq(text) {
        findings.invalid(path, text, error.to_string());
    }
}

/// An expression that yields pointers to remove.
pub(super) fn prune_cel(
    text: &str,
    path: Path,
    hides_secrets: bool,
    budget: &mut CompileBudget,
    findings: &mut Findings,
) {
    match Program::compile_within(text, budget) {
        Ok(program) if hides_secrets && reads_secret_data(&program) => {
            secret_data(text, path, findings);
        }
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

/// Whether an expression over a Secret may see what it keeps.
pub(super) fn reads_secret_data(program: &Program) -> bool {
    let reads = program.reads();
    reads.may_read_root_member("data") || reads.may_read_root_member("stringData")
}

/// An expression reads what Secrets keep without permission.
pub(super) fn secret_data(text: &str, path: Path, findings: &mut Findings) {
    findings.forbidden(
        path,
        format!(
            "{text:?} can read the data of Secrets; annotate the profile with {}: \"true\" if that is meant",
            meta::ALLOW_SECRET_EXTRACTION_ANNOTATION
        ),
    );
}
