//! `docs/crds`: a page per kind, from its definition and from the words of its conditions.

mod remedies;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kollect_api::condition::Reason;
use kollect_api::crd;
use serde_json::Value;

use self::remedies::{REMEDIES, Sort};

/// The pages by name of file.
pub(crate) fn pages() -> BTreeMap<String, String> {
    let definitions: Vec<Value> = crd::all()
        .iter()
        .map(|definition| serde_json::to_value(definition).unwrap_or_default())
        .collect();
    let mut pages: BTreeMap<String, String> = definitions
        .iter()
        .map(|definition| (file(definition), page(definition)))
        .collect();
    pages.insert("README.md".to_owned(), overview(&definitions));
    pages
}

fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

fn names(definition: &Value) -> &Value {
    &definition["spec"]["names"]
}

fn file(definition: &Value) -> String {
    format!("{}.md", text(names(definition), "singular"))
}

fn version(definition: &Value) -> &Value {
    &definition["spec"]["versions"][0]
}

fn schema(definition: &Value) -> &Value {
    &version(definition)["schema"]["openAPIV3Schema"]
}

const GENERATED: &str =
    "<!-- Written by `cargo xtask codegen`; edit crates/api and xtask/src/crd_pages instead. -->";

fn overview(definitions: &[Value]) -> String {
    let mut page = format!(
        "{GENERATED}\n\n# Kinds\n\n| Kind | Short | Scope | What it is |\n| --- | --- | --- | --- |\n"
    );
    for definition in definitions {
        let names = names(definition);
        let _ = writeln!(
            page,
            "| [{}]({}) | `{}` | {} | {} |",
            text(names, "kind"),
            file(definition),
            names["shortNames"][0].as_str().unwrap_or_default(),
            text(&definition["spec"], "scope"),
            cell(text(schema(definition), "description"))
        );
    }
    page.push_str("\nAll are of `kollect.dev/v1alpha1` and in the category `kollect`: `kubectl get kollect -A` shows them all.\n");
    page
}

fn page(definition: &Value) -> String {
    let (names, schema) = (names(definition), schema(definition));
    let (kind, plural) = (text(names, "kind"), text(names, "plural"));
    let sort = Sort::of(kind);
    let mut page = format!(
        "{GENERATED}\n\n# {kind}\n\n{}\n\n",
        text(schema, "description")
    );
    let short = names["shortNames"][0].as_str().unwrap_or_default();
    let scope = text(&definition["spec"], "scope");
    let _ = writeln!(
        page,
        "Scope: {scope} · Short name: `{short}` · Resource: `{plural}.kollect.dev` · Version: `{}`\n",
        text(version(definition), "name")
    );
    if let Some(more) = sort.more() {
        let _ = writeln!(page, "More about it: {more}\n");
    }
    columns(&mut page, version(definition));
    let properties = &schema["properties"];
    page.push_str("## Spec\n\n");
    fields(&mut page, &properties["spec"], "spec");
    refusals(&mut page, schema);
    if properties["status"].is_object() {
        page.push_str("## Status\n\n");
        fields(&mut page, &properties["status"], "status");
    }
    conditions(&mut page, sort);
    rights(&mut page, plural, properties["status"].is_object());
    let mut page = page.trim_end().to_owned();
    page.push('\n');
    page
}

fn columns(page: &mut String, version: &Value) {
    let columns = version["additionalPrinterColumns"].as_array();
    page.push_str("## Columns of kubectl get\n\n| Column | Shows |\n| --- | --- |\n");
    for column in columns.into_iter().flatten() {
        let wide = if column["priority"].as_i64() > Some(0) {
            " (with `-o wide`)"
        } else {
            ""
        };
        let described = match text(column, "description") {
            "" => format!("`{}`", text(column, "jsonPath")),
            described => described.to_owned(),
        };
        let _ = writeln!(
            page,
            "| {} | {}{wide} |",
            text(column, "name"),
            cell(&described)
        );
    }
    page.push('\n');
}

/// A table of all fields below one.
fn fields(page: &mut String, schema: &Value, path: &str) {
    page.push_str(
        "| Field | Type | Required | Default | Meaning |\n| --- | --- | --- | --- | --- |\n",
    );
    below(page, schema, path);
    page.push('\n');
}

fn below(page: &mut String, schema: &Value, path: &str) {
    let required: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        let default = match &property["default"] {
            Value::Null => String::new(),
            value => format!("`{value}`"),
        };
        let _ = writeln!(
            page,
            "| `{path}` | {} | {} | {default} | {} |",
            sort_of(property),
            if required.contains(&name.as_str()) {
                "yes"
            } else {
                ""
            },
            meaning(property)
        );
        // Conditions are the same everywhere, and explained below.
        if name != "conditions" {
            below(page, property, &path);
            below(page, &property["items"], &format!("{path}[]"));
            below(
                page,
                &property["additionalProperties"],
                &format!("{path}.*"),
            );
        }
    }
}

fn sort_of(property: &Value) -> String {
    if property["x-kubernetes-int-or-string"] == true {
        return "int or string".to_owned();
    }
    match text(property, "type") {
        "array" => format!("list of {}", sort_of(&property["items"])),
        "object" if property["additionalProperties"].is_object() => {
            format!("map of {}", sort_of(&property["additionalProperties"]))
        }
        "" => "any".to_owned(),
        sort => sort.to_owned(),
    }
}

fn meaning(property: &Value) -> String {
    let mut meaning = cell(text(property, "description"));
    let words: Vec<String> = property["enum"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|word| word.as_str().map(|word| format!("`{word}`")))
        .collect();
    if !words.is_empty() {
        let _ = write!(meaning, " One of {}.", words.join(", "));
    }
    meaning
}

/// What the API server refuses by itself, with the words that it refuses it with.
fn refusals(page: &mut String, schema: &Value) {
    let mut found = Vec::new();
    rules(schema, "", &mut found);
    if found.is_empty() {
        return;
    }
    page.push_str("## Refused by the API server\n\nEverything else that makes the object invalid is told by admission and by the status.\n\n| Field | Message |\n| --- | --- |\n");
    for (path, message) in found {
        let path = if path.is_empty() {
            "the object".to_owned()
        } else {
            format!("`{path}`")
        };
        let _ = writeln!(page, "| {path} | {} |", cell(&message));
    }
    page.push('\n');
}

fn rules(schema: &Value, path: &str, found: &mut Vec<(String, String)>) {
    if path.starts_with("status") {
        return;
    }
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if let Some(message) = rule["message"].as_str() {
            found.push((path.to_owned(), message.to_owned()));
        }
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() {
            name.clone()
        } else {
            format!("{path}.{name}")
        };
        rules(property, &path, found);
        rules(&property["items"], &format!("{path}[]"), found);
        rules(
            &property["additionalProperties"],
            &format!("{path}.*"),
            found,
        );
    }
}

fn conditions(page: &mut String, sort: Sort) {
    let types = sort.conditions();
    if types.is_empty() {
        page.push_str("## Conditions\n\nNone: nothing is written to its status.\n\n");
        return;
    }
    page.push_str("## Conditions\n\n| Type | True means |\n| --- | --- |\n");
    for type_ in types {
        let _ = writeln!(page, "| `{type_}` | {} |", cell(type_.meaning()));
    }
    page.push_str("\n## Reasons\n\n| Reason | Meaning | What to do |\n| --- | --- | --- |\n");
    for reason in Reason::ALL {
        let known = REMEDIES.iter().find(|(known, ..)| known == reason);
        let Some((_, sorts, remedy)) = known else {
            continue;
        };
        if sorts.contains(&sort) {
            let _ = writeln!(
                page,
                "| `{reason}` | {} | {} |",
                cell(reason.meaning()),
                cell(remedy)
            );
        }
    }
    page.push_str("\nThe message of a condition names the object, what happened and what to do. [Troubleshooting](../operations.md#troubleshooting) goes by symptoms.\n\n");
}

fn rights(page: &mut String, plural: &str, status: bool) {
    page.push_str("## Rights\n\n| Who | Verbs | On |\n| --- | --- | --- |\n");
    let _ = writeln!(
        page,
        "| writers | create, update, patch, delete | `{plural}` |"
    );
    let _ = writeln!(page, "| readers | get, list, watch | `{plural}` |");
    let _ = writeln!(page, "| the operator | get, list, watch | `{plural}` |");
    if status {
        let _ = writeln!(
            page,
            "| the operator, where it writes statuses | patch, update | `{plural}/status` |"
        );
    }
}

/// A text that fits into a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('|', "\\|")
        .replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use kollect_api::condition::{ConditionType, Reason};

    use super::{REMEDIES, Sort, pages};

    #[test]
    fn every_reason_has_a_remedy_on_some_page() {
        for reason in Reason::ALL {
            let known = REMEDIES
                .iter()
                .filter(|(known, ..)| known == reason)
                .count();
            assert_eq!(
                known, 1,
                "{reason}: add it to xtask/src/crd_pages/remedies.rs"
            );
        }
        for (reason, sorts, remedy) in REMEDIES {
            assert!(!sorts.is_empty() && remedy.len() > 3, "{reason}");
        }
    }

    #[test]
    fn every_condition_is_on_some_page() {
        let pages = pages();
        assert_eq!(pages.len(), 12);
        for type_ in ConditionType::ALL {
            let row = format!("| `{type_}` | ");
            assert!(pages.values().any(|page| page.contains(&row)), "{type_}");
        }
        let target = &pages["kollecttarget.md"];
        assert!(
            target.contains("| `spec.profileRef` | string | yes |"),
            "{target}"
        );
        assert!(target.contains("`ProfileNotFound`"));
        assert!(!target.contains("`ExportTerminal`"));
        assert_eq!(Sort::of("KollectScope"), Sort::Static);
    }
}
